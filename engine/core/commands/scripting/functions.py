"""FCALL, FCALL_RO and FUNCTION."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from engine.core.commands.families import script_command
from engine.core.commands.scripting.scripts import COMPLEXITY, FLAGS, KEYS, ONLY_READS
from engine.core.formats.rdb import functions as rdb_functions
from engine.core.formats.rdb.checksum import crc64
from engine.core.protocol.args import Args, parse_int
from engine.core.protocol.replies import OK, CommandError, Map, Reply, Set, Simple
from engine.core.table.declare import container
from engine.text import globs
from engine.text.messages import general, scripting

if TYPE_CHECKING:
    from engine.core.environment.context import Context
    from engine.core.environment.scripting import Library

#: RDB version in payloads of FUNCTION DUMP: the first version with libraries.
_RDB_VERSION = 10
#: Highest RDB version that FUNCTION RESTORE accepts.
_NEWEST_RDB_VERSION = 80
_TAIL = struct.Struct("<HQ")

function_subcommand = container(
    "function",
    "Commands that manage libraries of functions.",
    group="scripting",
    acl="scripting",
    since="7.0.0",
    flags="noscript",
)


def _fcall(ctx: Context, argv: list[bytes], *, read_only: bool) -> Reply:
    if not ctx.functions.find(argv[1]):
        raise CommandError(scripting.FUNCTION_NOT_FOUND)
    count = parse_int(argv[2], scripting.BAD_KEY_COUNT)
    if count > len(argv) - 3:
        raise CommandError(scripting.TOO_MANY_KEYS)
    if count < 0:
        raise CommandError(scripting.NEGATIVE_KEYS)
    return ctx.functions.run(ctx, argv, count, read_only=read_only)


_CALL = "function numkeys [key [key ...]] [arg [arg ...]]"


@script_command(f"fcall {_CALL}", FLAGS, since="7.0.0", keys=KEYS, access="RW access update", complexity=COMPLEXITY)
def fcall(ctx: Context, argv: list[bytes]) -> Reply:
    """Calls a function of a library."""
    return _fcall(ctx, argv, read_only=False)


@script_command(f"fcall_ro {_CALL}", ONLY_READS, since="7.0.0", keys=KEYS, access="RO access", complexity=COMPLEXITY)
def fcall_ro(ctx: Context, argv: list[bytes]) -> Reply:
    """Calls a read-only function of a library."""
    return _fcall(ctx, argv, read_only=True)


@function_subcommand(
    "load [REPLACE] function-code", "write denyoom noscript", complexity="Depends on the library's code."
)
def function_load(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds a library."""
    replace = False
    for word in argv[2:-1]:
        if word.upper() != b"REPLACE":
            raise CommandError(scripting.unknown_load_option(word))
        replace = True
    name = ctx.functions.load(argv[-1], replace=replace)
    # Log REPLACE in any case, so that a replay does not fail if the data already has the library.
    _changed(ctx, b"FUNCTION", b"LOAD", b"REPLACE", argv[-1])
    return name


def _changed(ctx: Context, *argv: bytes) -> None:
    ctx.changes.dirty += 1
    ctx.effect(*argv)


@function_subcommand("delete library-name", "write noscript")
def function_delete(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes a library."""
    ctx.functions.delete(argv[2])
    _changed(ctx, *argv)
    return OK


@function_subcommand("flush [ASYNC | SYNC]", "write noscript", complexity="O(functions)")
def function_flush(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes all libraries."""
    if len(argv) > 3:
        raise CommandError(general.subcommand_arguments(argv[0], argv[1]))
    if len(argv) == 3 and argv[2].upper() not in (b"SYNC", b"ASYNC"):
        raise CommandError(scripting.FUNCTION_FLUSH)
    ctx.functions.flush()
    _changed(ctx, *argv)
    return OK


@function_subcommand("list [LIBRARYNAME library-name-pattern] [WITHCODE]", complexity="O(functions)")
def function_list(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all libraries, or those whose name matches a pattern, with their functions."""
    args = Args(argv, 2)
    pattern: bytes | None = None
    with_code = False
    while len(args):
        if not with_code and args.flag(b"WITHCODE"):
            with_code = True
        elif pattern is None and args.flag(b"LIBRARYNAME"):
            if not len(args):
                raise CommandError(scripting.LIST_NAME)
            pattern = args.take()
        else:
            raise CommandError(scripting.unknown_argument(args.take()))
    chosen = ctx.functions.libraries()
    return [
        _described(library, with_code=with_code)
        for library in chosen
        if pattern is None or globs.matches(pattern.lower(), library.name.lower())
    ]


def _described(library: Library, *, with_code: bool) -> Map:
    functions = [
        Map.of({b"name": name, b"description": description, b"flags": Set(map(Simple, flags))})
        for name, (description, flags) in library.functions.items()
    ]
    out = Map.of({b"library_name": library.name, b"engine": b"LUA", b"functions": functions})
    return Map([*out, b"library_code", library.code]) if with_code else out


@function_subcommand("stats", "noscript allow_busy")
def function_stats(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the running function, and the numbers of libraries and functions."""
    running = ctx.scripts.running
    about: Map | None = None
    if running is not None:
        if not running.is_function:
            raise CommandError(scripting.BUSY_SCRIPT)
        spent = (ctx.telemetry.stopwatch() - running.began_ns) // 1_000_000
        about = Map.of({b"name": running.name, b"command": running.argv, b"duration_ms": spent})
    libraries = list(ctx.functions.libraries()) if running is None else []
    counts = Map.of(
        {b"libraries_count": len(libraries) or len(ctx.functions.codes()), b"functions_count": ctx.functions.count}
    )
    return Map.of({b"running_script": about, b"engines": Map.of({b"LUA": counts})})


@function_subcommand("kill", "noscript allow_busy")
def function_kill(ctx: Context, argv: list[bytes]) -> Reply:
    """Ends a slow function that has not written yet."""
    ctx.scripts.kill(function=True)
    return OK


@function_subcommand("dump", complexity="O(N) with N bytes of code.")
def function_dump(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns all libraries as bytes that FUNCTION RESTORE reads."""
    body = rdb_functions.written(ctx.functions.codes()) + struct.pack("<H", _RDB_VERSION)
    return body + struct.pack("<Q", crc64(body))


@function_subcommand(
    "restore serialized-value [FLUSH | APPEND | REPLACE]", "write denyoom noscript", complexity="O(functions)"
)
def function_restore(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds the libraries in a reply of FUNCTION DUMP. FLUSH first deletes all libraries."""
    payload, policy = argv[2], argv[3].upper() if len(argv) > 3 else b"APPEND"
    if len(argv) > 4:
        raise CommandError(general.subcommand_arguments(argv[0], argv[1]))
    if policy not in (b"FLUSH", b"APPEND", b"REPLACE"):
        raise CommandError(scripting.BAD_POLICY)
    if len(payload) < _TAIL.size:
        raise CommandError(scripting.BAD_PAYLOAD)
    version, check = _TAIL.unpack_from(payload, len(payload) - _TAIL.size)
    if version > _NEWEST_RDB_VERSION or crc64(payload[:-8]) != check:
        raise CommandError(scripting.BAD_PAYLOAD)
    codes = rdb_functions.read(payload[: -_TAIL.size])
    if codes is None:
        raise CommandError(scripting.BAD_PAYLOAD_BODY)
    before = ctx.functions.codes()
    if policy == b"FLUSH":
        ctx.functions.flush()
    try:
        ctx.functions.restore(codes, replace=policy == b"REPLACE")
    except CommandError:
        if policy == b"FLUSH":
            ctx.functions.flush()
            ctx.functions.restore_later(before)
        raise
    _changed(ctx, b"FUNCTION", b"RESTORE", payload, b"FLUSH" if policy == b"FLUSH" else b"REPLACE")
    return OK
