"""Everyday English around a question: what the free oracle may leave out, and what it must not.

All patterns work on words in lower case, single spaces between them, no punctuation.
"""

from __future__ import annotations

import re

from envs.twenty_questions.meaning import SMALL_WORDS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


THE_OBJECT = r"(?:the|your|this|that) (?:secret |mystery |hidden )?(?:object|thing|item|answer|word|secret)"
_OF_YOURS = r"(?: (?:that )?(?:you are|youre|you re) thinking (?:of|about)| in question| you have in mind)?"
_IT = rf"(?:it|this|that|they|these|{THE_OBJECT}{_OF_YOURS})"

# "can you tell me if it is ..." asks whether it is.
LEADS = re.compile(
    r"^(?:"
    r"(?:ok|okay|so|hmm|hm|um|well|now|then|alright|all right|great|good|thanks|thank you|and|but|please|also|"
    r"finally|next|"
    r"interesting|lets see|let me see|let me think|let me guess|i see|first of all|just to be sure|got it|right)\b"
    r"|(?:my |the |a )?(?:first |second |next |last |final |another |new )?question(?: number)?(?: \d+)?"
    r"(?: is(?= (?:is|are|does|do|can|could|would|will|has|was|if|whether)\b))?(?: if| whether)?\b"
    r"|q ?\d+\b"
    r"|(?:can|could|would|will) you (?:please )?(?:tell|say to|let) me (?:know )?(?:if|whether)\b"
    r"|(?:please )?(?:tell me|let me know)(?: if| whether)?(?= (?:is|are|does|do|can|has|it|its|this|the)\b)"
    r"|(?:i would|id|i) (?:like|want|need) to (?:know|ask)(?: you)? (?:if|whether)\b"
    r"|(?:let me|i will|ill) ask(?: you)?(?: if| whether)?\b"
    r"|i have (?:a|another|one more) (?:guess|question|idea)\b"
    r"|do you (?:happen to )?know (?:if|whether)\b"
    r"|i (?:wonder|am wondering|was wondering|ask) (?:if|whether)\b|im wondering if\b"
    r"|(?:would|do) you (?:say|think|believe)(?: that)?(?= (?:it|its|this|the|that|they)\b)"
    r"|(?:would|is) it (?:be )?(?:fair|correct|accurate|right|safe|true|reasonable)"
    r"(?: to (?:say|assume|think|claim))?(?: that)?"
    r"(?= (?:it|its|this|the|that|they)\b)"
    r"|am i (?:right|correct)(?: in (?:thinking|assuming|saying))?(?: that| to (?:think|assume|say) that)?"
    r"(?= (?:it|its|this|the|that|they)\b)"
    r")\s*"
)

# "are we talking about an animal?" asks whether it is one.
WE_MEAN = re.compile(
    r"^(?:are (?:we|you) (?:talking|speaking|dealing|looking)(?: about| of| with| for| at)|is what you have in mind) "
)
A_THING = re.compile(r"^(?:is|was|could|might|would) it (?:be )?an? \w+(?: \w+)?$")

# "it is alive, isn't it?" asks whether it is alive.
TAGS = re.compile(
    r" (?:please|right|correct|or not|isnt it|is it not|isnt that right|doesnt it|am i right|is that right|"
    r"is that correct|is that true|yes or no|perhaps|maybe|by any chance|then|at all|though|is it|does it|"
    r"thank you|thanks|"
    r"i wonder|too|anyway)$"
)

# What comes before the name in a guess. An explicit one takes even a name that is also a colour.
GUESS_FRAME = re.compile(
    r"^(?:"
    r"(?P<explicit>"
    r"(?:my |the )?(?:final |last |next |first |best |only )?(?:guess|answer)(?: is| would be| will be)?(?: that)?"
    r"|(?:i|id|ill|im) (?:(?:will|would|am|going to|want to|wanna|like to|now|just|finally) )*"
    r"(?:guess|guessing|say|think|thinking|believe|bet|suspect)(?: that| of)?"
    r"|(?:are|were) you thinking (?:of|about)|do you mean|is it called|do you have in mind"
    rf")(?: (?:its|(?:it|{THE_OBJECT}{_OF_YOURS}) (?:is|must be|has to be|might be|could be)))?"
    rf"|(?:is|was|are|could|can|might|may|would|must) {_IT}(?: be| happen to be)?"
    rf"|(?:it|this|that|they|{THE_OBJECT}{_OF_YOURS}) (?:is|are|must be|has to be|could be|might be|may be|would be)"
    r"|its|theyre|are you"
    r") "
)
HEDGES = _words("possibly perhaps maybe just simply actually really probably definitely likely indeed finally")
PORTIONS = _words("pair piece bunch bar cup glass slice loaf bottle jar bowl grain ear head set scoop")

WH_WORDS = _words(
    "what whats who whos whom whose where wheres when why how hows which tell give describe name explain say repeat "
    "list print hello hi hey ignore"
)
AUXILIARIES = _words(
    "is are was were do does did can could would will has have had should may might must am isnt arent doesnt dont "
    "cant couldnt wouldnt"
)
SUBJECTS = _words(
    "it its this that they them these one object thing things item something there material surface color colour "
    "shape taste"
)

# Words that deny: understood only in "something that is not ...", as the contrary.
DENIALS = _words(
    "not no never cannot cant isnt doesnt dont arent wont hasnt havent wasnt werent didnt wouldnt couldnt shouldnt "
    "nor neither non hardly rarely seldom unable without lacks lack lacking incapable except nothing none aint"
)
DENYING = re.compile(r"\b(?:free of|devoid of|other than|instead of|anything but|fail to|fails to|false that)\b")
DENIED_THING = re.compile(
    r"(?P<thing>\b(?:something|object|thing|item)(?: that| which)?(?: you| people| we| i| humans| a person)?"
    r"(?: is| are| does| do| can| has| have| could| would)?|^(?:is|are) (?:it|they))"
    r" (?:(?<!is it )(?<!are they )(?:not|cannot|cant|isnt|doesnt|dont|arent|hasnt|never|no|wont)"
    r"|without|unable to|incapable of|lacking|lacks)(?= )"
)

_MORE_OR_LESS = "bigger|larger|taller|longer|heavier|smaller|shorter|lighter"
COMPARED = re.compile(
    rf"\b(?P<how>{_MORE_OR_LESS})(?: in (?:size|weight|length|height))? than (?P<than>.+?)"
    r"(?: is| does| in (?:size|weight|length|height)| tall| long)?$"
)
WEIGHED = re.compile(r"\bweighs? (?P<how>more|less) than (?P<than>.+?)(?: does| weighs)?$")
AS_AS = re.compile(r"\bas \w+ as\b")
MEASURED = re.compile(
    rf"\b(?P<how>{_MORE_OR_LESS}|more|less) than (?P<number>\d+(?:\.\d+)?|[a-z]+)\s*(?P<unit>[a-z]+)"
    r"(?: in (?:size|weight|length|height)| tall| long| high)?$"
)
NUMBERS = {
    "a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "eight": 8.0,
    "ten": 10.0, "twenty": 20.0, "fifty": 50.0, "hundred": 100.0, "thousand": 1000.0,
}  # fmt: skip
UNITS_OF = {
    **dict.fromkeys(("cm", "centimeter", "centimeters", "centimetre", "centimetres"), ("cm", 1.0)),
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), ("cm", 100.0)),
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), ("cm", 100_000.0)),
    **dict.fromkeys(("inch", "inches"), ("cm", 2.54)),
    **dict.fromkeys(("foot", "feet"), ("cm", 30.48)),
    **dict.fromkeys(("g", "gram", "grams"), ("kg", 0.001)),
    **dict.fromkeys(("kg", "kilo", "kilos", "kilogram", "kilograms"), ("kg", 1.0)),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds"), ("kg", 0.4536)),
    **dict.fromkeys(("ton", "tons", "tonne", "tonnes"), ("kg", 1000.0)),
}

# What it does itself, not what people do with it.
ACTS = re.compile(r"\b(?:does|do|can|would|will) (?:it|they) (?:\w+ )?(?:eat|drink)\b")

BEING = frozenset(("is", "was", "could", "would", "its", "it"))

# What may follow the kind in "is it an animal that can fly?"; "" is the end.
AFTER_KIND = frozenset(("", "that", "which", "with", "you", "people", "used", "made", "found"))

# Words that stand in the middle of phrases and change nothing: "in a typical house".
FILLERS = _words(
    "a an the usual usually typical typically average normal normally general generally common commonly mostly "
    "mainly primarily often very really quite rather also just ever actually probably likely my your our their his "
    "her"
)

# Words that change nothing about which attribute a question is about.
SMALL = SMALL_WORDS | _words(
    "very really quite rather pretty fairly mainly partly primarily sometimes ever also just only actually "
    "basically essentially probably likely possibly perhaps maybe most many much some any all each every their our "
    "your my we us he she me there here which who whose anything anyone somebody everybody everyone average typical "
    "ordinary regular normal real actual certain specific item secret category class group family form variety "
    "piece part parts member species classified consider regarded described describe categorized defined defines "
    "know known call count counts counted belong belongs fall falls into within should may might must able capable "
    "happen happens need needs want wants require requires tend tends seem seems appear appears come comes get gets "
    "got take put kept keep see seen own about by out off up material main using having had color colour coloured "
    "shape shaped size sized body was were been day days nowadays today common usual classify thinking thought "
    "under over such as so if when then those these them let say says folks adult adults human man men youre am buy "
    "bought sell sells sold contain contains containing consist consists include includes associated related live "
    "lives other others another else around or and inside like physically easily first yourself itself themselves"
)
IGNORED = frozenset(
    tuple(phrase.split())
    for phrase in (
        "all over its body", "as well", "before eating", "before eating it", "before you eat it", "by itself",
        "by most people", "daily life", "everyday life", "i mean", "in color", "in colour", "in everyday life",
        "in general", "in particular", "in real life", "in shape", "in size", "in your opinion", "kingdom",
        "most of time", "of course", "of it", "of some kind", "on average", "on inside", "on its own", "on outside",
        "some sort of", "you are thinking of", "youre thinking of",
    )
)  # fmt: skip
