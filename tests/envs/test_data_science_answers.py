"""Data science: the code in an utterance is found, and what is no code is turned away with a reason."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from envs.data_science.answer import LONGEST, NoCode, code_of
from envs.data_science.sandbox.pool import pool
from envs.registry import make_game
from tests.support.data_science_games import TREE
from tests.support.data_science_games import closed_in_the_end as closed_in_the_end


@pytest.mark.parametrize(
    "text",
    [
        TREE,
        f"\n\n  {TREE}  \n",
        f"```python\n{TREE}\n```",
        f"```\n{TREE}\n```",
        f"``` py\r\n{TREE}\r\n```",
        f"Sure! First:\n```\npip install scikit-learn\n```\nthen\n```python\n{TREE}\n```\nDone.",
        f"```python\n{TREE}",
    ],
)
def test_code_is_found(text):
    assert code_of(text) == TREE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the reply is empty"),
        ("``` \n\n```", "SyntaxError: invalid syntax (line 1)"),
        ("i would use a forest", "SyntaxError: invalid syntax (line 1)"),
        ("x = 1", "the reply does not define build_model(x_train, y_train)"),
        ("class A:\n  def build_model(x, y): pass", "the reply does not define build_model(x_train, y_train)"),
        ("async def build_model(x, y): pass", "the reply does not define build_model(x_train, y_train)"),
        ("build_model = lambda x, y: None", "the reply does not define build_model(x_train, y_train)"),
        ("def build_model(x, y):\nreturn", "IndentationError: expected an indented block after function definition "
         "on line 1 (line 2)"),
        ("def build_model(x, y):\n  if x:\n  return", "IndentationError (line 3)"),  # its text quotes the word 'if'
        ("x = 1\ndef build_model(x, y): 𝟙𝟚", "SyntaxError (line 2)"),  # and here the character
        ("def build_model(x, y): return x \u2013 y", "SyntaxError (line 1)"),
        ("print 'success.'", "SyntaxError (line 1)"),
        ("def build_model(x, y): f(", "SyntaxError: '(' was never closed (line 1)"),
        ("def build_model(x, y): pass\0", "SyntaxError: "),
        ("# \ud800\ndef build_model(x, y): pass", "SyntaxError: this cannot be read as Python"),
        ("x" * (LONGEST + 1), f"the reply is longer than {LONGEST} characters"),
    ],
)  # fmt: skip
def test_what_is_no_code_is_turned_away_with_a_reason(text, reason):
    with pytest.raises(NoCode) as caught:
        code_of(text)
    assert str(caught.value) == reason or (reason.endswith(": ") and str(caught.value).startswith(reason))


def test_threads_read_code_at_the_same_time():
    """Python 3.11.7 loses count of how deep a tree is when the collector lets another thread build one: SystemError."""

    def let_others(phase: str, _: dict) -> None:
        time.sleep(0)

    codes = [f"{TREE}\nx = {'[' * depth}{']' * depth}" for depth in range(1, 60)] * 4
    before = gc.get_threshold()
    gc.callbacks.append(let_others)
    gc.set_threshold(20)
    try:
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(code_of, codes, timeout=60)) == codes
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(let_others)


def test_the_deepest_nesting_cannot_hurt_the_worker():
    """In a process of its own, and in a thread of it, as a worker steps this game: it must live."""
    script = f"""
import sys, threading; sys.path.insert(0, {os.getcwd()!r})
from envs.data_science.answer import LONGEST, NoCode, code_of
pieces = ("-", "not ", "~", "(", "[", "{{", "{{1:", "a.b", ".b", "()", "[0]", "lambda:", "x=", "+1", "**1", "else ",
          "a if b else ", "await ", "*", "@a\\n", "if 1:\\n ", "f'{{", "a:=(", "for x in ", "'", "(lambda:", "1,")
def read():
    for piece, start in ((p, s) for p in pieces for s in ("", "a", "1", "def build_model(x, y): return ")):
        for end in ("", "1", ")"):
            try: code_of((start + piece * LONGEST)[: LONGEST - 1] + end)
            except NoCode: pass
    print("alive")
thread = threading.Thread(target=read); thread.start(); thread.join()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-500:]


def test_what_is_no_code_never_starts_a_sandbox():
    pool.close()
    game = make_game("data_science", {"dataset": "iris", "attempts": 100})
    game.reset(0)
    for text in ("", "hello", "import os", "os.system('x')", "def f(): pass", "\0", "```", "9" * 5000):
        assert not game.step(text).executable
    assert pool.idle == []
