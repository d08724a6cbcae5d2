"""A Hugging Face folder or hub model as a reader of games: its tokenizer, its weights, and a head.

    reads "turn"    a sequence classifier with one logit
    reads "game"    the model without its output head, which has to be causal, and an MLP

Weights that the folder does not hold come from a generator of their own, so that they depend on
nothing else in the process. Nothing is dropped out: the same examples give the same model.
Everything is on the CPU in float32; accelerators belong to engines and learners.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from reward_service.models.settings import Reads

if TYPE_CHECKING:
    from reward_service.models.transformer import Transformer

FRESH_SPREAD = 0.02  # of weights that the folder does not hold


class Tokens:
    """Texts as token ids, and the ids around them. No text makes special tokens."""

    def __init__(self, settings: Transformer):
        from transformers import AutoTokenizer

        self.tokenizer = _loaded(settings, lambda path: AutoTokenizer.from_pretrained(path))
        self.lock = threading.Lock()
        known = self.tokenizer
        end = next((each for each in (known.sep_token_id, known.eos_token_id) if each is not None), None)
        if end is None:
            raise ValueError(f"reward model {settings.path!r} has a tokenizer without an end-of-text token")
        begin = next((each for each in (known.cls_token_id, known.bos_token_id) if each is not None), None)
        self.end, self.begin = end, [] if begin is None else [begin]
        padding = known.pad_token_id
        self.filler = padding if padding not in (None, end) else int(end == 0)  # never the last token of a text

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        whole = [text.encode("utf-8", "replace").decode() for text in texts]  # half of a surrogate pair is no text
        with self.lock:  # fast tokenizers refuse two threads at once
            return self.tokenizer(whole, add_special_tokens=False, split_special_tokens=True)["input_ids"]


def load_model(
    settings: Transformer, reads: Reads, filler: int, generator: torch.Generator, weights: bool
) -> nn.Module:
    """With the folder's weights, or with none that mean anything."""
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

    made_by = AutoModelForSequenceClassification if reads == "turn" else AutoModel
    options = {"num_labels": 1} if reads == "turn" else {}
    config = _loaded(settings, lambda path: AutoConfig.from_pretrained(path, **options))
    longest = getattr(config, "max_position_embeddings", None)
    if longest and longest < settings.max_tokens:
        raise ValueError(
            f"reward model {settings.path!r} reads at most {longest} tokens: max_tokens={settings.max_tokens} is more"
        )
    config.pad_token_id = filler
    if not weights:
        return _loaded(settings, lambda path: made_by.from_config(config, dtype=torch.float32)).eval()
    model, found = _loaded(
        settings,
        lambda path: made_by.from_pretrained(path, config=config, dtype=torch.float32, output_loading_info=True),
    )
    _draw(model, set(found["missing_keys"]), generator)
    if reads == "game" and not _causal(model.eval()):
        raise ValueError(
            f"reward model {settings.path!r} is no causal model: the hidden state at a turn's last token would know "
            "the turns after it"
        )
    return model.eval()


def made_head(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """What reads a number off a hidden state; 0 before it has learned anything."""
    width = model.config.get_text_config().hidden_size
    head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
    nn.init.kaiming_uniform_(head[0].weight, nonlinearity="relu", generator=generator)
    for zero in (head[0].bias, head[2].weight, head[2].bias):
        nn.init.zeros_(zero)
    return head


@torch.no_grad()
def _draw(model: nn.Module, missing: set[str], generator: torch.Generator) -> None:
    for name, weight in sorted(model.named_parameters()):
        if name in missing and weight.ndim > 1:
            weight.normal_(0.0, FRESH_SPREAD, generator=generator)
        elif name in missing:
            weight.zero_()


@torch.no_grad()
def _causal(model: nn.Module) -> bool:
    """Whether the first token's state stays the same when the second one changes."""
    states = model(
        input_ids=torch.tensor([[0, 1], [0, 0]]), attention_mask=torch.ones(2, 2, dtype=torch.long)
    ).last_hidden_state
    return bool(torch.allclose(states[0, 0], states[1, 0], atol=1e-5))


def _loaded(settings: Transformer, load: Callable[[str | None], Any]) -> Any:
    try:
        with _quietly():
            return load(settings.path)
    except Exception as error:  # a library's own kinds, many; each means the same to whoever named the model
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"reward model {settings.path!r} cannot be loaded: {reason}") from None


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the library's table of weights that a reward model lacks or leaves over, and its bars."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
