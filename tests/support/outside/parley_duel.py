"""An environment of verifiers with two agents who talk in turns: one chooses a number, the other has three guesses."""

import verifiers.v1 as vf


class Duel(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    pass


class Duels(vf.Taskset[Duel, vf.TasksetConfig]):
    def load(self):
        for top in (5, 7):
            yield Duel(vf.TaskData(prompt=f"choose a number from 1 to {top}", name=str(top)), self.config.task)


class DuelConfig(vf.EnvConfig):
    chooser: vf.AgentConfig = vf.AgentConfig()
    guesser: vf.AgentConfig = vf.AgentConfig()


class DuelEnv(vf.Env[DuelConfig]):
    async def run(self, task, agents):
        chosen = await agents.chooser.run(task)
        guessing = task.with_data(prompt=f"guess a number from 1 to {task.data.name}", system_prompt="Three guesses.")
        async with agents.guesser.interaction(guessing) as interaction:
            segment, right = await interaction.turn(), False
            for left in (2, 1, 0):
                right = segment.last_reply.strip() == chosen.last_reply.strip()
                if right or not left:
                    break
                segment = await interaction.turn(f"wrong, {left} left")
        interaction.trace.record_reward("found", float(right), 1.0)
        chosen.record_reward("hidden", float(not right), 1.0)


__all__ = ["DuelEnv", "Duels"]
