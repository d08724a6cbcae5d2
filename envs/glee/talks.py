"""Alternating offers between two seats: what bargaining and negotiation have in common.

    round t:  the proposer offers, the other one answers.   Alice proposes in odd rounds.
              accept -> deal; reject -> round t + 1, in which the other one proposes

An utterance that is no move in its place is answered with the reason, and the same seat may
try again: TRIES utterances in all. If none of them is a move, the move lapses: no offer is
made in that round, or the offer counts as rejected. So nothing can be stalled: a game of R
rounds has at most 2 TRIES R utterances.

After the last round there is no deal, by rules known from the start: terminated, never
truncated. The outcome compares the two payoffs, exactly: 1 for more, 0 for less, 1/2 for the
same. Without a deal both get `no_deal` (1/2 unless the option says otherwise), but a seat
one of whose moves has lapsed gets 0: babbling until time is up is no way to a tie.

What is sensitive stays with its seat: observations are made for one seat each, captions hold
moves only, and `facts` speak after the end.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any

from envs.game import OVER, Game, Step, Trial
from envs.glee.manner import SHOWN, Prompts, Rules, Speech, is_plain
from envs.glee.messages import harmless
from envs.glee.money import dollars, percent
from envs.glee.speech import NO_AMOUNT, UNCLEAR, Grammar, Meaning, read
from envs.options import one_of, whole_number
from envs.text.prompts import Text, is_published, texts_of

ALICE, BOB = SEATS = ("alice", "bob")
RIVAL = {ALICE: BOB, BOB: ALICE}
SCALES = (100_00, 10_000_00, 1_000_000_00)  # cents
CONFIGURATIONS = 48
TRIES = 3
OFFER_DUE = "make an offer first."
ANSWER_DUE = "answer the offer first."

OPPONENTS = ("equilibrium", "tit_for_tat", "conceding", "stubborn", "random")
EPISODES = 1200  # of each trial: 25 for each configuration


class Talks(Game):
    """The protocol. What is talked about is in the hooks at the end of this class."""

    name: str
    seats = SEATS
    grammar: Grammar
    known_texts: dict[str, Text]  # of the published version
    asks: str  # how a seat is asked for an offer
    acts: dict[str, str]  # what an answer is called in the third person

    def __init__(
        self,
        configuration: Annotated[int | None, "0 to 47; null: the seed of the episode chooses"] = None,
        rounds: Annotated[int, "1 to 99; an offer and its answer are a round"] = 20,
        messages: Annotated[bool, "whether an offer may have a message, which the other seat is shown"] = True,
        complete: Annotated[
            bool, "false: neither seat knows what waiting costs the other, or what the product is worth to it"
        ] = True,
        speech: Speech = None,
        reward: Annotated[
            str, "win: the outcome; money: what the deal earned, as a share of the money or of the list price"
        ] = "win",
        first: Annotated[str, "who makes the offer of round 1"] = ALICE,
        no_deal: Annotated[float, "the outcome of both without a deal, 0 to 0.5"] = 0.5,
        rules: Rules = "own",
        prompts: Prompts = None,
    ):
        if configuration is not None:
            whole_number("configuration", configuration, 0, CONFIGURATIONS - 1)
        if isinstance(no_deal, bool) or not isinstance(no_deal, int | float) or not 0 <= no_deal <= 0.5:
            raise ValueError(f"game option no_deal={no_deal!r} must be a number from 0 to 0.5")
        self.rounds = whole_number("rounds", rounds, 1, 99)
        self.messages = one_of("messages", messages, (True, False))
        self.complete = one_of("complete", complete, (True, False))
        self.published = is_published(rules, prompts)
        self.plain = is_plain(speech, rules=rules, prompts=prompts)
        self.hidden = self.published and self.rounds > SHOWN  # how many rounds there are
        self.pays_money = one_of("reward", reward, ("win", "money")) == "money"
        self.first = SEATS.index(one_of("first", first, SEATS))
        self.no_deal = float(no_deal)
        self.texts = texts_of(prompts, self.name, self.known_texts)
        self.horizon = 2 * TRIES * rounds
        self._fixed = configuration
        self._playing, self._ending = False, ""

    def reset(self, seed: int) -> None:
        self._set_up(seed % CONFIGURATIONS if self._fixed is None else self._fixed)
        self._playing, self._ending = True, ""
        self._round, self._tried = 1, 0  # _tried: utterances of this turn that were no move
        self._offer: int | None = None  # what is on the table, in cents; see `_offered`
        self._lapsed: list[str] = []
        self._news = {seat: self._styled(self._introduction(seat)) for seat in SEATS}

    def _set_up(self, configuration: int) -> None:
        self.configuration = configuration
        self.whole = SCALES[configuration // 16]
        self._endow(configuration // 4 % 4, configuration % 4)

    # whose turn it is, and what happens in it

    @property
    def round(self) -> int:
        return self._round

    @property
    def proposer(self) -> str:
        return SEATS[(self._round - 1 + self.first) % 2]

    @property
    def seat(self) -> str | None:
        if not self._playing:
            return None
        return self.proposer if self._offer is None else RIVAL[self.proposer]

    def observe(self) -> str:
        asked = self.asks if self._offer is None else "Your answer?"
        seen = f"{self._news[self.seat]} {self._styled(f'{self._numbered(self._round)} {asked}')}".lstrip()
        return f"{seen} {self._request(self.seat)}" if self.published else seen

    def _numbered(self, number: int) -> str:
        return f"Round {number}." if self.hidden else f"Round {number} of {self.rounds}."

    def step(self, utterance: str) -> Step:
        seat = self.seat
        if seat is None:
            raise RuntimeError(OVER)
        self._news[seat] = ""
        meaning = read(utterance, self.grammar)
        if not meaning.act:
            return self._stumble(seat, meaning.problem)
        if self._offer is not None:
            return self._answer(seat, meaning.act) if meaning.act != "offer" else self._stumble(seat, ANSWER_DUE)
        if meaning.act != "offer":
            return self._stumble(seat, OFFER_DUE)
        offer = self._offered(seat, meaning)
        return self._stumble(seat, offer) if isinstance(offer, str) else self._propose(seat, offer, meaning.message)

    def _propose(self, seat: str, offer: int, message: str) -> Step:
        self._offer, self._tried = offer, 0
        rival, said = RIVAL[seat], harmless(message) if self.messages and message else ""
        quoted = f' {self._styled(seat.title())} says: "{said}"' if said else ""
        self._tell(rival, self._styled(self._offer_words(seat, offer, "you")) + quoted)
        return Step(caption=self._styled(self._offer_words(seat, offer, rival.title())) + quoted)

    def _answer(self, seat: str, act: str) -> Step:
        self._tried = 0
        words = self._styled(f"{seat.title()} {self.acts[act]}.")
        self._tell(RIVAL[seat], words)
        if act == "reject":
            self._next_round()
        else:
            self._end("deal" if act == "accept" else "outside option")
        return self._done(Step(caption=words))

    def _stumble(self, seat: str, reason: str) -> Step:
        """An utterance that is no move here."""
        self._tried += 1
        caption = f"{seat.title()} makes no move: {reason}"
        if self._tried < TRIES:
            hint = "" if self.published else f"{self._pattern(self._offer is None)} "
            self._tell(seat, self._styled(f"{reason.capitalize()} {hint}Tries left: {TRIES - self._tried}."))
            return Step(executable=False, caption=self._styled(caption))
        self._tried = 0
        if seat not in self._lapsed:
            self._lapsed.append(seat)
        self._tell(seat, self._styled(f"{reason.capitalize()} You lose your turn."))
        self._tell(RIVAL[seat], self._styled(f"{seat.title()} {self._silence()}"))
        caption = f"{caption} {seat.title()} {self._silence()}"
        self._next_round()
        return self._done(Step(executable=False, caption=self._styled(caption)))

    def _silence(self) -> str:
        return "makes no offer." if self._offer is None else "gives no answer."

    def _tell(self, seat: str, words: str) -> None:
        self._news[seat] = f"{self._news[seat]} {words}".lstrip()

    def _next_round(self) -> None:
        if self._round == self.rounds:
            self._end("no deal")
        else:
            self._round, self._offer = self._round + 1, None

    def _end(self, ending: str) -> None:
        self._playing, self._ending = False, ending

    def _done(self, step: Step) -> Step:
        if self._ending:
            step.terminated = True
            step.rewards = self._money_in_wholes() if self.pays_money else self.outcome()
        return step

    # what came of it

    def _paid(self) -> dict[str, Fraction]:
        """Payoffs in cents."""
        return self._payoffs(self._offer) if self._ending == "deal" else dict.fromkeys(SEATS, Fraction(0))

    def _money_in_wholes(self) -> dict[str, float]:
        return {seat: float(paid / self.whole) for seat, paid in self._paid().items()}

    def money(self, seat: str) -> float | None:
        """In dollars, to the cent."""
        return round(self._paid()[seat]) / 100 if self._ending else None

    def outcome(self) -> dict[str, float]:
        if not self._ending:
            return dict.fromkeys(SEATS, 0.0)
        if self._ending != "deal":
            return {seat: 0.0 if seat in self._lapsed else self.no_deal for seat in SEATS}
        paid = self._paid()
        return {seat: (1 + (paid[seat] > paid[RIVAL[seat]]) - (paid[seat] < paid[RIVAL[seat]])) / 2 for seat in SEATS}

    def closing(self) -> dict[str, str]:
        return dict(self._news) if self._ending else {}

    def facts(self) -> dict[str, str]:
        if not self._ending:
            return {}
        money = {f"money_{seat}": f"{self.money(seat):.2f}" for seat in SEATS}
        deal = {"deal": self._deal_words(self._offer)} if self._ending == "deal" else {}
        known = {"configuration": str(self.configuration), "rounds": str(self._round), "ending": self._ending}
        return {**known, **deal, **money, **self._endowments()}

    def save(self) -> dict[str, Any]:
        if not self._playing and not self._ending:
            return {}
        return {
            "configuration": self.configuration,
            "round": self._round,
            "tried": self._tried,
            "offer": self._offer,
            "ending": self._ending,
            "lapsed": list(self._lapsed),
            "news": dict(self._news),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self._playing, self._ending = bool(saved) and not saved["ending"], ""
        if saved:
            self._set_up(saved["configuration"])
            self._round, self._tried, self._offer = saved["round"], saved["tried"], saved["offer"]
            self._ending, self._lapsed, self._news = saved["ending"], list(saved["lapsed"]), dict(saved["news"])

    # words

    def _styled(self, words: str) -> str:
        return words.lower() if self.plain else words

    # parts of a briefing

    def _order(self, proposing: str) -> str:
        first, second = SEATS[self.first], SEATS[1 - self.first]
        return f"{first.title()} {proposing} in round 1, {second.title()} in round 2, and so on in turns."

    def _messages_rule(self, seat: str) -> str:
        if self.messages:
            return f"{RIVAL[seat].title()} reads your message with it; leave it out to say nothing."
        return "Messages are not delivered."

    def _tries_rule(self) -> str:
        return (
            f"Say one thing at a time. What is not understood may be said anew, {TRIES} times in all; then the turn is "
            "lost, and whoever has lost a turn loses the game if there is no deal."
        )

    def _aim(self, seat: str) -> str:
        if self.pays_money:
            return "Your aim is to earn as much as you can."
        return f"You win if you earn more than {RIVAL[seat].title()}; earning the same is a draw."

    def _amount(self, cents: int) -> str:
        return percent(cents, self.whole) if self.plain else dollars(cents)

    def language(self) -> Iterable[str]:
        """All that is said in whole percents of what is at stake; messages are not in it."""
        asked = [self._styled(f"{self.asks} Your answer?"), self._styled("You lose your turn.")]
        yield from (*asked, "a little far over") if self.plain else asked
        yield from (self._styled(self._numbered(number)) for number in range(1, self.rounds + 1))
        yield from (self._styled(f"Tries left: {number}.") for number in range(1, TRIES))
        for seat in SEATS:
            yield from (self._styled(f"{seat.title()} {act}.") for act in self.acts.values())
            yield self._styled(f"{seat.title()} makes no offer. {seat.title()} gives no answer. {seat.title()} says:")
        for configuration in range(CONFIGURATIONS):
            like = copy.copy(self)
            like._set_up(configuration)
            for reason in (UNCLEAR, NO_AMOUNT, OFFER_DUE, ANSWER_DUE, *like._refusals()):
                yield self._styled(reason.capitalize())
            yield from (self._styled(like._pattern(due)) for due in (True, False))
            for seat in SEATS:
                yield self._styled(like._introduction(seat))
                if self.published:
                    yield from like._requests(seat)
                if configuration % 16 == 0:
                    for offer in like._whole_offers():
                        yield self._styled(like._offer_words(seat, offer, "you"))
        yield from self._players_words()

    @classmethod
    def trials(cls) -> list[Trial]:
        """Each role against each opponent, then both by whoever is evaluated."""
        trials = [
            Trial(f"{seat} vs {player}", {}, {RIVAL[seat]: f"scripted:{player}"}, EPISODES)
            for seat in SEATS
            for player in OPPONENTS
        ]
        return [*trials, Trial("self-play", episodes=EPISODES)]

    # what an utterance means, for those who compare utterances

    @classmethod
    def gist(cls, utterance: str) -> str:
        """An offer reduced to its message and the offer, an answer to the answer."""
        meaning = read(utterance, cls.grammar)
        if not meaning.act:
            return utterance
        if meaning.act != "offer":
            return meaning.act
        amounts = ", ".join(f"{owner} {amount}" for owner, amount in meaning.amounts if amount is not None)
        return f"{meaning.message} {meaning.act} {amounts}".strip()

    def briefing(self, seat: str) -> str:
        return self._published_rules(seat) if self.published else self._own_rules(seat)

    def _requests(self, seat: str) -> Iterable[str]:
        """All that `_request` may say to this seat."""
        for number in range(1, self.rounds + 1):
            for offer in (None, 0):
                self._round, self._offer = number, offer
                yield self._request(seat)

    # hooks: what is talked about

    def _own_rules(self, seat: str) -> str:
        raise NotImplementedError

    def _published_rules(self, seat: str) -> str:
        raise NotImplementedError

    def _request(self, seat: str) -> str:
        """How to put what is due from this seat now, by published rules."""
        raise NotImplementedError

    def _endow(self, one: int, other: int) -> None:
        """Give Alice and Bob what sets them apart, by its number from 0 to 3."""
        raise NotImplementedError

    def _endowments(self) -> dict[str, str]:
        """The same, to be revealed after the end."""
        raise NotImplementedError

    def _introduction(self, seat: str) -> str:
        """Everything that this seat may know, and nothing else."""
        raise NotImplementedError

    def _offered(self, seat: str, meaning: Meaning) -> int | str:
        """The offer in cents, or the reason why it is none."""
        raise NotImplementedError

    def _refusals(self) -> tuple[str, ...]:
        """The reasons that `_offered` may give."""
        raise NotImplementedError

    def _offer_words(self, seat: str, offer: int, rival: str) -> str:
        """One sentence; `rival` is "you" where the other seat is spoken to."""
        raise NotImplementedError

    def _deal_words(self, offer: int) -> str:
        raise NotImplementedError

    def _payoffs(self, offer: int) -> dict[str, Fraction]:
        """In cents, if `offer` is accepted in this round."""
        raise NotImplementedError

    def _pattern(self, offer_due: bool) -> str:
        """How to put an offer, or an answer; told to who was not understood."""
        raise NotImplementedError

    def _whole_offers(self) -> Iterable[int]:
        """The offers that plain speech can tell exactly."""
        raise NotImplementedError

    def _players_words(self) -> Iterable[str]:
        """What the scripted players say in whole percents."""
        raise NotImplementedError
