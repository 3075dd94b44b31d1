r"""Forms: the common parts of a client's XADDs, word by word, as a regular expression that matches such commands.

In a ``Form`` each word is constant, or has one of a few lengths, or is arbitrary. A form is learned from commands:
``form_of`` creates it from the first command, and ``joined`` widens it for each later command. ``compiled`` creates the
expression:

* A constant word is part of the expression, with its header.
* For a word of a few lengths, each length is an alternative such as ``4\r\n.{4}\r\n``: the value may contain any bytes.
* For an arbitrary word, the length in the header and the bytes up to the next ``\r`` are captured. The caller must
  compare the length with the number of bytes.

``engine.wire.bulk`` uses the expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from engine.core.protocol.xadd import ADD_OPTIONS, divide

#: Maximum number of alternative lengths of one word.
_MOST_LENGTHS = 24
#: Maximum number of alternative lengths of all words together.
_MOST_LENGTHS_IN_ALL = 200
#: Commands of more words than this do not become part of a run.
_MAX_WORDS = 100
#: Maximum length of a constant word, because compiling an expression takes time for each byte in it.
_LONGEST = 100
#: Maximum number of digits of a word's length.
_MAX_DIGITS = 6

_ANY = rb"\$(0|[1-9][0-9]{0,%d})\r\n([^\r]*+)\r\n" % (_MAX_DIGITS - 1)
#: Start of an XADD.
NAME = re.compile(rb"\*[0-9]{1,3}\r\n\$4\r\n[Xx][Aa][Dd][Dd]\r\n")
_STAR = b"*"


class Lengths(NamedTuple):
    """A word of ``least`` to ``most`` bytes."""

    least: int
    most: int


#: A word in a form: a constant, a few lengths, or arbitrary (None).
Word = bytes | Lengths | None


class Form(NamedTuple):
    """Common parts of commands. ``head``: the words before the fields; the last one is the ID."""

    head: tuple[Word, ...]
    body: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The expression for a form. Groups are numbered from 0."""

    expression: re.Pattern[bytes]
    groups: int
    #: Group of the key; -1 if the key is constant.
    key: int
    #: Group of the ID; -1 if the ID is constant.
    entry_id: int
    #: Group of the body.
    body: int
    #: The groups of the key and the ID, unless they are constant.
    varying: list[int]
    #: Pairs (group of the length in the header, group of the word) for words of arbitrary length.
    unverified: list[tuple[int, int]]
    #: Number of bytes of a command that are in none of the groups for key, ID and body.
    outside: int
    #: Words before the fields; empty for each word that is not constant.
    head: list[bytes]
    #: Number of words (fields and values) of each entry.
    words: int


def command_at(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """Return the words and the size of the XADD at ``at``; None if the XADD is incomplete, too long or invalid."""
    if NAME.match(data, at) is None:
        return None
    pos = data.index(b"\r\n", at) + 2
    number = int(data[at + 1 : pos - 2])
    words: list[bytes] = []
    if not 5 <= number <= _MAX_WORDS:
        return None
    for _ in range(number):
        line_end = data.find(b"\r\n", pos, pos + _MAX_DIGITS + 3)
        digits = data[pos + 1 : line_end]
        if line_end < 0 or data[pos : pos + 1] != b"$" or not digits.isdigit():
            return None
        end = line_end + 2 + int(digits)
        words.append(data[line_end + 2 : end])
        pos = end + 2
    return (words, pos - at) if pos <= len(data) else None


def head_size(words: list[bytes]) -> int:
    """Return the number of words before the fields; 0 if the command is invalid or cannot be part of a run."""
    options, at = divide(words)
    if len(options) > 1 or (options and not ADD_OPTIONS[options[0].token].uniform) or at == len(words):
        return 0
    left = len(words) - at - 1
    if left < 2 or left % 2 or not (words[at] == _STAR or words[at][:1].isdigit()):
        return 0
    if at > 2 and len(words[at - 1]) > _LONGEST:
        return 0
    return at + 1


def kind_of(words: list[bytes], head: int) -> tuple[int | bytes, ...]:
    """Return the properties that commands of one form share: the number of words, the name, and the options."""
    return (len(words), words[0], *words[2 : head - 1])


def form_of(words: list[bytes], head: int) -> Form:
    """Return the form of one command.

    The ID and the values may vary in length. The key and the field names are constant until ``joined`` widens them.
    """
    entry_id = words[head - 1]
    body = list(map(_constant, words[head:]))
    body[1::2] = list(map(_with_margin, words[head + 1 :: 2]))
    last: Word = entry_id if entry_id == _STAR else _with_margin(entry_id)
    return Form((words[0], _constant(words[1]), *words[2 : head - 1], last), tuple(body))


def _constant(word: bytes) -> Word:
    return word if len(word) <= _LONGEST else Lengths(len(word), len(word))


def _with_margin(word: bytes) -> Lengths:
    return Lengths(max(len(word) - 2, 0), len(word) + 2)


def agrees(form: Form, words: list[bytes]) -> bool:
    """Return whether ``words`` have the form's constant words in the same positions."""
    pairs = zip(form.head + form.body, words, strict=True)
    return all(constant == word for constant, word in pairs if isinstance(constant, bytes))


def joined(form: Form, words: list[bytes]) -> Form:
    """Return ``form``, widened to match ``words``."""
    lengths = 0
    joined: list[Word] = []
    for before, word in zip(form.head + form.body, words, strict=True):
        both = _either(before, word)
        if isinstance(both, Lengths):
            lengths += both.most - both.least + 1
            if lengths > _MOST_LENGTHS_IN_ALL:
                both = None
        joined.append(both)
    return Form(tuple(joined[: len(form.head)]), tuple(joined[len(form.head) :]))


def _either(form: Word, word: bytes) -> Word:
    """Return ``form``, widened to match ``word``. New lengths get a margin for later words."""
    if form is None or form == word:
        return form
    size = len(word)
    least, most = (len(form), len(form)) if isinstance(form, bytes) else form
    if isinstance(form, Lengths) and least <= size <= most:
        return form
    least, most = min(least, size), max(most, size)
    margin = 1 + (most - least) // 2
    lengths = Lengths(max(least - margin, 0), most + margin)
    return lengths if lengths.most - lengths.least < _MOST_LENGTHS else None


@lru_cache(maxsize=512)
def compiled(form: Form) -> Pattern:
    """Return the pattern of commands of this form. Callers must compare the lengths of its ``unverified`` words."""
    parts = [b"\\*%d\r\n" % (len(form.head) + len(form.body))]
    outside = len(parts[0]) - 1
    unverified: list[tuple[int, int]] = []
    groups, key, entry_id = 0, -1, -1
    for position, word in enumerate(form.head):
        if isinstance(word, bytes):
            parts.append(_expression(word))
            outside += len(b"$%d\r\n%b\r\n" % (len(word), word))
            continue
        if position == 1:
            key = groups
        else:
            entry_id = groups
        groups += 1
        if word is None:
            unverified.append((groups, groups + 1))
            groups += 2
        parts.append(b"(" + _expression(word) + b")")
    body = groups
    groups += 1
    for word in form.body:
        if word is None:
            unverified.append((groups, groups + 1))
            groups += 2
    parts.append(b"(" + b"".join(map(_expression, form.body)) + b")")
    head = [word if isinstance(word, bytes) else b"" for word in form.head]
    expression = re.compile(b"".join(parts), re.DOTALL)
    varying = [part for part in (key, entry_id) if part >= 0]
    return Pattern(expression, groups, key, entry_id, body, varying, unverified, outside, head, len(form.body))


def _expression(word: Word) -> bytes:
    """Return the expression for a word with its header."""
    if word is None:
        return _ANY
    if isinstance(word, bytes):
        return re.escape(b"$%d\r\n%b\r\n" % (len(word), word))
    lengths = map(rb"%d\r\n.{%d}\r\n".__mod__, zip(*[range(word.least, word.most + 1)] * 2, strict=True))
    return rb"\$(?:%b)" % b"|".join(lengths)
