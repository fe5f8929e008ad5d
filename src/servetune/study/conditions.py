"""Conditions over names, such as `max_num_batched_tokens < max_num_seqs`: read, never executed.

Known are comparisons, `in`, `and`, `or`, `not`, arithmetic, numbers, text, lists and names;
anything else is refused when it is declared.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_WORDS = {"true": True, "false": False, "null": None}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class _NotKnownError(Exception):
    """A name without a value is compared or calculated with."""


def _checked(text: str) -> str:
    list(names_in(text))
    return text


Condition = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_checked)]


def names_in(text: str) -> Iterator[str]:
    """Yield the names of a condition.

    Raises:
        ValueError: it is no condition; says which part.
    """
    nodes = [_parsed(text)]
    while nodes:
        node = nodes.pop()
        if name := _name(node):
            if name not in _WORDS:
                yield name
            continue
        nodes += _parts(node)


def holds(text: str, values: Mapping[str, Any]) -> bool:
    """Whether a condition holds; what compares a value that is not known (None) does not.

    Raises:
        ValueError: it compares text with a number, or divides by zero.
    """
    try:
        return bool(_value(_parsed(text), values))
    except _NotKnownError:
        return False
    except (TypeError, ArithmeticError) as error:
        raise ValueError(f"{text}: {error}") from None


@lru_cache
def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("expected a condition, such as max_num_batched_tokens < 2048") from None


def _name(node: ast.expr) -> str | None:
    """Return a name, also one with dots, as `environment.X`."""
    if isinstance(node, ast.Attribute):
        owner = _name(node.value)
        return owner and f"{owner}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return what a node is made of; raises ValueError if no condition may hold it."""
    match node:
        case ast.BoolOp(values=parts):
            return parts
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return [left, right]
        case ast.Compare(left=left, ops=ops, comparators=others) if {*map(type, ops)} <= {
            *_COMPARISONS
        }:
            return [left, *others]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return parts
        case ast.Constant(value=bool() | int() | float() | str()):
            return []
    raise ValueError(f"{ast.unparse(node)[:80]}: expected names, values, comparisons, and, or, not")


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if name := _name(node):
        return _WORDS[name] if name in _WORDS else values.get(name)
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BoolOp(op=op, values=parts):
            decide = all if isinstance(op, ast.And) else any
            return decide(_value(part, values) for part in parts)
        case ast.UnaryOp(op=op, operand=operand):
            of = _value(operand, values)
            return not of if isinstance(op, ast.Not) else -_number(of)
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](*(_number(_value(part, values)) for part in (left, right)))
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compares([left, *others], ops, values)
    return [_value(part, values) for part in _parts(node)]


def _compares(parts: list[ast.expr], ops: list[ast.cmpop], values: Mapping[str, Any]) -> bool:
    of = [_value(part, values) for part in parts]
    for op, left, right in zip(ops, of, of[1:], strict=False):
        if isinstance(op, _ORDERED) and None in (left, right):
            raise _NotKnownError
        if not _COMPARISONS[type(op)](left, right):
            return False
    return True


def _number(value: Any) -> float:
    if value is None:
        raise _NotKnownError
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value
