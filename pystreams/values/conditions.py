"""Conditions on an entry's fields, as `--where` takes them: `temp > 30 and station in ('ewr', 'jfk')`.

The language is a small part of Python's expressions: field names, numbers, texts, comparisons, `in`, `and`, `or` and
`not`. A field whose name is not a word is written `field('my-field')`. A field compared with a number is converted; the
comparison is false if it is not a number, or if the entry does not have the field. A field name on its own is true if
the field exists and is not empty. Nothing is ever executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from pystreams.errors import fail

Fields = Mapping[str, str]
Condition = Callable[[Fields], bool]
_Value = Callable[[Fields], Any]

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def parse(text: str) -> Condition:
    """Return the condition in a text. Raises INVALID_VALUE."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _refuse(text, "it is not a condition such as temp > 30 and station == 'ewr'")
    return _condition(tree.body, text)


def _refuse(text: str, expected: str) -> Any:
    fail("INVALID_VALUE", name="--where", value=text, expected=expected)


def _condition(node: ast.expr, text: str) -> Condition:
    if isinstance(node, ast.BoolOp):
        parts = [_condition(each, text) for each in node.values]
        combine = all if isinstance(node.op, ast.And) else any
        return lambda fields: combine(part(fields) for part in parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _condition(node.operand, text)
        return lambda fields: not inner(fields)
    if isinstance(node, ast.Compare):
        return _comparison(node, text)
    value = _field(node, text)
    return lambda fields: bool(value(fields))


def _comparison(node: ast.Compare, text: str) -> Condition:
    """Return the condition of one comparison, or of a chain such as `0 < temp < 30`."""
    steps: list[Condition] = []
    for left, sign, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        first = _operand(left, text)
        if isinstance(sign, ast.In | ast.NotIn):
            if not isinstance(right, ast.List | ast.Tuple | ast.Set):
                _refuse(text, "a list must follow 'in': station in ('ewr', 'jfk')")
            among = [_operand(each, text) for each in right.elts]  # type: ignore[attr-defined]  # refused above
            wanted = isinstance(sign, ast.In)
            steps.append(_membership(first, among, wanted))
        elif type(sign) in _COMPARISONS:
            steps.append(_step(first, _COMPARISONS[type(sign)], _operand(right, text)))
        else:
            _refuse(text, "comparisons are ==, !=, <, <=, >, >=, in and not in")
    return lambda fields: all(step(fields) for step in steps)


def _step(first: _Value, compare: Callable[[Any, Any], bool], second: _Value) -> Condition:
    def holds(fields: Fields) -> bool:
        a, b = _alike(first(fields), second(fields))
        return a is not None and b is not None and compare(a, b)

    return holds


def _membership(first: _Value, among: list[_Value], wanted: bool) -> Condition:
    def holds(fields: Fields) -> bool:
        value = first(fields)
        if value is None:
            return False
        return any(operator.eq(*_alike(value, each(fields))) for each in among) == wanted

    return holds


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both as numbers if one of them is a number; None for a text that is not one."""
    if isinstance(a, float) or isinstance(b, float):
        return _number(a), _number(b)
    return a, b


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _operand(node: ast.expr, text: str) -> _Value:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        if isinstance(number, int | float):
            return lambda _: -float(number)
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, str):
            return lambda _: value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return lambda _: float(value)
    return _field(node, text)


def _field(node: ast.expr, text: str) -> _Value:
    if isinstance(node, ast.Name):
        name = node.id
        return lambda fields: fields.get(name)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "field":
        given = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            key = given.value
            return lambda fields: fields.get(key)
    return _refuse(text, "it may contain names, numbers, texts, comparisons, in, and, or, not")  # type: ignore[no-any-return]
