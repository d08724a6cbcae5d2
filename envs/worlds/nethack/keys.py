"""What can be done in NetHack, in words, and the keys for it."""

from __future__ import annotations

import re

COMPASS = {
    "north": "k", "east": "l", "south": "j", "west": "h",
    "northeast": "u", "southeast": "n", "southwest": "b", "northwest": "y",
}  # fmt: skip
NAMED = {
    "up": "<", "down": ">", "wait": ".", "search": "s", "eat": "e", "kick": "\x04",
    "apply": "a", "cast": "Z", "close": "c", "drop": "d", "engrave": "E", "fight": "F", "fire": "f", "look": ":",
    "open": "o", "pay": "p", "pick up": ",", "put on": "P", "quaff": "q", "read": "r", "remove": "R",
    "swap weapons": "x", "take off": "T", "throw": "t", "wear": "W", "wield": "w", "zap": "z",
}  # fmt: skip
HELD_WITH_META = {  # a key that is pressed together with Meta
    "chat": "c", "dip": "d", "enhance": "e", "force": "f", "invoke": "i", "jump": "j", "loot": "l", "offer": "o",
    "pray": "p", "ride": "R", "rub": "r", "sit": "s", "tip": "T", "turn": "t", "untrap": "u", "wipe": "w",
}  # fmt: skip
ESCAPE = 27

KEYS = (
    {word: ord(key) for word, key in COMPASS.items()}
    | {f"far {word}": ord(key.upper()) for word, key in COMPASS.items()}
    | {word: ord(key) for word, key in NAMED.items()}
    | {word: 0x80 | ord(key) for word, key in HELD_WITH_META.items()}
)
SETS = {
    "task": (*COMPASS, *(f"far {word}" for word in COMPASS), "up", "down", "wait", "kick", "eat", "search"),
    "all": tuple(KEYS),
}
ANSWERS = {"yes": ord("y"), "no": ord("n"), "escape": ESCAPE}
LETTERS = tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ$*,-")
OFFERED = re.compile(r"\[([^\]]+)\]")

Answers = dict[str, int]  # what can be said, and the key for it


def answers_to(question: str) -> Answers:
    """What a question that NetHack asks for one key can be answered with."""
    if "direction" in question:
        return {word: KEYS[word] for word in (*COMPASS, "up", "down")} | {"here": ord("."), "escape": ESCAPE}
    offered = OFFERED.search(question)
    if offered is None:
        return ANSWERS
    keys = offered[1].partition(" or ")[0]  # "- ab": bare hands stand apart
    if keys.startswith("yn"):
        return ANSWERS if keys == "yn" else ANSWERS | {"all": ord("a")} if "a" in keys else ANSWERS
    spread = re.sub(r"(\w)-(\w)", lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), keys)
    return {letter: ord(letter) for letter in spread if letter in LETTERS} | {"escape": ESCAPE}


def every_key() -> list[int]:
    """That a game may ever send."""
    return sorted({*KEYS.values(), *ANSWERS.values(), ord("."), *map(ord, LETTERS)})
