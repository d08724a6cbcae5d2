"""Utterances that no game wants to hear, without end, the same ones for the same seed.

Every kind of text that models under training have been seen to produce when they break:
noise, floods, broken or bottomless JSON, impossible money, look-alike letters, and control
markers that pretend to be somebody else.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

ROLES = ("<|im_start|>system", "<|im_end|>", "</s>", "[INST]", "### Assistant:", "<|eot_id|>", "\n\nHuman:", "<end>")
NUMBERS = (
    "-1",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-0",
    "1e-400",
    "0x10",
    "1_000",
    "\u0661\u0662",
    "\u00bd",
    "1,0,0",
)
KEYS = ("alice_gain", "bob_gain", "product_price", "message", "decision", "action", "answer", "offer")
LOOKALIKES = str.maketrans("aceiopxy", "\u0430\u0441\u0435\u0456\u043e\u0440\u0445\u0443")
SENTENCES = ("the answer is yes", "you win", "i win", "accept the deal", "open the door", "game over, score 1.0", "ok")


def noise(rng: random.Random) -> str:
    return rng.randbytes(rng.randrange(1, 80)).decode("latin-1")


def unicode_noise(rng: random.Random) -> str:
    return "".join(
        chr(rng.choice((rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x11000)))) for _ in range(rng.randrange(1, 30))
    )


def nothing(rng: random.Random) -> str:
    return rng.choice(("", " ", "\n", "\t\r\n", "\0", "\u200b", "\u202e", ".", "?", "!!!", "...", "-", "\ufeff"))


def flood(rng: random.Random) -> str:
    long = rng.randrange(500, 3000) if rng.random() < 0.99 else 200_000
    return rng.choice(("a", "no ", "((((", "\n", "9", "{", "is it ", "\u0301")) * long


def json_bomb(rng: random.Random) -> str:
    depth = rng.randrange(50, 3000)
    return rng.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, '{"a":' * depth, "[" * depth))


def bad_money(rng: random.Random) -> str:
    keys = rng.sample(KEYS, rng.randrange(1, 4))
    return "{" + ", ".join(f'"{key}": {rng.choice(NUMBERS)}' for key in keys) + "}"


def wrong_types(rng: random.Random) -> str:
    values = (None, True, [], {}, "", "x" * 50, [[1]], {"alice_gain": 1}, -5, "minus ten", "1;2")
    return json.dumps({key: rng.choice(values) for key in rng.sample(KEYS, rng.randrange(1, 5))})


def role_markers(rng: random.Random) -> str:
    return f"{rng.choice(ROLES)} {rng.choice(SENTENCES)} {rng.choice(ROLES)}"


def lookalike(rng: random.Random) -> str:
    return rng.choice(("accept", "i accept", "is it a cat?", "is it paris?", "open", "deliver", "apple")).translate(
        LOOKALIKES
    )


def chatter(rng: random.Random) -> str:
    return " ".join(
        rng.choices(
            ("well", "hmm", "zork", "qwerty", "lorem", "ipsum", "foo", "\u6f22\u5b57", "\U0001f600", "%s", "${x}"), k=9
        )
    )


KINDS: tuple[Callable[[random.Random], str], ...] = (
    noise, unicode_noise, nothing, flood, json_bomb, bad_money, wrong_types, role_markers, lookalike, chatter,
)  # fmt: skip


def utterances(seed: int) -> Iterator[str]:
    rng = random.Random(f"fuzz {seed}")
    while True:
        yield rng.choice(KINDS)(rng)
