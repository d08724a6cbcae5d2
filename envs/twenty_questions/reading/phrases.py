"""Everyday English around a question: what the free oracle may leave out, and what it must not.

All patterns work on words in lower case, single spaces between them, no punctuation.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from envs.twenty_questions.meaning import SMALL_WORDS

FOLDER = Path(__file__).parent


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LISTS = tomllib.loads((FOLDER / "words.toml").read_text(encoding="utf-8"))
BEFORE_A_THING, OF_SIZES = _words(_LISTS["before_a_thing"]), _words(_LISTS["of_sizes"])
ADJECTIVES = _words(_LISTS["adjectives"]) | {"orange coloured"}  # facts that may be said of a part: "a long tail"

THE_OBJECT = r"(?:the|your|this|that) (?:secret |mystery |hidden )?(?:object|thing|item|answer|word|secret)"
_OF_YOURS = r"(?: (?:that )?(?:you are|youre|you re) thinking (?:of|about)| in question| you have in mind)?"
_IT = rf"(?:it|this|that|they|these|{THE_OBJECT}{_OF_YOURS})"

# "can you tell me if it is ..." asks whether it is.
LEADS = re.compile(
    r"^(?:"
    r"(?:ok|okay|so|hmm|hm|um|well|ooh|oh|ah|aha|eh|er|wow|hey|now|"
    r"then|alright|all right|great|good|thanks|thank you|and|but|please|also|"
    r"finally|next|"
    r"interesting|lets see|let me see|let me think|let me guess|i see|first of all|just to be sure|got it|right)\b"
    r"|(?:my |the |a )?(?:first |second |next |last |final |another |new )?question(?: number)?(?: \d+)?"
    r"(?: is(?= (?:is|are|does|do|can|could|would|will|has|was|if|whether)\b))?(?: if| whether)?\b"
    r"|q ?\d+\b"
    r"|(?:can|could|would|will) you (?:please )?(?:tell|say to|let) me (?:know )?(?:if|whether)\b"
    r"|(?:please )?(?:tell me|let me know)(?: if| whether)?(?= (?:is|are|does|do|can|has|it|its|this|the)\b)"
    r"|(?:i would|id|i) (?:like|want|need) to (?:know|ask)(?: you)? (?:if|whether)\b"
    r"|(?:let me|i will|ill) ask(?: you)?(?: if| whether)?\b"
    r"|would it be (?:correct|fair|right|accurate) to (?:state|say|suppose|claim|suggest|maintain)(?: that)?"
    r"(?= (?:it|its|this|the|that|they)\b)"
    r"|(?:would|do) you (?:agree|concede|accept|confirm|say|state|affirm|admit|maintain)(?: that)?"
    r"(?= (?:it|its|this|the|that|they)\b)"
    r"|(?:please )?confirm(?: that| whether| if)?(?= (?:it|its|this|the|that|they)\b)"
    r"|am i to (?:conclude|understand|believe|think|assume)(?: that)?(?= (?:it|its|this|the|that|they)\b)"
    r"|i have (?:a|another|one more) (?:guess|question|idea)\b"
    r"|do you (?:happen to )?know (?:if|whether)\b"
    r"|i (?:wonder|am wondering|was wondering|ask) (?:if|whether)\b|im wondering if\b"
    r"|(?:would|do) you (?:say|think|believe)(?: that)?(?= (?:it|its|this|the|that|they)\b)"
    r"|(?:would|is) it (?:be )?(?:fair|correct|accurate|right|safe|true|reasonable)"
    r"(?: to (?:say|assume|think|claim))?(?: that)?"
    r"(?= (?:it|its|this|the|that|they)\b)"
    r"|is it (?:established|true|known|certain|the case|a fact|clear) that(?= (?:it|the|this)\b)"
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
    r"is that correct|is that true|yes or no|or nah|or no|or what|or something|"
    r"or anything|or so|or something like that|or similar|perhaps|maybe|by any chance|then|at all|though|is it|does it|"
    r"thank you|thanks|"
    r"i wonder|too|anyway|sir|madam|mate|yeah|surely|perchance|my friend|my dear|your honor|your honour|final answer|"
    r"i suppose|i presume|i take it|i believe|eh|huh|yes|no|i guess|i think|i bet|for sure|after all)$"
)

# What comes before the name in a guess. An explicit one takes even a name that is also a colour.
GUESS_FRAME = re.compile(
    r"^(?:"
    r"(?P<explicit>"
    r"(?:my |the )?(?:final |last |next |first |best |only )?(?:guess|answer)(?: is| would be| will be)?(?: that)?"
    r"|(?:i|id|ill|im) (?:hypothesi[sz]e|venture|submit|put it to you|propose|maintain|contend|reckon|suppose|conclude|"
    r"should say|wager|figure|deduce|infer|presume|assume|claim|declare|predict|imagine|choose|select|pick|go with|"
    r"will go with|would go for|am going with|am going for|going with|going for)(?: that| to say| the option| for)?"
    r"|(?:my|the) (?:hypothesis|theory|conclusion|bet|hunch|verdict|suspicion|pick|choice|deduction|prediction)"
    r"(?: is| would be)?(?: that)?"
    r"|(?:going|go) (?:with|for)|bet|let the record show that i guess|put me down for|surely|i d say"
    r"|(?:i|id|ill|im) (?:(?:will|would|am|going to|want to|wanna|like to|now|just|finally) )*"
    r"(?:guess|guessing|say|think|thinking|believe|bet|suspect)(?: that| of)?"
    r"|(?:are|were) you thinking (?:of|about)|do you mean|is it called|do you have in mind"
    rf")(?: (?:its|(?:it|{THE_OBJECT}{_OF_YOURS}) (?:is|must be|has to be|might be|could be|gotta be|"
    rf"is going to be)|theyre|must be))?"
    rf"|(?:is|was|are|could|can|might|may|would|must) {_IT}(?: be| happen to be)?"
    rf"|(?:it|this|that|they|its|{THE_OBJECT}{_OF_YOURS}) "
    r"(?:is|are|must be|has to be|could be|might be|may be|would be|gotta be|got to be|has got to be|have to be)"
    r"|its|theyre|are you"
    r") "
)
HEDGES = _words(
    "possibly perhaps maybe just simply actually really probably definitely likely indeed finally therefore"
)
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
    "shape taste he she its weight length size"
)

# Words that deny: understood only in "something that is not ...", as the contrary.
DENIALS = _words(
    "not no never cannot cant isnt doesnt dont arent wont hasnt havent wasnt werent didnt wouldnt couldnt shouldnt "
    "nor neither non hardly rarely seldom unable without lacks lack lacking incapable except nothing none aint"
)
# What is said after one of them is no plain guess: "I doubt it: it is a cat", "what eats it, is it a cat?".
_UNSURE = (
    "if unless whether when or either false untrue wrong incorrect doubt doubts refuse deny denied denies far opposite "
    "anything else unlike said says say saying asked ask asks earlier than near bigger smaller predator enemy were"
)
UNSURE = DENIALS | WH_WORDS | AUXILIARIES | _words(_UNSURE)
# Words that deny everything else: "is it only found outdoors?" asks more than "is it found outdoors?".
ONLY = _words("only solely exclusively merely purely")
DENYING = re.compile(r"\b(?:free of|devoid of|other than|instead of|anything but|fail to|fails to|false that)\b")
DENIED_THING = re.compile(
    r"(?P<thing>\b(?:something|object|thing|item|one|anything)(?: that| which)?"
    r"(?: you| people| we| i| humans| a person)?"
    r"(?: is| are| does| do| can| has| have| could| would)?|^(?:is|are) (?:it|they)|\bthat(?: is| does| can| has)?)"
    r" (?:(?<!is it )(?<!are they )(?:not|cannot|cant|isnt|doesnt|dont|arent|hasnt|never|no|wont)"
    r"|without|unable to|incapable of|lacking|lacks)(?= )"
    r"|^(?:does|can|would|could|will|do) (?P<act>(?:it|you|we|people|one|i) .*?)\bwithout(?= )"
)

COMPARING = _words("than like similar same compared resemble resembles unlike versus vs")
LASTING = re.compile(r"\b(?:live|lives|last|lasts|take|takes|cook|cooks)\b")
AS_AS = re.compile(r"\bas \w+ as\b")

# The object by what it is called in a question: "can the said item be carried", "does the creature have fur".
_NOUN = (
    "animal|creature|beast|critter|device|machine|appliance|substance|organism|species|fruit|vegetable|plant|vehicle|tool|"
    "food|building|structure|instrument|material|bird|insect|garment|gadget|contraption|concept|product|entity"
)
_YOURS = (
    r"(?: (?:that )?(?:you are|youre|you re) thinking (?:of|about)| in question|"
    r" (?:that )?you (?:have in mind|have chosen|chose|"
    r"picked|have picked|selected|thought of|are imagining)| of (?:our|your) \w+| at hand)?"
)
_CHOSEN = "(?:said|secret|mystery|hidden|very|given|chosen|whole|actual|same)"
SUBJECT = re.compile(
    rf"(?<!of )(?<!is it )\b(?:the|this|that|your|our|said) (?:{_CHOSEN} )*"
    rf"(?:object|item|article|answer|secret|subject matter|subject|thing|mystery|{_CHOSEN} (?:{_NOUN}))s?\b{_YOURS}"
    rf"|^(?P<verb>[a-z]+ )(?:the|this|that|your) (?:{_CHOSEN} )?(?:{_NOUN})s?\b"
    rf"(?! (?:kingdom|store|family|shop)){_YOURS}"
    r"|\bwhat (?:you are|youre) thinking (?:of|about)|\bwhat you have in mind"
)
IS_LIKE = re.compile(r"^(is it|its|is this) like (?:an?|some|any)?\b ?")
LIKE = re.compile(
    r"(?<!is it)(?<!shaped)(?<!look)(?<!looks)(?<!taste)(?<!tastes)(?<!smell)(?<!feel)(?<!sound)"
    r" like (?:an?|the|my) \w+(?: \w+)?$"
)
AFTERTHOUGHT = re.compile(
    r"(?:(?:yes|no|or|please|thanks?|thank you|you|just|simple|a|i|am|im|not|sure|curious|wondering|only|honestly|be|"
    r"honest|answer|with|me|asking|for|friend|lol|haha|hm+|okay|ok|right|huh|eh|true|false)(?: |$))+"
)

# What it does itself, not what people do with it.
ACTS = re.compile(r"\b(?:does|do|can|would|will) (?:it|they) (?:\w+ )?(?:eat|drink)\b")
EATING = "it_eats"  # the fact that says so of itself alone

BEING = frozenset(("is", "was", "could", "would", "its", "it"))

CONTRARIES = [
    set(pair.split())
    for pair in [
        "big small",
        "heavy lightweight",
        "soft hard",
        "hot cold",
        "indoors outdoors",
        "alive manmade",
        "animal plant",
        "wild domesticated",
        "sweet sour",
        "carnivore herbivore",
        "fruit vegetable_",
        "wild pet",
        "food drink_",
    ]
]
OPPOSED = re.compile(r"\b(\w+) or (?:un|im|in|ir|non|non |dis)\1\b|\b(?:un|im|in|ir|non|non |dis)(\w+) or \2\b")
CHOICE = re.compile(r"\bor (?:is|are|does|do|can|was|would|rather|both|neither|more|less)\b")
TWO_KINDS = re.compile(r"\b(?:an?|the) \w+(?: \w+)? or (?:an?|the) ")
TWO_QUESTIONS = re.compile(r"\band (?:also )?(?:is|are|does|do|can|was|would|has|have) (?:it|you|they|people)\b")
PLAIN_FRAME = re.compile(r"^(?:is|was|could|would|might|does|do|has|did|its|it)\b(?! (?:not|no)\b)")
HAVING = re.compile(r"\b(?:have|has|having|possess|got|with)\b")
PERSONS = _words("you i we they people the a an my your one kids children cats dogs")
ARTICLES = _words("a an the")
OBJECT_WORDS = _words("it this that them one these there they object thing item")

# What may follow the kind in "is it an animal that can fly?"; "" is the end.
AFTER_KIND = frozenset(
    (
        "",
        "that",
        "which",
        "who",
        "what",
        "with",
        "you",
        "people",
        "used",
        "made",
        "found",
        "of",
        "from",
        "living",
        "having",
    )
)

OTHERWISE = _words("or and not but rather instead no")  # open no aside of a guess
ANY_OTHER = _words("any some another similar something")
EPITHETS = _words(_LISTS["epithets"])
ELSEWHERE = frozenset(each.strip() for each in _LISTS["elsewhere"].split(","))
ASIDES = _words("in to as by if for so of on from let i you strictly generally broadly at under")  # open an aside

FILLERS = _words(_LISTS["fillers"])
SMALL = SMALL_WORDS | _words(_LISTS["small"])
IGNORED = frozenset(tuple(phrase.split()) for phrase in _LISTS["ignored"].split(","))

TELLING = _words("the i we my our you")
# Before the name in a guess that says no more than "is it the ...".
BEFORE_A_GUESS = _words("is it its was could might may must would can this that so then maybe ok okay")
GUESSING = _words(_LISTS["guessing"])
TALK = GUESSING | _words(_LISTS["talk"])

# For the spelling: the words of the frames above that are in no phrase, and words of English that are a slip away from
# words that are known here, and are no slips.
FRAME_WORDS = AUXILIARIES | SUBJECTS | WH_WORDS | DENIALS | COMPARING | _words(_LISTS["frame"])
LANGUAGE = _words((FOLDER / "language.csv").read_text(encoding="utf-8"))
