"""Words and turns of phrase that are not answered, or that make a question another one."""

from __future__ import annotations

import re

from envs.guess_my_city.wording import word_set

# A choice between two contraries is no question to answer with yes.
ANTONYMS = re.compile(
    r"\b(?:big|large|small|hot|warm|cold|old|new|young|rich|poor|north|south|east|west|wet|dry|left|"
    r"right|good|bad|near|far|modern|ancient|inland|coastal|"
    r"northern|southern|eastern|western|flat|hilly|safe|dangerous|cheap|expensive|odd|even|yes|"
    r"higher|lower|bigger|smaller|island) or (?:on the |to the |is it |a |in the )?(?:big|"
    r"large|small|hot|warm|cold|cool|old|new|young|rich|poor|north|south|east|west|wet|dry|left|"
    r"right|good|bad|near|far|modern|ancient|inland|coastal|"
    r"northern|southern|eastern|western|flat|hilly|mountainous|mainland|on the mainland|safe|"
    r"dangerous|cheap|expensive|odd|even|no|higher|lower|bigger|smaller)\b(?! side of the equator)"
)
# Said to the one who answers, not about the city.
OF_SPEAKER = re.compile(
    r"^(?:how old are you|how are you|who are you|what are you|are you (?:a|an|sure|ok|there|ready|"
    r"married|human|real)\b|what is your (?:name|job|age)|"
    r"do you (?:like|love|want|prefer|believe|think|agree|know)\b|would you like|can you (?:give|"
    r"help|sing|tell a)|how do you (?:feel|know|like)|why do you|"
    r"where (?:were|did) you|when were you|what have you|what do you (?:do|think|like|want|feel|wear|"
    r"look)\b(?! (?:eat|drink))|have i\b|have you (?:ever|been|got a)\b)"
)
# What may not stand after the comma of a guess.
OTHERWISE = frozenset(("or", "not", "but", "no", "nor", "rather", "instead", "capital", "near", "close", "like"))
# Words that are about the name or the secret itself, whatever else is said.
OF_NAME = re.compile(
    r"\b(?:letters?|spell(?:ed|ing|s)?|alphabet|vowels?|consonants?|syllables?|backwards?|rhymes?|anagram|initials?|"
    r"starts? with|starting with|begins? with|beginning with|ends? (?:with|in)|ending (?:with|in)|"
    r"called (?:in|something)|call it in|pronounced?|translated?|etymology|named after|secret|"
    r"reveal|solution|abbreviation|acronym)\b"
)
ASKS_FOR_IT = re.compile(
    r"^(?:please |just |so |ok )*(?:tell me |say |give me |name |what is |whats |which is |what |which )+"
    r"(?:me )?(?:the |your |this |that |is )*(?:city|town|place|answer|it)"
    r"(?: is it| are you thinking of| is this| name)?$"
)
# Words that make a question about a place one about what lies near it or comes from it: "is it near Japan?"
_APART = word_set(
    "fly flight visa see view reach cross through colony colonies colonised colonized conquered invaded war export "
    "import imported exported hours ruled empire immigrants"
)
_BESIDE = word_set("near nearby nearer close closer border borders bordering beside next neighbour neighbor distance")
_RULED = word_set("independence independent")
ELSEWHERE = {
    "country": _APART | _BESIDE | _RULED,
    "continent": _APART | _BESIDE,
    "province": _APART | _BESIDE,
    "region": _APART,
}
WIDER_THAN_COUNTRY = word_set("world earth continent europe asia africa america planet globe")
MOST_POPULAR = word_set("popular favourite favorite national main biggest most top loved number mad")
OF_MANY = word_set(
    "noodles rice fish meat bread soup potatoes cheese seafood chicken beef pork beans lamb kebabs dumplings"
)
