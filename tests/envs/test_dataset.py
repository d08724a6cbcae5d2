"""Questions of one's own: judged as asked, some held out, and what is wrong in a file named with its line."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from envs.dataset import Dataset, answer_in, as_it_is, by_number
from envs.registry import make_player
from envs.text.tasks import HELD_OUT_SEEDS, task_of

TASKS = [{"question": f"what is {n} plus {n} ?", "answer": n + n, "level": n % 3} for n in range(20)]


def half(said: str, answer: str, task: dict) -> float:
    """A check of one's own."""
    return 1.0 if said == answer else 0.5 if said == str(task["level"]) else 0.0


async def asked_elsewhere(said: str, answer: str, task: dict) -> float:
    await asyncio.sleep(0)
    return half(said, answer, task)


def unsure(said: str, answer: str, task: dict) -> float:
    return math.nan


def asked(seeds: range, **options) -> set[str]:
    game, seen = Dataset(TASKS, **options), set()
    for seed in seeds:
        game.reset(seed)
        seen.add(game.observe())
    return seen


def test_held_out_games_have_tasks_that_training_never_sees():
    training, held_out = (
        asked(range(500), held_out=0.2),
        asked(range(HELD_OUT_SEEDS, HELD_OUT_SEEDS + 200), held_out=0.2),
    )
    assert len(training) == 16 and len(held_out) == 4 and not training & held_out
    assert held_out == {each["question"] for each in TASKS[16:]}
    assert asked(range(500), held_out=0) == asked(range(HELD_OUT_SEEDS, HELD_OUT_SEEDS + 500), held_out=0)


def test_of_few_tasks_one_is_held_out_all_the_same():
    assert {task_of(seed, "abc", 0.1, "") for seed in range(50)} == {"a", "b"}
    assert task_of(HELD_OUT_SEEDS, "abc", 0.1, "") == "c" and task_of(HELD_OUT_SEEDS, "a", 0.1, "") == "a"


def test_an_answer_is_what_follows_the_last_line_that_says_so():
    assert answer_in("forty two") == "forty two"
    assert answer_in("Answer: 1\nno, wait\n**Answer:** 42 \nyes") == "** 42"
    assert answer_in("so\nanswer: 42.") == "42."
    assert answer_in("6 times 7.\n**Answer:**\n\n42\nor so") == "42" and answer_in("Answer:") == ""


def test_an_answer_of_marks_alone_is_not_earned_by_silence():
    assert as_it_is("*", "*", {}) and not as_it_is("", "*", {}) and not as_it_is("``", "*", {})


@pytest.mark.parametrize(
    ("said", "answer", "right"),
    [
        ("it is 1,042", "#### 1042", 1),
        ("7 or 8", "7", 0),
        ("-3.50", "-3.5", 1),
        ("none", "3", 0),
        ("3", "none", 0),
        (".5", "0.5", 1),
        ("5", ".5", 0),
        ("\u22125", "-5", 1),
        ("\u22125", "5", 0),
        ("0.00001", str(0.00001), 1),
        ("-5", str(0.00001), 0),
        ("100000000000000000000", "1e20", 1),
        ("step 1.2.3", "3", 1),
        ("1" * 40_000, "1", 0),
        ("1e99999", "5", 0),
    ],
)
def test_numbers_are_compared_by_the_last_one(said, answer, right):
    assert by_number(said, answer, {}) == right


def test_a_right_answer_ends_the_game_and_a_wrong_one_has_other_tries():
    game = Dataset(TASKS, tries=3, held_out=0)
    game.reset(4)
    right = game.task["answer"]
    step = game.step("nonsense")
    assert not step.terminated and step.rewards == {} and game.observe() == "that is wrong ; try again"
    step = game.step(f"Let me see.\nAnswer: {right}.")
    assert (
        step.terminated and step.rewards == {"solver": 1.0} and game.outcome() == {"solver": 1.0} and game.seat is None
    )
    game.reset(4)
    steps = [game.step("nonsense") for _ in range(3)]
    assert steps[-1].terminated and not steps[-1].truncated and game.outcome() == {"solver": 0.0}
    assert game.facts() == {"answer": right} and game.closing() == {"solver": f"wrong ; the answer is {right}"}


def test_a_game_that_was_saved_goes_on():
    game, other = (Dataset(TASKS, tries=3) for _ in range(2))
    game.reset(7)
    game.step("nonsense")
    other.restore(json.loads(json.dumps(game.save())))
    assert other.observe() == game.observe() and other.tried == 1
    assert other.step("again").rewards == game.step("again").rewards


@pytest.mark.parametrize("check", ["half", "asked_elsewhere"])
def test_a_check_of_ones_own_may_pay_in_parts(check):
    game = Dataset(TASKS, check=f"{__name__}:{check}", held_out=0)
    assert game.slow and not Dataset(TASKS).slow, "it may take long, and other games go on meanwhile"
    game.reset(3)
    step = game.step(str(game.task["level"]))
    assert step.rewards == {"solver": 0.5} and step.terminated
    game = Dataset(TASKS, check=f"{__name__}:unsure")
    game.reset(3)
    with pytest.raises(ValueError, match="check=.*unsure: has to return a number from 0 to 1, not nan"):
        game.step("x")


def greedy(said: str, answer: str, task: dict) -> float:
    """A check that changes what it is told."""
    task.clear()
    return 0.0


def test_a_file_is_read_once_for_all_games_and_no_check_changes_it(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, TASKS)))
    game = Dataset(str(file), check=f"{__name__}:greedy", tries=2)
    game.reset(0)
    question = game.observe()
    game.step("?")
    game.step("?")
    again = Dataset(str(file))
    again.reset(0)
    assert again.tasks is game.tasks and again.observe() == question
    file.write_text(json.dumps({"question": "a new one", "answer": "yes"}))
    assert len(Dataset(str(file)).tasks) == 1


def test_players_know_as_much_as_they_say():
    won = {}
    for name in Dataset.players():
        game, player = Dataset(TASKS), make_player("dataset", name, {"tasks": TASKS})
        won[name] = 0.0
        for seed in range(200):
            game.reset(seed)
            player.reset(seed)
            game.step(player.reply(game.observe(), ()))
            won[name] += game.outcome()["solver"] / 200
    assert won["expert"] == pytest.approx(1) and 0.4 < won["mediocre"] < 0.65 and won["random"] < 0.15


def test_every_word_is_in_the_language():
    game = Dataset(TASKS, tries=2)
    words = {word for said in game.language() for word in said.split()}
    game.reset(1)
    game.step("x")
    assert {*TASKS[0]["question"].split(), *game.observe().split(), *game.closing()["solver"].split()} <= words


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "holds no task"),
        ('{"question": "a", "answer": 1}\n\n{"question"', "line 3 is no JSON: Expecting ':' delimiter"),
        (
            '{"question": "a", "anwser": 1}',
            "task 1 has no 'answer' that is a text or a number; it has: question, anwser",
        ),
        ('{"question": "a", "answer": true}', "task 1 has no 'answer'"),
        ("[1]", "task 1 must be like {question: ..., answer: ...}"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, text, wrong):
    path = tmp_path / "own.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        Dataset(str(path))
    assert f"game option tasks: {path}" in str(error.value) and wrong in str(error.value)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"tasks": "nowhere.jsonl"}, "nowhere.jsonl cannot be read: FileNotFoundError: No such file"),
        ({"held_out": 1}, "held_out=1 must be a share from 0 to below 1"),
        ({"check": "exact"}, "check='exact' must be same, number, or module:function"),
        ({"check": "nowhere:f"}, "check='nowhere:f' cannot be imported: ModuleNotFoundError"),
        ({"check": "math:pi"}, "check='math:pi' is no function"),
        ({"tries": 0}, "tries=0"),
    ],
)
def test_options_that_make_no_sense_are_named(options, wrong):
    with pytest.raises(ValueError) as error:
        Dataset(**({"tasks": TASKS} | options))
    assert wrong in str(error.value)


def test_keys_and_line_separators_are_the_files_own(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"problem": "a\u2028b", "solution": 3}, ensure_ascii=False), encoding="utf-8")
    game = Dataset(str(path), question="problem", answer="solution")
    game.reset(0)
    assert game.observe() == "a\u2028b" and game.step("3").rewards == {"solver": 1.0}
