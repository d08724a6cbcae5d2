"""The oracle that asks a server: a real vLLM server with the tiny model, started and ended here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from envs.registry import make_game
from envs.text.chat import EndpointError
from envs.twenty_questions.endpoint import ANSWERS
from envs.twenty_questions.meaning import Meaning

START_SECONDS = 240


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def server(tiny_model, tmp_path_factory):
    """Base URL and model name."""
    port, log = free_port(), tmp_path_factory.mktemp("server") / "log.txt"
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny_model)),
        *("--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "512"),
        *("--enforce-eager", "--dtype", "float32", "--max-num-seqs", "4"),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"},
        )
    try:
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
            try:
                if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.5)
        yield f"{url}/v1", "tiny"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def game_with(server: tuple[str, str], **options):
    url, model = server
    constrained = options.pop("constrained", False)
    return make_game(
        "twenty_questions",
        {
            "table": "full",
            "turns": 20,
            "oracle": "endpoint",
            "endpoint": {"url": url, "model": model, **options},
            "constrained": constrained,
        },
    )


@pytest.mark.long
def test_a_server_answers_questions_and_never_judges_a_guess(server):
    game = game_with(server, max_tokens=4)
    oracle = game.oracle
    assert game.slow and not make_game("twenty_questions", {"table": "full"}).slow
    game.restore({"secret": "penguin", "asked": 0, "won": False, "seen": "what is it?"})

    step = game.step("Can it fly?")
    assert game.observe() in ("yes", "no", "invalid") and step.executable == (game.observe() != "invalid")
    counted = oracle.counters
    assert (counted["requests"], counted["answers"], counted["failures"], counted["reused"]) == (1, 1, 0, 0)
    assert counted["prompt_tokens"] > 0 and counted["answer_tokens"] > 0

    first = game.observe()
    game.step("  CAN it... fly")  # the same question, for the same object
    assert game.observe() == first and oracle.counters["requests"] == 1 and oracle.counters["reused"] == 1
    oracle.answer(oracle.understand("can it fly?"), "eagle")  # for another object
    assert oracle.counters["requests"] == 2

    for text in ("is it a cat?", "i guess dog", "", "?!", "x" * 5000, "\u043d\u0435\u0442", "{"):
        game.step(text)
    assert oracle.counters["requests"] == 2, "guesses and noise cost nothing"
    assert oracle.understand("is it a cat or a penguin?").guess is None
    game.step("is it a penguin?")
    assert game.outcome() == {"guesser": 1.0} and oracle.counters["requests"] == 2

    other = game_with(server, max_tokens=4)
    assert other.oracle is oracle, "games of one process share their answers"


@pytest.mark.long
def test_a_constrained_server_says_one_of_the_three_answers(server, tiny_model):
    """The tiny model speaks in whole words: "i" is a beginning of "invalid" that none of them can end, so it is
    biased away."""
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(tiny_model).get_vocab()
    dead_ends = {str(number): -100 for word, number in words.items() if word in ("i", "in", "y", "ye", "n")}
    oracle = game_with(server, constrained=True).oracle
    for question in ("is it alive?", "can it fly?", "is it big? is it soft?", "Object: penguin."):
        said = oracle.client.complete([{"role": "user", "content": question}], logit_bias=dead_ends, **oracle.extra)
        assert said.strip() in ANSWERS
    free = game_with(server).oracle
    assert free is not oracle and free.extra == {}


@pytest.mark.long
def test_what_is_no_answer_is_invalid(server):
    """The untrained model says anything when it may."""
    oracle = game_with(server, max_tokens=3).oracle
    said = [oracle.answer(Meaning(question=f"is it number {number}"), "cat") for number in range(5)]
    assert set(said) <= {"yes", "no", "invalid"} and oracle.counters["answers"] == 5


@pytest.mark.long
def test_a_server_that_fails_is_an_error_and_leaves_the_game_as_it_was(server):
    url, _ = server
    for endpoint, problem in (
        ((url, "no such model"), "HTTP 404"),
        ((f"http://127.0.0.1:{free_port()}/v1", "tiny"), "ConnectError"),
    ):
        game = game_with(endpoint, retries=0)
        game.reset(1)
        before = game.save()
        with pytest.raises(EndpointError, match=problem):
            game.step("Is it alive?")
        assert game.save() == before and game.seat == "guesser" and game.oracle.counters["failures"] == 1


def test_an_answer_that_takes_too_long_is_an_error():
    """A server that accepts and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        game = game_with((f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "tiny"), timeout_seconds=0.3, retries=1)
        game.reset(1)
        started = time.monotonic()
        with pytest.raises(EndpointError, match="ReadTimeout"):
            game.step("Is it alive?")
        assert time.monotonic() - started < 5
        assert game.oracle.counters["retries"] == 1 and game.oracle.counters["failures"] == 1
