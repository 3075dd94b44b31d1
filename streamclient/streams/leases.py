"""Leases of queries. A lease is a key in the slot of its stream. The key expires unless the query renews it."""

from __future__ import annotations

from collections.abc import Sequence

from streamclient.connection import Command, Connection
from streamwire.slots import same_slot_tag


class Leases:
    """The leases next to streams. A lease has a name, and the holder's token as its value."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def acquire(
        self, streams: Sequence[str], name: str, holder: str, milliseconds: int, forced: Sequence[str]
    ) -> dict[str, str | None]:
        """Acquire or renew the holder's lease of that name next to each stream, and return each lease's current holder.

        In the streams `forced`, take the lease even if another holder has it. Raises SERVER_REFUSED.
        """
        keys = [_lease_key(stream, name) for stream in streams]
        commands: list[Command] = []
        for stream, key in zip(streams, keys, strict=True):
            condition = () if stream in forced else ("NX",)
            commands += [("SET", key, holder, *condition, "PX", milliseconds), ("GET", key)]
        replies = self._connection.pipeline(commands, final="OOM")  # a query does not wait for its lease
        for at, stream in enumerate(streams):
            # A server that is out of memory refuses SET, but still reports the holder of the lease and extends it.
            owner = replies[2 * at + 1]
            if isinstance(owner, bytes) and (stream not in forced or owner == holder.encode()):
                replies[2 * at] = replies[2 * at] == b"OK"
        self._connection.check(commands, replies)
        owner_names = [None if owner is None else owner.decode() for owner in replies[1::2]]
        owners = dict(zip(streams, owner_names, strict=True))
        # PEXPIRE, not SET: if the lease has expired in between, another holder may have acquired it, and must keep it.
        old = zip(keys, owner_names, replies[::2], strict=True)
        ours = [key for key, owner, is_new in old if owner == holder and not is_new]
        if ours:
            self._connection.commands([("PEXPIRE", key, milliseconds) for key in ours])
        return owners

    def held(self, streams: Sequence[str], name: str) -> set[str]:
        """Return the streams that have a lease of that name, of any holder."""
        owners = self._connection.commands([("GET", _lease_key(stream, name)) for stream in streams])
        return {stream for stream, owner in zip(streams, owners, strict=True) if owner is not None}

    def release(self, streams: Sequence[str], name: str, holder: str) -> None:
        """Delete the holder's leases of that name."""
        keys = [_lease_key(stream, name) for stream in streams]
        owners = self._connection.commands([("GET", key) for key in keys])
        ours = [key for key, owner in zip(keys, owners, strict=True) if owner == holder.encode()]
        if ours:
            self._connection.commands([("DEL", key) for key in ours])


def _lease_key(stream: str, name: str) -> bytes:
    """Return the key of the lease of that name, in the stream's slot."""
    tag = same_slot_tag(stream.encode())
    return b"pystreams:{" + tag + b"}:lease:" + f"{len(stream)}:{stream}:{name}".encode()
