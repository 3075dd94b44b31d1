"""Loading of a whole RDB file into databases: files of Redis since 5.0, of Valkey, and of this engine.

``Loading.step`` does a small part of the work, so that other tasks can run in between. An error raises DamagedError
with its offset. The databases then contain the data before that offset, and the caller must discard them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

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
from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, crc64
from engine.core.formats.rdb.stream_reader import load_rest
from engine.core.formats.rdb.value_reader import NEWEST_VERSION, VALKEY_VERSION, Makers, Unsupported
from engine.core.formats.rdb.writer import AUX, END, EXPIRE_MS, REST_OF_STREAM, SELECT, TAKEN_AT
from engine.core.keyspace.database import Database
from engine.core.protocol import pace
from engine.core.streams.stream import Stream

MAGICS = (b"REDIS", b"VALKEY")
_HEADER = 9
_VALKEY = b"VALKEY"
#: The supported versions of each product's format. Files of Valkey 9.0 and later start with VALKEY.
_VERSIONS = {b"REDIS": range(9, NEWEST_VERSION + 1), _VALKEY: (VALKEY_VERSION,)}
_FREQ, _IDLE, _MODULE_AUX, _FUNCTION = 0xF9, 0xF8, 0xF7, 0xF5
#: Auxiliary field of the engine before 1.0, with the deadlines of the next hash's fields.
_FIELDS_OF_HASH = b"pystreams-hash"
#: Opcodes of items with sizes (of a database, of a cluster slot) -> the number of lengths that follow.
_LENGTHS = {0xFB: 2, 0xF4: 3}
_LAST_TYPE = 0xEF
_SUM_BYTES = 8
#: Number of keys read per step.
_KEYS = 64
#: Maximum number of auxiliary fields that ``Loading`` stores in ``Summary.about``.
_MOST_ABOUT = 64


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
    if version not in _VERSIONS[magic]:
        raise ForeignError(len(magic), f"version {version} of the RDB format is not supported")
    return magic, version


class Loading:
    """Reads the file ``data``, or bytes, into ``databases``.

    Keys that have expired at ``now`` (milliseconds since the epoch) are skipped; None loads all keys. Keys of types
    that the engine does not store are left out and counted in ``left_out``.
    """

    def __init__(
        self,
        data: memoryview,
        databases: Sequence[Database],
        makers: Makers,
        *,
        now: int | None = None,
        left_out: UnsupportedTypes | None = None,
    ) -> None:
        self._databases = databases
        self._db = databases[0]
        self._makers = makers
        self._now = now
        # (Slices of a mapped file are bytes, those of a view are views.)
        self._source = Reader(cast(bytes, data.obj))
        self._is_valkey = False
        #: Checksum of the bytes up to ``_summed``.
        self._sum = self._summed = 0
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

    @property
    def offset(self) -> int:
        """Number of bytes of the file that have been read."""
        return self._source.at

    def step(self) -> bool:
        """Do a small part of the work; return whether there is more. Raises DamagedError if the file is damaged or
        contains something unsupported.
        """
        try:
            next(self._steps)
        except StopIteration:
            return False
        except DamagedError:
            raise
        except (BadFormatError, LookupError, ValueError, TypeError, OverflowError, RuntimeError) as error:
            reason = str(error) if isinstance(error, BadFormatError) else ""
            raise DamagedError(self._began, f"{self._prefix}{reason or 'the item at this offset is damaged'}") from None
        return True

    @property
    def _prefix(self) -> str:
        """The key being read, as the start of an error message; empty between keys."""
        return f"{shown_key(self._key, self._db.index)}: " if self._key is not None else ""

    # -- the file -----------------------------------------------------------------------------------------------------

    def _read(self) -> Steps[None]:
        source, summary = self._source, self.summary
        magic, summary.version = _version(source.read(_HEADER))
        self._is_valkey = magic == _VALKEY
        yield from self._items()
        yield from self._add_to_sum(1)
        self._began = source.at
        total = int.from_bytes(source.read(_SUM_BYTES), "little")
        summary.has_sum = bool(total)
        if total and total != self._sum:
            raise DamagedError(self._began, "the checksum does not match: the file is damaged")

    def _items(self) -> Steps[None]:
        """Read everything up to the end marker."""
        source = self._source
        count = 0
        while True:
            self._began = source.at
            code = source.byte()
            if code == END:
                return
            if code <= _LAST_TYPE:
                self._key = key = source.string()
                self._add(key, (yield from value_reader.load(source, code, self._makers, is_valkey=self._is_valkey)))
                self._key = None
                count += 1
                if not count % _KEYS:
                    yield
            elif code == _MODULE_AUX:
                yield from self._module_aux()
            else:
                self._note(code)
            if source.at - self._summed >= pace.CHECKED:
                yield from self._add_to_sum(pace.CHECKED)

    def _add_to_sum(self, least: int) -> Steps[None]:
        """Add the bytes that have been read to the checksum, until fewer than ``least`` are left."""
        source = self._source
        while source.at - self._summed >= least:
            end = min(self._summed + pace.CHECKED, source.at)
            self._sum = crc64(source.data[self._summed : end], self._sum)
            self._summed = end
            yield

    def _note(self, code: int) -> None:
        """Read an item between keys, such as the deadline of the next key."""
        source = self._source
        if code == EXPIRE_MS:
            self._deadline = source.unpack("<q")
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
        else:
            raise BadFormatError(f"the opcode {code} is not supported")

    def _module_aux(self) -> Steps[None]:
        source = self._source
        number, _, _ = source.length(), source.length(), source.length()
        yield from value_reader.skip_module_data(source)
        kind = module_data(value_reader.module_name(number))
        self.summary.left_out.add(kind, f"at byte {self._began}", self._began)

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
        if rest:
            if not isinstance(value, Stream):
                raise BadFormatError
            load_rest(rest, value, self._makers.idmp_defaults)
        if deadline is not None and self._now is not None and deadline <= self._now:
            self.summary.expired += 1
            return
        if has_expiring_fields or value.__class__ is Unsupported:
            kind = FIELD_EXPIRY if has_expiring_fields else value.kind
            self.summary.left_out.add_key(kind, key, db.index, self._began)
            return
        if db.holds(key):
            raise BadFormatError("the key occurs twice")
        db.add(key, value)
        self.summary.keys += 1
        if deadline is not None:
            db.set_deadline(key, deadline)
