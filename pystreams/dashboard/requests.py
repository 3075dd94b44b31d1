"""A request that a dashboard page sends: its checked parameters, and the rows of a page that its session may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from pystreams.dashboard.login import Access, Rules, Session
from pystreams.dashboard.reading import Reader
from pystreams.dashboard.sampler import Sampler, Snapshot
from pystreams.errors import fail
from streamwire.stream_id import StreamId

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
    session: Session
    sampler: Sampler
    rules: Rules
    #: Address of the client.
    origin: str = ""

    @property
    def access(self) -> Access:
        return self.session.access

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
    if asked.session.whole:
        return list(rows[first : first + size]), len(rows)
    found: list[Row] = []
    for start in range(0, min(len(rows), _WALK), _STEP):
        page = rows[start : start + _STEP]
        seen = asked.access.visible([names_of(row) for row in page])
        found += [row for row in page if names_of(row) in seen]
    return found[first : first + size], len(found) if len(rows) <= _WALK else None
