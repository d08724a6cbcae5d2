"""Two players that think aloud in one game: the record keeps it all, and neither is shown the other's thoughts."""

from __future__ import annotations

from actors.play.play import Play
from actors.play.players import Cast
from actors.settings import RolloutSettings
from envs.episode import Ticket
from envs.registry import make_game, make_player
from tests.support.engines import engine_settings
from tests.support.play import play_out


class Thinker:
    """A scripted player, with thoughts before what it says."""

    def __init__(self, player):
        self.player = player

    def reset(self, seed: int) -> None:
        self.player.reset(seed)

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return f"<think>a secret, or i accept</think>\n{self.player.reply(observation, actions)}"


def episodes(thinking: bool) -> list:
    def player(game: str, name: str):
        made = make_player(game, name)
        return Thinker(made) if thinking else made

    settings = RolloutSettings(engine=engine_settings("transformers"))
    play = Play(Cast({}, new_scripted=player), settings, make_game)
    seats = (("alice", "scripted:tit_for_tat"), ("bob", "scripted:conceding"))
    results = play_out(play, [Ticket("run", "bargaining", number, number, seats) for number in range(8)])
    play.close()
    return [results[number] for number in range(8)]


def test_the_record_keeps_thoughts_and_the_rival_is_shown_none():
    for plain, thought in zip(episodes(False), episodes(True), strict=True):
        assert len(plain.turns) > 1 and (plain.outcome, plain.closing) == (thought.outcome, thought.closing)
        for one, other in zip(plain.turns, thought.turns, strict=True):
            assert other.utterance == f"<think>a secret, or i accept</think>\n{one.utterance}"
            assert "secret" not in other.observation + other.caption
            assert (other.observation, other.caption, other.reward) == (one.observation, one.caption, one.reward)
