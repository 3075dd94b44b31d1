"""The manifest of an append-only file: which files make it up, in which order, as Redis 7 writes it.

    file appendonly.aof.3.base.aof seq 3 type b
    file appendonly.aof.5.incr.aof seq 5 type i

One base at the most, increments in the order in which they are replayed, and files that are history and may be
deleted. A comment line at the end holds the sum of the lines before it; Redis skips it, and a manifest without it is
taken as Redis's.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.text.words import quote, split_words

BASE, INCREMENT, HISTORY = "b", "i", "h"
#: What a base in our own format is called at the end; redis-server finds no Redis file behind that name and refuses it.
OWN_SUFFIX = ".base.psb"
RESP_SUFFIX = ".base.aof"
INCREMENT_SUFFIX = ".incr.aof"

_SUM = re.compile(rb"#PS ([0-9a-f]{8})")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


class ManifestError(ValueError):
    """The manifest cannot be what was written; the text says why. ``offset`` is where, in bytes from its beginning."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Entry:
    """One file."""

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
    """The files of one append-only file. A value: changes give a new one."""

    base: Entry | None = None
    increments: tuple[Entry, ...] = ()
    history: tuple[Entry, ...] = ()

    @property
    def files(self) -> list[Entry]:
        """What is replayed, in order."""
        return [*([self.base] if self.base else []), *self.increments]

    @property
    def base_seq(self) -> int:
        return max([self.base.seq if self.base else 0, *(one.seq for one in self.history if ".base." in one.name)])

    @property
    def increment_seq(self) -> int:
        known = [one.seq for one in self.increments] + [one.seq for one in self.history if ".incr." in one.name]
        return max(known, default=0)

    def with_increment(self, entry: Entry) -> Manifest:
        """The same with one more increment."""
        return replace(self, increments=(*self.increments, entry))

    def rewritten(self, base: Entry, first: int) -> Manifest:
        """With a new base, which holds all before the increment whose number is ``first``; the rest is history."""
        gone = [*([self.base] if self.base else []), *(one for one in self.increments if one.seq < first)]
        history = tuple(Entry(one.name, one.seq, HISTORY) for one in gone)
        return Manifest(base, tuple(one for one in self.increments if one.seq >= first), self.history + history)

    def without(self, gone: tuple[Entry, ...]) -> Manifest:
        """The same without those entries of its history."""
        return replace(self, history=tuple(one for one in self.history if one not in gone))

    def encode(self) -> bytes:
        """The file's content."""
        lines = b"".join(one.line for one in self._all())
        return b"%b#PS %08x\n" % (lines, zlib.crc32(lines))

    def _all(self) -> Iterable[Entry]:
        yield from self.files[:1] if self.base else ()
        yield from self.history
        yield from self.increments


def decode(data: bytes) -> Manifest:
    """The manifest that ``data`` spells; a ManifestError where it spells none."""
    entries: list[Entry] = []
    at = 0
    for line in data.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        if text.startswith(b"#"):
            found = _SUM.fullmatch(text)
            if found is None or int(found[1], 16) != zlib.crc32(data[:at]):
                raise ManifestError(at, "its sum is not what was written")
        elif text:
            if not line.endswith(b"\n"):
                raise ManifestError(at, "its last line has no end")
            entries.append(_entry(text, at))
        at += len(line)
    bases = [one for one in entries if one.kind == BASE]
    increments = [one for one in entries if one.kind == INCREMENT]
    if not entries:
        raise ManifestError(0, "it names no file")
    if len(bases) > 1:
        raise ManifestError(0, "it names two base files")
    if any(after.seq <= before.seq for before, after in pairwise(increments)):
        raise ManifestError(0, "its increments are not in order")
    history = tuple(one for one in entries if one.kind == HISTORY)
    return Manifest(bases[0] if bases else None, tuple(increments), history)


def _entry(line: bytes, at: int) -> Entry:
    words = split_words(line) or []
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    name = pairs.get(b"file", b"").decode("utf-8", "surrogateescape")
    seq, kind = pairs.get(b"seq", b""), pairs.get(b"type", b"").decode("latin-1")
    if len(words) < 6 or len(words) % 2 or not name or "/" in name or not seq.isdigit():
        raise ManifestError(at, f"{line[:200]!r} is no line of a manifest")
    if kind not in (BASE, INCREMENT, HISTORY):
        raise ManifestError(at, f"{line[:200]!r} is of an unknown type")
    return Entry(name, int(seq), kind)
