"""The contest of word credit: its designed games, and that what is predicted of them is what the methods compute."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from benchmarks.lab.store import Store
from benchmarks.locks import COLOURS, WORDS, Locks, deciding, noise, right
from benchmarks.long_code import LongCode, Wordy, lengthened
from benchmarks.words import CODE, FIRST_SEED, LOCKS, PARTS, RECORDS, SEEDS, TAUGHT, WARM_STARTS, predicted, tables
from envs.data_science.players import FIT, program, unimported
from learners.credit.gae import Gae
from learners.credit.method import AnyCredit
from learners.credit.poad import Poad
from learners.credit.turns import Turns

GAMES = 20_000


def played(dials: int, where: str) -> Turns:
    """By a policy that says any word, with the values that are so."""
    rng, opens = np.random.default_rng(7), deciding(dials, where)
    found = rng.random((GAMES, dials)) < 1 / len(WORDS)
    counts = np.isin(np.arange(dials), opens) / len(opens)
    known = np.cumsum(found * counts, axis=1) - found * counts  # paid for by the words before
    to_come = np.cumsum(counts[::-1])[::-1] / len(WORDS)
    return Turns(
        offsets=np.arange(GAMES + 1),
        rewards=(found @ counts).astype(float),
        tokens=np.full(GAMES, dials),
        episode=np.arange(GAMES),
        terminated=np.ones(GAMES, bool),
        values=(known + to_come).ravel(),
    )


@pytest.mark.parametrize("dials, where", [(1, "all"), (6, "first"), (6, "last"), (6, "all")])
def test_the_noise_that_is_predicted_is_that_of_the_advantages(dials, where):
    turns = played(dials, where)
    methods = {None: Gae(gamma=1.0)} | {each: Poad(gamma=1.0, lambda_w=each) for each in (1.0, 0.95, 0.0)}
    for lambda_w, method in methods.items():
        advantages = method.credit(turns, {}).advantages.reshape(GAMES, dials)
        # a policy that says any word: the squared gradient of a log-prob by its logits is the same for all
        measured = (1 - 1 / len(WORDS)) * (advantages**2).mean(0).sum()
        assert measured == pytest.approx(noise(dials, where, lambda_w), rel=0.05), lambda_w


def test_the_control_pushes_as_turns_do_and_teaches_its_critic_as_words_do():
    """Of turns of any lengths, some without a word of the policy, in games that end or are cut off."""
    rng = np.random.default_rng(3)
    counts = rng.integers(1, 5, 40)
    tokens = rng.integers(0, 4, counts.sum())
    turns = Turns(
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        rewards=rng.normal(size=counts.sum()),
        tokens=tokens,
        episode=np.arange(40),
        terminated=rng.random(40) < 0.5,
        values=rng.normal(size=tokens.sum()),
        bootstrap=rng.normal(size=40),
    )
    control = TAUGHT.settings[0].split("=")[1]
    made = TypeAdapter(AnyCredit).validate_python({"method": control, "gamma": 0.9, "lambda_a": 0.8}).credit(turns, {})
    of_turns, of_words = (kind(gamma=0.9, lambda_a=0.8).credit(turns, {}) for kind in (Gae, Poad))
    np.testing.assert_allclose(made.advantages, of_turns.advantages, atol=1e-5)
    np.testing.assert_array_equal(made.targets, of_words.targets)
    assert made.valued is None and not np.allclose(made.advantages, of_words.advantages)


def test_what_is_predicted_for_sixteen_dials():
    rows = {line.split(" | ")[0].strip("| "): line for line in predicted().splitlines() if line.startswith("| poad")}
    assert rows == {
        "poad": "| poad | 1.0 | 16.0 | 1.0 | 1.9 |",
        "poad, lambda_w .95": "| poad, lambda_w .95 | 1.0 | 16.0 | 1.9 | 2.9 |",
        "poad, lambda_w 0": "| poad, lambda_w 0 | 1.0 | 16.0 | 16.0 | 16.0 |",
    }


@pytest.mark.parametrize("where", ["first", "last", "all"])
def test_a_lock_pays_the_share_of_its_dials_that_are_right(where):
    game = Locks(dials=4, where=where)
    for seed in range(-4, 4):
        game.reset(seed)
        assert game.observe() == f"the lock is {game.colour}" and game.colour in COLOURS
        words = [right(dial, game.colour) for dial in range(4)]
        wrong = [WORDS[(WORDS.index(word) + 1) % 4] for word in words]
        said = [words[dial] if dial in (0, 3) else wrong[dial] for dial in range(4)]
        again = Locks(dials=4, where=where)
        again.restore(game.save())
        done = game.step(" ".join(said))
        assert again.step(" ".join(said)) == done and done.terminated and done.executable
        assert game.outcome() == done.rewards == {"picker": 0.5 if where == "all" else 1.0}
        game.reset(seed)
        short = game.step(" ".join(words[:3]))
        assert not short.executable and short.rewards == {"picker": 0.0} and game.seat is None


def test_lines_that_change_nothing_stand_between_the_import_and_the_classifier():
    long = lengthened(program("tree", "DecisionTreeClassifier", "max_depth=1"), ["rows = len(x_train) ;"] * 2)
    assert long.split(" ; ") == [
        "def build_model(x_train, y_train): from sklearn.tree import DecisionTreeClassifier",
        "rows = len(x_train)",
        "rows = len(x_train)",
        "model = DecisionTreeClassifier( max_depth=1 )",
        FIT,
    ]
    assert lengthened(unimported("GaussianNB", ""), ["rows = len(x_train) ;"]).split(" ; ")[0].endswith("len(x_train)")


def test_long_programs_run_and_fit_into_what_may_be_said():
    config = PARTS["code"].trial(CODE, PARTS["code"].methods[0], 1e-3, 90).config
    assert config.rollout.max_utterance_tokens == 128 and config.learner.credit.gamma == 0.95
    game, player = LongCode(), Wordy()
    words = {word for sentence in game.language() for word in sentence.split()}
    player.reset(-1)
    said = [player.write() for _ in range(200)]
    assert {word for each in said for word in each.split()} <= words
    assert min(len(each.split()) for each in said) > 115 and max(len(each.split()) for each in said) < 128
    game.reset(-1)
    right_one = lengthened(program("naive_bayes", "GaussianNB", ""), [each for each in _lines(said[0])])
    assert game.step(right_one).rewards["coder"] > 0.5


def _lines(said: str) -> list[str]:
    return [f"{each} ;" for each in said.split(" ; ") if " = " in each and "model" not in each]


def test_every_part_is_tuned_and_reported_on_seeds_and_warm_starts_of_its_own():
    for name, part in PARTS.items():
        later = SEEDS if name in ("main", "transfer") else 0
        assert part.first_seed == FIRST_SEED + later and part.warm_starts == WARM_STARTS == part.tuning_seeds == 4
        for pair in part.pairs():
            trial = part.trial(*pair, part.begin[0], part.first_seed)
            assert trial.config.game.name, name
    assert {game.name for game in LOCKS} == {"1 dial", "16 dials, first", "16 dials, last", "16 dials, all"}


@pytest.mark.parametrize(
    ("name", "parts", "seeds", "count"),
    [
        ("locks", ["locks"], 8, 9),
        ("long_code", ["code"], 16, 10),
        ("word_credit", ["main", "transfer", "length", "discount", "choice", "bonus"], 16, 32),
    ],
)
def test_every_table_of_the_page_is_made_of_the_records(name, parts, seeds, count):
    page = (Path(__file__).parents[2] / "docs" / "results" / f"{name}.md").read_text()
    results = page.partition("## What was found")[2].partition("## Q-learning")[0]
    shown = re.findall(r"(?m)(?:^\|.*\n)+", results)
    store = Store(RECORDS)
    made = "\n".join(each for part in parts for each in tables(part, store, seeds)) + "\n"
    assert len(shown) == count and all(each in made for each in shown)
