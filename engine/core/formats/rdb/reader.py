"""A whole RDB file, read piece by piece into databases: of Redis since 2.4, of Valkey, and of this engine.

Bytes are given with :meth:`Loading.feed` as they come, from a file or a socket. :meth:`Loading.step` does a little of
the work, so that others can have their turn in between. What is wrong raises a DamagedError with the byte where it is;
the databases hold then what came before, and belong to the caller, who throws them away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from engine.core.formats.damage import DamagedError, ForeignError
from engine.core.formats.rdb import value_reader
from engine.core.formats.rdb.checksum import RunningSum
from engine.core.formats.rdb.functions import FUNCTION
from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, TooShortError, whole
from engine.core.formats.rdb.streams.reader import load_rest
from engine.core.formats.rdb.value_forms import NEWEST_VERSION, VALKEY_VERSION
from engine.core.formats.rdb.value_reader import Makers, Unknown
from engine.core.formats.rdb.writer import AUX, END, EXPIRE_MS, FIELDS_OF_HASH, REST_OF_STREAM, SELECT, TAKEN_AT
from engine.core.keyspace.database import Database
from engine.core.keyspace.hash import Hash
from engine.core.streams.stream import Stream

MAGICS = (b"REDIS", b"VALKEY")
_HEADER = 9
#: The newest version of each product that is read. Valkey counts on its own since 9.0, under its own name.
_NEWEST = {b"REDIS": NEWEST_VERSION, b"VALKEY": VALKEY_VERSION}
_VALKEY = b"VALKEY"
_EXPIRE_S, _FREQ, _IDLE, _MODULE_AUX = 0xFD, 0xF9, 0xF8, 0xF7
#: The sizes of a database, and of a slot: how many lengths they are.
_LENGTHS = {0xFB: 2, 0xF4: 3}
_STRING, _LAST_TYPE = 0, 0xEF
#: Version since which a check sum stands at the end.
_SUMMED_SINCE = 5
#: Seconds, the most that Redis's clock of 24 bits counts.
_LONGEST_IDLE = (1 << 24) - 1
_SUM_BYTES = 8
#: The last moment at which a field can expire.
_LAST_MOMENT = (1 << 63) - 1
#: Keys in one step.
_KEYS = 64
#: Auxiliary fields that are remembered.
_MOST_ABOUT = 64


class State(Enum):
    """How far the reading is."""

    #: It goes on with :meth:`Loading.step`.
    GOING = auto()
    #: It needs more bytes.
    HUNGRY = auto()
    #: The file has ended.
    DONE = auto()


@dataclass(slots=True)
class Summary:
    """What has been read."""

    version: int = 0
    #: Auxiliary fields: who wrote the file, when, with what.
    about: dict[bytes, bytes] = field(default_factory=dict)
    keys: int = 0
    #: Keys that were not taken because their time had come.
    expired: int = 0
    #: What the engine has no type for and was left out: its type -> how many.
    left_out: dict[str, int] = field(default_factory=dict)
    #: False where the server that wrote the file made no check sum (rdbchecksum no).
    has_sum: bool = False

    @property
    def taken_at(self) -> int:
        """When the file was taken, in milliseconds since the epoch; 0 where it does not say. Redis tells seconds."""
        ms = self.about.get(TAKEN_AT, b"")
        seconds = self.about.get(b"ctime", b"")
        return int(ms) if ms.isdigit() else 1000 * int(seconds) if seconds.isdigit() else 0


def beginning(data: bytes) -> Summary:
    """What a file says of itself, given its first bytes: version and auxiliary fields."""
    reader, summary = Reader(data), Summary()
    try:
        _, summary.version = _version(reader.read(_HEADER))
        while reader.byte() == AUX:
            name, value = reader.string(), reader.string()
            summary.about[name] = value
    except BadFormatError as error:
        raise DamagedError(reader.at, str(error) or "the beginning is damaged") from None
    return summary


def _version(header: bytes) -> tuple[bytes, int]:
    """Whose format it is, and its version."""
    magic = next((one for one in MAGICS if header.startswith(one)), b"")
    digits = header[len(magic) :]
    if not magic or not digits.isdigit():
        raise DamagedError(0, "this is no RDB file")
    version = int(digits)
    if not 1 <= version <= _NEWEST[magic]:
        raise ForeignError(len(magic), f"version {version} of the RDB format is not known here")
    return magic, version


class _Source(Reader):
    """The bytes that were fed and not read yet."""

    __slots__ = ("_pieces", "_size", "base", "is_whole", "sum", "wanted")

    def __init__(self) -> None:
        super().__init__(b"")
        #: Where ``data`` begins in the file.
        self.base = 0
        #: The check sum of what comes before.
        self.sum = RunningSum()
        #: No more will be fed.
        self.is_whole = False
        #: How far ``data`` must reach before reading on makes sense.
        self.wanted = 1
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def offset(self) -> int:
        """Where in the file the next byte stands."""
        return self.base + self.at

    def feed(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)

    def drop_read(self) -> None:
        """Forget what has been read, and sum it up."""
        if self.at:
            self.sum.add(self.data[: self.at])
            self.data, self.base, self.wanted = self.data[self.at :], self.base + self.at, self.wanted - self.at
            self.at = 0

    def refill(self) -> bool:
        """Put what was fed behind what is left; whether it is enough to read on, or all that there will be."""
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

    ``now`` is the time in milliseconds since the epoch: keys whose time has come are not taken; None takes them all.
    With ``skip_unknown`` a value of a type that the engine does not have is left out and counted, otherwise it is an
    error that names key and type. With ``merge`` a key takes the place of one that is there.
    """

    def __init__(
        self,
        databases: Sequence[Database],
        makers: Makers,
        *,
        now: int | None = None,
        skip_unknown: bool = False,
        merge: bool = False,
    ) -> None:
        self._databases = databases
        self._db = databases[0]
        self._makers = makers
        self._now = now
        self._skip_unknown = skip_unknown
        self._source = _Source()
        self._merge = merge
        self._is_valkey = self._is_hungry = False
        #: Where the thing that is being read begins; its key, if it is one.
        self._began = 0
        self._key: bytes | None = None
        #: What was said of the next key.
        self._deadline: int | None = None
        self._idle: int | None = None
        self._rest_of_stream = b""
        self._field_deadlines: dict[bytes, int] = {}
        self.summary = Summary()
        #: The code of the libraries of functions that it has.
        self.libraries: list[bytes] = []
        self._steps = self._read()

    def feed(self, piece: bytes) -> None:
        """Give it the next bytes."""
        self._source.feed(piece)

    def end(self) -> None:
        """There are no more bytes."""
        self._source.is_whole = True

    @property
    def offset(self) -> int:
        """How many bytes of the file have been read."""
        return self._source.offset

    def step(self) -> State:
        """Do a little; DamagedError where the file is damaged or holds what the engine cannot take."""
        if self._is_hungry and not self._source.refill():
            return State.HUNGRY
        try:
            self._is_hungry = next(self._steps)
        except StopIteration:
            return State.DONE
        except DamagedError:
            raise
        except (BadFormatError, LookupError, ValueError, TypeError, OverflowError, RuntimeError) as error:
            what = str(error) if isinstance(error, BadFormatError) else ""
            raise DamagedError(self._began, f"{self._place}{what or 'what begins here is damaged'}") from None
        return State.GOING

    @property
    def _place(self) -> str:
        """Which key is being read, for a message."""
        return f"key '{_shown(self._key)}' of database {self._db.index}: " if self._key is not None else ""

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
            if total and total != expected:
                raise DamagedError(self._began, "the check sum is not that of the file: something in it has changed")

    def _items(self) -> Steps[None]:
        """Everything up to the mark of the end."""
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
                    if code == _STRING:
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
                value = yield from value_reader.load(source, code, self._makers, is_valkey=self._is_valkey)
            self._add(key, value)
            self._key = None
            count += 1
            if not count % _KEYS:
                yield False

    def _note(self, code: int) -> None:
        """What stands between the keys: most of it is about the next one."""
        source = self._source
        if code == EXPIRE_MS:
            self._deadline = source.unpack("<q")
        elif code == _EXPIRE_S:
            self._deadline = 1000 * source.unpack("<i")
        elif code == _IDLE:
            self._idle = source.length()
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
            elif name == FIELDS_OF_HASH:
                pairs = (pair.partition(b":") for pair in value.split(b" "))
                found = {bytes.fromhex(text.decode()): int(deadline) for deadline, _, text in pairs}
                if not all(0 < deadline <= _LAST_MOMENT for deadline in found.values()):
                    raise BadFormatError
                self._field_deadlines |= found
            elif len(self.summary.about) < _MOST_ABOUT:
                self.summary.about[name] = value
        elif code == FUNCTION:
            self.libraries.append(source.string())
        else:
            raise BadFormatError(f"what the code {code} stands for is not known here")

    def _module_aux(self) -> Steps[None]:
        source = self._source
        number = yield from whole(source, lambda: (source.length(), source.length(), source.length())[0])
        yield from value_reader.skip_module_data(source)
        self._leave_out("data of a module", value_reader.module_name(number))

    def _select(self, index: int) -> None:
        if index >= len(self._databases):
            raise ForeignError(self._began, f"it has a database {index}, but 'databases' is {len(self._databases)}")
        self._db = self._databases[index]

    def _leave_out(self, kind: str, what: str) -> None:
        if not self._skip_unknown:
            raise ForeignError(
                self._began,
                f"{what}: a {kind}, which the engine does not have; with 'load-unknown skip' it would be left out",
            )
        self.summary.left_out[kind] = self.summary.left_out.get(kind, 0) + 1

    def _add(self, key: bytes, value: Any) -> None:
        db, deadline, idle, rest = self._db, self._deadline, self._idle, self._rest_of_stream
        self._deadline = self._idle = None
        self._rest_of_stream = b""
        self._key = key
        if rest:
            if not isinstance(value, Stream):
                raise BadFormatError
            load_rest(rest, value, self._makers.idmp_defaults)
        if self._field_deadlines:
            if not isinstance(value, Hash) or not self._field_deadlines.keys() <= value.keys():
                raise BadFormatError
            value.set_deadlines(self._field_deadlines)
            self._field_deadlines = {}
        if value.__class__ is Unknown:
            self._leave_out(value.kind, f"key '{_shown(key)}' of database {db.index}")
            return
        if deadline is not None and self._now is not None and deadline <= self._now:
            self.summary.expired += 1
            return
        if db.holds(key):
            if not self._merge:
                raise BadFormatError("it is there twice")
            db.delete(key)
        db.add(key, value)
        self.summary.keys += 1
        if deadline is not None:
            db.set_deadline(key, deadline)
        if idle is not None:
            db.set_idle(key, min(idle, _LONGEST_IDLE) * 1000)


def _shown(word: bytes) -> str:
    return word[:100].decode("utf-8", "backslashreplace")
