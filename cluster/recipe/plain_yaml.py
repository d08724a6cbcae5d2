"""YAML as people write it in a recipe: YAML 1.2's plain values, and no key given twice.

PyYAML follows YAML 1.1, which reads 3e-4 as text, 010 as eight, 1:30 as ninety, `no` and
`off` as false, and lets the second of two equal keys win in silence.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

FLOAT = (
    r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9]+)([eE][-+]?[0-9]+)?"  # 1.5  .5  1.5e-3
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"  # 3e-4
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


LARGEST = 100_000  # values in one text


class PlainLoader(yaml.SafeLoader):
    yaml_implicit_resolvers: ClassVar[dict] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"a key should be text, not {key!r}", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


for tag, pattern, first in (
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9_]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", FLOAT, "-+.0123456789"),
    ("merge", r"<<", "<"),
):
    PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))


def read_yaml(text: str) -> Any:
    read = yaml.load(text, Loader=PlainLoader)
    if _size(read, {}) > LARGEST:
        raise yaml.YAMLError(f"its aliases (*name) stand for more than {LARGEST:,} values")
    return read


def _size(value: Any, known: dict[int, int]) -> int:
    """Values in it, what an alias stands for counted each time."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if inner and id(value) not in known:
        known[id(value)] = LARGEST  # one that holds itself has no end
        known[id(value)] = sum(_size(each, known) for each in inner)
    return 1 + known.get(id(value), 0)
