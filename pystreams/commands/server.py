"""`server clients, slowlog, config, acl, replication`: the verbs about servers.

Verbs change something only if an option requests the change. The change must be confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pystreams.commands.verbs import NAME, Run, limit_option, verb, verb_group
from pystreams.errors import fail
from pystreams.output.console import Column
from pystreams.streams import servers
from pystreams.values import names, numbers, times
from streamclient.config.address import Endpoint

_SORTS: dict[str, Callable[[servers.Client], int]] = {
    "memory": lambda client: client.memory or 0,
    "idle": lambda client: client.idle,
    "age": lambda client: client.age,
}


def _where(function: Any) -> Any:
    """Add the options that select servers of a cluster, or a master and its replicas."""
    replicas = click.option("--replicas", is_flag=True, help="Include replicas.")
    node = click.option("--node", metavar="HOST:PORT", help="Select only this server.")
    return node(replicas(function))


def _columns(nodes: Sequence[Endpoint], *columns: Column) -> list[Column]:
    return [*([Column("NODE")] if len(nodes) > 1 else []), *columns]


def _cells(nodes: Sequence[Endpoint], node: str, *cells: str) -> list[str]:
    return [*([node] if len(nodes) > 1 else []), *cells]


def _write(run: Run, member: str, columns: list[Column], cells: list[list[str]], records: list[dict[str, Any]]) -> None:
    """Write records as a table, or as a document under the key `member`."""
    if run.out.structured:
        run.out.document({member: records}, member)
    else:
        run.out.table(columns, cells, empty=f"No {member}.")


@verb(
    "clients",
    needs="+client|list",
    options_need={"kill": "+client|kill"},
    changes=True,
    examples=(
        "pystreams server clients --sort idle",
        "pystreams server clients --user billing -o csv",
        "pystreams server clients --kill 1042",
    ),
)
@_where
@click.option("--user", help="Only clients of this ACL user.")
@click.option(
    "--sort", type=click.Choice(list(_SORTS)), default="memory", show_default=True, help="Order, largest first."
)
@limit_option(100, "clients")
@click.option("--kill", type=int, multiple=True, metavar="ID", help="Disconnect this client. Repeatable.")
def clients(
    run: Run, node: str | None, replicas: bool, user: str | None, sort: str, limit: int, kill: tuple[int, ...]
) -> None:
    """List the clients of a server, or disconnect clients."""
    nodes = servers.servers(run.connection, node, replicas=replicas)
    found = [each for each in servers.clients(run.connection, nodes) if user is None or each.user == user]
    if kill:
        _kill(run, nodes, found, kill)
        return
    found.sort(key=_SORTS[sort], reverse=True)
    shown = found[:limit] if limit else found
    columns = [Column("ID", right=True), Column("ADDRESS"), Column("NAME"), Column("USER"), Column("AGE", right=True)]
    columns += [Column("IDLE", right=True), Column("COMMAND"), Column("MEMORY", right=True), Column("LIBRARY")]
    cells = [
        _cells(
            nodes,
            each.node,
            str(each.id),
            each.address,
            each.name or "-",
            each.user or "-",
            times.shown(each.age * 1000),
            times.shown(each.idle * 1000),
            each.command or "-",
            numbers.size(each.memory),
            each.library or "-",
        )
        for each in shown
    ]
    records = [
        {
            "node": each.node,
            "id": each.id,
            "address": each.address,
            "name": each.name,
            "user": each.user,
            "age_seconds": each.age,
            "idle_seconds": each.idle,
            "command": each.command,
            "memory_bytes": each.memory,
            "library": each.library,
        }
        for each in shown
    ]
    _write(run, "clients", _columns(nodes, *columns), cells, records)
    if len(shown) < len(found):
        run.out.note(f"Only {limit} of {len(found):,} clients are shown (--limit).")


def _kill(run: Run, nodes: Sequence[Endpoint], connected: list[servers.Client], ids: Sequence[int]) -> None:
    if len(nodes) > 1:
        raise click.UsageError("Client IDs belong to one server. Select the server with --node.")
    for missing in sorted({*ids} - {each.id for each in connected}):
        fail("NO_SUCH_CLIENT", node=nodes[0], client=missing)
    chosen = [each for each in connected if each.id in ids]
    listed = ", ".join(f"{each.id} at {each.address}" for each in chosen)
    records = [{"id": each.id, "address": each.address} for each in chosen]
    if run.may(f"disconnect {numbers.things(len(chosen), 'client')} ({listed})", {"clients": records}, "clients"):
        killed = sum(servers.ask_one(run.connection, nodes[0], "CLIENT", "KILL", "ID", each.id) for each in chosen)
        done = {"disconnected": killed, "clients": records}
        run.done(f"Disconnected {numbers.things(killed, 'client')}.", done, "clients")


@verb(
    "slowlog",
    needs="+slowlog|get",
    options_need={"reset": "+slowlog|len +slowlog|reset"},
    changes=True,
    examples=("pystreams server slowlog --limit 10", "pystreams server slowlog --reset"),
)
@_where
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum number of commands from each server.",
)
@click.option("--reset", is_flag=True, help="Discard the slow log.")
def slowlog(run: Run, node: str | None, replicas: bool, limit: int, reset: bool) -> None:
    """Show commands that took longer than the setting slowlog-log-slower-than, newest first."""
    nodes = servers.servers(run.connection, node, replicas=replicas)
    if reset:
        count = sum(servers.ask_each(run.connection, nodes, "SLOWLOG", "LEN"))
        if run.may(f"discard {numbers.things(count, 'slow command')}", {"commands": count}):
            servers.ask_each(run.connection, nodes, "SLOWLOG", "RESET")
            run.done(f"Discarded {numbers.things(count, 'slow command')}.", {"discarded": count})
        return
    found = servers.slow_commands(run.connection, nodes, limit)
    columns = _columns(nodes, Column("AT"), Column("TOOK", right=True), Column("CLIENT"), Column("COMMAND"))
    cells = []
    for each in found:
        took = f"{each.microseconds / 1000:,.1f} ms"
        cells.append(_cells(nodes, each.node, str(times.iso(each.at)), took, each.client or "-", each.command))
    records = [
        {
            "node": each.node,
            "id": each.id,
            "at": times.iso(each.at),
            "microseconds": each.microseconds,
            "client": each.client,
            "client_name": each.client_name,
            "command": each.command,
        }
        for each in found
    ]
    _write(run, "commands", columns, cells, records)


@verb(
    "config",
    needs="+config|get",
    options_need={"changes": "+config|set", "save": "+config|rewrite"},
    changes=True,
    examples=(
        "pystreams server config 'maxmemory*' appendfsync",
        "pystreams server config --set maxmemory=2gb --set maxmemory-policy=noeviction",
        "pystreams server config --save    # to the configuration file",
    ),
)
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@_where
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting. Repeatable.")
@click.option("--save", is_flag=True, help="Write the current settings to the server's configuration file.")
def config(
    run: Run, patterns: tuple[str, ...], node: str | None, replicas: bool, changes: tuple[str, ...], save: bool
) -> None:
    """Show the settings that match PATTERN, a name or a glob; or change settings. Passwords are hidden.

    Each server has its own settings. Settings of replicas are shown and changed only with --replicas.
    """
    nodes = servers.servers(run.connection, node, replicas=replicas)
    if changes or save:
        if patterns:
            raise click.UsageError("PATTERN shows settings; --set and --save change them.")
        _set(run, nodes, changes, save=save)
        return
    records = [
        {"node": str(each), "name": name, "value": value}
        for each in nodes
        for name, value in servers.settings(run.connection, each, patterns or ("*",)).items()
    ]
    cells = [_cells(nodes, each["node"], each["name"], each["value"]) for each in records]
    _write(run, "settings", _columns(nodes, Column("SETTING"), Column("VALUE")), cells, records)


def _set(run: Run, nodes: Sequence[Endpoint], changes: Sequence[str], *, save: bool) -> None:
    wanted: dict[str, str] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter("write NAME=VALUE", param_hint="--set")
        wanted[name] = value
    records, plans = [], []
    for each in nodes:
        before = servers.settings(run.connection, each, list(wanted)) if wanted else {}
        for name, value in wanted.items():
            shown, old = servers.hidden(name, value), before.get(name, "")
            records.append({"node": str(each), "name": name, "from": old, "to": shown})
            plans.append(f"set {name} of {each} from '{old}' to '{shown}'")
    if save:
        plans.append(f"write the configuration file of {', '.join(map(str, nodes))}")
    if not run.may(", and ".join(plans), {"settings": records, "save": save}, "settings" if records else ""):
        return
    for each in nodes:
        if wanted:
            servers.ask_one(run.connection, each, "CONFIG", "SET", *(word for pair in wanted.items() for word in pair))
        if save:
            servers.ask_one(run.connection, each, "CONFIG", "REWRITE")
    sentence = f"Changed {numbers.things(len(wanted), 'setting')} of {numbers.things(len(nodes), 'server')}."
    run.done(
        sentence if wanted else f"Saved the settings of {numbers.things(len(nodes), 'server')}.",
        {"settings": records, "saved": save},
        "settings" if records else "",
    )


@verb(
    "acl",
    needs="+acl|users +acl|getuser",
    options_need={"rules": "+acl|setuser", "remove": "+acl|deluser", "save": "+acl|save"},
    changes=True,
    examples=(
        "pystreams server acl",
        "pystreams server acl reader --set 'on ~orders* +@read' --password-file reader.txt",
        "pystreams server acl reader --rm",
        "pystreams server acl --save    # to the ACL file",
    ),
)
@click.argument("user", required=False, type=NAME)
@_where
@limit_option(1000, "users")
@click.option("--set", "rules", metavar="RULES", help="Create or change USER by rules of ACL SETUSER.")
@click.option(
    "--password-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line becomes the user's only password. Requires --set.",
)
@click.option("--rm", "remove", is_flag=True, help="Remove USER.")
@click.option("--save", is_flag=True, help="Write the users to the server's ACL file.")
def acl(
    run: Run,
    user: bytes | None,
    node: str | None,
    replicas: bool,
    limit: int,
    rules: str | None,
    password_file: Path | None,
    remove: bool,
    save: bool,
) -> None:
    """Show the ACL users and their rights, or change, remove or save users. Passwords are never shown.

    Each server has its own users. Users of replicas are shown and changed only with --replicas.
    """
    if password_file is not None and rules is None:
        raise click.UsageError("--password-file requires --set.")
    if (rules is not None or remove) and user is None:
        raise click.UsageError("--set and --rm require a USER.")
    if rules is not None and remove:
        raise click.UsageError("Give one of --set and --rm.")
    nodes = servers.servers(run.connection, node, replicas=replicas)
    if rules is not None or remove or save:
        _change_users(run, nodes, user, rules, password_file, remove=remove, save=save)
        return
    found = [
        each for endpoint in nodes for each in servers.users(run.connection, endpoint, [] if user is None else [user])
    ]
    shown = found[:limit] if limit else found
    columns = [Column("USER"), Column("STATE"), Column("PASSWORDS", right=True), Column("COMMANDS"), Column("KEYS")]
    columns.append(Column("CHANNELS"))
    cells = [
        _cells(
            nodes,
            each.node,
            each.name,
            "on" if each.enabled else "off",
            numbers.count(each.passwords) if each.needs_password else "not needed",
            each.commands,
            each.keys or "-",
            each.channels or "-",
        )
        for each in shown
    ]
    records = [
        {
            "node": each.node,
            "user": each.name,
            "enabled": each.enabled,
            "passwords": each.passwords,
            "needs_password": each.needs_password,
            "commands": each.commands,
            "keys": each.keys,
            "channels": each.channels,
        }
        for each in shown
    ]
    _write(run, "users", _columns(nodes, *columns), cells, records)
    if len(shown) < len(found):
        run.out.note(f"Only {limit} of {len(found):,} users are shown (--limit).")


def _change_users(
    run: Run,
    nodes: Sequence[Endpoint],
    user: bytes | None,
    rules: str | None,
    password_file: Path | None,
    *,
    remove: bool,
    save: bool,
) -> None:
    addresses = ", ".join(map(str, nodes))
    commands: list[tuple[str | bytes, ...]] = []
    plans = []
    if user is not None and rules is not None:
        words: list[str] = rules.split()
        if password_file is not None:
            words += ["resetpass", ">" + password_file.read_text().split("\n", 1)[0]]
        commands.append(("ACL", "SETUSER", user, *words))
        secret = (">", "<", "#", "!")
        shown = " ".join(word[0] + "(hidden)" if word.startswith(secret) else word for word in words)
        plans.append(f"set the user {names.shown(user)} of {addresses} to '{shown}'")
    elif user is not None and remove:
        for each in nodes:
            servers.users(run.connection, each, [user])  # raises NO_SUCH_USER
        commands.append(("ACL", "DELUSER", user))
        login = run.connection.address.login.username or "default"
        who = ", your own login," if user == login.encode() else ""
        plans.append(f"remove the user {names.shown(user)}{who} of {addresses} and disconnect its clients")
    if save:
        commands.append(("ACL", "SAVE"))
        plans.append(f"write the ACL file of {addresses}")
    document = {"nodes": list(map(str, nodes)), "user": None if user is None else names.as_json(user)}
    if run.may(", and ".join(plans), document):
        for command in commands:
            servers.ask_each(run.connection, nodes, *command)
        run.done("Done.", {"changed": True, **document})


@verb(
    "replication",
    needs="+info",
    options_need={"failover": "+failover +client|pause +client|unpause +replicaof"},
    changes=True,
    examples=(
        "pystreams server replication",
        "pystreams server replication --failover --url redis+sentinel://s1,s2,s3/main",
    ),
)
@click.option(
    "--failover",
    is_flag=True,
    help="Make a replica the master: by Sentinel if the URL names Sentinels, otherwise by FAILOVER.",
)
@click.option("--timeout", default="60s", show_default=True, help="Maximum time to wait for the new master.")
def replication(run: Run, failover: bool, timeout: str) -> None:
    """Show each master and its replicas, with their lag in bytes; or make a replica the master.

    A failover pauses writes until the new master has all data, so no acknowledged write is lost.
    """
    seconds = times.duration(timeout, "--timeout") / 1000
    if failover:
        if run.connection.topology.is_cluster:
            raise click.UsageError("In a cluster, send CLUSTER FAILOVER to the replica instead of --failover.")
        before = run.connection.topology.endpoint(None)
        if [each.role for each in servers.replication(run.connection)] == ["master"]:
            fail("NO_REPLICA", node=before)
        if run.may(f"make a replica of {before} the master", {"from": str(before)}):
            after = servers.fail_over(run.connection, seconds)
            run.done(f"The master was {before} and is {after}.", {"from": str(before), "to": str(after)})
        return
    found = servers.replication(run.connection)
    columns = [Column("NODE"), Column("ROLE"), Column("STATE"), Column("OFFSET", right=True)]
    columns += [Column("BEHIND", right=True), Column("LAST SEEN", right=True)]
    cells = [
        [
            each.node,
            each.role,
            each.state,
            numbers.count(each.offset),
            numbers.size(each.behind),
            "-" if each.lag is None else times.shown(each.lag * 1000),
        ]
        for each in found
    ]
    records = [
        {
            "node": each.node,
            "role": each.role,
            "state": each.state,
            "offset": each.offset,
            "behind_bytes": each.behind,
            "seen_seconds_ago": each.lag,
        }
        for each in found
    ]
    _write(run, "servers", columns, cells, records)


VERBS = (
    verb_group(
        "server",
        "Clients, slow log, settings, users and replication of servers.",
        clients,
        slowlog,
        config,
        acl,
        replication,
    ),
)
