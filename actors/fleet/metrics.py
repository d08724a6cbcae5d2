"""A fleet in numbers, from what its workers say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NOW = ("queued", "live")
SUMMED = ("prompt_tokens", "cached_tokens", "generated_tokens", "busy_seconds")  # from a worker's start on


def totals(statuses: Sequence[Mapping[str, float]], of_lost: Mapping[str, float]) -> dict[str, float]:
    """`statuses`: one of each worker. `of_lost`: sums of those that are gone, as they last said."""
    found = {key: sum(status.get(key, 0.0) for status in statuses) for key in (*NOW, *SUMMED)}
    found |= {key: found[key] + of_lost.get(key, 0.0) for key in SUMMED}
    prompt = found["prompt_tokens"]
    return {
        "fleet/workers": float(len(statuses)),
        "fleet/queued": found["queued"],
        "fleet/live": found["live"],
        "fleet/generated_tokens": found["generated_tokens"],
        "fleet/tokens_per_busy_second": found["generated_tokens"] / max(found["busy_seconds"], 1e-9),
        "fleet/prefix_cache_hit_rate": found["cached_tokens"] / prompt if prompt else 0.0,
    }
