"""The benchmarks of worlds: the bare package makes the same steps, and what is asked of the pairs is answered."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.lab.store import Store
from benchmarks.nethack import RECORDS, WORTH, answer, page, points, trials
from benchmarks.worlds import __main__ as command
from benchmarks.worlds import speed
from benchmarks.worlds.bare import BARE, process
from benchmarks.worlds.speed import WORLDS, accounted, divided, episodes, measured
from envs.registry import make_game
from tests.support.worlds import needs


def test_the_bare_package_makes_the_steps_that_parley_s_game_made():
    options = WORLDS["babyai: GoToLocal"]
    (one, other), game = episodes("babyai", options, 2), make_game("babyai", options)
    assert [method for method, _ in one.tape] == ["reset"] + ["step"] * len(one.said) and one.tape != other.tape
    with BARE["babyai"](options) as bare:
        env = bare["steps"].__closure__[0].cell_contents
        for each in (one, other):
            for entry in each.tape:
                bare["steps"](*entry)
            game.reset(each.seed)
            for utterance in each.said:
                game.step(utterance)
            assert env.mission == game._env.mission and env.step_count == game._env.step_count == len(each.said)
            assert (env.agent_pos, env.agent_dir) == (game._env.agent_pos, game._env.agent_dir)


def test_a_package_in_a_process_of_its_own_says_what_it_says_in_this_one():
    options = WORLDS["babyai: GoToLocal"]
    (one,) = episodes("babyai", options, 1)
    with BARE["babyai"](options) as bare, process("babyai", options) as apart:
        for entry in one.tape:
            here, there = bare["steps"](*entry), apart(*entry)
            assert here[1:] == there[1:] and np.array_equal(here[0]["image"], there[0]["image"])


def test_every_contestant_is_measured_in_every_round(monkeypatch):
    monkeypatch.setattr(speed, "QUICK", (0.02, 3))
    found = measured("open_spiel: kuhn_poker", True, print)
    assert set(found["turns_per_second"]) == set(found["microseconds_per_turn"]) == {"steps", "one"}
    assert 0 < found["cpu_beside"]["steps"]["median"] < 2 and found["speed_beside"]["steps"]["rounds"] == 3
    assert len(command.speeds({"kuhn poker": found})) == 2
    spent = []
    assert accounted(lambda: 7, spent)() == 7 and len(spent) == 1 and divided([6.0], [3.0]) == [2.0]


def test_a_world_that_is_not_installed_is_named_and_the_others_are_played(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "lacking", lambda world: "it is not installed" if world == "nethack" else "")
    monkeypatch.setattr(
        "sys.argv", ["worlds", "nethack", "--only-scores", "1", "--output", str(tmp_path / "found.json")]
    )
    command.main()
    assert "NOT measured: nethack: it is not installed" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["worlds", "chess"])
    with pytest.raises(SystemExit):
        command.main()
    assert "no world 'chess' here; there are: babyai" in capsys.readouterr().err


@needs("nethack")
def test_with_oni_and_without_are_the_same_but_for_the_reward():
    pairs = trials(8)
    without, with_oni = (each.config for each in pairs[3])
    assert type(without.reward.shaper).__name__ == "GameReward" and with_oni.reward.shaper.extrinsic == "game"
    assert without.model_dump(exclude={"reward"}) == with_oni.model_dump(exclude={"reward"})


def test_the_question_about_oni_is_answered_in_pairs():
    pairs = trials(8)
    assert len(pairs) == 8 and all(one.seed == two.seed and one.warm_start == two.warm_start for one, two in pairs)
    assert answer([1.0, 1.2, 0.9]).endswith("3 pairs: it helps") and answer([-1.0, -1.2, -1.1]).endswith("it harms")
    assert answer([1.0, -1.2, 0.9]).endswith("cannot be told") and "1 pairs were run" in answer([1.0])


def test_the_table_about_oni_is_made_of_the_records():
    shown = (Path(__file__).parents[2] / "docs" / "results" / "worlds.md").read_text()
    made = page(Store(RECORDS), 8)
    assert made.count("\n| ") == 9 and all(part in shown for part in re.split("\n\n", made))


def test_points_are_what_every_turn_was_paid_also_where_the_game_was_not_over():
    turns = [SimpleNamespace(reward=reward) for reward in (0.5, 0.0, -0.0001)]
    assert points(SimpleNamespace(turns=turns, money={})) == pytest.approx(0.4999 * WORTH)
