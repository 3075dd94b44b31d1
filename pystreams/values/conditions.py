"""Conditions on an entry's fields, as in `--where`: `temp > 30 and station in ('ewr', 'jfk')`.

The language is a small part of Python's expressions: field names, numbers, strings, comparisons, `in`, `and`, `or`
and `not`. `doc.card.number` names a member of a decoded value. A name that is not an identifier is written
`field('my-field')`. Any comparison is false if the field is missing. A field that is compared with a number is
converted without rounding; if it is not a decimal number, only `not in` is true. A field name on its own is true if the
field exists and is not empty. A condition is never executed as code.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from pystreams.errors import fail
from pystreams.values.fields import Members

#: An entry's fields as strings, with the members of its decoded values if they are decoded.
Fields = Mapping[str, str] | Members

_Holds = Callable[[Fields], bool]
_Value = Callable[[Fields], Any]

#: A decimal number. Python also accepts 1_000, 0x10 and nan, which other programs do not write as numbers.
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Condition:
    """A condition. `checked`: number of entries checked. `unseen`: names in the condition that none of these had."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self.checked = 0
        self.unseen: list[str] = []
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._refuse("it is not a condition such as temp > 30 and station == 'ewr'")
        self._holds = self._condition(tree.body)

    def __call__(self, fields: Fields) -> bool:
        """Return whether the condition holds for an entry with these fields."""
        self.checked += 1
        if self.unseen:
            self.unseen = [name for name in self.unseen if fields.get(name) is None]
        return self._holds(fields)

    def _refuse(self, expected: str) -> NoReturn:
        fail("INVALID_VALUE", name=self._name, value=self._text, expected=expected)

    def _condition(self, node: ast.expr) -> _Holds:
        if isinstance(node, ast.BoolOp):
            parts = [self._condition(each) for each in node.values]
            combine = all if isinstance(node.op, ast.And) else any
            return lambda fields: combine(part(fields) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._condition(node.operand)
            return lambda fields: not inner(fields)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        value = self._field(node)
        return lambda fields: bool(value(fields))

    def _comparison(self, node: ast.Compare) -> _Holds:
        """Return the condition for one comparison, or for a chain such as `0 < temp < 30`."""
        steps: list[_Holds] = []
        for left, sign, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            first = self._operand(left)
            if isinstance(sign, ast.In | ast.NotIn):
                if not isinstance(right, ast.List | ast.Tuple | ast.Set):
                    self._refuse("a list must follow 'in': station in ('ewr', 'jfk')")
                among = [self._operand(each) for each in right.elts]
                wanted = isinstance(sign, ast.In)
                steps.append(_membership(first, among, wanted))
            elif type(sign) in _COMPARISONS:
                steps.append(_step(first, _COMPARISONS[type(sign)], self._operand(right)))
            else:
                self._refuse("comparisons are ==, !=, <, <=, >, >=, in and not in")
        return lambda fields: all(step(fields) for step in steps)

    def _operand(self, node: ast.expr) -> _Value:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            negative = self._number(node.operand).copy_negate()  # `-` would round to the context's precision
            return lambda _: negative
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, str):
                return lambda _: value
            number = self._number(node)
            return lambda _: number
        return self._field(node)

    def _number(self, node: ast.Constant) -> Decimal:
        """Return a number as it is written in the condition."""
        number = _number(ast.get_source_segment(self._text.strip(), node))
        if number is None:
            self._refuse("its numbers must be decimal numbers such as 1000, -2.5 or 1e6")
        return number

    def _field(self, node: ast.expr) -> _Value:
        name = _path(node)
        if name is None:
            self._refuse("it may contain names, numbers, strings, comparisons, in, and, or, not")
        self.unseen.append(name)
        return lambda fields: fields.get(name)


def parse(text: str, name: str = "--where") -> Condition:
    """Return the parsed condition. Raises INVALID_VALUE; `name` is the option or form field that contains `text`."""
    return Condition(text, name)


def _path(node: ast.expr) -> str | None:
    """Return the name of a field or the path of a member, or None for other expressions."""
    members: list[str] = []
    while isinstance(node, ast.Attribute):
        members.append(node.attr)
        node = node.value
    name = None
    if isinstance(node, ast.Name):
        name = node.id
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "field":
        given = node.args[0] if len(node.args) == 1 and not node.keywords else None
        name = given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None
    return None if name is None else ".".join([name, *reversed(members)])


def _step(first: _Value, compare: Callable[[Any, Any], bool], second: _Value) -> _Holds:
    def holds(fields: Fields) -> bool:
        a, b = _alike(first(fields), second(fields))
        return a is not None and b is not None and compare(a, b)

    return holds


def _membership(first: _Value, among: list[_Value], wanted: bool) -> _Holds:
    def holds(fields: Fields) -> bool:
        value = first(fields)
        if value is None:
            return False
        return any(operator.eq(*_alike(value, each(fields))) for each in among) == wanted

    return holds


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both values as numbers if one of them is a number, with None for a string that is not a number."""
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return _number(a), _number(b)
    return a, b


def _number(value: Decimal | str | None) -> Decimal | None:
    if value is None or isinstance(value, Decimal):
        return value
    try:
        return Decimal(value) if _NUMBER.fullmatch(value) else None
    except InvalidOperation:  # an exponent of twenty digits
        return None
