"""What an ACL user must be allowed for what a query does: rules of keys and commands, as ACL SETUSER takes them.

`RULES` is the list in docs/guides/connecting.md; a test compares the two. Knows no server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_streams.config.read import ReadOptions
from spark_streams.config.write import WriteOptions
from streamclient.commands import ENGINE_RULES
from streamclient.config.address import Address

RULES: dict[str, str] = {
    "everything": "+echo",
    "writing with exactlyOnce, atomic or staged": "+watch +unwatch +multi +exec +hmget +hset +hgetall +hdel "
    "+pexpire +xadd +xinfo|stream",
    "the same, with exactlyOnce and atomic": "+hsetnx",
    "the same, for repeated batches, staged and foreachBatch": "+hexists",
    "having staged rows moved by the server (not needed)": "+command|info +eval +ps.append",
    "having rows sent to the engine as columns (not needed)": "+command|info +ps.add",
    "the same, to see that records are not evicted (not needed)": "+info",
    "the same, to see that a stream was deleted and has more entries again (not needed)": "+xrange",
    "writing with append": "+xadd",
    "maxlen, minid, retentionMs": "+xtrim",
    "mode overwrite": "+xtrim +xinfo|stream",
    "saveMode": "+exists",
    "waitReplicas": "+wait",
    "reading without a group": "+xinfo|stream +xrange",
    "reading with a group": "+xinfo|stream +xinfo|groups +xinfo|consumers +xgroup|create +xgroup|createconsumer "
    "+xgroup|setid +xgroup|delconsumer +set +get +pexpire +del +xreadgroup +client|reply +xpending +xack +xrange",
    "the same with ack=cursor": "+xinfo|stream +xinfo|groups +xgroup|create +xgroup|createconsumer +xgroup|setid "
    "+set +get +pexpire +del +xrange",
    "the same with ack=none": "+xinfo|stream +xinfo|groups +xgroup|create +xrange",
    "consume=shared": "+xinfo|stream +xinfo|groups +xinfo|consumers +xgroup|create +xgroup|delconsumer +xreadgroup "
    "+xpending +watch +multi +exec +hget +hmget +hkeys +hset +hdel +set +get +pexpire +del +xrange",
    "deadLetterStream": "+xadd +xack +hgetall",
    "having dead letters moved by a script (not needed)": "+eval",
    "recognizing the engine (not needed)": f"+command|info {ENGINE_RULES}",
    "reading ranges from the engine as columns (not needed)": "+command|info +ps.columns",
    "triggers without data at a small cost (not needed)": "+xread +xlen",
    "planning without having entries of more than 1 KiB sent (not needed)": "+eval",
    "streamPattern": "+scan",
    "trimOnCommit": "+xtrim",
    "a database other than 0": "+select",
    "a cluster": "+cluster|slots +exists +asking",
    "readFrom": "+info +role",
    "readFrom, on a cluster": "+info +readonly",
    "readFrom, at the Sentinels": "+sentinel|replicas",
    "Sentinel, at the server": "+role",
    "Sentinel, at the Sentinels": "+sentinel|get-master-addr-by-name",
    "connections that were idle for 30 seconds": "+ping",
}
"""Commands by what needs them."""
FALLBACKS = {
    "+ping": "idle connections are replaced",
    "+unwatch": "the keys are watched until the next EXEC",
    "+set": "there is no lease, so a second run of the query is not noticed",
    "+get": "there is no lease",
    "+pexpire": "there is no lease",
    "+del": "the lease of a query that has stopped expires instead",
    "+client|reply": "entries are delivered with replies that are not used",
    "+xinfo|consumers": "large batches are delivered before their tasks begin",
    "+xgroup|createconsumer": "large batches are delivered before their tasks begin",
    "+xgroup|delconsumer": "large batches are delivered before their tasks begin, and acknowledged entry by entry",
}
"""Commands of `RULES` that a user can do without, and what happens then. All others are needed."""
_NAMED = 20  # streams: of more the rules name the prefix that they share


def for_read(options: ReadOptions, address: Address) -> str:
    """The rules for a read with these options."""
    keys = ["~*"] if options.pattern is not None else _keys(options.streams)
    rows = ["reading without a group"]
    if options.group is not None or options.group_prefix is not None:
        keys.append("~pystreams:*")
        rows = ["reading with a group" if options.ack == "commit" else f"the same with ack={options.ack}"]
        rows = ["consume=shared"] if options.shared else rows
    rows += ["streamPattern"] if options.pattern is not None else []
    rows += ["trimOnCommit"] if options.trims else []
    if options.read_from != "primary":
        rows.append("readFrom" if address.kind != "cluster" else "readFrom, on a cluster")
    if options.dead_letters is not None:
        keys.append(f"~{options.dead_letters}")
        rows.append("deadLetterStream")
    return _rules(keys, [*rows, *_of_connection(address)])


def for_write(options: WriteOptions, address: Address, *, overwrite: bool = False) -> str:
    """The rules for a write with these options. Streams that rows name themselves are shown as `~*`."""
    keys = ["~*" if options.stream is None else f"~{options.stream}{':*' if options.partitions is not None else ''}"]
    rows = ["writing with append"]
    if options.mode != "append":
        keys.append("~pystreams:fence:*")
        rows = [
            "writing with exactlyOnce, atomic or staged",
            *(["the same, with exactlyOnce and atomic"] if options.mode != "staged" else []),
            "the same, for repeated batches, staged and foreachBatch",
        ]
    trims = options.maxlen is not None or options.minid is not None or options.retention is not None
    rows += ["maxlen, minid, retentionMs"] if trims else []
    rows += ["mode overwrite"] if overwrite else []
    rows += ["saveMode"] if options.save_mode != "append" else []
    rows += ["waitReplicas"] if options.wait_replicas else []
    return _rules(keys, [*rows, *_of_connection(address)])


def _keys(streams: Sequence[str]) -> list[str]:
    """Rules for the keys of these streams. They go with every task, and stand in one line of an error."""
    if len(streams) <= _NAMED:
        return [f"~{stream}" for stream in streams]
    first, last = min(streams), max(streams)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return [f"~{first[:same]}*"]


def _of_connection(address: Address) -> Iterator[str]:
    yield "connections that were idle for 30 seconds"
    if address.kind == "cluster":
        yield "a cluster"
    if address.kind == "sentinel":
        yield "Sentinel, at the server"
    if address.login.database:
        yield "a database other than 0"


def _rules(keys: list[str], rows: list[str]) -> str:
    words = [word for row in ("everything", *rows) for word in RULES[row].split()]
    return " ".join(dict.fromkeys([*keys, *words]))
