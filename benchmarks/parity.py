"""The probe's limits in half precision: honest engines against broken ones.

    python -m benchmarks.parity

For every family, tied and untied, 2 and 16 layers deep, a random model in bfloat16 scores games
that it sampled itself, as the trainer does (sdpa kernels). So do engines that hold the same
weights: other kernels (eager), and float32. Their gap, as `cluster.run.parity` defines it, is what
honest rounding costs. A probe is four sequences, or one opening of 24 tokens in the worst case. Every
game is in one probe of each kind only, so probes are independent; models of experts play four times
as many. Two figures stand for the rate of
false alarms: of all probes together the largest rate that none above the limit leaves possible (95 %),
and for each model what a normal law fitted to the logarithm of its gaps says.

Then engines that compute something else with the weights, or that hold other weights:

    scale     attention scores too large by a fifth
    positions one place off
    norm      the last norm's weights left at 1
    layer     one layer, the first, of an older policy
    head      the output head (tied: the embedding) of an older policy
    old       all of an older policy

The older policy differs by noise of a twentieth of each weight: log-probs that differ visibly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from rich.table import Table
from scipy.stats import beta
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from benchmarks.architectures import EXPERTS, FORMS, SHAPES
from benchmarks.report import Say, run_alone
from cluster.run.parity import MEAN_SHARE, SHARE_OF_FEW, Gap, gap_between

DEPTHS = (2, 16)
VOCABULARY = 512
GAMES, TOKENS, OPENING = 512, 64, 24
OF_EXPERTS = 4  # times as many games: rounding sends some tokens to another expert
SEED = 2  # the limits were chosen on seeds 0 and 1
TOGETHER = 4  # games of a probe
OLDER = 0.05
PROBES = {"games": (TOGETHER, TOKENS - 1), "opening": (1, OPENING)}  # sequences, tokens of each
FAULTS = ("scale", "positions", "norm", "layer", "head", "old")


def measure(quick: bool, say: Say) -> dict[str, Any]:
    found = {}
    for number, (family, tied) in enumerate(FORMS[:4] if quick else FORMS):
        for depth in DEPTHS:
            name = f"{family}{' tied' if tied else ''}, {depth} layers"
            say(name)
            torch.manual_seed(1000 * SEED + 100 * number + depth)
            found[name] = one_model(family, tied, depth)
    groups = {"without experts": False, "of experts": True}
    honest = {
        group: probes([model["honest"] for name, model in found.items() if name.startswith(EXPERTS) == experts])
        for group, experts in groups.items()
    }
    return {"models": found, "probes": honest}


def one_model(family: str, tied: bool, depth: int) -> dict[str, Any]:
    model = made(family, tied, depth)
    games = sampled(model, GAMES * (OF_EXPERTS if family in EXPERTS else 1))
    trainer = scores(model, games)
    older = copy_of(model, family, tied, depth)
    moved(older)
    old = scores(older, games)
    eager = copy_of(model, family, tied, depth)
    eager.set_attn_implementation("eager")
    engines = {"eager": scores(eager, games), "float32": scores(eager.float(), games)}
    honest = {
        f"{name}, {what}": tail([gap_between(*probe) for probe in cut((trainer, engine), *size)])
        for name, engine in engines.items()
        for what, size in PROBES.items()
    }
    moved_along = [gap_between(*probe) for probe in cut((trainer, engines["eager"], old), TOGETHER, TOKENS - 1)]
    faults = {}
    for fault in FAULTS:
        engine = copy_of(model, family, tied, depth)
        wrong = scores(engine, games, spoil(engine, older, fault, tied))
        gaps = [gap_between(*probe) for probe in cut((trainer, wrong, old), TOGETHER, TOKENS - 1)]
        first = [gap_between(*probe) for probe in cut((trainer, wrong), 1, OPENING)]  # there are no old weights yet
        faults[fault] = {
            "gap": float(np.median([gap.mean for gap in gaps])),
            "caught": float(np.mean([caught(gap) for gap in gaps])),
            "caught_first": float(np.mean([caught(gap) for gap in first])),
        }
    return {"honest": honest, "least_share": min(gap.share for gap in moved_along), "faults": faults}


def caught(gap: Gap) -> bool:
    return bool(gap.fault(half=True, tolerance=None))


def made(family: str, tied: bool, depth: int) -> PreTrainedModel:
    shape = SHAPES[family] | {"num_hidden_layers": depth}
    if "layer_types" in shape:
        shape |= {"layer_types": shape["layer_types"] * (depth // 2)}
    config = AutoConfig.for_model(
        family, **shape, vocab_size=VOCABULARY, tie_word_embeddings=tied, initializer_range=0.1,
        pad_token_id=0, bos_token_id=None, eos_token_id=1, dtype=torch.bfloat16,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").bfloat16().eval()


def copy_of(model: PreTrainedModel, family: str, tied: bool, depth: int) -> PreTrainedModel:
    copy = made(family, tied, depth)
    copy.load_state_dict(model.state_dict())
    return copy


@torch.no_grad()
def moved(model: PreTrainedModel) -> None:
    for weight in model.parameters():
        weight.add_(torch.randn_like(weight) * weight.abs().mean() * OLDER)


@torch.no_grad()
def sampled(model: PreTrainedModel, games: int) -> torch.Tensor:
    first = torch.randint(2, VOCABULARY, (games, 1))
    asked = {"min_new_tokens": TOKENS - 1, "max_new_tokens": TOKENS - 1, "do_sample": True, "top_k": 0}
    return model.generate(first, attention_mask=torch.ones_like(first), **asked)


@torch.no_grad()
def scores(model: PreTrainedModel, games: torch.Tensor, positions: torch.Tensor | None = None) -> np.ndarray:
    """[game, token]: log-prob of each token after the first."""
    logits = model(games, position_ids=positions).logits[:, :-1].float()
    return logits.log_softmax(-1).gather(2, games[:, 1:, None])[..., 0].numpy()


def cut(tables: tuple[np.ndarray, ...], games: int, tokens: int) -> Iterator[list[list[np.ndarray]]]:
    """Every table's rows, `games` at a time."""
    for first in range(0, len(tables[0]), games):
        yield [[table[row, :tokens] for row in range(first, first + games)] for table in tables]


def probes(models: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each kind, over all models: how many, how many above the limit, and the rate that leaves possible."""
    kinds: dict[str, dict[str, float]] = {}
    for what in PROBES if models else ():
        each = [model[f"{engine}, {what}"] for model in models for engine in ("eager", "float32")]
        count, above = (sum(one[name] for one in each) for name in ("probes", "above"))
        rate = float(beta.ppf(0.95, above + 1, count - above))
        kinds[what] = {"probes": count, "above": above, "largest": max(one["largest"] for one in each)}
        kinds[what] |= {"limit": each[0]["limit"], "rate_at_most": rate}
    return kinds


def tail(probes: list[Gap]) -> dict[str, float]:
    gaps, limit = [gap.mean for gap in probes], probes[0].share_limit
    law = NormalDist.from_samples([math.log(max(gap, 1e-9)) for gap in gaps])
    alarm = 1 - law.cdf(math.log(limit)) if law.stdev else float(law.mean > math.log(limit))
    counts = {"probes": len(gaps), "above": sum(gap > limit for gap in gaps), "limit": limit}
    return counts | {"median": float(np.median(gaps)), "largest": max(gaps), "false_alarms": alarm}


@torch.no_grad()
def spoil(engine: PreTrainedModel, older: PreTrainedModel, fault: str, tied: bool) -> torch.Tensor | None:
    """Breaks the engine; returns the positions it computes with, where these are other ones."""
    if fault == "positions":
        return positions_off(engine)
    if fault == "scale":
        each_module(engine, "scaling", lambda module: setattr(module, "scaling", module.scaling * 1.2))
        return None
    own, theirs = dict(engine.named_parameters()), dict(older.named_parameters())
    if fault == "norm":
        last = [name for name, weight in own.items() if "norm" in name and "layers." not in name and weight.dim() == 1]
        for name in last:
            own[name].fill_(1.0).mul_(1.5)
        return None
    heads = {"lm_head.weight", "embed_out.weight"} & own.keys() or {
        name for name, weight in own.items() if weight is engine.get_output_embeddings().weight
    }
    chosen = {
        "old": lambda name: True,
        "layer": lambda name: ".layers.0." in name,
        "head": lambda name: name in heads,
    }[fault]
    for name in filter(chosen, own):
        own[name].copy_(theirs[name])
    return None


def positions_off(engine: PreTrainedModel) -> torch.Tensor:
    """Every second token is taken for its neighbour's successor."""
    places = torch.arange(TOKENS)
    return (places + places % 2)[None]


def each_module(engine: PreTrainedModel, attribute: str, change: Callable[[torch.nn.Module], None]) -> None:
    for module in engine.modules():
        if isinstance(getattr(module, attribute, None), float):
            change(module)


def tables(result: dict[str, Any]) -> list[Table]:
    limits = f"limit {MEAN_SHARE:g}, of an opening {SHARE_OF_FEW:g}"
    table = Table(title=f"Probe in bfloat16 ({limits})", title_justify="left")
    table.add_column("model")
    for name in ("eager", "float32", "opening", "false alarms", "least share", *FAULTS):
        table.add_column(name, justify="right")
    for name, found in result["models"].items():
        honest = found["honest"]
        openings = max(one["largest"] for what, one in honest.items() if "opening" in what)
        table.add_row(
            name,
            *(f"{honest[f'{engine}, games']['median']:.3f}" for engine in ("eager", "float32")),
            f"{openings:.3f}",
            f"{max(one['false_alarms'] for one in honest.values()):.0e}",
            f"{found['least_share']:.2f}",
            *(f"{found['faults'][fault]['gap']:.2f} ({found['faults'][fault]['caught']:.0%})" for fault in FAULTS),
        )
    together = Table(title="Honest probes of all models together", title_justify="left")
    for name in ("models", "tokens of", "probes", "above the limit", "limit", "largest gap", "rate at most"):
        together.add_column(name, justify="left" if name in ("models", "tokens of") else "right")
    for group, kinds in result["probes"].items():
        for kind, one in kinds.items():
            counts = f"{one['probes']:.0f}", f"{one['above']:.0f}", f"{one['limit']:g}"
            together.add_row(group, kind, *counts, f"{one['largest']:.3f}", f"{one['rate_at_most']:.1e}")
    found = Table(title="Broken engines found, over all models", title_justify="left")
    for name in ("fault", "by a probe of four games", "by an opening alone"):
        found.add_column(name, justify="left" if name == "fault" else "right")
    for fault in FAULTS:
        rates = [
            [model["faults"][fault][by] for model in result["models"].values()] for by in ("caught", "caught_first")
        ]
        found.add_row(fault, *(f"{np.mean(rate):.0%}" for rate in rates))
    return [table, together, found]


if __name__ == "__main__":
    run_alone("parity", measure, tables)
