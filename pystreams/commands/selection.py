"""Selection of streams and groups by arguments of the command line: names, or globs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from pystreams.commands.verbs import Run
from pystreams.errors import fail
from pystreams.streams import inventory, paged_calls
from pystreams.streams.groups import group_states as of_groups
from pystreams.streams.groups.group_states import Group
from pystreams.values import names
from pystreams.values.names import is_glob

T = TypeVar("T")


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

    with run.out.progress("groups") as advance:
        found = no_more_than(limit, "groups", wanted())
        run.warn_of_forbidden(forbidden or ())
        missing = exact - {each.name for each in found}
        if missing:
            absent = ", ".join(map(names.shown, sorted(missing)))
            fail("NO_SUCH_GROUP", stream=stream, group=absent, address=run.connection.address.shown)
        detailed: list[Group] = []
        for each in of_groups.detailed(run.connection, found):
            detailed.append(each)
            advance(1)
    return sorted(detailed, key=lambda each: (each.stream.name, each.name))
