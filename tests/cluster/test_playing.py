"""Games on a real fleet, for several who ask at once; and the batches that a run trains on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from actors.fleet.fleet import Finished, Fleet
from actors.play.live import EpisodeFailed, Returned
from actors.settings import RolloutSettings
from actors.worker import Summary, told
from actors.worker_parts import WorkerSpec
from cluster.errors import RunError
from cluster.run import securing
from cluster.run.collecting import Collector, has_spread, without_spread
from cluster.run.ledger import Ledger, training_seed
from cluster.run.playing import Playing
from envs.episode import Ticket
from envs.settings import GameSettings
from tests.support.engines import engine_settings

SEATS = (("parrot0", "policy"),)


def tickets(count: int, first: int) -> list[Ticket]:
    return [Ticket("run", "parrot", first + n, 7 + n, SEATS) for n in range(count)]


def ledger(**changes) -> Ledger:
    return Ledger("run", "parrot", SEATS, **{"seed": 3, "batch": 8, "max_staleness": 1, "max_attempts": 2} | changes)


def started(path: str, run: str, **changes) -> Iterator[Playing]:
    settings = RolloutSettings(
        cpus_per_worker=0.5,
        max_utterance_tokens=8,
        max_attempts=3,
        batch_seconds=60.0,
        engine=engine_settings("transformers"),
        **changes,
    )
    fleet = Fleet(settings, WorkerSpec(run, path, {"parrot": GameSettings(name="parrot")}, settings, transport=None))
    fleet.start()
    yield Playing(fleet, settings)
    fleet.close()


@pytest.fixture(scope="module")
def playing(ray_cluster, parrot_model):
    yield from started(str(parrot_model), "plays")


@pytest.fixture(scope="module")
def failing(ray_cluster, parrot_model):
    """No game ends within its time limit."""
    yield from started(str(parrot_model), "fails", episode_seconds=1e-6)


def test_whoever_asks_is_given_its_own_games(ray_cluster, playing):
    """A run's evaluation while the next batch is in play, and an evaluation that needs no ledger."""
    delivered, counts = [], ledger()
    collector = Collector(playing, counts, 2, delivered.extend)
    first = collector.batch()
    assert [result.ticket.number for result in first] == list(range(8)) and counts.next_number == 16
    held_out = tickets(20, first=1_000)
    assert [episode.ticket for episode in playing.play(held_out)] == held_out
    counts.consume()
    second = collector.batch()
    counts.consume()
    counts.check()
    assert [result.ticket.number for result in second] == list(range(8, 16))
    assert {*delivered} == {result.ref for result in first + second} and len(delivered) == 16
    assert not playing.takers and not playing.failures and counts.counts.issued == 16
    assert not collector.to_judge, "nothing is kept of a game that is done with"


def finished(number: int, *fared: tuple[float, float]) -> Finished:
    summary = Summary(0.0, fared, 1, 1, 0, 0, 0.0, False)
    return Finished(Ticket("run", "parrot", number, 0, SEATS), None, None, summary)


def test_a_group_has_spread_if_any_seat_fared_better_in_one_of_its_games():
    alike, paid = [finished(n, (1.0, 0.5), (0.0, 2.0)) for n in range(3)], finished(3, (1.0, 0.5), (0.0, 2.1))
    assert (
        not has_spread(alike)
        and has_spread([*alike, paid])
        and has_spread([*alike, finished(3, (0.0, 0.5), (0.0, 2.0))])
    )
    assert has_spread(alike[:1]), "one that is alone says nothing"
    assert without_spread([*alike, paid], 2) == 0.5 and without_spread([*alike, paid], 4) == 0.0


@pytest.mark.parametrize("max_staleness", [0, 1])
def test_groups_without_spread_are_drawn_again_within_their_batch(playing, max_staleness, monkeypatch):
    """Nobody else's games are in the batch, and each group is the first draw with spread, or the last one."""
    monkeypatch.setattr("cluster.run.collecting.EQUAL", 0.1)  # what parrots are paid is seldom quite the same
    counts = ledger(group=2, batch=16, max_staleness=max_staleness)
    collector, drawn, judged = Collector(playing, counts, 1, lambda _: None, group_redraws=2), {}, []
    judge, again = counts.results_of, counts.draw_again
    counts.results_of = lambda group: judged.append((group, len(counts.playing))) or judge(group)
    counts.draw_again = lambda group: (drawn.setdefault(group, []).append(has_spread(judge(group))), again(group))
    results = collector.batch()
    assert drawn and not any(spread for each in drawn.values() for spread in each), "some group of parrots is alike"
    assert [result.ticket.number for result in results] == list(range(16))
    for group in range(8):
        pair, draws = results[2 * group : 2 * group + 2], len(drawn.get(group, []))
        assert {result.ticket.seed for result in pair} == {training_seed(3, group, draws)}
        assert has_spread(pair) or draws == 2
    assert max_staleness or not any(playing for _, playing in judged), "never while others are played"
    counts.check()
    assert counts.counts.redrawn == 2 * sum(map(len, drawn.values())) and counts.counts.consumed == 0


def test_what_is_not_waited_for_is_handed_over_while_something_else_is(playing):
    given, wanted = [], tickets(6, first=0)
    playing.start(wanted, given.extend)
    playing.play(tickets(6, first=100))
    playing.wait("the rest", lambda: playing.progress(None, len(given), 6), lambda: None)
    assert sorted(result.ticket.number for result in given) == [ticket.number for ticket in wanted]


def test_a_game_that_keeps_failing_stops_whoever_wants_it_and_is_dropped_from_a_batch(failing, caplog):
    shown = []
    failing.on_poll = shown.append
    with pytest.raises(RunError, match="the game with seed 7 failed 3 times, last: "):
        failing.play(tickets(1, first=0))
    assert shown[-1].failures == {"timeout": 2} and failing.failures == {"timeout": 3}, "each failure is counted"
    assert shown[-1].failed == ", 2 failures (timeout)"
    assert [record.message for record in caplog.records if "failed" in record.message] == [
        "failed episodes so far: 1 for timeout (see rollout.episode_seconds)"
    ]
    counts = ledger(max_staleness=0)
    with pytest.raises(RunError, match=r"every episode of batch 0 was dropped \(\w+: 8\)"):
        Collector(failing, counts, 1, lambda _: None).batch()
    assert counts.counts.reissued == 8 and not counts.missing()


def test_what_a_game_raised_is_told(failing, caplog):
    broken = EpisodeFailed("game_error:RuntimeError", "the dragon ate it (mine.py, line 20)").result()
    result = told(Returned(tickets(1, first=0)[0], broken))
    ticket = replace(result.ticket, attempt=failing.settings.max_attempts - 1)
    failed = Finished(ticket, None, result.reason, None, what=result.what)
    says = r"times, last: game_error:RuntimeError: the dragon ate it \(mine.py, line 20\)$"
    with pytest.raises(RunError, match=says):
        failing._again(failed)
    failing._count(failed.reason, failed.what)
    assert caplog.messages[-1].endswith("1 for game_error:RuntimeError: the dragon ate it (mine.py, line 20)")


def test_a_wait_ends_at_its_time_limit_and_says_what_is_missing(failing):
    patient = failing.settings.model_copy(update={"max_attempts": 10**9, "batch_seconds": 0.5})
    with pytest.raises(RunError, match=r"2 episodes of the games .* still missing after rollout.batch_seconds=0; .*\d"):
        Playing(failing.fleet, patient).play(tickets(2, first=0))


def test_what_does_not_come_in_time_is_lost_and_the_rest_is_not(ray_cluster, monkeypatch):
    """A node that hangs is not known to be dead."""
    monkeypatch.setattr(securing, "BRING_SECONDS", 0.1)

    def late(seconds: float) -> str:
        time.sleep(seconds)
        return "episode"

    later = ray_cluster.remote(num_cpus=0)(late)
    refs = [later.remote(seconds) for seconds in (0, 30, 0)]
    ray_cluster.wait([refs[0], refs[2]], num_returns=2, timeout=20)
    results = [Finished(None, ref, None, None, worker=0) for ref in refs]
    assert securing.fetch(results, seconds=0.5) == ["episode", None, "episode"]
    ray_cluster.cancel(refs[1], force=True)
