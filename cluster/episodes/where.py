"""Which games are wanted, as an expression:

    outcome < .5 and turns > 3 and text('elephant')

It is Python's grammar, of which this much has a meaning: the single-valued columns of GAME, numbers, texts, None, True
and False; comparisons, also chained, `is` and `in`; and, or, not; + - * /; and functions that look into the turns:

    text('x')       somebody saw or said it, in small or capital letters
    said('x')       it is in an utterance
    intention(7)    an utterance has this label

Nothing is executed: the expression becomes operations on whole columns, and anything else is refused when it is read.
A comparison with a value that a game does not have is false, but that it is something else (`!=`, `not in`) is true.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.episodes.columns import PLAIN, SCHEMA
from cluster.errors import ConfigError

LENGTH = 2000  # characters of an expression
DEPTH = 100  # of what stands within each other
NUMBER, TEXT, TRUTH, NONE = "a number", "a text", "true or false", "None"
COMPARED = {
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
}
COUNTED = {ast.Add: pc.add, ast.Sub: pc.subtract, ast.Mult: pc.multiply, ast.Div: pc.divide}
FUNCTIONS = {"text": ("observation", "utterance", "caption"), "said": ("utterance",), "intention": ("label",)}
Value = pa.Array | pa.ChunkedArray | pa.Scalar


class Where:
    """One condition of those that an expression joins by `and`."""

    def __init__(self, node: ast.expr):
        if (kind := _kind(node)) is not TRUTH:
            raise _wrong(node, f"is {kind}, where a condition should stand")
        self.node = node
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        fields = sorted({field for name in names & set(FUNCTIONS) for field in FUNCTIONS[name]})
        self.columns = sorted(names & set(PLAIN)) + [f"dialogue.list.element.{field}" for field in fields]

    @property
    def in_turns(self) -> bool:
        return any("." in column for column in self.columns)

    def holds(self, games: pa.Table) -> np.ndarray:
        """bool [games]"""
        try:
            found = _value(self.node, games)
        except (pa.ArrowException, UnicodeEncodeError) as error:  # a number or a text that no column can hold
            raise _wrong(self.node, f"cannot be looked for: {error}") from error
        if isinstance(found, pa.Scalar):
            return np.full(len(games), bool(found.as_py()))
        return found.to_numpy(zero_copy_only=False)


def conditions(text: str | None) -> list[Where]:
    """Those that all have to hold."""
    if text is None:
        return []
    if len(text) > LENGTH:
        raise ConfigError(f"an expression has at most {LENGTH} characters, this one {len(text)}")
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if _depth(node) > DEPTH:
            raise RecursionError
        return list(map(Where, _joined(node)))
    except SyntaxError as error:
        raise ConfigError(f"{text[:100]!r} is no expression: {error.msg}; e.g. outcome < .5 and turns > 3") from error
    except ValueError as error:  # a null character
        raise ConfigError(f"{text[:100]!r} is no expression: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise ConfigError(f"{text[:100]!r} is no expression: too much stands within each other") from error


def _depth(node: ast.AST) -> int:
    return 1 + max(map(_depth, ast.iter_child_nodes(node)), default=0)


def _joined(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for each in node.values:
            yield from _joined(each)
    else:
        yield node


def _wrong(node: ast.AST, what: str) -> ConfigError:
    return ConfigError(f"{ast.unparse(node)[:100]} {what}; columns: {', '.join(PLAIN)}"[:300])


# What kind of value a part of it has


def _kind(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return _kind_of_column(node, name)
        case ast.Constant(value=value):
            return _kind_of_constant(node, value)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _all(TRUTH, inner)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _all(NUMBER, inner)
        case ast.BoolOp(values=values):
            return _all(TRUTH, *values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COUNTED:
            return _all(NUMBER, left, right)
        case ast.Compare(left=left, ops=ops, comparators=others):
            for one, op, other in zip([left, *others], ops, others, strict=False):
                _check_compared(node, one, op, other)
            return TRUTH
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=value)], keywords=[]) if name in FUNCTIONS:
            wanted = int if name == "intention" else str
            if type(value) is wanted:
                return TRUTH
    raise _wrong(node, f"has no meaning here; functions: {', '.join(f'{name}(...)' for name in FUNCTIONS)}")


def _kind_of_column(node: ast.expr, name: str) -> str:
    if name in PLAIN:
        kind = SCHEMA.field(name).type
        return TEXT if pa.types.is_string(kind) else TRUTH if pa.types.is_boolean(kind) else NUMBER
    if name in SCHEMA.names:
        raise _wrong(node, "is a list: ask text('...'), said('...') or intention(7)")
    near = difflib.get_close_matches(name, PLAIN, 1)
    raise _wrong(node, f"is no column{f', did you mean {near[0]}?' if near else ''}")


def _kind_of_constant(node: ast.expr, value: object) -> str:
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63):
        return NUMBER
    if isinstance(value, str):
        return TEXT
    if value is None:
        return NONE
    raise _wrong(node, "is no number, text, True, False or None")


def _all(kind: str, *nodes: ast.expr) -> str:
    for node in nodes:
        if (found := _kind(node)) is not kind:
            raise _wrong(node, f"is {found}, where {kind} should stand")
    return kind


def _check_compared(whole: ast.expr, one: ast.expr, op: ast.cmpop, other: ast.expr) -> None:
    left = _kind(one)
    if isinstance(op, ast.In | ast.NotIn) and isinstance(other, ast.List | ast.Tuple | ast.Set):
        if not all(isinstance(each, ast.Constant) and _kind(each) is left for each in other.elts):
            raise _wrong(whole, f"looks for {left} in a list of something else")
        return
    right = _kind(other)
    if isinstance(op, ast.In | ast.NotIn):
        fits = right is TEXT and isinstance(one, ast.Constant) and left is TEXT
    elif isinstance(op, ast.Is | ast.IsNot):
        fits = right is NONE
    elif isinstance(op, ast.Eq | ast.NotEq):
        fits = left is right or right is NONE
    else:
        fits = left is right and left in (TEXT, NUMBER)
    if not fits:
        raise _wrong(whole, f"cannot compare {left} with {right} in this way")


# Its value for a table of games


def _value(node: ast.expr, games: pa.Table) -> Value:
    match node:
        case ast.Name(id=name):
            return pc.fill_null(games[name], False) if _kind(node) is TRUTH else games[name]
        case ast.Constant(value=value):
            return pa.scalar(value)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return pc.invert(_value(inner, games))
        case ast.UnaryOp(operand=inner):
            return pc.negate(_value(inner, games))
        case ast.BoolOp(op=op, values=values):
            join = pc.and_ if isinstance(op, ast.And) else pc.or_
            return reduce(join, [_value(each, games) for each in values])
        case ast.BinOp(left=left, op=op, right=right):
            parts = [pc.cast(_value(each, games), pa.float64()) for each in (left, right)]
            return COUNTED[type(op)](*parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            pairs = zip([left, *others], ops, others, strict=False)
            return reduce(pc.and_, [_compared(one, op, other, games) for one, op, other in pairs])
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=value)]):
            return _in_turns(games["dialogue"], FUNCTIONS[name], value)
    raise AssertionError(ast.dump(node))


def _compared(one: ast.expr, op: ast.cmpop, other: ast.expr, games: pa.Table) -> Value:
    left = _value(one, games)
    if isinstance(other, ast.Constant) and other.value is None:
        missing = pc.is_null(left)
        return missing if isinstance(op, ast.Is | ast.Eq) else pc.invert(missing)
    if isinstance(op, ast.In | ast.NotIn):
        found = pc.fill_null(_contained(left, other, games), False)
        return found if isinstance(op, ast.In) else pc.invert(found)
    return pc.fill_null(COMPARED[type(op)](left, _value(other, games)), isinstance(op, ast.NotEq))


def _contained(left: Value, other: ast.expr, games: pa.Table) -> Value:
    if isinstance(other, ast.List | ast.Tuple | ast.Set):
        return reduce(pc.or_kleene, [pc.equal(left, pa.scalar(each.value)) for each in other.elts], pa.scalar(False))
    return pc.match_substring(_value(other, games), left.as_py())


def _in_turns(dialogues: pa.ChunkedArray, fields: tuple[str, ...], wanted: str | int) -> pa.Array:
    """Whether one of the turns has it in one of these fields."""
    dialogue = dialogues.combine_chunks()
    turns = dialogue.flatten()
    rows = pc.list_parent_indices(dialogue).to_numpy()
    hit = np.zeros(len(turns), bool)
    for name in fields:
        values = turns.field(name)
        if isinstance(wanted, str):  # many texts come often, and each is looked through once
            texts = values.dictionary_encode()
            same = pc.match_substring(texts.dictionary, wanted, ignore_case=True).take(texts.indices)
        else:
            same = pc.equal(values, pa.scalar(wanted))
        hit |= pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    found = np.zeros(len(dialogue), bool)
    found[rows[hit]] = True
    return pa.array(found)
