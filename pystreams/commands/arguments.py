"""Arguments of verbs: names, IDs and globs, and the streams and groups that they select."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import click

from pystreams.commands.verbs import Run
from pystreams.errors import fail
from pystreams.streams import group_states as of_groups
from pystreams.streams import inventory, paged_calls
from pystreams.streams.group_states import Group
from pystreams.values import names
from pystreams.values.names import is_glob
from streamwire.stream_id import StreamId

T = TypeVar("T")


class Name(click.ParamType[bytes]):
    """Name of a stream, group, consumer or field, which may contain any bytes."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        del param, ctx
        return value if isinstance(value, bytes) else names.from_shell(value)


class EntryId(click.ParamType[bytes]):
    """Complete ID of one entry. `5` means `5-0`, as in XACK and XDEL."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        try:
            return str(StreamId.parse(str(value))).encode()
        except ValueError:
            self.fail(f"'{value}' is not an ID such as 1526919030474-0", param, ctx)


NAME, ID = Name(), EntryId()


def stream_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument STREAM."""
    return click.argument("stream", type=NAME)(function)


def group_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument GROUP."""
    return click.argument("group", type=NAME)(function)


def match_limit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --limit to a verb that changes all matches: more matches than the limit are an error."""
    text = "Maximum number of matches; more matches are an error. 0 for no limit."
    return click.option("--limit", type=click.IntRange(0), default=1000, show_default=True, help=text)(function)


def limit_option(default: int, things: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option --limit to a verb that lists things."""
    text = f"Maximum number of {things} to show; 0 for all."
    return click.option("--limit", type=click.IntRange(0), default=default, show_default=True, help=text)


def ids_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the repeatable argument ID. The function receives each ID once."""
    return click.argument("ids", nargs=-1, type=ID, metavar="[ID]...", callback=_each_once)(function)


def _each_once(ctx: click.Context, param: click.Parameter, given: tuple[bytes, ...]) -> tuple[bytes, ...]:
    del ctx, param
    return tuple(dict.fromkeys(given))


def matching(run: Run, word: str) -> Iterable[bytes]:
    """Return the names of the streams that match a glob, sorted, or the name of an existing stream.

    A limit then cuts the list at the same name each time. Raises NO_SUCH_STREAM.
    """
    name = names.from_shell(word)
    if is_glob(word):
        return sorted(inventory.scan(run.connection, name))
    paged_calls.ask(run.connection, "XINFO", "STREAM", name)
    return [name]


def no_more_than(limit: int, things: str, found: Iterable[T]) -> list[T]:
    """Return the items of `found`. Raises TOO_MANY if there are more than `limit` items and `limit` is not 0."""
    first = list(itertools.islice(found, limit + 1) if limit else found)
    if limit and len(first) > limit:
        fail("TOO_MANY", things=things, limit=limit)
    return first


def groups_of(run: Run, stream: str, groups: Sequence[bytes], limit: int) -> list[Group]:
    """Return the groups of the selected streams, ordered by stream and name, with their consumers.

    `stream`: a name or a glob. `groups`: names or globs; all groups if empty. Raises NO_SUCH_STREAM and TOO_MANY, and
    NO_SUCH_GROUP if no selected stream has a group of one of the names.
    """
    exact = {name for name in groups if not is_glob(names.to_shell(name))}
    patterns = [names.glob_pattern(name) for name in groups if name not in exact]

    forbidden: set[bytes] | None = set() if is_glob(stream) else None

    def wanted() -> Iterator[Group]:
        every = matching(run, stream)
        for each in of_groups.groups(run.connection, every, run.now, forbidden=forbidden):
            if not groups or each.name in exact or any(pattern.fullmatch(each.name) for pattern in patterns):
                yield each

    found = no_more_than(limit, "groups", wanted())
    run.warn_of_forbidden(forbidden or ())
    missing = exact - {each.name for each in found}
    if missing:
        absent = ", ".join(map(names.shown, sorted(missing)))
        fail("NO_SUCH_GROUP", stream=stream, group=absent, address=run.connection.address.shown)
    detailed = run.out.progress("groups", of_groups.detailed(run.connection, found), len(found))
    return sorted(detailed, key=lambda each: (each.stream.name, each.name))
