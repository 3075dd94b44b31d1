r"""Runs of XADD: many commands of one form in one buffer, recognised at once, with a proof.

A pipeline of XADDs is mostly repetition. A :class:`Scanner` learns what a client's commands have in common, word by
word: the same word in all of them, words of a few lengths, or any. From that it makes a regular expression that matches
such a command and nothing else, and has the ``re`` module find all of them in one call:

* a word that is the same in all stands in the expression as it is, with its header;
* for a word of a few lengths there is one alternative each, ``4\r\n.{4}\r\n``, so that the value may hold any bytes;
* of other words the header and the bytes up to the next ``\r`` are captured, and compared afterwards.

That the commands found stand side by side, with nothing in between, is shown by their lengths. What is left goes to
:class:`engine.wire.parser.RequestParser`, which is the definition; a run is never longer than it says.

What comes out is not words but each command's *body*, the bytes from its first field on: they are stored as they are.
To make an expression costs as much as some hundred commands one by one, so it is made only for those who send as many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, count
from operator import ne
from typing import NamedTuple

#: So many commands must have gone by for which there was no expression, before one is made.
WORTH_IT = 100
#: More different lengths than this of one word, or of all, are not told apart.
_MOST_LENGTHS, _MOST_LENGTHS_IN_ALL = 24, 200
_MAX_WORDS = 100
#: Words beyond this are told apart by their length alone: an expression takes longer to make for each byte in it.
_LONGEST = 100
_MAX_DIGITS = 6
#: How many commands, from all over the buffer, are looked at to learn from.
_SAMPLE = 8
#: So many commands are searched for at first; each time that half of that or more was found, twice as many.
_FIRST_LOOK = 24
#: Forms that are remembered of one client.
_MOST_FORMS = 16
#: After so many commands, other keys or fields are taken for other work, from which is learned as if it were the first.
_SETTLED = 10_000

_ANY = rb"\$(0|[1-9][0-9]{0,%d})\r\n([^\r]*+)\r\n" % (_MAX_DIGITS - 1)
_NAME = re.compile(rb"\*[0-9]{1,3}\r\n\$4\r\n[Xx][Aa][Dd][Dd]\r\n")
#: What an XADD begins with at least.
_SHORTEST = b"*5\r\n$4\r\nXADD\r\n"
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


class _Pattern(NamedTuple):
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


@dataclass(slots=True)
class AddRun:
    """``count`` XADD commands. ``end`` is where the buffer goes on behind them."""

    count: int
    end: int
    #: The first command's words before its fields: XADD, key, options, ID.
    head: list[bytes]
    #: How many words each entry's fields and values are.
    words: int
    #: Each command's bytes from its first field on, and how many they are.
    bodies: list[bytes]
    sizes: list[int]
    #: The key of every command with its header (``$1\r\ns\r\n``), where not all have the first one's.
    keys: list[bytes] | None = None
    #: The ID of every command, likewise, where not all are ``*``.
    ids: list[bytes] | None = None

    def commands(self) -> Iterator[list[bytes]]:
        """The commands one by one, as words."""
        for row, body in enumerate(self.bodies):
            words, at = self.head[:], 0
            if self.keys is not None:
                words[1] = _word(self.keys[row])
            if self.ids is not None:
                words[-1] = _word(self.ids[row])
            for _ in range(self.words):
                line_end = body.index(b"\r\n", at)
                end = line_end + 2 + int(body[at + 1 : line_end])
                words.append(body[line_end + 2 : end])
                at = end + 2
            yield words


def _word(bulk: bytes) -> bytes:
    return bulk[bulk.index(b"\n") + 1 : -2]


def next_start(data: bytes) -> int:
    """Where, behind the first command of ``data``, an XADD seems to begin; 0 if none does. A guess, to cut there."""
    name = data.find(b"\r\n$4\r\nXADD\r\n")
    line = data.rfind(b"\r\n*", 0, max(name, 0))
    return line + 2 if line > 0 else 0


class Scanner:
    """Finds one client's runs. ``patience`` is how many commands it lets go by before it makes an expression."""

    __slots__ = ("_form", "_forms", "_patience", "_pattern", "_seen", "_served")

    def __init__(self, patience: int = WORTH_IT) -> None:
        self._patience = patience
        #: Commands that went by without an expression.
        self._seen = 0
        self._forms: dict[tuple[int | bytes, ...], Form] = {}
        self._form: Form | None = None
        self._pattern: _Pattern | None = None
        #: Commands that were found since the present form was made.
        self._served = 0

    def scan(self, data: bytes, at: int = 0) -> AddRun | None:
        """The run of XADDs that begins at ``at``, if there is one that is worth it."""
        pattern = self._pattern
        first = None if pattern is None else pattern.expression.match(data, at)
        if first is None:
            pattern = self._learn(data, at)
            first = None if pattern is None else pattern.expression.match(data, at)
        if pattern is None or first is None:
            return None
        end = first.end()
        if end < len(data):
            run = self._find(pattern, data, at, end - at)
            self._served += 0 if run is None else run.count
            return run
        # The last command, or the only one, as with clients that wait for each reply.
        groups = first.groups()
        for number, word in pattern.unproven:
            if int(groups[number]) != len(groups[word]):
                return None
        self._served += 1
        body = groups[pattern.body]
        keys = [groups[pattern.key]] if pattern.key >= 0 else None
        entry_ids = [groups[pattern.entry_id]] if pattern.entry_id >= 0 else None
        return AddRun(1, end, _head_of(pattern, keys, entry_ids), pattern.words, [body], [len(body)], keys, entry_ids)

    def _learn(self, data: bytes, at: int) -> _Pattern | None:
        """The expression for the command at ``at``, made if that is worth while."""
        if _NAME.match(data, at) is None:
            return None
        self._seen += 1 + data.count(b"\r\n$4\r\nXADD\r\n", at + len(_SHORTEST))
        if self._seen < self._patience and not self._forms:
            return None
        first = _command(data, at)
        if first is None:
            return None
        words, size = first
        head = _head(words)
        if not head:
            return None
        kind = _kind(words, head)
        form = self._forms.get(kind)
        if form is not None and form is not self._form:
            self._use(form)
            if self._pattern is not None and self._pattern.expression.match(data, at) is not None:
                return self._pattern
        if self._seen < self._patience:
            return None
        self._seen = 0
        if form is None or (self._served >= _SETTLED and not _agrees(form, words)):
            form = _form(words, head)
        form = _joined(form, words)
        # Where a value holds what looks like a command, more is learned than is so, which does no harm.
        start = data[at : data.index(b"\n", at) + 1]
        for part in range(_SAMPLE):
            place = data.find(start, at + size + (len(data) - at) * part // _SAMPLE)
            following = _command(data, place) if place >= 0 else None
            if following is not None and _kind(following[0], head) == kind:
                form = _joined(form, following[0])
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        self._forms[kind] = form
        self._served = 0
        self._use(form)
        return self._pattern

    def _use(self, form: Form) -> None:
        self._form, self._pattern = form, _compiled(form)

    def _find(self, pattern: _Pattern, data: bytes, at: int, size: int) -> AddRun | None:
        """All commands of the form from ``at`` on that stand side by side, the first of which has this size."""
        window = _FIRST_LOOK * size
        bodies: list[bytes] = []
        sizes: list[int] = []
        keys: list[bytes] = []
        ids: list[bytes] = []
        while at < len(data):
            end = min(at + window, len(data))
            columns, lengths, taken = _side_by_side(pattern, data, at, end)
            if not taken:
                break
            bodies = bodies + columns[pattern.body] if bodies else columns[pattern.body]
            sizes = sizes + lengths if sizes else lengths
            if pattern.key >= 0:
                keys += columns[pattern.key]
            if pattern.entry_id >= 0:
                ids += columns[pattern.entry_id]
            at += taken
            if 2 * taken < window:
                break
            window *= 2
        if not bodies:
            return None
        head = _head_of(pattern, keys, ids)
        return AddRun(len(bodies), at, head, pattern.words, bodies, sizes, keys or None, ids or None)


def _head_of(pattern: _Pattern, keys: list[bytes] | None, ids: list[bytes] | None) -> list[bytes]:
    """The first command's words before its fields."""
    if not keys and not ids:
        return pattern.head
    head = pattern.head[:]
    if keys:
        head[1] = _word(keys[0])
    if ids:
        head[-1] = _word(ids[0])
    return head


def _side_by_side(pattern: _Pattern, data: bytes, at: int, end: int) -> tuple[list[list[bytes]], list[int], int]:
    """The commands that stand side by side from ``at`` on: their groups, one list each; the sizes of their bodies; and
    how many bytes they are together.
    """
    expression = pattern.expression
    found = expression.findall(data, at, end)
    if not found:
        return [], [], 0
    columns = [found] if pattern.groups == 1 else [list(column) for column in zip(*found, strict=True)]
    sizes = list(map(len, columns[pattern.body]))
    others = [columns[part] for part in (pattern.key, pattern.entry_id) if part >= 0]
    taken = len(found) * pattern.outside + sum(sizes)
    for other in others:
        taken += sum(map(len, other))
    rows = len(found)
    if at + taken != end:
        # They stand side by side if none begins behind where the last one does then.
        last = pattern.outside + sizes[-1] + sum(len(other[-1]) for other in others)
        if expression.search(data, at + taken - last + 1, end) is not None:
            rows = _count(expression, data, at, end)
    for number, word in pattern.unproven:
        said, are = map(int, columns[number]), map(len, columns[word])
        rows = min(rows, next(compress(count(), map(ne, said, are)), rows))
    if rows < len(found):
        for column in columns:
            del column[rows:]
        del sizes[rows:]
        taken = rows * pattern.outside + sum(sizes) + sum(sum(map(len, other)) for other in others)
    return columns, sizes, taken


def _count(expression: re.Pattern[bytes], data: bytes, at: int, end: int) -> int:
    """How many commands stand side by side from ``at`` on, looked for one by one."""
    rows = 0
    while (found := expression.match(data, at, end)) is not None:
        rows += 1
        at = found.end()
    return rows


def _command(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """The words and the size of the XADD at ``at``; None if it is anything else, or not complete, or very long."""
    if _NAME.match(data, at) is None:
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


def _head(words: list[bytes]) -> int:
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


def _kind(words: list[bytes], head: int) -> tuple[int | bytes, ...]:
    """What must be the same in commands of one form: the number of words, the name, the options."""
    return (len(words), words[0], *words[2 : head - 1])


def _form(words: list[bytes], head: int) -> Form:
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


def _agrees(form: Form, words: list[bytes]) -> bool:
    """Whether what is always the same in the form is so in ``words``."""
    known = zip(form.head + form.body, words, strict=True)
    return all(one == word for one, word in known if isinstance(one, bytes))


def _joined(form: Form, words: list[bytes]) -> Form:
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
def _compiled(form: Form) -> _Pattern:
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
    return _Pattern(expression, groups, key, entry_id, body, unproven, outside, head, len(form.body))


def _expression(word: Word) -> bytes:
    """What matches a word with its header."""
    if word is None:
        return _ANY
    if isinstance(word, bytes):
        return re.escape(b"$%d\r\n%b\r\n" % (len(word), word))
    lengths = map(rb"%d\r\n.{%d}\r\n".__mod__, zip(*[range(word.least, word.most + 1)] * 2, strict=True))
    return rb"\$(?:%b)" % b"|".join(lengths)
