"""ACL rules that a query's user needs: keys and commands, in the form of ACL SETUSER.

`streamclient.commands` lists the commands for each purpose. This module does not talk to servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_streams.config.read import ReadOptions
from spark_streams.config.write import WriteOptions
from streamclient.commands import RULES, Need
from streamclient.config.address import Address
from streamclient.record_keys import PREFIX

_BY_ACK = {"commit": Need.READ_GROUP, "cursor": Need.READ_CURSOR, "none": Need.READ_NONE}
_NAMED = 20  # maximum number of streams named in the rules; for more, their common prefix is used


def for_read(options: ReadOptions, address: Address) -> str:
    """Return the rules for a read with these options."""
    keys = ["~*"] if options.pattern is not None else _keys(options.streams)
    rows = [Need.READ]
    if options.group is not None or options.group_prefix is not None:
        keys.append("~pystreams:*")
        rows = [_BY_ACK[options.ack]]
        rows = [Need.SHARED] if options.shared else rows
    rows += [Need.PATTERN] if options.pattern is not None else []
    rows += [Need.TRIM_ON_COMMIT] if options.trims else []
    if options.read_from != "primary":
        rows.append(Need.READ_FROM if address.kind != "cluster" else Need.READ_FROM_CLUSTER)
    if options.dead_letters is not None:
        keys.append(f"~{options.dead_letters}")
        rows.append(Need.DEAD_LETTERS)
    return _rules(keys, [*rows, *_of_connection(address)])


def for_write(options: WriteOptions, address: Address, *, overwrite: bool = False) -> str:
    """Return the rules for a write with these options. If rows name their streams, the rules allow all keys."""
    keys = ["~*" if options.stream is None else f"~{options.stream}{':*' if options.partitions is not None else ''}"]
    rows = [Need.APPEND]
    if options.mode != "append":
        keys.append(f"~{PREFIX.decode()}*")
        rows = [
            Need.WRITE_ONCE,
            Need.WRITE_AGAIN,
        ]
    trims = options.maxlen is not None or options.minid is not None or options.retention is not None
    rows += [Need.TRIM_ON_WRITE] if trims else []
    rows += [Need.OVERWRITE] if overwrite else []
    rows += [Need.SAVE_MODE] if options.save_mode != "append" else []
    rows += [Need.WAIT_REPLICAS] if options.wait_replicas else []
    return _rules(keys, [*rows, *_of_connection(address)])


def _keys(streams: Sequence[str]) -> list[str]:
    """Return the rules for the keys of these streams.

    Many streams are replaced by their common prefix to keep the rules short, because errors and tasks contain them.
    """
    if len(streams) <= _NAMED:
        return [f"~{stream}" for stream in streams]
    first, last = min(streams), max(streams)
    same = next((at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right), len(first))
    return [f"~{first[:same]}*"]


def _of_connection(address: Address) -> Iterator[Need]:
    yield Need.IDLE
    if address.kind == "cluster":
        yield Need.CLUSTER
    if address.kind == "sentinel":
        yield Need.SENTINEL_SERVER
    if address.login.database:
        yield Need.DATABASE


def _rules(keys: list[str], rows: list[Need]) -> str:
    words = [word for row in (Need.ANY, *rows) for word in RULES[row].split()]
    return " ".join(dict.fromkeys([*keys, *words]))
