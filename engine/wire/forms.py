r"""What a client's XADDs have in common, word by word, and the regular expression that matches just such a command.

A :class:`Form` says of each word that it is always the same, that it has one of a few lengths, or nothing. Forms are
learned from commands: :func:`form_of` one, :func:`joined` with another. :func:`compiled` makes the expression:

* a word that is the same in all stands in it as it is, with its header;
* for a word of a few lengths there is one alternative each, ``4\r\n.{4}\r\n``, so that the value may hold any bytes;
* of other words the header and the bytes up to the next ``\r`` are captured, and are to be compared afterwards.

Who uses the expression, and proves what it finds, is :mod:`engine.wire.bulk`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

#: More different lengths than this of one word, or of all, are not told apart.
_MOST_LENGTHS, _MOST_LENGTHS_IN_ALL = 24, 200
_MAX_WORDS = 100
#: Words beyond this are told apart by their length alone: an expression takes longer to make for each byte in it.
_LONGEST = 100
_MAX_DIGITS = 6

_ANY = rb"\$(0|[1-9][0-9]{0,%d})\r\n([^\r]*+)\r\n" % (_MAX_DIGITS - 1)
#: What an XADD begins with.
NAME = re.compile(rb"\*[0-9]{1,3}\r\n\$4\r\n[Xx][Aa][Dd][Dd]\r\n")
_STAR = b"*"


class Lengths(NamedTuple):
    """Words with so many bytes."""

    least: int
    most: int


#: What is known of a word: it is always this one; it has one of a few lengths; nothing (None).
Word = bytes | Lengths | None


class Form(NamedTuple):
    """What commands have in common. The ID is the last of ``head``, which are the words before the fields."""

    head: tuple[Word, ...]
    body: tuple[Word, ...]


class Pattern(NamedTuple):
    """The expression for a form. Groups are numbered from 0."""

    expression: re.Pattern[bytes]
    groups: int
    #: Where in a match the key, the ID and the body are; -1: they are the same in all.
    key: int
    entry_id: int
    body: int
    #: The groups that hold the number and the word where it could be any.
    unproven: list[tuple[int, int]]
    #: Bytes of a command outside those three.
    outside: int
    #: The words before the fields, as far as they are the same in all, and how many words the fields and values are.
    head: list[bytes]
    words: int


def command_at(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """The words and the size of the XADD at ``at``; None if it is anything else, or not complete, or very long."""
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
    """How many words stand before the fields, 0 where that is not clear.

    The ID is the third word, or the one behind a plain ``MAXLEN [=|~] n``.
    """
    at = 2
    if words[2].upper() == b"MAXLEN":
        at = 5 if words[3] in (b"=", b"~") else 4
    left = len(words) - at - 1
    if left < 2 or left % 2 or not (words[at] == _STAR or words[at][:1].isdigit()):
        return 0
    if at > 2 and len(words[at - 1]) > _LONGEST:
        return 0
    return at + 1


def kind_of(words: list[bytes], head: int) -> tuple[int | bytes, ...]:
    """What must be the same in commands of one form: the number of words, the name, the options."""
    return (len(words), words[0], *words[2 : head - 1])


def form_of(words: list[bytes], head: int) -> Form:
    """The form of one command. That IDs and values differ need not be learned, that keys and fields do must be."""
    entry_id = words[head - 1]
    body = list(map(_same, words[head:]))
    body[1::2] = list(map(_around, words[head + 1 :: 2]))
    last: Word = entry_id if entry_id == _STAR else _around(entry_id)
    return Form((words[0], _same(words[1]), *words[2 : head - 1], last), tuple(body))


def _same(word: bytes) -> Word:
    return word if len(word) <= _LONGEST else Lengths(len(word), len(word))


def _around(word: bytes) -> Lengths:
    return Lengths(max(len(word) - 2, 0), len(word) + 2)


def agrees(form: Form, words: list[bytes]) -> bool:
    """Whether what is always the same in the form is so in ``words``."""
    known = zip(form.head + form.body, words, strict=True)
    return all(one == word for one, word in known if isinstance(one, bytes))


def joined(form: Form, words: list[bytes]) -> Form:
    """The form of all that has ``form``, and of ``words`` as well."""
    lengths = 0
    joined: list[Word] = []
    for known, word in zip(form.head + form.body, words, strict=True):
        both = _either(known, word)
        if isinstance(both, Lengths):
            lengths += both.most - both.least + 1
            if lengths > _MOST_LENGTHS_IN_ALL:
                both = None
        joined.append(both)
    return Form(tuple(joined[: len(form.head)]), tuple(joined[len(form.head) :]))


def _either(known: Word, word: bytes) -> Word:
    """What is known of a word if it may also be ``word``: a little more than was seen, because more will come."""
    if known is None or known == word:
        return known
    size = len(word)
    least, most = (len(known), len(known)) if isinstance(known, bytes) else known
    if isinstance(known, Lengths) and least <= size <= most:
        return known
    least, most = min(least, size), max(most, size)
    more = 1 + (most - least) // 2
    lengths = Lengths(max(least - more, 0), most + more)
    return lengths if lengths.most - lengths.least < _MOST_LENGTHS else None


@lru_cache(maxsize=512)
def compiled(form: Form) -> Pattern:
    """The expression that matches what has this form, and nothing else."""
    parts = [b"\\*%d\r\n" % (len(form.head) + len(form.body))]
    outside = len(parts[0]) - 1
    unproven: list[tuple[int, int]] = []
    groups, key, entry_id = 0, -1, -1
    for place, word in enumerate(form.head):
        if isinstance(word, bytes):
            parts.append(_expression(word))
            outside += len(b"$%d\r\n%b\r\n" % (len(word), word))
            continue
        if place == 1:
            key = groups
        else:
            entry_id = groups
        groups += 1
        if word is None:
            unproven.append((groups, groups + 1))
            groups += 2
        parts.append(b"(" + _expression(word) + b")")
    body = groups
    groups += 1
    for word in form.body:
        if word is None:
            unproven.append((groups, groups + 1))
            groups += 2
    parts.append(b"(" + b"".join(map(_expression, form.body)) + b")")
    head = [word if isinstance(word, bytes) else b"" for word in form.head]
    expression = re.compile(b"".join(parts), re.DOTALL)
    return Pattern(expression, groups, key, entry_id, body, unproven, outside, head, len(form.body))


def _expression(word: Word) -> bytes:
    """What matches a word with its header."""
    if word is None:
        return _ANY
    if isinstance(word, bytes):
        return re.escape(b"$%d\r\n%b\r\n" % (len(word), word))
    lengths = map(rb"%d\r\n.{%d}\r\n".__mod__, zip(*[range(word.least, word.most + 1)] * 2, strict=True))
    return rb"\$(?:%b)" % b"|".join(lengths)
