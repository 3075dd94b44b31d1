"""What a server answers that stands alone, with neither replicas, nor a cluster, nor scripts, nor modules.

Clients and tools ask for these when they connect or between tests; they get what a Redis without any would answer, or
an error that says plainly that it is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.protocol.replies import OK, CommandError, Map, Reply, Simple, Verbatim
from engine.core.table.registry import command, container
from engine.text.messages import server
from engine.version import ENGINE_VERSION, REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.environment.context import Context

# -- replication ------------------------------------------------------------------------------------------------------


@command(
    "role",
    arity=1,
    flags="noscript loading stale fast",
    group="server",
    since="2.8.12",
    acl="admin dangerous",
    summary="Whether this is a master or a replica.",
)
def role(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return [b"master", 0, []]


def _replicaof(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx
    host, port = argv[1].lower(), argv[2]
    if (host, port.lower()) == (b"no", b"one"):
        return OK
    if not port.isdigit() or int(port) > 65535:
        raise CommandError(server.INVALID_MASTER_PORT)
    raise CommandError(server.NO_REPLICATION)


command(
    "replicaof",
    arity=3,
    flags="admin noscript stale no_async_loading",
    group="server",
    since="5.0.0",
    summary="Be a replica of no server.",
    syntax="<NO ONE>",
)(_replicaof)
command(
    "slaveof",
    arity=3,
    flags="admin noscript stale no_async_loading",
    group="server",
    summary="Be a replica of no server.",
    syntax="<NO ONE>",
)(_replicaof)


@command(
    "failover",
    arity=-1,
    flags="admin noscript stale",
    group="server",
    since="6.2.0",
    summary="Hand over to a replica; there is none.",
)
def failover(ctx: Context, argv: list[bytes]) -> Reply:
    raise CommandError(server.NO_REPLICAS_TO_FAIL_OVER_TO)


# -- cluster ----------------------------------------------------------------------------------------------------------


def _no_cluster(ctx: Context, argv: list[bytes]) -> Reply:
    raise CommandError(server.NO_CLUSTER)


command(
    "cluster",
    arity=-2,
    group="cluster",
    since="3.0.0",
    summary="Facts about the cluster; this is none.",
    syntax="subcommand [argument [argument ...]]",
)(_no_cluster)
for _name, _arity, _acl in (("readonly", 1, "connection"), ("readwrite", 1, "connection"), ("asking", 1, "connection")):
    _flags = "fast" if _name == "asking" else "loading stale fast"
    command(
        _name,
        arity=_arity,
        flags=_flags,
        group="cluster",
        since="3.0.0",
        acl=_acl,
        summary="A word to a node of a cluster; this is none.",
    )(_no_cluster)

# -- scripts, functions, modules --------------------------------------------------------------------------------------

container("function", group="scripting", since="7.0.0", summary="Functions, of which there are none.")
container("script", group="scripting", since="2.6.0", summary="Scripts, of which there are none.")
container("module", group="server", since="4.0.0", summary="Modules, of which there are none.")


def _flush(name: str, error: bytes, since: str, flags: str) -> None:
    @command(
        f"{name}|flush",
        arity=-2,
        flags=flags,
        group="scripting",
        since=since,
        acl="scripting",
        summary="Forget all of them.",
        syntax="[ASYNC | SYNC]",
    )
    def flush(ctx: Context, argv: list[bytes]) -> Reply:
        del ctx
        if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in (b"SYNC", b"ASYNC")):
            raise CommandError(error)
        return OK

    @command(
        f"{name}|kill",
        arity=2,
        flags="noscript allow_busy",
        group="scripting",
        since=since,
        acl="scripting",
        summary="Stop the one that runs; none does.",
    )
    def kill(ctx: Context, argv: list[bytes]) -> Reply:
        raise CommandError(server.NOT_BUSY)


_flush("function", server.FUNCTION_FLUSH, "7.0.0", "write noscript")
_flush("script", server.SCRIPT_FLUSH, "2.6.0", "noscript")


def _help(name: str, group: str, since: str, acl: str, lines: list[bytes]) -> None:
    @command(
        f"{name}|help",
        arity=2,
        flags="loading stale",
        group=group,
        since=since,
        acl=acl,
        summary=f"What {name.upper()} can do.",
    )
    def help_(ctx: Context, argv: list[bytes]) -> Reply:
        del ctx, argv
        return [Simple(line) for line in lines]


_help("function", "scripting", "7.0.0", "scripting", server.FUNCTION_HELP)
_help("script", "scripting", "5.0.0", "scripting", server.SCRIPT_HELP)
_help("module", "server", "5.0.0", "", server.MODULE_HELP)


@command(
    "script|exists",
    arity=-3,
    flags="noscript",
    group="scripting",
    since="2.6.0",
    acl="scripting",
    summary="Which scripts are there.",
    complexity="O(scripts asked for)",
    syntax="sha1 [sha1 ...]",
)
def script_exists(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx
    return [0] * (len(argv) - 2)


@command(
    "script|load",
    arity=3,
    flags="noscript stale",
    group="scripting",
    since="2.6.0",
    acl="scripting",
    summary="Refused: no scripts are run.",
    syntax="script",
)
def script_load(ctx: Context, argv: list[bytes]) -> Reply:
    raise CommandError(server.NO_SCRIPTS)


@command(
    "function|list",
    arity=-2,
    flags="noscript",
    group="scripting",
    since="7.0.0",
    acl="scripting",
    summary="All libraries of functions.",
    syntax="[LIBRARYNAME library-name-pattern] [WITHCODE]",
)
def function_list(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return []


@command(
    "function|stats",
    arity=2,
    flags="noscript allow_busy",
    group="scripting",
    since="7.0.0",
    acl="scripting",
    summary="What runs, and what there is.",
)
def function_stats(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return Map([b"running_script", None, b"engines", Map([])])


@command(
    "function|delete",
    arity=3,
    flags="write noscript",
    group="scripting",
    since="7.0.0",
    acl="scripting",
    summary="Delete a library; there is none.",
    syntax="library-name",
)
def function_delete(ctx: Context, argv: list[bytes]) -> Reply:
    raise CommandError(server.LIBRARY_NOT_FOUND)


@command("module|list", arity=2, flags="admin noscript", group="server", since="4.0.0", summary="All modules.")
def module_list(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return []


# -- who this is ------------------------------------------------------------------------------------------------------


@command(
    "lolwut",
    arity=-1,
    flags="readonly fast",
    group="server",
    since="5.0.0",
    summary="A picture, in other servers; here the versions.",
    syntax="[VERSION version]",
)
def lolwut(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return Verbatim(f"pystreams {ENGINE_VERSION}. Redis ver. {REDIS_VERSION}\n".encode())
