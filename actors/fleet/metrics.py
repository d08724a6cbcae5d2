"""A fleet in numbers, from what its workers say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SUMMED = ("queued", "live", "prompt_tokens", "cached_tokens", "generated_tokens", "busy_seconds")


def totals(statuses: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """`statuses`: one of each worker."""
    found = {key: sum(status.get(key, 0.0) for status in statuses) for key in SUMMED}
    prompt = found["prompt_tokens"]
    return {
        "fleet/workers": float(len(statuses)),
        "fleet/queued": found["queued"],
        "fleet/live": found["live"],
        "fleet/generated_tokens": found["generated_tokens"],
        "fleet/tokens_per_busy_second": found["generated_tokens"] / max(found["busy_seconds"], 1e-9),
        "fleet/prefix_cache_hit_rate": found["cached_tokens"] / prompt if prompt else 0.0,
    }
