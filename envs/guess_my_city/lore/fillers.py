"""Words that say nothing of a place by themselves, and words that make a question another one."""

from __future__ import annotations

from envs.guess_my_city.lore.lists import listed, stems_of
from envs.guess_my_city.lore.words import stem
from envs.guess_my_city.questions import SMALL

FILLER_WORDS = SMALL | listed("fillers")
FILLERS = frozenset(map(stem, FILLER_WORDS))
PERSONAL = listed("personal")
TOP_STEMS = stems_of("top")
TURNING = stems_of("turning") | TOP_STEMS
COUNTRY = stems_of("country")
LIVES, ORIGINS, PERSONS = stems_of("lives"), stems_of("origins"), stems_of("persons")
PAST = frozenset(("was", "were", "did", "had", "used", "formerly", "once", "former", "previously"))
