"""A game's own evaluation, on real rollout workers: every task, opponent and role in one table."""

from __future__ import annotations

import json

import pytest

from cluster.commands.cli import main
from cluster.errors import ConfigError
from cluster.recipe.config import RunConfig
from cluster.run.evaluate import measure
from cluster.run.trials import chosen_trials
from envs.episode import Episode, Ticket, Turn


def episode(number: int, outcome: float, rewards: list[float], **money: float) -> Episode:
    """The policy as `a`; a rival's turn stands between each two of its own."""
    ticket = Ticket("run", "game", number, number, (("a", "policy"), ("b", "scripted:random")))
    turns = []
    for reward in rewards:
        turns += [Turn("a", "policy", "", "", reward=reward), Turn("b", "scripted:random", "", "", reward=9.0)]
    return Episode(ticket, turns, {"a": outcome, "b": 1 - outcome}, True, money=money)


def test_figures_are_those_of_the_policys_seat():
    played = [
        episode(0, 1.0, [0.5, 0.0, 1.0], a=70.0, b=30.0),
        episode(1, 0.5, [0.0], a=50.5, b=49.5),
    ]
    found = measure(played, 3, gamma=0.5)
    assert (found.version, found.episodes, found.win_rate, found.outcome, found.turns) == (3, 2, 0.5, 0.75, 4.0)
    assert found.discounted_return == pytest.approx((0.5 + 0.25 + 0.0) / 2)
    assert found.money == 60.25
    assert measure([episode(0, 1.0, [1.0]), played[0]], 0, 1.0).money is None, "a mean over some of them is none"


def test_seats_of_one_game_are_no_trials_of_their_own():
    """A policy that plays with itself for one outcome: intervals are those of the games."""
    both = Ticket("run", "game", 0, 0, (("a", "policy"), ("b", "policy")))
    shared = [Episode(both, [], {"a": won, "b": won}, True) for won in [1.0] * 3 + [0.0] * 7]
    alone = [episode(number, won, []) for number, won in enumerate([1.0] * 3 + [0.0] * 7)]
    together, apart = measure(shared, 0, 1.0), measure(alone, 0, 1.0)
    assert (together.win_rate, together.outcome) == (0.3, 0.3)
    for name in ("win_low", "win_high", "outcome_low", "outcome_high"):
        assert getattr(together, name) == getattr(apart, name)


def test_trials_are_chosen_by_name_and_keep_the_config_s_other_options():
    config = RunConfig(game={"name": "parrot", "options": {"rounds": 2}})
    trials = chosen_trials(config, "beside*", 5)
    ((name, (settings, trial)),) = trials.items()
    assert name == "parrot/beside a perfect one" and trial.episodes == 5
    assert settings.options == {"rounds": 2, "seats": 2} and settings.players == {"parrot1": "scripted:perfect"}
    assert [trial.episodes for _, trial in chosen_trials(config, "*", None).values()] == [100, 100]
    with pytest.raises(ConfigError, match="no trial of parrot matches 'no such'; it has: alone, beside"):
        chosen_trials(config, "no such", None)


@pytest.mark.timeout(300)
def test_one_command_plays_every_trial(ray_cluster, parrot_model, tmp_path, capsys):
    words = [
        "evaluate", str(parrot_model), "--trials", "--episodes", "12", "game.name=parrot", f"output={tmp_path}",
        "rollout.engine.kind=transformers", "rollout.engine.max_context=128", "rollout.workers=2",
        "rollout.cpus_per_worker=0.5", "rollout.max_utterance_tokens=8",
    ]  # fmt: skip
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "beside a perfect one" in shown and "95 % interval" in shown
    (folder,) = tmp_path.iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["trials"].keys() == {"alone", "beside a perfect one"}
    assert all(each["episodes"] == 12 for each in summary["trials"].values())
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert [line["seed"] for line in lines] == [*range(1_000_000, 1_000_012)] * 2, "the same games in each trial"
    beside = [line for line in lines if line["trial"] == "beside a perfect one"]
    assert all(line["outcome"]["parrot1"] == 1.0 for line in beside), "the rival is the one that was asked for"
    assert all(line["players"] == {"parrot0": "policy", "parrot1": "scripted:perfect"} for line in beside)
    mean = sum(line["outcome"]["parrot0"] for line in beside) / 12
    assert summary["trials"]["beside a perfect one"]["outcome"] == pytest.approx(mean)
    assert (folder / "transcripts" / "beside-a-perfect-one.txt").is_file()


def test_episodes_without_trials_is_refused(parrot_model, capsys):
    assert main(["evaluate", str(parrot_model), "--episodes", "5"]) == 2
    assert "evaluation.episodes=N" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_policy_is_evaluated_by_an_engine_of_two_processes(ray_cluster, parrot_model, tmp_path):
    words = [
        "evaluate", str(parrot_model), "game.name=parrot", f"output={tmp_path}", "evaluation.episodes=4",
        "rollout.engine.tensor_parallel=2", "rollout.engine.max_context=128", "rollout.engine.cpu_cache_gib=0.1",
        "rollout.workers=1", "rollout.max_utterance_tokens=8",
    ]  # fmt: skip
    assert main(words) == 0
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "summary.json").read_text())["episodes"] == 4
