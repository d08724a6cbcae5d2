"""A refit's result that another publishes; a state that is frozen and made later; how both are written down."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.settings import GameSettings
from reward_service.intentions.stored import packed, unpacked
from reward_service.service.storage import _pieces, read_state, write_json, write_state
from reward_service.settings import RewardSettings
from reward_service.shaper import Shaper, Stateless, frozen
from reward_service.shapers.oni import Oni
from reward_service.shapers.oni.shaper import OniShaper
from reward_service.shapers.outcome import Outcome
from reward_service.shapers.spa import SpaShaper
from reward_service.threads import SWITCH_SECONDS, short_switch_interval
from tests.reward_service.test_aria_rm import shaper as aria_rm
from tests.reward_service.test_intention_versions import AriaShaper
from tests.reward_service.test_intention_versions import settings as intentions
from tests.support.oni_games import GAME, Answering
from tests.support.oni_games import batch as told
from tests.support.valued_games import batch, embed, plain, same


def oni(model: str) -> Callable[[], OniShaper]:
    def made() -> OniShaper:
        annotator = Answering([turn.caption for each in told(0) for turn in each.turns[::2]])
        annotator.failing = {told(0)[0].turns[1].caption}
        settings = Oni(model=model, queue={"batch": 5, "batches": 1}, distil={"until": 9, "hidden": 8})
        return OniShaper(settings, GAME, annotator, embed)

    return made


def model(**options) -> dict:
    return {"first": 1, "every": 1, "model": {"steps": 20}} | options


def spa() -> SpaShaper:
    return RewardSettings(shaper={"kind": "spa", **model()}).shaper.make(GameSettings(name="parrot"))


MADE: dict[str, tuple[Callable[[], Shaper], Callable]] = {
    "aria": (lambda: AriaShaper(intentions(refit="beside", growth=0.01), embed), batch),
    "aria_rm": (lambda: aria_rm({"refit": "beside", "growth": 0.01}, model={"steps": 20}), batch),
    "spa": (lambda: _embedding_here(spa()), batch),
    "oni retrieval": (oni("retrieval"), lambda first, count: told(first // 16)),
    "oni classification": (oni("classification"), lambda first, count: told(first // 16)),
    "oni ranking": (oni("ranking"), lambda first, count: told(first // 16)),
}


def _embedding_here(shaper: SpaShaper) -> SpaShaper:
    shaper.estimator.memory.embed = embed
    return shaper


@pytest.mark.parametrize("name", MADE)
def test_a_result_that_is_read_back_is_published_like_the_one_that_was_written(name, tmp_path):
    made, batch = MADE[name]
    one, other = made(), made()
    other.restore(one.state())
    kinds = set()
    for number in range(4):
        games = batch(16 * number, 16)
        for _ in range(2):  # the second time there may be nothing to refit
            if (work := one.refit()) is None:
                break
            result = work()
            write_state(tmp_path / "result", one.saved(result))
            one.publish(result)
            other.publish(other.result_of(read_state(tmp_path / "result")))
            kinds.add(type(result).__name__)
            assert same(one.state(), other.state())
        assert plain(one.shape(games)) == plain(other.shape(games))
        assert same(one.state(), other.state())
    assert one.version >= 1 and len(kinds) == (2 if name == "aria_rm" else 1)


@pytest.mark.parametrize("name", MADE)
def test_a_frozen_state_is_of_its_moment(name):
    made, batch = MADE[name]
    shaper = made()
    for number in range(4):
        shaper.shape(batch(16 * number, 16))
        work = shaper.refit()
        then, later = shaper.state(), frozen(shaper)
        if work:
            shaper.publish(work())
        shaper.shape(batch(16 * number + 64, 16))
        assert not same(shaper.state(), then) and same(later(), then)


def test_a_state_that_cannot_wait_is_made_at_once():
    class Counting(Stateless):
        count = 0

        def state(self) -> dict:
            return {"count": self.count}

    shaper = Counting(Outcome())
    later = frozen(shaper)
    shaper.count = 7
    assert later() == {"count": 0}


@pytest.mark.parametrize("name", ["outcome", "game"])
def test_whoever_is_never_refitted_has_nothing_to_write_down(name):
    shaper = RewardSettings(shaper=name).shaper.make(GameSettings(name="parrot"))
    for call in (shaper.publish, shaper.saved, shaper.result_of):
        with pytest.raises(RuntimeError, match="is never refitted"):
            call({})


def test_a_space_is_written_down_by_who_fitted_it():
    shaper = MADE["aria"][0]()
    shaper.shape(batch(0, 40))
    first = shaper.fit_again()
    shaper.fit_again()
    with pytest.raises(ValueError, match="intention space 1 is not the one that was fitted last"):
        shaper.saved(first)


def test_an_answer_that_comes_back_where_its_question_is_unknown_keeps_the_balance():
    """Which questions wait depends on when the annotator took some; a journal knows only when it was done."""
    one, other = oni("classification")(), oni("classification")()
    one.shape(told(0))
    saved = one.saved(one.refit()())
    other.publish(other.result_of(saved))
    counts = other.queue.counts
    assert counts["labelled"] == len(saved["answers"]) > 3 and other.version == 1
    waiting = len(other.queue.queued) + len(other.queue.pending)
    assert counts["seen"] == counts["labelled"] + waiting + counts["dropped"] + counts["given_up"]


# --- how it is written -------------------------------------------------------------------------------

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=60,
)


@given(PLAIN.filter(lambda value: "array" not in repr(value)))
def test_the_pieces_are_the_json_of_the_whole(value):
    assert "".join(_pieces(value, {})) == json.dumps(value)


def test_no_piece_is_large_where_the_whole_is():
    rows = np.arange(400_000, dtype=np.float16).reshape(-1, 100)
    known, lines = [["run", n, 0] for n in range(20_000)], packed(np.zeros((3000, 384), np.float16))
    state = {"known": known, "embeddings": lines, "rows": list(rows)}
    arrays: dict[str, np.ndarray] = {}
    sizes = [len(piece) for piece in _pieces(state, arrays)]
    assert sum(sizes) > 3_000_000 and max(sizes) < 300_000 and len(arrays) == len(rows)


@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (1,), (5, 4097), (3, 0)])
def test_an_array_comes_back_out_of_its_lines(shape):
    for kind in ("<f2", ">f4", "int64"):
        array = np.arange(np.prod(shape, dtype=int)).astype(kind).reshape(shape)
        back = unpacked(json.loads(json.dumps(packed(array))))
        assert back.dtype == array.dtype.newbyteorder("=") and np.array_equal(back, array) and back.shape == shape


def test_what_cannot_be_read_back_is_not_written(tmp_path):
    for bad in (float("nan"), [0.0] * 100 + [float("inf")], {"list": [{1: "key"}] * 40}, {"array": 1}, {"a": object()}):
        with pytest.raises((ValueError, TypeError)):
            write_json(tmp_path / "bad.json", {"state": bad})


def test_threads_that_make_way_leave_the_interval_as_it_was():
    before, entered, may_leave = sys.getswitchinterval(), threading.Event(), threading.Event()

    def beside() -> None:
        with short_switch_interval():
            entered.set()
            assert may_leave.wait(30)

    thread = threading.Thread(target=beside)
    with short_switch_interval():
        thread.start()
        assert entered.wait(30) and sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS), "the other one is not done"
    may_leave.set()
    thread.join(30)
    assert sys.getswitchinterval() == before
