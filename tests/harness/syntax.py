"""The syntax of a declared command, parsed into arguments, for tests that generate commands.

* ``word``: an argument
* ``WORD``: a token, which includes the plain arguments that follow it
* ``[...]``: optional
* ``<...>``: a group
* ``a | b``: a choice; inside brackets, between everything before and everything after the bar
* ``a [a ...]``: a, one or more times
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

_WORDS = re.compile(r"[\[\]<>|]|\.\.\.|[^\s\[\]<>|]+")
_INTEGERS = {
    "count",
    "cursor",
    "milliseconds",
    "seconds",
    "ms",
    "timeout",
    "increment",
    "decrement",
    "offset",
    "numids",
    "numfields",
    "index",
    "db",
    "destination-db",
    "min-idle-time",
    "entries-read",
    "entries-added",
    "bytes",
    "parts",
    "protover",
    "client-id",
    "port",
    "index1",
    "index2",
    "numreplicas",
    "maxage",
}
_UNIX_TIMES = {"unix-time-seconds", "unix-time-milliseconds"}


@dataclass(frozen=True)
class Argument:
    """One argument, or a group of arguments."""

    name: str
    kind: str
    token: str = ""
    optional: bool = False
    multiple: bool = False
    parts: tuple[Argument, ...] = field(default=())


@lru_cache(maxsize=512)
def arguments(syntax: str) -> tuple[Argument, ...]:
    """Parse the arguments of a syntax line."""
    words = _WORDS.findall(syntax)
    found, end = _sequence(words, 0, "")
    if end != len(words):
        raise ValueError(f"unbalanced brackets in the syntax {syntax!r}")
    return tuple(found)


def _sequence(words: list[str], at: int, closing: str) -> tuple[list[Argument], int]:
    """Parse up to ``closing``; return the arguments, and the position of ``closing`` (or the end)."""
    alternatives: list[list[Argument]] = [[]]
    joins: list[int] = []
    while at < len(words) and words[at] != closing:
        word = words[at]
        here = alternatives[-1]
        if word in ("]", ">"):
            raise ValueError(f"unexpected {word}")
        at += 1
        if word == "|":
            if closing:
                alternatives.append([])
            else:
                joins.append(len(here))
        elif word in ("[", "<"):
            end = "]" if word == "[" else ">"
            inner, at = _sequence(words, at, end)
            at += 1
            _add_group(here, inner, optional=word == "[")
        elif word == "...":
            here.append(Argument("...", "repeat"))
        else:
            here.append(_word(word))
    for position in reversed(joins):
        # Outside brackets, a bar joins its two adjacent arguments.
        here = alternatives[0]
        if 0 < position < len(here):
            pair = here[position - 1 : position + 1]
            choices = tuple(
                part for argument in pair for part in (argument.parts if argument.kind == "oneof" else (argument,))
            )
            here[position - 1 : position + 1] = [Argument(_joined(choices), "oneof", parts=choices)]
    sequences = [_with_tokens(alternative) for alternative in alternatives]
    if len(sequences) == 1:
        return sequences[0], at
    ways = tuple(_as_one(sequence) for sequence in sequences if sequence)
    return [Argument(_joined(ways), "oneof", parts=ways)], at


def _add_group(here: list[Argument], inner: list[Argument], *, optional: bool) -> None:
    """Append the arguments in brackets; ``a [a ...]`` makes the preceding arguments repeat instead."""
    if inner and inner[-1].kind == "repeat":
        repeated = inner[:-1]
        count = len(repeated)
        if count and [argument.name for argument in here[-count:]] == [argument.name for argument in repeated]:
            here[-count:] = [replace(_as_one(here[-count:]), multiple=True)]
            return
        inner = [replace(_as_one(repeated), multiple=True)]
    group = _as_one(inner)
    here.append(replace(group, optional=group.optional or optional))


def _word(word: str) -> Argument:
    if word != word.lower() or not any(char.isalpha() for char in word):
        return Argument(word.lower(), "pure-token", token=word)
    if word == "key" or word in ("source", "destination", "newkey"):
        return Argument(word, "key")
    if word in _INTEGERS:
        return Argument(word, "integer")
    return Argument(word, "unix-time" if word in _UNIX_TIMES else "pattern" if word == "pattern" else "string")


def _with_tokens(items: list[Argument]) -> list[Argument]:
    """Assign to each token the plain arguments that follow it."""
    out: list[Argument] = []
    for item in items:
        owner = out[-1] if out else None
        plain = not item.token and not item.optional and item.kind not in ("oneof", "repeat")
        takes = owner is not None and owner.token.isupper() and not owner.optional
        if owner is None or not plain or not takes:
            out.append(item)
        elif owner.kind == "pure-token":
            out[-1] = replace(item, token=owner.token)
        else:
            parts = owner.parts if owner.kind == "block" else (replace(owner, token=""),)
            out[-1] = Argument(owner.token.lower(), "block", owner.token, parts=(*parts, item))
    return out


def _as_one(items: list[Argument]) -> Argument:
    if len(items) == 1:
        return items[0]
    return Argument(_joined(items), "block", parts=tuple(items))


def _joined(items: list[Argument] | tuple[Argument, ...]) -> str:
    return "_".join(argument.name.replace("-", "_") for argument in items[:4])
