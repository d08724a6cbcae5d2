"""Behaviour cloning: fresh games of a scripted player, in the very tokens that rollouts use.

Each game is laid out by `Dialogue` - opening, utterance, reply, utterance, ... - and the
loss is the negative log-likelihood of the utterance tokens only.

The belief loss. A tiny model copies the player's phrases within seconds but does not
listen to the answers: what a good guess would be depends on all the answers together,
and guesses are too rare to teach that. So at the end of each observation, where no
token of the player's is predicted, the output head is also trained to name the first
word of the secret, in games that reveal one afterwards (the fact called "secret"). That
makes the answers worth remembering, and guesses and questions then draw on the same
memory. It only shapes the network: nothing of it is left when the policy plays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from envs.game import hook
from envs.registry import make_game, make_player
from envs.settings import GameSettings
from envs.text.dialogue import Dialogue
from learners.embedded.muon import Muon
from learners.model import attention, by_hand
from learners.model.logits import target_logprobs
from learners.settings import EmbeddedSettings

IGNORED = -100
Progress = Callable[[int, int, float], None]  # steps done, steps in all, loss


@dataclass(slots=True)
class ClonedGame:
    """`said` and `belief` are aligned with `ids`: the target of the prediction made *at*
    each place, IGNORED where there is none."""

    ids: list[int]
    said: list[int]
    belief: list[int]


class ScriptedGames:
    """Plays a game with one scripted player in every seat, and lays out each seat's tokens."""

    def __init__(self, game: GameSettings, player: str, tokenizer: PreTrainedTokenizerBase):
        self.game = make_game(game.name, game.options)
        self.players = {seat: make_player(game.name, player, game.options) for seat in self.game.seats}
        self.dialogue = Dialogue(tokenizer)
        self.tokenizer = tokenizer
        self.end, self.unknown = tokenizer.eos_token_id, tokenizer.unk_token_id
        self.open = hook(self.game, "open_vocabulary")
        self._words: dict[str, list[int]] = {}

    def words(self, text: str) -> list[int]:
        if text not in self._words:
            ids = self.tokenizer.encode(text, add_special_tokens=False)
            if not ids or (self.unknown in ids and not self.open):
                raise ValueError(
                    f"game {self.game.name!r}: {text!r} holds no word, or one that the game's language() does not list"
                )
            self._words[text] = ids
        return self._words[text]

    def play(self, seed: int) -> list[ClonedGame]:
        """One laid-out game for each seat that spoke."""
        game, end = self.game, self.end
        game.reset(seed)
        for number, player in enumerate(self.players.values()):
            player.reset(seed * len(self.players) + number)
        seats: dict[str, ClonedGame] = {}
        seen_ends: dict[str, list[int]] = {seat: [] for seat in game.seats}
        while (seat := game.seat) is not None:
            observation = game.observe()
            self.words(observation)
            if seat not in seats:
                seats[seat] = ClonedGame([], [], [])
                seen = self.dialogue.opening(game.briefing(seat), observation)
            else:
                seen = self.dialogue.reply(observation, end)
            said = self.players[seat].reply(observation, game.actions())
            spoken = [*self.words(said), end]
            laid = seats[seat]
            laid.ids += [*seen, *spoken]
            # the last token seen predicts the first one spoken, and so on; the end predicts nothing
            known = self.unknown not in spoken  # else a player repeats what only the world has said
            taught = spoken if known else [IGNORED] * len(spoken)
            laid.said += [IGNORED] * (len(seen) - 1) + taught + [IGNORED]
            if len(seen) >= 2:  # the last token seen already predicts what is said; the one before it is free
                seen_ends[seat].append(len(laid.ids) - len(spoken) - 2)
            game.step(said)
        secret = game.facts().get("secret")
        named = IGNORED if secret is None else self.words(secret)[0]
        for seat, laid in seats.items():
            laid.belief = [IGNORED] * len(laid.ids)
            for place in seen_ends[seat]:
                laid.belief[place] = named
        return list(seats.values())


def clone(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    game: GameSettings,
    settings: EmbeddedSettings,
    progress: Progress | None = None,
) -> float:
    """Trains `model` in place; returns the last step's loss. Every step plays games never
    seen before, with seeds below zero: no training or held-out game is among them."""
    if not settings.steps:
        return float("nan")
    games = ScriptedGames(game, settings.player, tokenizer)
    optimizers = _optimizers(model, settings)
    warmup = min(20, settings.steps)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warmup, (settings.steps - step) / settings.steps)
        )
        for optimizer in optimizers
    ]
    attends = model.config._attn_implementation
    model.set_attn_implementation(attention.NAME)
    by_hand.take_over(model)
    model.train()
    loss = torch.zeros(())
    for step in range(settings.steps):
        first = -1 - step * settings.games_per_step
        batch = [laid for number in range(settings.games_per_step) for laid in games.play(first - number)]
        said, belief = _predicted(model, batch)
        if not len(said):
            raise ValueError(f"game {game.name!r}: its language() lists no utterance of {settings.player!r}")
        loss = -said.mean()
        if settings.belief_weight and len(belief):
            loss = loss - settings.belief_weight * belief.mean()
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in (*optimizers, *schedules):
            each.step()
        if progress is not None and ((step + 1) % 50 == 0 or step + 1 == settings.steps):
            progress(step + 1, settings.steps, loss.item())
    model.eval()
    model.set_attn_implementation(attends)
    return loss.item()


def _optimizers(model: PreTrainedModel, settings: EmbeddedSettings) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, head and norms: the
    same belief loss in less than half of AdamW's steps."""
    inside = [weight for name, weight in model.named_parameters() if ".layers." in name and weight.dim() == 2]
    chosen = set(map(id, inside))
    others = [weight for weight in model.parameters() if id(weight) not in chosen]
    return [
        Muon(inside, lr=settings.matrix_learning_rate, momentum=0.95),
        torch.optim.AdamW(others, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def _predicted(model: PreTrainedModel, batch: list[ClonedGame]) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs of what is said and of what is believed, of games end to end in one forward pass."""
    lengths = np.array([len(laid.ids) for laid in batch])
    positions = np.concatenate([np.arange(length) for length in lengths])
    ids = np.concatenate([laid.ids for laid in batch])
    targets = [np.concatenate([getattr(laid, name) for laid in batch]) for name in ("said", "belief")]
    places = [np.flatnonzero(each != IGNORED) for each in targets]
    keep = np.concatenate(places)
    logits = model(
        input_ids=torch.from_numpy(ids)[None],
        position_ids=torch.from_numpy(positions)[None],
        use_cache=False,
        logits_to_keep=torch.from_numpy(keep),
        packed=attention.layout(lengths, torch.device("cpu")),
    ).logits[0]
    wanted = np.concatenate([each[where] for each, where in zip(targets, places, strict=True)])
    logprobs = target_logprobs(logits, torch.from_numpy(wanted), 1.0)
    return logprobs[: len(places[0])], logprobs[len(places[0]) :]
