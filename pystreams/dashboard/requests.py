"""A request that a dashboard page sends: its checked parameters, and the session's access to the server.

A session has a few connections as its own user, which are lent to the threads that answer requests. If a session may
see less than the dashboard's own user, each name on a page is checked at the server. The results are cached for half a
minute.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from pystreams.dashboard.login import NOT_LOGGED_IN, Refusal, Rules, Session
from pystreams.dashboard.reading import Reader
from pystreams.dashboard.sampler import Sampler, Snapshot
from pystreams.errors import fail
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError, ResponseError, error
from streamwire.stream_id import StreamId

_RETRY_MS = 1000  # time for which connecting is tried
_MOST_CONNECTIONS = 4  # maximum number of connections of a session
_PATIENCE = 10.0  # timeout in seconds for a free connection, and for a reply
_KNOWN_SECONDS = 30.0  # time for which the result of a check of a name is cached
_MOST_KNOWN = 20_000  # maximum number of cached results


class Access:
    """Access to the server for one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._address = replace(session.address, retry_ms=_RETRY_MS, answer_seconds=_PATIENCE)
        self._idle: deque[Connection] = deque()
        self._permits = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._known: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection. It is closed after a failure, but not after an error reply."""
        if not self._permits.acquire(timeout=_PATIENCE):
            raise error("SERVER_UNREACHABLE", address=self._address.shown, reason="its replies take too long")
        try:
            connection = self._opened()
            try:
                yield connection
            except BROKEN as cause:
                connection.close()
                raise connection.unreachable(cause) from cause
            except PystreamsError as failure:
                if failure.condition in ("SERVER_UNREACHABLE", "CONNECTION_BROKEN"):
                    connection.close()
                else:
                    self._give_back(connection)
                raise
            except BaseException:
                connection.close()  # a reply may still be outstanding
                raise
            self._give_back(connection)
        finally:
            self._permits.release()

    def _opened(self) -> Connection:
        while (connection := self._pop_idle()) is not None:
            if connection.usable():
                return connection
            connection.close()
        try:
            return Connection(self._address)
        except PystreamsError as failure:
            self.session.is_refused = failure.condition == "LOGIN_REFUSED"
            if self.session.is_refused:
                raise Refusal(*NOT_LOGGED_IN) from failure
            raise

    def _pop_idle(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _give_back(self, connection: Connection) -> None:
        connection.mark_idle()
        self._idle.append(connection)
        if self._closed:
            # Another thread closed the access while the connection was lent, so it has not closed this connection.
            self.close()

    def close(self) -> None:
        """Close the idle connections. Lent connections are closed when they are returned."""
        self._closed = True
        while (connection := self._pop_idle()) is not None:
            connection.close()

    def visible(self, names: Sequence[bytes]) -> set[bytes]:
        """Return the names that the session's user may read."""
        if self.session.whole:
            return set(names)
        now = time.monotonic()
        asked = [
            name for name in dict.fromkeys(names) if now - self._known.get(name, (False, -1e9))[1] > _KNOWN_SECONDS
        ]
        if asked:
            commands: list[Command] = [("XLEN", name) for name in asked]
            with self.lend() as connection:
                replies = connection.pipeline(commands)
            for name, reply in zip(asked, replies, strict=True):
                refused = isinstance(reply, ResponseError) and str(reply).startswith("NOPERM")
                self._known[name] = (not refused, now)
                self._known.move_to_end(name)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return {name for name in names if self._known.get(name, (False, 0.0))[0]}


PAGE, MOST = 50, 200  # default and maximum number of rows of a page
_MAY_BE_EMPTY = ("stream", "group")
_DEEPEST = 1_000_000  # maximum page number
_MOST_DIGITS = 18  # maximum number of digits, including leading zeros
_WALK, _STEP = 10_000, 500  # maximum number of rows checked for visibility, in total and per step

Row = TypeVar("Row")


def query(raw: bytes) -> dict[str, str]:
    """Return the parameters of a URL, which must be UTF-8. Names of streams may have any bytes, see `Asked.key`."""
    try:
        return dict(parse_qsl(raw.decode("ascii"), True, errors="strict", max_num_fields=30))
    except ValueError:
        return fail("INVALID_VALUE", name="query", value="...", expected="it must be a URL's parameters")


@dataclass(frozen=True)
class Asked:
    """A request: its parameters by name, and the objects for answering it."""

    given: Mapping[str, Any]
    access: Access
    sampler: Sampler
    rules: Rules
    #: Address of the client.
    origin: str = ""

    def reader(self, stream: bytes) -> Reader:
        """Return the reader of a stream's entries."""
        return Reader(self.rules.decoders, self.rules.masks, stream)

    @property
    def snapshot(self) -> Snapshot:
        return self.sampler.state.snapshot

    def text(self, name: str, default: str = "") -> str:
        """Return a string parameter."""
        value = self.given.get(name, default)
        return (
            value
            if isinstance(value, str)
            else fail("INVALID_VALUE", name=name, value="...", expected="it must be a string")
        )

    def key(self, name: str) -> bytes:
        """Return the name of a stream, group or consumer from a required parameter. Any byte may be percent-encoded.

        Streams and groups may have an empty name. An empty consumer name is an error: the form was not filled in.
        """
        value = self.text(name)
        if not value and (name not in _MAY_BE_EMPTY or name not in self.given):
            fail("INVALID_VALUE", name=name, value="", expected="it must be given")
        return unquote_to_bytes(value)

    def key_or_none(self, name: str) -> bytes | None:
        """Return the result of `key` for an optional parameter; None if it is missing or empty."""
        return self.key(name) if self.given.get(name) else None

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Return an integer parameter from `low` to `high`, or `default` if the parameter is missing."""
        value = self.given.get(name)
        if value is None or value == "":
            return default
        text = str(value)
        if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or not low <= int(text) <= high:
            fail("INVALID_VALUE", name=name, value=text[:50], expected=f"it must be a number from {low} to {high}")
        return int(text)

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return a parameter that must be one of `choices`, or `default` if the parameter is missing."""
        value = self.text(name) or default
        known = list(choices)
        if value not in known:
            fail("INVALID_VALUE", name=name, value=value[:50], expected=f"it must be one of {', '.join(known)}")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean parameter."""
        return self.given.get(name) in (True, "true", "1")

    def id(self, name: str) -> StreamId | None:
        """Return the ID of an entry; None if the parameter is missing."""
        text = self.text(name)
        try:
            return StreamId.parse(text) if text else None
        except ValueError:
            return fail("INVALID_VALUE", name=name, value=text[:50], expected="it must be an entry's ID")

    def ids(self, name: str) -> tuple[bytes, ...]:
        """Return a list of IDs."""
        value = self.given.get(name) or []
        if not isinstance(value, list) or not all(isinstance(each, str) and len(each) <= 41 for each in value):
            fail("INVALID_VALUE", name=name, value="...", expected="it must be a list of IDs")
        return tuple(each.encode("ascii", "replace") for each in value)

    def page(self) -> tuple[int, int]:
        """Return the index of the page's first row, and the number of rows."""
        size = self.number("size", PAGE, 1, MOST)
        return self.number("page", 0, 0, _DEEPEST) * size, size


def visible_page(asked: Asked, rows: Sequence[Row], names_of: Callable[[Row], bytes]) -> tuple[list[Row], int | None]:
    """Return the requested page of the rows that the session may see, and their total number.

    The total counts only rows that the session may see. At most `_WALK` rows are checked; the total is None if there
    are more rows.
    """
    first, size = asked.page()
    if asked.access.session.whole:
        return list(rows[first : first + size]), len(rows)
    found: list[Row] = []
    for start in range(0, min(len(rows), _WALK), _STEP):
        page = rows[start : start + _STEP]
        seen = asked.access.visible([names_of(row) for row in page])
        found += [row for row in page if names_of(row) in seen]
    return found[first : first + size], len(found) if len(rows) <= _WALK else None
