"""A model's widths, and how many weights they make. Read from config.json: no weights, no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import ConfigError
from cluster.recipe.config import RunConfig
from envs.registry import make_game
from envs.settings import GameSettings
from envs.well_formed import told
from learners.settings import ALL_LINEAR, EXPERT_COUNTS

TIED_UNLESS_SAID = {"bloom", "cohere", "cohere2", "falcon", "gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "opt"}
PLAIN_FEED_FORWARD = {"bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "opt", "phi", "starcoder2"}
QUERY_NORMS = ("qwen3", "gemma3", "olmo2")  # beginnings of model types
LEARNED_POSITIONS = {"gpt2", "gpt_bigcode", "opt"}
HEAD_WIDTH = 32  # of the embedded policy
SPECIAL_WORDS = 4  # of its tokenizer, beside the game's own
FETCH_SECONDS = 10.0


class ShapeUnknown(Exception):
    """The model's config cannot be read now; the message says why."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    layers: int
    hidden: int
    feed_forward: int  # inner width; of one expert where there are experts
    heads: int
    key_heads: int
    head_width: int
    vocabulary: int
    tied: bool = False  # the output head is the embedding
    gated: bool = True  # three matrices in the feed-forward part, not two
    experts: int = 0
    experts_per_token: int = 0
    shared_width: int = 0  # of the expert that every token takes, if there is one
    positions: int = 0  # learned position embeddings
    query_norms: bool = False  # queries and keys are normed head by head

    @property
    def query_width(self) -> int:
        return self.heads * self.head_width

    @property
    def key_width(self) -> int:
        return self.key_heads * self.head_width

    @property
    def matrix_count(self) -> int:
        return 3 if self.gated else 2

    @property
    def layer_parameters(self) -> int:
        attention = self.hidden * (2 * self.query_width + 2 * self.key_width)
        inner = self.feed_forward * max(self.experts, 1) + self.shared_width
        router = self.hidden * self.experts
        norms = 2 * self.hidden + (2 * self.head_width if self.query_norms else 0)
        return attention + self.matrix_count * self.hidden * inner + router + norms

    @property
    def head_parameters(self) -> int:
        return self.hidden * self.vocabulary

    @property
    def parameters(self) -> int:
        tables = self.head_parameters * (1 if self.tied else 2) + self.hidden * self.positions
        return self.layers * self.layer_parameters + tables + self.hidden

    @property
    def largest_tensor(self) -> int:
        """Weights in it."""
        experts = max(self.experts, 1) * (2 if self.gated else 1) * self.hidden * self.feed_forward
        return max(self.head_parameters, experts)

    @property
    def tensors(self) -> list[int]:
        """Weights in each of the large ones, as vLLM holds them: queries, keys and values are one, and so are the two
        matrices that a gate multiplies."""
        attention = [self.hidden * (self.query_width + 2 * self.key_width), self.query_width * self.hidden]
        inner = self.hidden * self.feed_forward * max(self.experts, 1)
        shared = self.hidden * self.shared_width
        layer = [*attention, inner * (self.matrix_count - 1), inner, shared * (self.matrix_count - 1), shared]
        return layer * self.layers + [self.head_parameters] * (1 if self.tied else 2)

    @property
    def inner_width(self) -> int:
        """What one token passes through in the feed-forward part of a layer."""
        return self.feed_forward * max(self.experts_per_token, 1) + self.shared_width

    @property
    def cached_width(self) -> int:
        """Numbers in the keys and values of one token."""
        return 2 * self.layers * self.key_width

    def adapter_parameters(self, rank: int, targets: list[str]) -> int:
        """Of a LoRA adapter: rank * (in + out) for every target of every layer."""
        inner, hidden, query, key = self.feed_forward or 4 * self.hidden, self.hidden, self.query_width, self.key_width
        ends = {
            "q_proj": hidden + query, "k_proj": hidden + key, "v_proj": hidden + key, "o_proj": query + hidden,
            "gate_proj": hidden + inner, "up_proj": hidden + inner, "down_proj": inner + hidden,
            "query_key_value": hidden + query + 2 * key, "qkv_proj": hidden + query + 2 * key,
            "gate_up_proj": hidden + 2 * inner,
        }  # fmt: skip
        if ALL_LINEAR in targets:
            of_attention, of_inputs = ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj"] * self.gated
            targets = of_attention if self.experts else [*of_attention, *of_inputs, "up_proj", "down_proj"]
        return self.layers * rank * sum(ends.get(target, hidden + inner) for target in targets)


def shape_of(content: Mapping[str, Any]) -> ModelShape:
    """From the content of a config.json."""
    kind = content.get("model_type", "")
    content = content.get("text_config") or content

    def first(*names: str, default: Any = None) -> Any:
        found = next((content[name] for name in names if content.get(name) is not None), default)
        if found is None:
            raise ShapeUnknown(f"its config.json names no {names[0]}")
        return found

    hidden, heads = first("hidden_size", "n_embd"), first("num_attention_heads", "n_head")
    experts = first(*EXPERT_COUNTS, default=0)
    inner = first("intermediate_size", "ffn_dim", "n_inner", default=4 * hidden)
    width = first("moe_intermediate_size", default=inner) if experts else inner
    return ModelShape(
        layers=first("num_hidden_layers", "n_layer"),
        hidden=hidden,
        feed_forward=width,
        heads=heads,
        key_heads=first("num_key_value_heads", default=heads),
        head_width=first("head_dim", default=hidden // heads),
        vocabulary=first("vocab_size"),
        tied=first("tie_word_embeddings", default=kind in TIED_UNLESS_SAID),
        gated=kind not in PLAIN_FEED_FORWARD,
        experts=experts,
        experts_per_token=first("num_experts_per_tok", default=2) if experts else 0,
        shared_width=first("shared_expert_intermediate_size", default=0),
        query_norms=kind.startswith(QUERY_NORMS),
        positions=first("max_position_embeddings", "n_positions") if kind in LEARNED_POSITIONS else 0,
    )


def language_of(game: GameSettings) -> list[str]:
    try:
        return list(make_game(game.name, game.options).language())
    except Exception as error:  # of whoever wrote the game
        raise ConfigError(f"game.name: scripted players cannot play {game.name}: {told(error)}") from error


def shape_of_run(config: RunConfig, folder: Path | str | None = None) -> ModelShape:
    """Of the policy that a run starts from (of the model in `folder`, if it is there already);
    ShapeUnknown if its config.json is out of reach."""
    path = config.model.path if folder is None else str(folder)
    if path == "embedded":
        embedded = config.model.embedded
        words = {word for said in language_of(config.game) for word in said.split()}
        return ModelShape(
            layers=embedded.layers,
            hidden=embedded.hidden,
            feed_forward=4 * embedded.hidden,
            heads=embedded.heads,
            key_heads=embedded.heads,
            head_width=HEAD_WIDTH,
            vocabulary=len(words) + SPECIAL_WORDS,
            query_norms=True,
        )
    return model_shape(path, config.model.revision)


def model_shape(path: str, revision: str | None = None) -> ModelShape:
    """Of a model's folder or hub name; an adapter's is that of the model it was made for."""
    folder = Path(path)
    if not folder.is_dir():
        return shape_of(_from_hub(path, revision))
    if not (folder / "config.json").is_file() and (folder / "adapter_config.json").is_file():
        return model_shape(json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"])
    return shape_of(_read(folder / "config.json"))


def _read(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ShapeUnknown(f"{file} cannot be read: {error}") from error


def _from_hub(name: str, revision: str | None) -> dict[str, Any]:
    """From what was downloaded before, else asked for once: nobody should wait here for a hub that is out of reach."""
    try:
        from huggingface_hub import get_session, hf_hub_url, try_to_load_from_cache
        from huggingface_hub.utils import build_hf_headers
    except ImportError:
        raise ShapeUnknown("huggingface_hub is not installed") from None
    cached = try_to_load_from_cache(name, "config.json", revision=revision)
    if isinstance(cached, str):
        return _read(Path(cached))
    try:
        url = hf_hub_url(name, "config.json", revision=revision)
        answer = get_session().get(url, headers=build_hf_headers(), timeout=FETCH_SECONDS, follow_redirects=True)
    except Exception as error:  # of whichever web client it has
        raise ShapeUnknown(f"the hub, asked for {name}, is out of reach ({type(error).__name__})") from error
    if answer.status_code != 200:
        raise ShapeUnknown(f"the hub, asked for {name}, says {answer.status_code}")
    try:
        return answer.json()
    except ValueError:  # of a proxy, perhaps
        raise ShapeUnknown(f"the hub, asked for {name}, answers something else than a configuration") from None
