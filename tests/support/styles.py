"""Utterances in the styles of real models, and whether a game reads them as a person would.

`tests/data/styled_utterances.tsv` has a line for each: what it is, its style or its meaning, and the text, in which
`{}` stands for the name of a thing, `{a}` for the same with its article, and `\\n` for a new line.

    guess, mention       style: one guess of the thing; no guess of it
    ask20, askcity       a question, with what it asks for
    act, idle            style: the listed action; no action
    divide, decide, price    what a seat of bargaining or negotiation says, and the message after "|"
    code                 an answer of data science
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from envs.data_science.scoring import Result
from envs.game import Game
from envs.registry import make_game

TREE = (
    "def build_model(x_train, y_train):\n    from sklearn.tree import DecisionTreeClassifier\n"
    "    return DecisionTreeClassifier(max_depth=2).fit(x_train, y_train)"
)
FILE = Path(__file__).parents[1] / "data" / "styled_utterances.tsv"
GUESSING = {"twenty_questions": {"table": "full", "turns": 20}, "guess_my_city": {"paraphrases": False}}
ACTING = (
    ("case_study", {}),
    ("virtualhome", {"task": "entertainment", "listing": "all"}),
    ("overcooked", {"task": "tomato_lettuce_salad"}),
)


class Styled(NamedTuple):
    kind: str
    meaning: str
    text: str

    def about(self, name: str, article: bool = False) -> str:
        """The text with a thing in it."""
        a = f"{'an' if name[0] in 'aeiou' else 'a'} {name}" if article else name
        return self.text.replace("{a}", a).replace("{}", name)


def styled(*kinds: str) -> list[Styled]:
    rows = [Styled(*line.split("\t")) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [row._replace(text=row.text.replace("\\n", "\n")) for row in rows if not kinds or row.kind in kinds]


class Rates(dict[tuple[str, str], list[int]]):
    """(kind, style) -> how many are read as they should be, of how many; and which are not."""

    def __init__(self) -> None:
        self.wrong: dict[str, list[str]] = defaultdict(list)

    def count(self, key: tuple[str, str], right: bool, text: str) -> None:
        found = self.setdefault(key, [0, 0])
        found[0] += right
        found[1] += 1
        if not right:
            self.wrong[key[0]].append(text)

    def __str__(self) -> str:
        return "\n".join(f"{' '.join(key):40} {right} of {all_}" for key, (right, all_) in self.items())


def things(game: Game) -> list[str]:
    return list(game.oracle.table.names) if game.name == "twenty_questions" else list(game.oracle.atlas.cities)


def secret_game(name: str, options: dict) -> Iterator[tuple[Game, str]]:
    """The game begun with each thing as the secret, one after the other."""
    game = make_game(name, options)
    for thing in things(game):
        game.restore({"secret": thing, "asked": 0, "won": False, "seen": ""})
        yield game, thing


def guesses(name: str, options: dict | None = None) -> Rates:
    """Each utterance of a guess has to win the game of the thing, no mention may."""
    rates = Rates()
    rows = styled("guess", "mention")
    for game, thing in secret_game(name, GUESSING[name] if options is None else options):
        before = game.save()
        for row in rows:
            game.restore(before)
            text = row.about(thing, article=name == "twenty_questions")
            won = game.step(text).rewards != {}
            rates.count((row.kind, row.meaning), won == (row.kind == "guess"), row.text)
    return rates


def questions(kind: str, name: str) -> Rates:
    rates, game = Rates(), make_game(name, GUESSING[name])
    for row in styled(kind):
        game.reset(0)
        caption = game.step(row.text).caption
        meant = f"the guesser asks about {row.meaning.split('=')[0].rstrip('?')}: "
        rates.count((kind, ""), caption.startswith(meant), row.text)
    return rates


def actions() -> Rates:
    """Each utterance has to be taken as the listed action, or as none."""
    rates = Rates()
    for name, options in ACTING:
        game = make_game(name, options)
        game.reset(0)
        for action in game.actions():
            for row in styled("act", "idle"):
                game.reset(0)
                caption = game.step(row.about(action)).caption
                meant = f"the agent chooses to {action}" if row.kind == "act" else "the agent says nothing that could"
                rates.count((row.kind, row.meaning), caption.startswith(meant), row.text)
    return rates


def talks() -> Rates:
    """What seats of bargaining and negotiation say."""
    rates = Rates()
    for row in styled("divide", "decide", "price"):
        game = make_game("negotiation" if row.kind == "price" else "bargaining")
        game.reset(0)  # $100
        what, _, message = row.meaning.partition("|")
        if row.kind == "decide" or what == "leave":
            game.step("my price is 100 %" if row.kind == "price" else "i offer you 40 %")
            step = game.step(row.text)
            ending = {"accept": "deal", "leave": "outside option"}.get(what)
            right = game.facts().get("ending") == ending if step.executable else what == ""
            right &= step.executable == (what != "") and (what != "reject" or game.save()["round"] == 2)
        else:
            step = game.step(row.text)
            offer = game.save()["offer"]
            right = offer == (int(what) * 100 if what else None)
            if what and right:
                heard = game.observe()
                right = heard.count('"') == 2 * bool(message) and (not message or f'says: "{message}"' in heard)
        rates.count((row.kind, "nothing" if not what else "message" if message else ""), right, row.text)
    return rates


def codes(monkeypatch) -> Rates:
    """The code that would be run, which has to be the small tree."""
    found: list[str] = []

    def noted(code: str, *_) -> Result:
        found.append(code)
        return Result(auc=1.0)

    monkeypatch.setattr("envs.data_science.game.evaluate", noted)
    rates, game = Rates(), make_game("data_science", {"isolation": "process"})
    for row in styled("code"):
        game.reset(0)
        game.step(row.text)
        rates.count(("code", ""), found[-1:] == [TREE], row.text)
        found.clear()
    return rates
