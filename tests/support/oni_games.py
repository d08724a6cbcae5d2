"""Episodes with captions, an annotator that answers or breaks as asked, and a desk to hand them in at."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from cluster.record.metric_list import unlisted
from envs.episode import Episode, Ticket, Turn
from envs.registry import game_class, make_game
from envs.settings import GameSettings
from reward_service.desk import RewardDesk, name_of
from reward_service.shaper import ShapedRewards
from reward_service.shapers.oni import Oni
from reward_service.shapers.oni.annotator import Failed
from reward_service.shapers.oni.queue import Question
from reward_service.shapers.oni.shaper import OniShaper

GAME = GameSettings(name="virtualhome", options={"turns": 12})
GOOD, BAD = "the agent chooses to grab the pancake", "the agent chooses to walk to the bedroom"


def played(number: int, game: GameSettings = GAME) -> Episode:
    """A mediocre player's game, as if it were the policy's."""
    made, player = make_game(game.name, game.options), game_class(game.name).players()["mediocre"]()
    made.reset(number)
    player.reset(number)
    turns = []
    while (seat := made.seat) is not None:
        seen, listed = made.observe(), made.actions()
        said = player.reply(seen, listed)
        step = made.step(said)
        paid = step.rewards.get(seat, 0.0)
        turns.append(Turn(seat, "policy", seen, said, step.executable, paid, step.caption, listed))
    return Episode(ticket(number, seat=made.seats[0]), turns, made.outcome(), step.terminated)


def ticket(number: int, seat: str = "agent") -> Ticket:
    return Ticket("run", GAME.name, number, number, ((seat, "policy"),))


def telling(number: int, *captions: str, outcome: float = 0.0) -> Episode:
    turns = [Turn("agent", "policy", "", "something", caption=caption) for caption in captions]
    return Episode(ticket(number), turns, {"agent": outcome}, True)


def batch(number: int, size: int = 8) -> list[Episode]:
    return [played(number * size + place) for place in range(size)]


class Answering:
    """Answers `good` captions 1 and others 0; breaks as asked. It waits for `may_answer`, which may be never."""

    def __init__(self, good: Sequence[str] = (GOOD,)):
        self.good, self.asked = set(good), []
        self.failing, self.raising = set(), False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def annotate(self, questions: Sequence[Question]) -> list[float | Failed]:
        self.asked.append(list(questions))
        assert self.may_answer.wait(30)
        if self.raising:
            raise ConnectionResetError("gone")
        return [Failed("ReadTimeout") if each[0] in self.failing else self._answer(each) for each in questions]

    def _answer(self, question: Question) -> float:
        worth = [float(caption in self.good) for caption in question]
        return worth[0] if len(worth) == 1 else (1 + worth[0] - worth[1]) / 2

    def metrics(self) -> dict[str, float]:
        return {}


def shaper_with(annotator: Answering, **settings) -> OniShaper:
    return OniShaper(Oni(**{"model": "retrieval", **settings}), GAME, annotator)


def shaped(desk: RewardDesk, number: int, episodes: list[Episode]) -> list[ShapedRewards]:
    for episode in episodes:
        desk.receive(episode)
    return desk.shape(number, [name_of(episode) for episode in episodes])


def figures(desk: RewardDesk, *names: str) -> tuple[float, ...]:
    found = desk.metrics()
    assert not unlisted(found), unlisted(found)
    return tuple(found[f"reward/oni/{name}"] for name in names)
