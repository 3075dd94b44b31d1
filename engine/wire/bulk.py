r"""Runs of XADD: many commands of one form in one buffer, found by one regular expression and verified.

The XADDs of a pipeline usually have a common form. A ``Scanner`` learns the form of a client's commands and compiles it
to an expression that matches such commands (``engine.wire.forms``). One call of ``re`` then finds all of them. If the
expression does not fix the length of a word, the length is compared with the word's header afterwards. The sum of the
lengths shows that the commands are contiguous.

All other commands are parsed by ``engine.wire.parser.RequestParser``. That parser also defines what a command is: a run
contains exactly the commands that it would return.

A run holds each command's *body* instead of its words: the bytes from its first field on, which are stored unchanged.
Compiling an expression takes as long as parsing some hundred commands, so expressions are compiled only for clients
that send that many commands.

Without runs, pipelines of 100 XADDs have a sixth of their speed, and those of 1,000 a tenth (``python -m benchmarks``).
Without learned forms, if each word is compared with its header, they have three quarters, and less than half.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import compress, count
from operator import ne

from engine.core.protocol.xadd import XaddRun, word_in
from engine.wire.forms import NAME, Form, Pattern, agrees, command_at, compiled, form_of, head_size, joined, kind_of

#: Number of commands that a client must have sent before an expression is compiled for it.
WORTH_IT = 100
#: Number of commands, spread over the buffer, from which a form is learned.
_SAMPLE = 8
#: Approximate number of commands that the first search covers. If the commands found fill at least half of the searched
#: bytes, the next search covers twice as many bytes.
_FIRST_WINDOW = 24
#: Maximum number of forms kept for one client.
_MOST_FORMS = 16
#: Number of commands found with a form after which commands with other keys or fields get a form of their own. Before
#: that, they widen the form.
_SETTLED = 10_000

#: The beginning of the shortest XADD.
_SHORTEST = b"*5\r\n$4\r\nXADD\r\n"


@dataclass(slots=True)
class AddRun(XaddRun):
    """A contiguous run in a buffer."""

    #: Offset in the buffer at which the run ends.
    end: int = 0


def next_start(data: bytes) -> int:
    """Return the likely start of the first XADD after the first command of ``data``; 0 if no XADD follows."""
    name = data.find(b"\r\n$4\r\nXADD\r\n")
    line = data.rfind(b"\r\n*", 0, max(name, 0))
    return line + 2 if line > 0 else 0


class Scanner:
    """Finds the runs of one client. ``patience``: number of commands to see before compiling an expression."""

    __slots__ = ("_form", "_forms", "_patience", "_pattern", "_seen", "_served")

    def __init__(self, patience: int = WORTH_IT) -> None:
        self._patience = patience
        #: Number of commands without a matching expression, counted since an expression was last compiled.
        self._seen = 0
        self._forms: dict[tuple[int | bytes, ...], Form] = {}
        self._form: Form | None = None
        self._pattern: Pattern | None = None
        #: Number of commands found with the current form.
        self._served = 0

    def scan(self, data: bytes, at: int = 0) -> AddRun | None:
        """Return the run of XADDs that begins at ``at``; None if there is no run, or no expression for it yet."""
        pattern = self._pattern
        first = None if pattern is None else pattern.expression.match(data, at)
        if first is None:
            pattern = self._learn(data, at)
            first = None if pattern is None else pattern.expression.match(data, at)
        if pattern is None or first is None:
            return None
        run = _find(pattern, data, at, first.end() - at)
        if run is not None:
            self._served += run.count
        return run

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
        if form is None or (self._served >= _SETTLED and not agrees(form, words)):
            form = form_of(words, head)
        form = joined(form, words)
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
        self._served = 0
        self._use(form)
        return self._pattern

    def _use(self, form: Form) -> None:
        self._form, self._pattern = form, compiled(form)


def _find(pattern: Pattern, data: bytes, at: int, size: int) -> AddRun | None:
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
    return AddRun(len(sizes), head, pattern.words, columns[pattern.body], sizes, keys, ids, at)


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
