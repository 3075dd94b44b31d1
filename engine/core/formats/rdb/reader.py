"""Incremental loading of a whole RDB file into databases: files of Redis since 2.4, of Valkey, and of this engine.

``Loading.feed`` receives bytes as they arrive from a file or a socket. ``Loading.step`` does a small part of the work,
so that other tasks can run in between. An error raises DamagedError with its offset. The databases then contain the
data before that offset, and the caller must discard them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from engine.core.formats.damage import (
    FIELD_EXPIRY,
    FUNCTIONS,
    DamagedError,
    ForeignError,
    UnsupportedTypes,
    module_data,
    shown_key,
    shown_library,
)
from engine.core.formats.rdb import value_reader
from engine.core.formats.rdb.primitives import BadFormatError, Reader, RunningSum, Steps, TooShortError, whole
from engine.core.formats.rdb.stream_reader import load_rest
from engine.core.formats.rdb.value_reader import NEWEST_VERSION, VALKEY_VERSION, Makers, Unsupported
from engine.core.formats.rdb.writer import AUX, END, EXPIRE_MS, REST_OF_STREAM, SELECT, TAKEN_AT
from engine.core.keyspace.database import Database
from engine.core.streams.stream import Stream

MAGICS = (b"REDIS", b"VALKEY")
_HEADER = 9
#: The newest supported version of each product's format. Files of Valkey 9.0 and later start with VALKEY.
_NEWEST = {b"REDIS": NEWEST_VERSION, b"VALKEY": VALKEY_VERSION}
_VALKEY = b"VALKEY"
_EXPIRE_S, _FREQ, _IDLE, _MODULE_AUX, _FUNCTION = 0xFD, 0xF9, 0xF8, 0xF7, 0xF5
#: Auxiliary field of the engine before 1.0, with the deadlines of the next hash's fields.
_FIELDS_OF_HASH = b"pystreams-hash"
#: Opcodes of items with sizes (of a database, of a cluster slot) -> the number of lengths that follow.
_LENGTHS = {0xFB: 2, 0xF4: 3}
_STRING, _LAST_TYPE = 0, 0xEF
#: The first format version whose files end with a checksum.
_SUMMED_SINCE = 5
_SUM_BYTES = 8
#: Number of keys read per step.
_KEYS = 64
#: Maximum number of auxiliary fields that ``Loading`` stores in ``Summary.about``.
_MOST_ABOUT = 64


class State(Enum):
    """State of a file's reading, as returned by ``Loading.step``."""

    #: Reading continues with the next ``Loading.step``.
    GOING = auto()
    #: Reading needs more bytes, or a call of ``Loading.end``.
    HUNGRY = auto()
    #: The whole file has been read.
    DONE = auto()


@dataclass(slots=True)
class Summary:
    """Summary of the data read."""

    version: int = 0
    #: Auxiliary fields: the program that wrote the file, the time, and more.
    about: dict[bytes, bytes] = field(default_factory=dict)
    keys: int = 0
    #: Number of keys that were skipped because they had expired.
    expired: int = 0
    #: Keys and other items that were left out because of their type.
    left_out: UnsupportedTypes = field(default_factory=UnsupportedTypes)
    #: Whether the file has a checksum. With 'rdbchecksum no', servers write 0 instead.
    has_sum: bool = False

    @property
    def taken_at(self) -> int:
        """Time of the data in milliseconds since the epoch, a whole second in files of Redis; 0 if unknown."""
        ms = self.about.get(TAKEN_AT, b"")
        seconds = self.about.get(b"ctime", b"")
        return int(ms) if ms.isdigit() else 1000 * int(seconds) if seconds.isdigit() else 0


def parse_header(data: bytes) -> Summary:
    """Parse the header of a file from its first bytes: version and auxiliary fields."""
    reader, summary = Reader(data), Summary()
    try:
        _, summary.version = _version(reader.read(_HEADER))
        while reader.byte() == AUX:
            name, value = reader.string(), reader.string()
            summary.about[name] = value
    except BadFormatError as error:
        raise DamagedError(reader.at, str(error) or "the header is damaged") from None
    return summary


def _version(header: bytes) -> tuple[bytes, int]:
    """Return the product (``REDIS`` or ``VALKEY``) and the version of the format."""
    magic = next((candidate for candidate in MAGICS if header.startswith(candidate)), b"")
    digits = header[len(magic) :]
    if not magic or not digits.isdigit():
        raise DamagedError(0, "this is not an RDB file")
    version = int(digits)
    if not 1 <= version <= _NEWEST[magic]:
        raise ForeignError(len(magic), f"version {version} of the RDB format is not supported")
    return magic, version


class _Source(Reader):
    """The bytes that were fed but have not been read yet."""

    __slots__ = ("_pieces", "_size", "base", "check_sum", "is_whole", "sum", "wanted")

    def __init__(self, *, check_sum: bool) -> None:
        super().__init__(b"")
        self.check_sum = check_sum
        #: Offset of ``data`` in the file.
        self.base = 0
        #: The checksum of the bytes before ``data``.
        self.sum = RunningSum()
        #: Whether all bytes have been fed.
        self.is_whole = False
        #: Number of bytes that ``data`` must have before reading can continue.
        self.wanted = 1
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def offset(self) -> int:
        """Offset of the next byte in the file."""
        return self.base + self.at

    def feed(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)

    def drop_read(self) -> None:
        """Drop the bytes that have been read, and add them to the checksum."""
        if self.at:
            if self.check_sum:
                self.sum.add(self.data[: self.at])
            self.data, self.base, self.wanted = self.data[self.at :], self.base + self.at, self.wanted - self.at
            self.at = 0

    def refill(self) -> bool:
        """Append the fed bytes to ``data`` if reading can continue with them; return whether it can."""
        if len(self.data) + self._size < self.wanted and not self.is_whole:
            return False
        self.drop_read()
        self.data = b"".join((self.data, *self._pieces))
        self._pieces, self._size = [], 0
        return True

    def too_short(self, size: int) -> BadFormatError:
        if self.is_whole and not self._pieces:
            return BadFormatError("the file ends too early")
        self.wanted = self.at + size
        return TooShortError()


class Loading:
    """Reads one file into ``databases``.

    Keys that have expired at ``now`` (milliseconds since the epoch) are skipped; None loads all keys. Keys of types
    that the engine does not store are left out and counted in ``left_out``. Unless ``skip_unsupported``, the caller
    discards the databases if there are such keys, so no key is added after the first one. With ``only_scan``, no key is
    added at all. With ``merge``, keys of the file replace existing keys; otherwise a duplicate key is an error.
    ``check_sum``: whether to compare the checksum, which takes most of the time of a scan.
    """

    def __init__(
        self,
        databases: Sequence[Database],
        makers: Makers,
        *,
        now: int | None = None,
        skip_unsupported: bool = False,
        left_out: UnsupportedTypes | None = None,
        merge: bool = False,
        only_scan: bool = False,
        check_sum: bool = True,
    ) -> None:
        self._databases = databases
        self._db = databases[0]
        self._makers = makers
        self._now = now
        self._skip_unsupported = skip_unsupported
        #: Whether keys are only read past.
        self._scans = only_scan
        self._source = _Source(check_sum=check_sum)
        self._merge = merge
        self._is_valkey = self._is_hungry = False
        #: Offset of the current item.
        self._began = 0
        #: Key of the current item; None if it has none.
        self._key: bytes | None = None
        # Properties of the next key.
        self._deadline: int | None = None
        self._rest_of_stream = b""
        self._has_expiring_fields = False
        self.summary = Summary()
        if left_out is not None:
            self.summary.left_out = left_out
        self._steps = self._read()

    def feed(self, piece: bytes) -> None:
        """Add the next bytes."""
        self._source.feed(piece)

    def end(self) -> None:
        """Mark the end of the bytes."""
        self._source.is_whole = True

    @property
    def offset(self) -> int:
        """Number of bytes of the file that have been read."""
        return self._source.offset

    def step(self) -> State:
        """Do a small part of the work. Raises DamagedError if the file is damaged or contains something unsupported."""
        if self._is_hungry and not self._source.refill():
            return State.HUNGRY
        try:
            self._is_hungry = next(self._steps)
        except StopIteration:
            return State.DONE
        except DamagedError:
            raise
        except (BadFormatError, LookupError, ValueError, TypeError, OverflowError, RuntimeError) as error:
            reason = str(error) if isinstance(error, BadFormatError) else ""
            raise DamagedError(self._began, f"{self._prefix}{reason or 'the item at this offset is damaged'}") from None
        return State.GOING

    @property
    def _prefix(self) -> str:
        """The key being read, as the start of an error message; empty between keys."""
        return f"{shown_key(self._key, self._db.index)}: " if self._key is not None else ""

    # -- the file -----------------------------------------------------------------------------------------------------

    def _read(self) -> Steps[None]:
        source, summary = self._source, self.summary
        header = yield from whole(source, lambda: source.read(_HEADER))
        magic, summary.version = _version(header)
        self._is_valkey = magic == _VALKEY
        yield from self._items()
        yield False
        source.drop_read()
        if summary.version >= _SUMMED_SINCE:
            expected, self._began = source.sum.total(), source.offset
            total = int.from_bytes((yield from whole(source, lambda: source.read(_SUM_BYTES))), "little")
            summary.has_sum = bool(total)
            if total and source.check_sum and total != expected:
                raise DamagedError(self._began, "the checksum does not match: the file is damaged")

    def _items(self) -> Steps[None]:
        """Read everything up to the end marker."""
        source = self._source
        count = 0
        while True:
            at = source.at
            self._began = source.base + at
            value: Any = None
            try:
                code = source.byte()
                if code <= _LAST_TYPE:
                    key = source.string()
                    if code == _STRING and not self._scans:
                        value = source.string()
                elif code == END:
                    return
                elif code != _MODULE_AUX:
                    self._note(code)
                    continue
            except TooShortError:
                source.at = at
                yield True
                continue
            if code == _MODULE_AUX:
                yield from self._module_aux()
                continue
            if value is None:
                self._key = key
                if self._scans:
                    value = yield from value_reader.scan(source, code, is_valkey=self._is_valkey)
                else:
                    value = yield from value_reader.load(source, code, self._makers, is_valkey=self._is_valkey)
            self._add(key, value)
            self._key = None
            count += 1
            if not count % _KEYS:
                yield False

    def _note(self, code: int) -> None:
        """Read an item between keys, such as the deadline of the next key."""
        source = self._source
        if code == EXPIRE_MS:
            self._deadline = source.unpack("<q")
        elif code == _EXPIRE_S:
            self._deadline = 1000 * source.unpack("<i")
        elif code == _IDLE:
            source.length()
        elif code == _FREQ:
            source.byte()
        elif code == SELECT:
            self._select(source.length())
        elif code in _LENGTHS:
            for _ in range(_LENGTHS[code]):
                source.length()
        elif code == AUX:
            name, value = source.string(), source.string()
            if name == REST_OF_STREAM:
                self._rest_of_stream = bytes.fromhex(value.decode("ascii"))
            elif name == _FIELDS_OF_HASH:
                self._has_expiring_fields = True
            elif len(self.summary.about) < _MOST_ABOUT:
                self.summary.about[name] = value
        elif code == _FUNCTION:
            self.summary.left_out.add(FUNCTIONS, shown_library(source.string()), self._began)
            self._found_unsupported()
        else:
            raise BadFormatError(f"the opcode {code} is not supported")

    def _module_aux(self) -> Steps[None]:
        source = self._source
        number = yield from whole(source, lambda: (source.length(), source.length(), source.length())[0])
        yield from value_reader.skip_module_data(source)
        kind = module_data(value_reader.module_name(number))
        self.summary.left_out.add(kind, f"at byte {self._began}", self._began)
        self._found_unsupported()

    def _found_unsupported(self) -> None:
        self._scans = self._scans or not self._skip_unsupported

    def _select(self, index: int) -> None:
        if index >= len(self._databases):
            raise ForeignError(
                self._began, f"the file has a database {index}, but 'databases' is {len(self._databases)}"
            )
        self._db = self._databases[index]

    def _add(self, key: bytes, value: Any) -> None:
        db, deadline, rest = self._db, self._deadline, self._rest_of_stream
        has_expiring_fields = self._has_expiring_fields
        self._deadline = None
        self._rest_of_stream, self._has_expiring_fields = b"", False
        self._key = key
        if rest and not self._scans:
            if not isinstance(value, Stream):
                raise BadFormatError
            load_rest(rest, value, self._makers.idmp_defaults)
        if deadline is not None and self._now is not None and deadline <= self._now:
            self.summary.expired += 1
            return
        if has_expiring_fields or value.__class__ is Unsupported:
            kind = FIELD_EXPIRY if has_expiring_fields else value.kind
            self.summary.left_out.add_key(kind, key, db.index, self._began)
            self._found_unsupported()
            return
        if self._scans:
            return
        if db.holds(key):
            if not self._merge:
                raise BadFormatError("the key occurs twice")
            db.delete(key)
        db.add(key, value)
        self.summary.keys += 1
        if deadline is not None:
            db.set_deadline(key, deadline)
