"""How likely the policy found the right answer before each of its turns, asked when the game is over.

    before turn t    mean log-prob of a token of the answer, after all that the seat had seen until then

The answer is a whole utterance, with the end of the turn, in the game's own words (`Game.answers`). An engine scores it
as it scores listed actions, with the weights that it has then: no token is sampled, and none of this is trained on.
Nobody asks of held-out games, which nothing is paid for.
"""

from __future__ import annotations

import numpy as np

from actors.engines.contract import Request, Scored
from actors.play.live import Live
from actors.play.players import PolicySeat
from envs.episode import Turn


def ask(live: Live, answers: dict[str, str], max_context: int) -> dict[str, Turn]:
    """About each turn of the seats whose tokens are kept for training, but those before which there was no room for the
    answer: request -> turn."""
    asked: dict[str, Turn] = {}
    wanted: list[tuple[PolicySeat, Request]] = []
    for name, answer in answers.items():
        seat = live.seats[name]
        if not isinstance(seat, PolicySeat) or not seat.policy.trained:
            continue
        said, stops = seat.policy.dialogue.utterance(answer), seat.policy.dialogue.end_ids
        prompt: list[int] = []
        for turn in (each for each in live.turns if each.seat == name):
            prompt += turn.tokens.observation_ids.tolist()
            if len(prompt) + len(said) < max_context:
                request = f"{live.serial}.{name}.answer{len(asked)}"
                wanted.append((seat, Request(request, tuple(prompt), 1, 1.0, 0, stops, (said,), order=live.serial)))
                asked[request] = turn
            prompt += turn.tokens.utterance_ids.tolist()
    for seat, request in wanted:  # a tokenizer may refuse an answer: then nothing has been asked
        seat.policy.engine.submit(request)
    return asked


def write_down(live: Live, found: Scored) -> bool:
    """Whether it was the last one."""
    live.scored.pop(found.id).answer_logprob = float(found.logprobs[0].mean(dtype=np.float64))
    return not live.scored
