"""Persuasion: a seller knows how good each product is, and the buyer has only her word for it.

In each round nature draws a product: good with probability p, else bad, in every round anew. Alice
sees which it is and recommends it or not; with `messages` she says what she likes instead. Then Bob
buys it at the fixed price or does not, and is told what it was. Alice earns the price of what she
sells. A good product is worth v prices to Bob and a bad one nothing, so buying earns him (v - 1)
prices or costs him one.

Configuration c of 0..44 is the price (100, 10,000, 1,000,000)[c // 15] with p = (1/3, 1/2, 4/5)[c // 5 % 3]
and v = (1.2, 1.25, 2, 3, 4)[c % 5]. Both know price and p, Bob knows v, and Alice knows it if `complete`.

The outcome of Alice is the share of the rounds in which she sells. Bob's is the share that he gets of
what right decisions were worth: v - 1 for buying a good product, 1 for leaving a bad one. With
`reward: money` each round pays what it earned, in prices and divided by the number of rounds.

With `myopic` every round has a buyer of its own, a seat that acts once: it is told how many products
were bought before and how many of these were good, and nothing else.

An utterance that is no move is answered with the reason, and the seat may try again, three utterances
in all. Then the move lapses. A product that Alice says nothing about is withdrawn: it is not sold, and
counts for nothing with Bob. A decision that Bob does not make is a product not bought, and a wrong decision.

What is known of it. Nothing binds Alice to her words, so in one round, and with myopic buyers in each,
words decide nothing in equilibrium: Bob buys if p v >= 1, whatever he hears. That earns him max(0, p v - 1)
prices a round on average against any seller. If Bob is owed that, Alice sells at most min(1, p v) of the
products: good ones, and bad ones as often as they still leave him no worse off (Bayesian persuasion).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.glee.manner import Prompts, Rules, Speech, is_plain
from envs.glee.messages import harmless
from envs.glee.money import dollars, percent
from envs.glee.persuasion.briefing import own_rules
from envs.glee.persuasion.players import PLAYERS, words_players_say
from envs.glee.persuasion.speech import advice, answered, gist_of
from envs.glee.published import persuasion as published
from envs.glee.speech import UNCLEAR
from envs.glee.talks import ALICE, BOB, SCALES, TRIES
from envs.options import one_of, whole_number
from envs.text.prompts import filled, is_published, texts_of

CHANCES = (Fraction(1, 3), Fraction(1, 2), Fraction(4, 5))
WORTHS = (120, 125, 200, 300, 400)  # percent of the price
CONFIGURATIONS = 45
GOOD = {True: "good", False: "bad"}
HIGH = {True: "of high quality", False: "of low quality"}
OPPONENTS = ("equilibrium", "honest", "calculating", "unforgiving", "random")
EPISODES = 900  # of each trial: 20 for each configuration


class Persuasion(Game):
    name = "persuasion"
    seats = (ALICE, BOB)

    def __init__(
        self,
        configuration: Annotated[int | None, "0 to 44; null: the seed of the episode chooses"] = None,
        rounds: Annotated[int, "1 to 99; each has a product of its own"] = 20,
        messages: Annotated[
            bool, "true: the seller says what she likes; false: she recommends the product or does not"
        ] = False,
        complete: Annotated[bool, "false: the seller does not know what a good product is worth to the buyer"] = True,
        myopic: Annotated[bool, "true: each round has a buyer of its own, who was not there before"] = False,
        speech: Speech = None,
        reward: Annotated[
            str, "outcome, or money: what each round earned, in prices and divided by the number of rounds"
        ] = "outcome",
        rules: Rules = "own",
        prompts: Prompts = None,
    ):
        if configuration is not None:
            whole_number("configuration", configuration, 0, CONFIGURATIONS - 1)
        self.rounds = whole_number("rounds", rounds, 1, 99)
        self.messages = one_of("messages", messages, (True, False))
        self.complete = one_of("complete", complete, (True, False))
        self.myopic = one_of("myopic", myopic, (True, False))
        self.published = is_published(rules, prompts)
        self.plain = is_plain(speech, rules=rules, prompts=prompts)
        self.quality = HIGH if self.published else GOOD
        self.texts = texts_of(prompts, self.name, published.TEXTS)
        self.pays_money = one_of("reward", reward, ("outcome", "money")) == "money"
        if self.myopic:
            self.seats = (ALICE, *(f"buyer{number}" for number in range(1, self.rounds + 1)))
        self.horizon = 2 * TRIES * self.rounds
        self._fixed = configuration
        self._round = 0  # none is being played

    def reset(self, seed: int) -> None:
        self._set_up(seed % CONFIGURATIONS if self._fixed is None else self._fixed)
        draws = random.Random(f"qualities {seed}")
        self._good = [draws.random() < self.chance for _ in range(self.rounds)]
        self._bought: list[bool | None] = []  # of each round that is over; None: withdrawn
        self._silent: set[int] = set()  # rounds in which the buyer made no decision
        self._advice: bool | str | None = None  # on the table: whether it is recommended, or what is said of it
        self._round, self._tried = 1, 0
        self._news = {seat: self._styled(self._introduction(seat)) for seat in self.seats}

    def _set_up(self, configuration: int) -> None:
        self.configuration = configuration
        self.price = SCALES[configuration // 15]  # cents
        self.chance = CHANCES[configuration // 5 % 3]
        self.worth = self.price * WORTHS[configuration % 5] // 100

    # whose turn it is, and what happens in it

    @property
    def buyer(self) -> str:
        return self.seats[self._round] if self.myopic else BOB

    @property
    def seat(self) -> str | None:
        if not 1 <= self._round <= self.rounds:
            return None
        return ALICE if self._advice is None else self.buyer

    def observe(self) -> str:
        if self.seat == ALICE:
            asked = "Your message?" if self.messages else "Do you recommend it?"
            asked = f"This product is {self.quality[self._good[self._round - 1]]}. {asked}"
        else:
            asked = "Do you buy it?"
        hidden = self.published and self.myopic and self.seat != ALICE
        number = "" if hidden else f"Round {self._round} of {self.rounds}. "
        seen = f"{self._news[self.seat]} {self._styled(f'{number}{asked}')}".lstrip()
        return f"{seen} {self._request(self.seat)}" if self.published else seen

    def step(self, utterance: str) -> Step:
        seat = self.seat
        if seat is None:
            raise RuntimeError(OVER)
        self._news[seat] = ""
        return self._advise(utterance) if seat == ALICE else self._decide(utterance)

    def _advise(self, utterance: str) -> Step:
        said = advice(utterance, self.messages)
        if said is None:
            return self._stumble(ALICE)
        self._advice, self._tried = harmless(said) if isinstance(said, str) else said, 0
        words = self._advice_words()
        before = self._styled(self._record()) if self.myopic else ""
        self._tell(self.buyer, f"{before} {words}".lstrip())
        return Step(caption=words)

    def _decide(self, utterance: str) -> Step:
        bought, message = answered(utterance)
        if bought is None:
            return self._stumble(self.buyer)
        name, did = self._named(self.buyer), "buys it." if bought else "does not buy it."
        words = self._styled(f"{name} {did}")
        if self.messages and message:
            words += f' {self._styled(f"{name} says:")} "{harmless(message)}"'
        return self._finished(bought, words)

    def _stumble(self, seat: str) -> Step:
        """An utterance that is no move here."""
        self._tried += 1
        caption = self._styled(f"{self._named(seat)} makes no move: {UNCLEAR}")
        if self._tried < TRIES:
            hint = "" if self.published else f"{self._pattern(seat)} "
            self._tell(seat, self._styled(f"{UNCLEAR.capitalize()} {hint}Tries left: {TRIES - self._tried}."))
            return Step(executable=False, caption=caption)
        self._tell(seat, self._styled(f"{UNCLEAR.capitalize()} You lose your turn."))
        if seat == ALICE:
            done = self._finished(None, self._styled("Alice offers nothing."))
        else:
            self._silent.add(self._round)
            done = self._finished(False, self._styled(f"{self._named(seat)} gives no answer."))
        done.executable, done.caption = False, f"{caption} {done.caption}"
        return done

    def _finished(self, bought: bool | None, words: str) -> Step:
        """The round is over."""
        buyer, good = self.buyer, self._good[self._round - 1]
        if bought is None:
            self._tell(buyer, words)
        else:
            self._tell(ALICE, words)
            self._tell(
                buyer, self._styled(f"You {'bought' if bought else 'did not buy'} it: it was {self.quality[good]}.")
            )
        paid = self._earned(self._round, bought)
        self._bought.append(bought)
        self._advice, self._tried, self._round = None, 0, self._round + 1
        step = Step(caption=words, terminated=self.seat is None)
        if self.pays_money:
            shares = zip((ALICE, buyer), paid, strict=True)
            step.rewards = {each: float(amount / (self.price * self.rounds)) for each, amount in shares}
        elif step.terminated:
            step.rewards = self.outcome()
        return step

    def _tell(self, seat: str, words: str) -> None:
        self._news[seat] = f"{self._news[seat]} {words}".lstrip()

    # what came of it

    def _earned(self, number: int, bought: bool | None) -> tuple[int, int]:
        """In cents, the seller's and the buyer's, of one round."""
        worth = self.worth if self._good[number - 1] else 0
        return (self.price, worth - self.price) if bought else (0, 0)

    def _rounds_of(self, seat: str) -> list[int]:
        """The rounds that are over in which this seat was buyer, or seller."""
        over = range(1, len(self._bought) + 1)
        return [number for number in over if seat in (ALICE, BOB) or seat == self.seats[number]]

    def _paid(self, seat: str) -> int:
        """In cents."""
        place = int(seat != ALICE)
        return sum(self._earned(number, self._bought[number - 1])[place] for number in self._rounds_of(seat))

    def money(self, seat: str) -> float | None:
        """In dollars."""
        return self._paid(seat) / 100 if self._over else None

    @property
    def _over(self) -> bool:
        return self._round > self.rounds

    def outcome(self) -> dict[str, float]:
        if not self._over:
            return dict.fromkeys(self.seats, 0.0)
        shares = {seat: self._right(seat) for seat in self.seats if seat != ALICE}
        return {ALICE: sum(map(bool, self._bought)) / self.rounds, **shares}

    def _right(self, buyer: str) -> float:
        """The share of what right decisions were worth; 0 where nothing was offered."""
        best = got = 0
        for number in self._rounds_of(buyer):
            bought, good = self._bought[number - 1], self._good[number - 1]
            stake = 0 if bought is None else self.worth - self.price if good else self.price
            best += stake
            got += stake if bought == good and number not in self._silent else 0
        return got / best if best else 0.0

    def closing(self) -> dict[str, str]:
        return dict(self._news) if self._over else {}

    def facts(self) -> dict[str, str]:
        if not self._over:
            return {}
        good = sum(self._good)
        sold = [quality for quality, bought in zip(self._good, self._bought, strict=True) if bought]
        found = {"configuration": str(self.configuration), "worth": f"{self.worth / 100:.2f}", "good": str(good)}
        found |= {"sold": str(len(sold)), "sold_good": str(sum(sold))}
        return found | {f"money_{seat}": f"{self.money(seat):.2f}" for seat in self.seats}

    def save(self) -> dict[str, Any]:
        if not self._round:
            return {}
        return {
            "configuration": self.configuration,
            "good": list(self._good),
            "bought": list(self._bought),
            "silent": sorted(self._silent),
            "advice": self._advice,
            "round": self._round,
            "tried": self._tried,
            "news": dict(self._news),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self._round = 0
        if saved:
            self._set_up(saved["configuration"])
            self._good, self._bought = list(saved["good"]), list(saved["bought"])
            self._silent, self._advice = set(saved["silent"]), saved["advice"]
            self._round, self._tried, self._news = saved["round"], saved["tried"], dict(saved["news"])

    # words

    def _styled(self, words: str) -> str:
        return words.lower() if self.plain else words

    def _named(self, seat: str) -> str:
        return "The buyer" if self.myopic and seat != ALICE else seat.title()

    def _amount(self, cents: int) -> str:
        return percent(cents, self.price, max(WORTHS)) if self.plain else dollars(cents)

    def _introduction(self, seat: str) -> str:
        buyers = "the buyers" if self.myopic else "Bob"
        who = "Alice, the seller" if seat == ALICE else "a buyer" if self.myopic else "Bob, the buyer"
        market = f"You are {who}. The price is {dollars(self.price)}. "
        market += f"A product is {self.quality[True]} with chance {self.odds}."
        if seat == ALICE and not self.complete:
            return market
        good = "One of high quality" if self.published else "A good one"
        return f"{market} {good} is worth {self._amount(self.worth)} to {buyers if seat == ALICE else 'you'}."

    @property
    def odds(self) -> str:
        return f"{self.chance.numerator} in {self.chance.denominator}"

    def _record(self) -> str:
        sold = [good for good, bought in zip(self._good, self._bought, strict=False) if bought]
        return f"So far {len(sold)} of {len(self._bought)} were bought, {sum(sold)} of them {self.quality[True]}."

    def _advice_words(self) -> str:
        if isinstance(self._advice, str):
            return f'{self._styled("Alice says:")} "{self._advice}"'
        return self._styled("Alice recommends it." if self._advice else "Alice does not recommend it.")

    def _pattern(self, seat: str) -> str:
        if seat == ALICE and self.messages:
            return 'Say {"message": "..."}, or plain words.'
        if self.plain:
            return "say: i recommend it. or: i do not recommend it." if seat == ALICE else "say: i buy it. or: i pass."
        return 'Say {"decision": "yes"} or {"decision": "no"}.'

    def briefing(self, seat: str) -> str:
        if self.published:
            who = "seller" if seat == ALICE else "buyer"
            return filled(self.texts[f"rules of the {who}"], published.places(self))
        return own_rules(self, seat)

    def _request(self, seat: str) -> str:
        """How to put what is due, by published rules."""
        rival = ALICE if seat != ALICE else "the buyer" if self.myopic else BOB
        rival = rival if self.myopic and seat == ALICE else rival.title()
        return filled(self.texts[published.text_for(self, seat)], {"rival_name": rival})

    def language(self) -> Iterable[str]:
        """All but messages, and what is counted for myopic buyers."""
        seats = (ALICE, self.seats[-1])
        yield from (self._styled(f"Round {number} of {self.rounds}.") for number in range(self.rounds + 1))
        yield self._styled("Your message? Do you recommend it? Do you buy it?")
        for quality in self.quality.values():
            yield self._styled(f"This product is {quality}. You bought it: it was {quality}.")
        yield self._styled("Alice recommends it. Alice does not recommend it. Alice says: Alice offers nothing.")
        yield self._styled("You bought it: You did not buy it: You lose your turn.")
        yield self._styled(f"{UNCLEAR.capitalize()} Tries left: 1. Tries left: 2.")
        if self.myopic:
            yield self._styled(f"So far were bought, of them {self.quality[True]}.")
        for seat in seats:
            name = self._named(seat)
            yield self._styled(f"{self._pattern(seat)} {name} buys it. {name} does not buy it. {name} gives no answer.")
            yield self._styled(f"{name} says:")
            if self.published:
                yield self._request(seat)
        for configuration in range(CONFIGURATIONS):
            like = copy.copy(self)
            like._set_up(configuration)
            yield from (self._styled(like._introduction(seat)) for seat in seats)
        yield from words_players_say(plain=self.plain, messages=self.messages)

    # for those who evaluate, and for those who compare utterances

    @classmethod
    def gist(cls, utterance: str) -> str:
        return gist_of(utterance)

    @classmethod
    def trials(cls) -> list[Trial]:
        """Each role against each opponent, then all by whoever is evaluated, with one buyer and with many."""
        rival = {ALICE: BOB, BOB: ALICE}
        trials = [
            Trial(f"{seat} vs {player}", {}, {rival[seat]: f"scripted:{player}"}, EPISODES)
            for seat in cls.seats
            for player in OPPONENTS
        ]
        alone = Trial("self-play", episodes=EPISODES)
        return [*trials, alone, Trial("self-play, myopic", {"myopic": True}, episodes=EPISODES)]

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS
