"""Manifest of an append-only file: its files in order, in the format of Redis 7.

    file appendonly.aof.3.base.aof seq 3 type b
    file appendonly.aof.5.incr.aof seq 5 type i

There is at most one base, then increments in replay order, and history files, which may be deleted. A comment line at
the end has the checksum of the lines before it. Redis skips it; a manifest without a checksum is accepted, because
Redis writes none.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.text.words import quote, split_words

BASE, INCREMENT, HISTORY = "b", "i", "h"
#: Suffix of a base in the engine's own format; redis-server rejects a file of that name.
OWN_SUFFIX = ".base.psb"
RESP_SUFFIX = ".base.aof"
INCREMENT_SUFFIX = ".incr.aof"

_SUM = re.compile(rb"#PS ([0-9a-f]{8})")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


class ManifestError(ValueError):
    """The manifest is damaged; the text is the reason. ``offset``: position of the damage in bytes."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in the manifest: its name, sequence number and type."""

    name: str
    seq: int
    kind: str

    @property
    def line(self) -> bytes:
        name = self.name.encode("utf-8", "surrogateescape")
        shown = name if _PLAIN.fullmatch(self.name) else quote(name)
        return b"file %b seq %d type %b\n" % (shown, self.seq, self.kind.encode())


@dataclass(frozen=True, slots=True)
class Manifest:
    """Files of one append-only file. Immutable: changes return a new manifest."""

    base: Entry | None = None
    increments: tuple[Entry, ...] = ()
    history: tuple[Entry, ...] = ()

    @property
    def files(self) -> list[Entry]:
        """Files to replay, in order."""
        return [*([self.base] if self.base else []), *self.increments]

    @property
    def base_seq(self) -> int:
        return max(
            [self.base.seq if self.base else 0, *(entry.seq for entry in self.history if ".base." in entry.name)]
        )

    @property
    def increment_seq(self) -> int:
        known = [entry.seq for entry in self.increments] + [
            entry.seq for entry in self.history if ".incr." in entry.name
        ]
        return max(known, default=0)

    def with_increment(self, entry: Entry) -> Manifest:
        """Return this manifest with one more increment."""
        return replace(self, increments=(*self.increments, entry))

    def rewritten(self, base: Entry, first: int) -> Manifest:
        """Return this manifest with a new base. Files before the increment numbered ``first`` become history."""
        replaced = [*([self.base] if self.base else []), *(entry for entry in self.increments if entry.seq < first)]
        history = tuple(Entry(entry.name, entry.seq, HISTORY) for entry in replaced)
        return Manifest(base, tuple(entry for entry in self.increments if entry.seq >= first), self.history + history)

    def without(self, removed: tuple[Entry, ...]) -> Manifest:
        """Return this manifest without the history entries in ``removed``."""
        return replace(self, history=tuple(entry for entry in self.history if entry not in removed))

    def encode(self) -> bytes:
        """Return the file's content."""
        lines = b"".join(entry.line for entry in self._all())
        return b"%b#PS %08x\n" % (lines, zlib.crc32(lines))

    def _all(self) -> Iterable[Entry]:
        yield from self.files[:1] if self.base else ()
        yield from self.history
        yield from self.increments


def decode(data: bytes) -> Manifest:
    """Parse a manifest. Raises ManifestError if it is damaged."""
    entries: list[Entry] = []
    at = 0
    for line in data.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        if text.startswith(b"#"):
            found = _SUM.fullmatch(text)
            if found is None or int(found[1], 16) != zlib.crc32(data[:at]):
                raise ManifestError(at, "checksum mismatch in the manifest")
        elif text:
            if not line.endswith(b"\n"):
                raise ManifestError(at, "the last line of the manifest is incomplete")
            entries.append(_entry(text, at))
        at += len(line)
    bases = [entry for entry in entries if entry.kind == BASE]
    increments = [entry for entry in entries if entry.kind == INCREMENT]
    if not entries:
        raise ManifestError(0, "the manifest names no file")
    if len(bases) > 1:
        raise ManifestError(0, "the manifest names two base files")
    if any(after.seq <= before.seq for before, after in pairwise(increments)):
        raise ManifestError(0, "the increments of the manifest are not in order")
    history = tuple(entry for entry in entries if entry.kind == HISTORY)
    return Manifest(bases[0] if bases else None, tuple(increments), history)


def _entry(line: bytes, at: int) -> Entry:
    words = split_words(line) or []
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    name = pairs.get(b"file", b"").decode("utf-8", "surrogateescape")
    seq, kind = pairs.get(b"seq", b""), pairs.get(b"type", b"").decode("latin-1")
    if len(words) < 6 or len(words) % 2 or not name or "/" in name or not seq.isdigit():
        raise ManifestError(at, f"{line[:200]!r} is not a line of a manifest")
    if kind not in (BASE, INCREMENT, HISTORY):
        raise ManifestError(at, f"{line[:200]!r} has an unknown type")
    return Entry(name, int(seq), kind)
