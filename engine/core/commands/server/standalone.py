"""Commands for features that the engine does not have (a cluster, modules), and LOLWUT.

Clients and tools send these commands when they connect or between tests. The reply is the same as from a Redis without
the feature, or an error that says that the feature is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.families import cluster_command, server_command
from engine.core.protocol.replies import CommandError, Reply, Verbatim
from engine.core.table.declare import container
from engine.text import messages
from engine.version import ENGINE_VERSION, REDIS_VERSION

if TYPE_CHECKING:
    from engine.core.environment.context import Context

# -- cluster ----------------------------------------------------------------------------------------------------------


def _no_cluster(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an error: the engine is not a node of a cluster."""
    raise CommandError(messages.NO_CLUSTER)


cluster_command("cluster subcommand [argument [argument ...]]", acl="", complexity="Depends on subcommand.")(
    _no_cluster
)
cluster_command("readonly", "loading stale fast")(_no_cluster)
cluster_command("readwrite", "loading stale fast")(_no_cluster)
cluster_command("asking", "fast")(_no_cluster)

# -- modules ----------------------------------------------------------------------------------------------------------

module_subcommand = container(
    "module",
    "Commands that manage modules; the engine has no modules.",
    group="server",
    since="4.0.0",
    flags="admin",
    help_since="5.0.0",
)


@module_subcommand("list")
def module_list(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an empty list: the engine has no modules."""
    return []


# -- version ----------------------------------------------------------------------------------------------------------


@server_command("lolwut [VERSION version]", "readonly fast", since="5.0.0")
def lolwut(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the server's versions."""
    return Verbatim(f"pystreams {ENGINE_VERSION}. Redis ver. {REDIS_VERSION}\n".encode())
