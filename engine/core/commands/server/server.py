"""Commands about the whole server: INFO, TIME, SHUTDOWN, CONFIG, MEMORY, DEBUG, COMMAND.

COMMAND derives everything from the declarations in the command table. DEBUG is allowed by ``enable-debug-command``;
as in Redis, it is one command and not a container. Clients and tools send the commands of features that the engine does
not have (a cluster, modules) when they connect or between tests. The reply is the same as from a Redis without the
feature, or an error that says that the feature is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.families import cluster_command, server_command
from engine.core.commands.server import monitoring
from engine.core.keyspace import footprint
from engine.core.protocol.args import Args
from engine.core.protocol.replies import NO_REPLY, OK, CommandError, Map, Reply, Set, Simple, Verbatim
from engine.core.table.declare import container
from engine.core.table.registry import COMMANDS, SUB_KEY, Command, find
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context


@server_command("info [section [section ...]]", "loading stale", acl="dangerous")
def info_(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns information about the server."""
    return Verbatim(monitoring.text(ctx, [word.decode("latin-1").lower() for word in argv[1:]]))


@server_command("time", "loading stale fast")
def time(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the server's time: seconds since the epoch, and microseconds of this second."""
    seconds, micros = divmod(ctx.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


@server_command(
    "shutdown [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
    "admin loading stale no_multi",
)
def shutdown(ctx: Context, argv: list[bytes]) -> Reply:
    """Stops the server. It does not wait for replicas, so NOW has no effect, and ABORT finds no shutdown to cancel."""
    words = [word.upper() for word in argv[1:]]
    known = {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"}
    if set(words) - known or {b"SAVE", b"NOSAVE"} <= set(words) or (b"ABORT" in words and len(set(words)) > 1):
        raise CommandError(messages.SYNTAX)
    if b"ABORT" in words:
        raise CommandError(messages.NO_SHUTDOWN)
    ctx.durability.prepare_shutdown(set(words))
    ctx.host.shut_down()
    return NO_REPLY


config_subcommand = container(
    "config",
    "Commands that manage the configuration.",
    group="server",
    flags="admin loading stale",
)


@config_subcommand("get parameter [parameter ...]")
def get(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the directives that match one of the names or glob patterns, with their values."""
    return Map([word for pair in ctx.config.find(argv[2:]) for word in pair])


@config_subcommand("set parameter value [parameter value ...]")
def set_(ctx: Context, argv: list[bytes]) -> Reply:
    """Changes directives. If one of the changes is refused, none is made."""
    if len(argv) % 2:
        raise CommandError(messages.SYNTAX)
    error = ctx.config.change(list(zip(argv[2::2], argv[3::2], strict=True)))
    if error is not None:
        raise CommandError(error)
    return OK


@config_subcommand("rewrite")
def rewrite(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes the current values to the configuration file."""
    ctx.host.rewrite_configuration()
    return OK


@config_subcommand("resetstat")
def resetstat(ctx: Context, argv: list[bytes]) -> Reply:
    """Resets INFO's counters, except those of refused access."""
    ctx.telemetry.reset()
    ctx.changes.expired_keys = 0
    for db in ctx.databases:
        db.hits = db.misses = 0
    ctx.host.reset_statistics()
    ctx.durability.reset_statistics()
    ctx.replication.reset_statistics()
    return OK


#: Default number of sampled elements.
_SAMPLES = 5

memory_subcommand = container("memory", "Commands that inspect memory.", group="server")


@memory_subcommand(
    "usage key [SAMPLES count]",
    "readonly",
    keys=SUB_KEY,
    access="RO",
)
def usage(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the size of a key and its value in bytes; large values are sampled."""
    args, samples = Args(argv, 3), _SAMPLES
    while len(args):
        if not args.option(b"SAMPLES"):
            raise CommandError(messages.SYNTAX)
        samples = args.take_int()
        if samples < 0:
            raise CommandError(messages.SYNTAX)
    key = argv[2]
    value = ctx.db.get(key)
    if value is None:
        return None
    return footprint.of_key(key, value, expires=ctx.db.deadline(key) is not None, samples=samples)


@memory_subcommand("purge")
def purge(ctx: Context, argv: list[bytes]) -> Reply:
    """Releases free memory to the operating system."""
    ctx.host.give_back_memory()
    return OK


# -- cluster ----------------------------------------------------------------------------------------------------------


def _no_cluster(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an error: the engine is not a node of a cluster."""
    raise CommandError(b"ERR This instance has cluster support disabled")


cluster_command("cluster subcommand [argument [argument ...]]", acl="")(_no_cluster)
cluster_command("readonly", "loading stale fast")(_no_cluster)
cluster_command("readwrite", "loading stale fast")(_no_cluster)
cluster_command("asking", "fast")(_no_cluster)

# -- modules ----------------------------------------------------------------------------------------------------------

module_subcommand = container(
    "module",
    "Commands that manage modules; the engine has no modules.",
    group="server",
    flags="admin",
)


@module_subcommand("list")
def module_list(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an empty list: the engine has no modules."""
    return []


#: DEBUG SLEEP returns immediately if the duration is at least this many seconds, as in Redis.
_MOST_SECONDS = 1 << 31


@server_command("debug <SLEEP seconds | RELOAD [NOSAVE] | LOADAOF>", "admin loading stale", arity=-2)
def debug(ctx: Context, argv: list[bytes]) -> Reply:
    """Blocks the server, or loads its data again from the snapshot or from the log: for tests and benchmarks."""
    allowed = ctx.config.text("enable-debug-command")
    if allowed == b"no" or (allowed == b"local" and not ctx.session.addr.startswith((b"127.", b"[::1]", b"/"))):
        raise CommandError(messages.DEBUG_NOT_ALLOWED)
    ctx.divided.finish_all()
    match [argv[1].upper(), *argv[2:]]:
        case [b"SLEEP", word]:
            try:
                seconds = float(word)
            except ValueError:
                seconds = 0.0
            if 0 < seconds < _MOST_SECONDS:
                ctx.host.sleep(seconds)
        case [b"RELOAD"]:
            ctx.durability.reload(from_log=False, save=True)
        case [b"RELOAD", word] if word.upper() == b"NOSAVE":
            ctx.durability.reload(from_log=False, save=False)
        case [b"LOADAOF"]:
            ctx.durability.reload(from_log=True, save=False)
        case _:
            raise CommandError(messages.subcommand_arguments(b"debug", argv[1]))
    return OK


#: Internal flags that COMMAND INFO does not show.
_HIDDEN = frozenset({"may_replicate"})


def _words(names: frozenset[str] | list[str], prefix: str = "") -> Set:
    return Set([Simple(f"{prefix}{name}".encode()) for name in names])


# -- INFO -------------------------------------------------------------------------------------------------------------


def described(command: Command) -> Reply:
    """Return a command in the form of COMMAND INFO."""
    return [
        command.full_name,
        command.arity,
        _words(sorted(command.flags - _HIDDEN)),
        command.keys.first,
        command.keys.last,
        command.keys.step,
        _words(sorted(command.categories()), "@"),
        Set(),
        Set(),  # no key specifications
        [described(sub) for sub in command.subcommands.values()],
    ]


def _all_described(ctx: Context, argv: list[bytes]) -> Reply:
    return [described(command) for command in COMMANDS.values()]


command_subcommand = container(
    "command",
    "Returns details about all commands.",
    group="server",
    acl="connection",
    flags="loading stale",
    alone=_all_described,
)


@command_subcommand("info [command-name [command-name ...]]")
def command_info(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns details about all or some commands."""
    if len(argv) == 2:
        return _all_described(ctx, argv)
    found = [find(name) for name in argv[2:]]
    return [None if command is None else described(command) for command in found]


@command_subcommand("count")
def count(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of commands."""
    return len(COMMANDS)
