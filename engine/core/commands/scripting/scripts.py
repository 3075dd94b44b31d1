"""EVAL, EVALSHA, their read-only variants, and SCRIPT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.commands.families import script_command
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.core.table.declare import container
from engine.core.table.registry import Handler, Keys
from engine.text.messages import scripting

if TYPE_CHECKING:
    from engine.core.environment.context import Context

_COMMON_FLAGS = "noscript stale skip_monitor no_mandatory_keys movablekeys"
#: Flags of EVAL, EVALSHA and FCALL.
FLAGS = f"{_COMMON_FLAGS} may_replicate"
#: Flags of EVAL_RO, EVALSHA_RO and FCALL_RO.
ONLY_READS = f"readonly {_COMMON_FLAGS}"
KEYS = Keys(count_at=2)
_SHA_LENGTH = 40
COMPLEXITY = "Depends on the script."

script_subcommand = container(
    "script",
    "Commands that manage scripts.",
    group="scripting",
    acl="scripting",
    since="2.6.0",
    flags="noscript",
    help_since="5.0.0",
)


def count_keys(argv: list[bytes]) -> int:
    """Return the number of keys. Raise CommandError if it is invalid."""
    count = parse_int(argv[2])
    if count > len(argv) - 3:
        raise CommandError(scripting.TOO_MANY_KEYS)
    if count < 0:
        raise CommandError(scripting.NEGATIVE_KEYS)
    return count


def _eval(*, read_only: bool) -> Handler:
    """Return the handler that runs a Lua script."""

    def run(ctx: Context, argv: list[bytes]) -> Reply:
        count, scripts = count_keys(argv), ctx.scripts
        return scripts.run_script(ctx, argv, count, scripts.load(argv[1], False), read_only)

    return run


def _evalsha(*, read_only: bool) -> Handler:
    """Return the handler that runs a cached Lua script, given its SHA-1."""

    def run(ctx: Context, argv: list[bytes]) -> Reply:
        if len(argv[1]) != _SHA_LENGTH:
            raise CommandError(scripting.NO_SCRIPT)
        return ctx.scripts.run_script(ctx, argv, count_keys(argv), argv[1], read_only)

    return run


for _name, _word, _handler, _summary, _summary_ro in (
    ("eval", "script", _eval, "Runs a Lua script.", "Runs a Lua script that may only read."),
    (
        "evalsha",
        "sha1",
        _evalsha,
        "Runs a cached Lua script, given its SHA-1.",
        "Runs a cached Lua script that may only read, given its SHA-1.",
    ),
):
    _syntax = f"{_word} numkeys [key [key ...]] [arg [arg ...]]"
    script_command(
        f"{_name} {_syntax}",
        FLAGS,
        since="2.6.0",
        keys=KEYS,
        access="RW access update",
        summary=_summary,
        complexity=COMPLEXITY,
    )(_handler(read_only=False))
    script_command(
        f"{_name}_ro {_syntax}",
        ONLY_READS,
        since="7.0.0",
        keys=KEYS,
        access="RO access",
        summary=_summary_ro,
        complexity=COMPLEXITY,
    )(_handler(read_only=True))


@script_subcommand("load script", "noscript stale", complexity="O(N) with N bytes of the script.")
def script_load(ctx: Context, argv: list[bytes]) -> Reply:
    """Loads a script, so that EVALSHA can run it."""
    return ctx.scripts.load(argv[2])


@script_subcommand("exists sha1 [sha1 ...]", complexity="O(scripts)")
def script_exists(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns for each SHA-1 whether the script is cached."""
    return [int(ctx.scripts.has(sha)) for sha in argv[2:]]


@script_subcommand("flush [ASYNC | SYNC]", complexity="O(scripts)")
def script_flush(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes all cached scripts."""
    if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in (b"SYNC", b"ASYNC")):
        raise CommandError(scripting.SCRIPT_FLUSH)
    ctx.scripts.flush()
    return OK


@script_subcommand("kill", "noscript allow_busy")
def script_kill(ctx: Context, argv: list[bytes]) -> Reply:
    """Ends a slow script that has not written yet."""
    ctx.scripts.kill(function=False)
    return OK


@script_subcommand("debug <YES | SYNC | NO>", since="3.2.0")
def script_debug(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns an error: the engine has no script debugger."""
    raise CommandError(scripting.NO_DEBUGGER)
