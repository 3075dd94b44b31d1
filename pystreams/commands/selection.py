"""Which streams a word of the command line means: one by its name, or those that match a glob."""

from __future__ import annotations

from collections.abc import Iterable

from pystreams.commands.verbs import Run
from pystreams.streams import inventory, paged_calls
from pystreams.values import names


def is_glob(word: str) -> bool:
    """Whether the word has characters of a glob; a backslash takes their meaning away."""
    return any(each in word for each in "*?[\\")


def matching(run: Run, word: str) -> Iterable[bytes]:
    """The streams that a word means: those that match a glob, or the one of that name, which must exist."""
    name = names.from_shell(word)
    if is_glob(word):
        return inventory.scan(run.connection, name)
    paged_calls.ask(run.connection, "XINFO", "STREAM", name)
    return [name]
