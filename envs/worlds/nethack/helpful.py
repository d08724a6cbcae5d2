"""The game's own annotator for `reward.shaper=oni`: how far what NetHack says is good news for an adventurer.

    1     deeper, a kill, a new level of experience, gold
    0.5   something found, opened, eaten, picked up; a hit
    0     all else, and whatever names a harm

By words that NetHack uses for each, and nothing of the episode.
"""

from __future__ import annotations

import re

HARMS = re.compile(
    r"\byou (?:die|fall|are (?:hit|bitten|hungry|weak|slowed)|feel (?:guilty|deathly|feverish|weak))\b|\bpoor |\bouch\b"
    r"|\byou hear the shrieks\b|\byou murderer\b|\byour .{1,30} (?:is|are) in no shape\b|\bmurderer\b",
    re.IGNORECASE,
)
GREAT = re.compile(
    r"\byou (?:kill|destroy)\b|\bwelcome to experience level\b|\bgold pieces?\b|\byou (?:climb|descend)\b"
    r"|\byou enter\b|\byou see here .{0,20}\bgold\b",
    re.IGNORECASE,
)
GOOD = re.compile(
    r"\b(?:door opens|you find|you see here|there (?:is|are) .{1,40}\bhere\b|staircase|ladder|fountain|altar)\b"
    r"|\byou (?:hit|bite|strike|kick|smite|finish|eat|feel (?:better|stronger|healthier)|hear)\b|^\w - |. \w - "
    r"|\bwham|\bdelicious\b|\bthat (?:satisf|tasted)|\bas you kick the door\b",
    re.IGNORECASE,
)


def helpful(caption: str) -> float:
    if HARMS.search(caption):
        return 0.0
    return 1.0 if GREAT.search(caption) else 0.5 if GOOD.search(caption) else 0.0
