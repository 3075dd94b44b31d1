"""Commands about what the engine does not have: a cluster, scripts, functions, modules.

Clients and tools ask for these when they connect or between tests; they get what a Redis without any would answer, or
an error that says plainly that it is not there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.core.commands.families import cluster_command, script_command, server_command
from engine.core.protocol.replies import OK, CommandError, Map, Reply, Verbatim
from engine.core.table.declare import container
from engine.core.table.registry import Keys
from engine.text.messages import server
from engine.version import ENGINE_VERSION, REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.environment.context import Context

# -- cluster ----------------------------------------------------------------------------------------------------------


def _no_cluster(ctx: Context, argv: list[bytes]) -> Reply:
    """Refuses: the engine is not a node of a cluster."""
    raise CommandError(server.NO_CLUSTER)


cluster_command("cluster subcommand [argument [argument ...]]", acl="", complexity="Depends on subcommand.")(
    _no_cluster
)
cluster_command("readonly", "loading stale fast")(_no_cluster)
cluster_command("readwrite", "loading stale fast")(_no_cluster)
cluster_command("asking", "fast")(_no_cluster)

# -- scripts, functions, modules --------------------------------------------------------------------------------------

function_subcommand = container(
    "function",
    "Commands that manage functions, of which there are none.",
    group="scripting",
    acl="scripting",
    since="7.0.0",
    flags="noscript",
)
script_subcommand = container(
    "script",
    "Commands that manage scripts, of which there are none.",
    group="scripting",
    acl="scripting",
    since="2.6.0",
    flags="noscript",
    help_since="5.0.0",
)
module_subcommand = container(
    "module",
    "Commands that manage modules, of which there are none.",
    group="server",
    since="4.0.0",
    flags="admin noscript",
    help_since="5.0.0",
)


def _no_scripts(ctx: Context, argv: list[bytes]) -> Reply:
    """Refuses: the engine runs no scripts and no functions."""
    raise CommandError(server.NO_SCRIPTS)


_SCRIPT_FLAGS = "noscript stale skip_monitor no_mandatory_keys movablekeys"
for _name, _words, _since in (
    ("eval", "script", "2.6.0"),
    ("evalsha", "sha1", "2.6.0"),
    ("fcall", "function", "7.0.0"),
):
    _syntax = f"{_name} {_words} numkeys [key [key ...]] [arg [arg ...]]"
    script_command(_syntax, _SCRIPT_FLAGS, since=_since, keys=Keys(count_at=2), access="RW access update")(_no_scripts)


def _flush(ctx: Context, argv: list[bytes], *, error: bytes) -> Reply:
    """Accepts to delete all of them: there are none."""
    if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in (b"SYNC", b"ASYNC")):
        raise CommandError(error)
    return OK


function_subcommand("flush [ASYNC | SYNC]", "write noscript", summary="Deletes all libraries; there are none.")(
    partial(_flush, error=server.FUNCTION_FLUSH)
)
script_subcommand("flush [ASYNC | SYNC]", summary="Forgets all scripts; there are none.")(
    partial(_flush, error=server.SCRIPT_FLUSH)
)


@function_subcommand("kill", "noscript allow_busy")
@script_subcommand("kill", "noscript allow_busy")
def kill(ctx: Context, argv: list[bytes]) -> Reply:
    """Refuses: nothing runs that could be stopped."""
    raise CommandError(server.NOT_BUSY)


@script_subcommand("exists sha1 [sha1 ...]", complexity="O(scripts asked for)")
def script_exists(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns 0 for each script: the engine has none."""
    return [0] * (len(argv) - 2)


@script_subcommand("load script", "noscript stale")
def script_load(ctx: Context, argv: list[bytes]) -> Reply:
    """Refuses: the engine runs no scripts."""
    raise CommandError(server.NO_SCRIPTS)


@function_subcommand("list [LIBRARYNAME library-name-pattern] [WITHCODE]")
def function_list(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns no library: the engine has no functions."""
    return []


@function_subcommand("stats", "noscript allow_busy")
def function_stats(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns that no function runs."""
    return Map.of({b"running_script": None, b"engines": Map([])})


@function_subcommand("delete library-name", "write noscript")
def function_delete(ctx: Context, argv: list[bytes]) -> Reply:
    """Refuses: there is no library."""
    raise CommandError(server.LIBRARY_NOT_FOUND)


@module_subcommand("list")
def module_list(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns no module: the engine has none."""
    return []


# -- who this is ------------------------------------------------------------------------------------------------------


@server_command("lolwut [VERSION version]", "readonly fast", since="5.0.0")
def lolwut(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the server's versions."""
    return Verbatim(f"pystreams {ENGINE_VERSION}. Redis ver. {REDIS_VERSION}\n".encode())
