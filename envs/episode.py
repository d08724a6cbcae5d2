"""What happened in one game, in the form every floor above reads.

An Episode is a list of turns in the order they were played, by all seats. A turn
that a policy played also carries its tokens. For one seat, the concatenation

    observation_ids[0] utterance_ids[0] observation_ids[1] utterance_ids[1] ...

over that seat's turns is, byte for byte, what its engine saw and made: the prompt
of turn t is everything before utterance t. Nothing sampled is tokenized again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Identity = tuple[str, int, int]  # of an episode: run, number of the ticket, attempt
HELD_OUT_NUMBERS = 10**9  # ticket numbers of held-out games start here, far above any training ticket


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to play one episode. `number` is unique in a run and says which
    batch it belongs to; `seed` fixes the game and the sampling; `attempt` counts
    how often the ticket was issued again after a failure."""

    run: str
    game: str
    number: int
    seed: int
    players: tuple[tuple[str, str], ...]  # (seat, player), e.g. (("guesser", "policy"),)
    attempt: int = 0

    @property
    def identity(self) -> Identity:
        return self.run, self.number, self.attempt

    @property
    def held_out(self) -> bool:
        """Whether its game is played to evaluate the policy, which never learns from it."""
        return self.number >= HELD_OUT_NUMBERS


@dataclass(slots=True)
class Choice:
    """A turn in which the policy chose among the actions that the game listed, with

        P(a) = softmax over the listed a of (sum of the log-probs of a's tokens) / divisor of a

    where the log-probs are at temperature 1, after everything the seat has seen."""

    ids: np.ndarray  # int32: the tokens of all listed actions, end to end
    tokens: np.ndarray  # int32 [actions]: how many each has
    divisors: np.ndarray  # float64 [actions]
    chosen: int


@dataclass(slots=True)
class TurnTokens:
    """Token ids of one policy turn. `logprobs` and `versions` are one entry per utterance
    token: log-prob under the distribution it was sampled from, and the version of the
    weights that made it. An utterance that was chosen from a list is one decision: its
    log-prob stands at its first token, and the others have 0."""

    observation_ids: np.ndarray  # int32: what is new before this utterance
    utterance_ids: np.ndarray  # int32
    logprobs: np.ndarray  # float32
    versions: np.ndarray  # int32
    finish: str = "stop"  # "stop" or "length"
    choice: Choice | None = None  # None: sampled token by token

    def __reduce__(self):
        """In one piece: as four small arrays they take several times as long to unpack, wherever an episode is sent."""
        arrays = self.observation_ids, self.utterance_ids, self.logprobs, self.versions
        packed = b"".join(np.asarray(each, kind).tobytes() for each, kind in zip(arrays, TOKEN_TYPES, strict=True))
        return _unpacked, (packed, tuple(map(len, arrays)), self.finish, self.choice)


TOKEN_TYPES = np.int32, np.int32, np.float32, np.int32  # of TurnTokens' arrays, 4 bytes each


def _unpacked(packed: bytes, lengths: tuple[int, ...], finish: str, choice: Choice | None) -> TurnTokens:
    arrays, start = [], 0
    for kind, length in zip(TOKEN_TYPES, lengths, strict=True):
        arrays.append(np.frombuffer(packed, kind, length, 4 * start))
        start += length
    return TurnTokens(*arrays, finish, choice)


@dataclass(slots=True)
class Turn:
    seat: str
    player: str
    observation: str  # what this seat sees that is new
    utterance: str
    executable: bool = True  # whether the game could execute it
    reward: float = 0.0  # what the game paid this seat for it, up to its next turn
    caption: str = ""  # what just happened, in words
    actions: tuple[str, ...] = ()  # what the game listed, if it lists actions
    tokens: TurnTokens | None = None  # only where a policy played
    # seconds from the episode's start: when the seat was asked, when it answered, when the game had gone on
    times: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0), compare=False)
    # mean log-prob of a token of what would have been right to say, by the policy, where it was asked (Game.answers)
    answer_logprob: float | None = None


@dataclass(slots=True)
class SeatSequence:
    """One seat's whole game as one token sequence. `mask` is 1 on tokens the policy
    sampled, and of an utterance chosen from a list on the first alone; the float arrays are
    zero elsewhere; `turn` is the index into the seat's own turns (its observation and its
    utterance share it). `logprobs` and `versions` are None where it is not known who sampled."""

    ids: np.ndarray  # int32 [n]
    mask: np.ndarray  # bool [n]
    logprobs: np.ndarray | None  # float32 [n]
    versions: np.ndarray | None  # int32 [n], -1 where not sampled
    turn: np.ndarray  # int32 [n]
    choices: dict[int, Choice] = field(default_factory=dict)  # by the place of the chosen one's first token
    experts: np.ndarray | None = None  # as Episode has them


@dataclass(slots=True)
class Episode:
    ticket: Ticket
    turns: list[Turn]
    outcome: dict[str, float]  # per seat, in [0, 1]
    terminated: bool  # False: cut off by the horizon or the context, to be bootstrapped
    closing: dict[str, str] = field(default_factory=dict)  # what each seat would see next
    closing_ids: dict[str, np.ndarray] = field(default_factory=dict)  # int32: the same in a policy seat's tokens
    facts: dict[str, str] = field(default_factory=dict)  # revealed afterwards, e.g. the secret
    seconds: float = 0.0
    # Of policy seats whose engine records them: the experts of each token, when it was first fed, but the seat's
    # last, which never was; uint8 or uint16 [tokens - 1, layers, choices]
    experts: dict[str, np.ndarray] = field(default_factory=dict)
    money: dict[str, float] = field(default_factory=dict)  # what each seat earned, in games about money that ended

    def turns_of(self, seat: str) -> list[Turn]:
        return [turn for turn in self.turns if turn.seat == seat]

    def policy_seats(self) -> list[str]:
        """Seats played by the policy that is being trained."""
        return [seat for seat, player in self.ticket.players if player == "policy"]

    def sequence(self, seat: str) -> SeatSequence:
        turns = [turn for turn in self.turns_of(seat) if turn.tokens is not None]
        ids, mask, logprobs, versions, index = [], [], [], [], []
        choices, place = {}, 0
        for number, turn in enumerate(turns):
            seen, said = turn.tokens.observation_ids, turn.tokens.utterance_ids
            decided = np.ones(len(said), bool)
            if turn.tokens.choice is not None:
                choices[place + len(seen)] = turn.tokens.choice
                decided[1:] = False
            place += len(seen) + len(said)
            ids += [seen, said]
            mask += [np.zeros(len(seen), bool), decided]
            logprobs += [np.zeros(len(seen), np.float32), turn.tokens.logprobs]
            versions += [np.full(len(seen), -1, np.int32), turn.tokens.versions]
            index.append(np.full(len(seen) + len(said), number, np.int32))
        if not ids:
            raise ValueError(f"episode {self.ticket.number}: seat {seat!r} has no policy turns")
        return SeatSequence(
            ids=np.concatenate(ids).astype(np.int32),
            mask=np.concatenate(mask),
            logprobs=np.concatenate(logprobs).astype(np.float32),
            versions=np.concatenate(versions).astype(np.int32),
            turn=np.concatenate(index),
            choices=choices,
            experts=self.experts.get(seat),
        )
