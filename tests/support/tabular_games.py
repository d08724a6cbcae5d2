"""Real games that tables can learn: listed actions, said word by word.

A game is explored once, by saying all it lists in every state that it shows; turns are not counted. What
is learned is a value for every place, that is a state and what has been said of an utterance, and a logit
for every word that may come next there: by a credit method and a loss of the learner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from envs.game import Game
from learners.credit.method import CreditMethod
from learners.credit.turns import Turns
from learners.loss.loss import Loss, Tokens

END = "."


class Move(NamedTuple):
    state: str  # as the game shows it
    said: tuple[str, ...]
    reward: float
    then: str | None  # None: the game is over


def explored(game: Game) -> list[Move]:
    """State after state, the one that a game starts in first."""
    game.reset(0)
    waiting, seen, moves = [game.save()], set(), []
    for saved in waiting:
        game.restore(saved)
        state = game.observe()
        if state in seen:
            continue
        seen.add(state)
        for action in game.actions():
            game.restore(saved)
            step = game.step(action)
            then = None if step.terminated else game.observe()
            moves.append(Move(state, (*action.split(), END), sum(step.rewards.values()), then))
            if then is not None:
                waiting.append(game.save())
    return moves


class Tables:
    def __init__(self, moves: list[Move], gamma: float = 0.95):
        self.moves, self.gamma = moves, gamma
        places: dict[tuple, int] = {}
        words: dict[tuple, int] = {}
        self.paths = []  # of each move, its words
        for state, said, *_ in moves:
            begun = [(state, said[:j]) for j in range(len(said))]
            for place, word in zip(begun, said, strict=True):
                places.setdefault(place, len(places))
                words.setdefault((place, word), len(words))
            self.paths.append(np.array([words[each] for each in zip(begun, said, strict=True)]))
        self.place = np.array([places[place] for place, _ in words])  # of each word
        self.opens = np.array([places[move.state, ()] for move in moves])  # the place where each move begins
        self.then = np.array([-1 if move.then is None else places[move.then, ()] for move in moves])
        self.reward = np.array([move.reward for move in moves])
        self.values = np.zeros(len(places))
        self.logits = torch.zeros(len(words), dtype=torch.float64, requires_grad=True)
        self.uniform = self.logprobs().detach().numpy()

    # what they say

    def logprobs(self) -> torch.Tensor:
        place = torch.from_numpy(self.place)
        return self.logits - torch.zeros(len(self.values)).double().index_add(0, place, self.logits.exp()).log()[place]

    def best(self, of_words: np.ndarray) -> np.ndarray:
        """The largest at each place."""
        found = np.full(len(self.values), -np.inf)
        np.maximum.at(found, self.place, of_words)
        return found

    def greedy_return(self, turns: int) -> float:
        """The likeliest word at every place."""
        logprobs = self.logprobs().detach().numpy()
        chosen = logprobs == self.best(logprobs)[self.place]
        spoken = np.array([chosen[path].all() for path in self.paths])
        place, total = self.opens[0], 0.0
        for turn in range(turns):
            move = np.flatnonzero(spoken & (self.opens == place))[0]
            total += self.gamma**turn * self.reward[move]
            place = self.then[move]
            if place < 0:
                break
        return total

    # what is best

    def solved(self, backup: Callable[[np.ndarray, np.ndarray], float]) -> tuple[np.ndarray, np.ndarray]:
        """(V of every place, Q of every word) where V(o) = backup(Q of the utterances o lists, their log-probs by
        the first policy): value iteration over whole utterances. Inside one, of those that begin like this."""
        through: list[list[int]] = [[] for _ in self.place]
        for move, path in enumerate(self.paths):
            for word in path:
                through[word].append(move)
        first = np.array([self.uniform[path].sum() for path in self.paths])
        values = np.zeros(len(self.values))
        for _ in range(600):
            q = self.reward + self.gamma * np.where(self.then < 0, 0.0, values[self.then])
            for place in np.unique(self.opens):
                here = self.opens == place
                values[place] = backup(q[here], first[here])
        of_words = np.zeros(len(self.place))
        for word, moves in enumerate(through):
            rest = [self.uniform[self.paths[m][self.paths[m].tolist().index(word) + 1 :]].sum() for m in moves]
            of_words[word] = backup(q[moves], np.array(rest))
        for place in range(len(values)):
            here = self.place == place
            values[place] = backup(of_words[here], self.uniform[here])
        return values, of_words

    # how they learn

    def play(self, sampler: np.ndarray, starts: np.ndarray, turns: int, rng: np.random.Generator) -> list[list[int]]:
        """Games as moves, by the log-probs `sampler`, one from each place of `starts`."""
        weight = np.exp([sampler[path].sum() for path in self.paths])
        games = []
        for place in starts:
            game: list[int] = []
            while place >= 0 and len(game) < turns:
                listed = np.flatnonzero(self.opens == place)
                game.append(rng.choice(listed, p=weight[listed] / weight[listed].sum()))
                place = self.then[game[-1]]
            games.append(game)
        return games

    def learn(
        self,
        games: list[list[int]],
        method: CreditMethod,
        loss: Loss,
        pay: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
        rates: tuple[float, float] = (0.4, 40.0),
    ) -> None:
        """One update by these games, with means over the visits of each place. `rates`: of values and logits.
        `pay`: of words, by their log-probs and by those of the best ones."""
        moves = np.concatenate(games)
        said = np.concatenate([self.paths[move] for move in moves])
        place, last = self.place[said], self.then[[game[-1] for game in games]]
        logprobs = self.logprobs().detach().numpy()
        best = self.best(logprobs)[self.place]
        turns = Turns(
            offsets=np.cumsum([0, *map(len, games)]),
            rewards=self.reward[moves],
            tokens=np.array([len(self.paths[move]) for move in moves]),
            episode=np.arange(len(games)),
            terminated=last < 0,
            values=self.values[place],
            bootstrap=self.values[last],
            logprobs=logprobs[said],
            best_logprobs=best[said],
            token_rewards=None if pay is None else pay(logprobs, best)[said],
        )
        credit = method.credit(turns, {})
        visits = np.bincount(place, minlength=len(self.values)).clip(1)
        self.values += rates[0] * np.bincount(place, credit.targets - turns.values, len(self.values)) / visits
        lengths = torch.from_numpy(np.add.reduceat(turns.tokens, turns.offsets[:-1]))
        advantages, old = torch.from_numpy(credit.advantages).double(), torch.from_numpy(turns.logprobs)
        tokens = Tokens(advantages, old, torch.ones(len(old)).bool(), lengths, old, None)
        found = loss.of_pack(self.logprobs()[said], None, tokens, rates[1]).loss
        (gradient,) = torch.autograd.grad(found, self.logits)
        with torch.no_grad():
            self.logits -= gradient / torch.from_numpy(visits)[self.place]
