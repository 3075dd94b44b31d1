r"""Runs of XADD: many commands of one form in one buffer, found together and verified.

The XADDs of a pipeline usually have a common form. A ``Scanner`` learns the form of a client's commands and compiles it
to a regular expression that matches such commands. One call of ``re`` then finds all of them. If the expression does
not fix the length of a word, the length is compared with the word's header afterwards. The sum of the lengths shows
that the commands are contiguous.

All other commands are parsed by ``engine.wire.parser.RequestParser``. That parser also defines what a command is: a run
contains exactly the commands that it would return.

A run holds each command's *body* instead of its words: the bytes from its first field on, which are stored unchanged.
Compiling an expression takes as long as parsing some hundred commands, so expressions are compiled only for clients
that send that many commands.

Without runs, pipelines of 100 XADDs have a sixth of their speed, and those of 1,000 a tenth (``python -m benchmarks``).
Without learned forms, if each word is compared with its header, they have three quarters, and less than half.

In a ``Form`` each word is constant, or has one of a few lengths, or is arbitrary. ``form_of`` creates a form from the
first command, ``joined`` widens it for each later command, and ``compiled`` creates the expression:

* A constant word is part of the expression, with its header.
* For a word of a few lengths, each length is an alternative such as ``4\r\n.{4}\r\n``: the value may contain any bytes.
* For an arbitrary word, the length in the header and the bytes up to the next ``\r`` are captured. The caller must
  compare the length with the number of bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, count
from operator import ne
from typing import NamedTuple

from engine.core.protocol.xadd import ADD_OPTIONS, XaddRun, divide, word_in
from engine.wire.parser import RequestParser

#: Maximum number of alternative lengths of one word.
_MOST_LENGTHS = 24
#: Maximum number of alternative lengths of all words together.
_MOST_LENGTHS_IN_ALL = 200
#: Commands of more words or bytes than this do not become part of a run.
_MAX_WORDS, _MAX_BYTES = 100, 1 << 16
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
    begin = data[at : at + _MAX_BYTES]
    found, rest = RequestParser().parse_one(begin)
    words = found[0] if found else []
    return (words, len(begin) - len(rest)) if 5 <= len(words) <= _MAX_WORDS else None


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


#: Number of commands that a client must have sent before an expression is compiled for it.
WORTH_IT = 100
#: Number of commands, spread over the buffer, from which a form is learned.
_SAMPLE = 8
#: Approximate number of commands that the first search covers. If the commands found fill at least half of the searched
#: bytes, the next search covers twice as many bytes.
_FIRST_WINDOW = 24
#: Maximum number of forms kept for one client.
_MOST_FORMS = 16
#: The beginning of the shortest XADD.
_SHORTEST = b"*5\r\n$4\r\nXADD\r\n"


def next_start(data: bytes) -> int:
    """Return the likely start of the first XADD after the first command of ``data``; 0 if no XADD follows."""
    name = data.find(b"\r\n$4\r\nXADD\r\n")
    line = data.rfind(b"\r\n*", 0, max(name, 0))
    return line + 2 if line > 0 else 0


class Scanner:
    """Finds the runs of one client. ``patience``: number of commands to see before compiling an expression."""

    __slots__ = ("_form", "_forms", "_patience", "_pattern", "_seen")

    def __init__(self, patience: int = WORTH_IT) -> None:
        self._patience = patience
        #: Number of commands without a matching expression, counted since an expression was last compiled.
        self._seen = 0
        self._forms: dict[tuple[int | bytes, ...], Form] = {}
        self._form: Form | None = None
        self._pattern: Pattern | None = None

    def scan(self, data: bytes, at: int = 0) -> XaddRun | None:
        """Return the run of XADDs that begins at ``at``; None if there is no run, or no expression for it yet."""
        pattern = self._pattern
        first = None if pattern is None else pattern.expression.match(data, at)
        if first is None:
            pattern = self._learn(data, at)
            first = None if pattern is None else pattern.expression.match(data, at)
        if pattern is None or first is None:
            return None
        return _find(pattern, data, at, first.end() - at)

    def _learn(self, data: bytes, at: int) -> Pattern | None:
        """Return the expression for the command at ``at``, compiled if the client has sent enough commands."""
        if NAME.match(data, at) is None:
            return None
        self._seen += 1 + data.count(b"\r\n$4\r\nXADD\r\n", at + len(_SHORTEST))
        if self._seen < self._patience and not self._forms:
            return None
        first = command_at(data, at)
        if first is None:
            return None
        words, size = first
        head = head_size(words)
        if not head:
            return None
        kind = kind_of(words, head)
        form = self._forms.get(kind)
        if form is not None and form is not self._form:
            self._use(form)
            if self._pattern is not None and self._pattern.expression.match(data, at) is not None:
                return self._pattern
        if self._seen < self._patience:
            return None
        self._seen = 0
        form = joined(form_of(words, head) if form is None else form, words)
        # Bytes in a value may look like a command. The form then becomes wider than necessary, which does no harm.
        start = data[at : data.index(b"\n", at) + 1]
        for part in range(_SAMPLE):
            offset = data.find(start, at + size + (len(data) - at) * part // _SAMPLE)
            following = command_at(data, offset) if offset >= 0 else None
            if following is not None and kind_of(following[0], head) == kind:
                form = joined(form, following[0])
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        self._forms[kind] = form
        self._use(form)
        return self._pattern

    def _use(self, form: Form) -> None:
        self._form, self._pattern = form, compiled(form)


def _find(pattern: Pattern, data: bytes, at: int, size: int) -> XaddRun | None:
    """Return the contiguous commands of the form from ``at`` on; the first one has ``size`` bytes."""
    window = _FIRST_WINDOW * size
    columns, sizes, covered = _contiguous(pattern, data, at, at + window)
    if not covered:
        return None
    at += covered
    while at < len(data) and 2 * covered >= window:
        window *= 2
        more, more_sizes, covered = _contiguous(pattern, data, at, at + window)
        for column, values in zip(columns, more, strict=False):
            column += values
        sizes += more_sizes
        at += covered
    head, keys, ids = pattern.head, None, None
    if pattern.varying:
        head = head[:]
        if pattern.key >= 0:
            keys = columns[pattern.key]
            head[1] = word_in(keys[0])
        if pattern.entry_id >= 0:
            ids = columns[pattern.entry_id]
            head[-1] = word_in(ids[0])
    return XaddRun(len(sizes), head, pattern.words, columns[pattern.body], sizes, keys, ids, at)


def _contiguous(pattern: Pattern, data: bytes, at: int, end: int) -> tuple[list[list[bytes]], list[int], int]:
    """Find the contiguous commands from ``at`` on.

    Returns a list of values per group of the expression, the sizes of the bodies, and the total size of the commands.
    """
    expression = pattern.expression
    found = expression.findall(data, at, end)
    if not found:
        return [], [], 0
    columns = [found] if pattern.groups == 1 else list(map(list, zip(*found, strict=True)))
    sizes = list(map(len, columns[pattern.body]))
    total = len(found) * pattern.outside + sum(sizes)
    for part in pattern.varying:
        total += sum(map(len, columns[part]))
    rows = len(found)
    if at + total != min(end, len(data)):
        # There may be gaps between the matches. Without gaps, the last match starts at ``at + total - last``, and none
        # starts later. With gaps, the contiguous matches must be counted.
        last = pattern.outside + sizes[-1] + sum(len(columns[part][-1]) for part in pattern.varying)
        if expression.search(data, at + total - last + 1, end) is not None:
            rows = _count(expression, data, at, end)
    for number, word in pattern.unverified:
        headers, lengths = map(int, columns[number]), map(len, columns[word])
        rows = min(rows, next(compress(count(), map(ne, headers, lengths)), rows))
    if rows < len(found):
        for column in columns:
            del column[rows:]
        del sizes[rows:]
        total = rows * pattern.outside + sum(sizes)
        total += sum(sum(map(len, columns[part])) for part in pattern.varying)
    return columns, sizes, total


def _count(expression: re.Pattern[bytes], data: bytes, at: int, end: int) -> int:
    """Return how many contiguous commands there are from ``at`` on, found one by one."""
    rows = 0
    while (found := expression.match(data, at, end)) is not None:
        rows += 1
        at = found.end()
    return rows
