"""Messages that all packages of commands share: syntax, numbers, arity, and the layout of HELP."""

from __future__ import annotations

SYNTAX = b"ERR syntax error"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
NOT_A_FLOAT = b"ERR value is not a valid float"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NO_SUCH_KEY = b"ERR no such key"
INTERNAL_ERROR = b"ERR internal error"

# -- ranges -------------------------------------------------------------------------------------------------------
OUT_OF_RANGE = b"ERR value is out of range"
NOT_POSITIVE = b"ERR value is out of range, must be positive"


def out_of_range(low: int, high: int) -> bytes:
    """Return the error for a number outside the command's range."""
    return b"ERR value is out of range, value must between %d and %d" % (low, high)


OUT_OF_I32 = out_of_range(-(1 << 31), (1 << 31) - 1)
OUT_OF_0_1 = out_of_range(0, 1)
DB_INDEX_RANGE = b"ERR DB index is out of range"

# -- timeouts -----------------------------------------------------------------------------------------------------
TIMEOUT_NOT_INTEGER = b"ERR timeout is not an integer or out of range"
TIMEOUT_NEGATIVE = b"ERR timeout is negative"
TIMEOUT_RANGE = b"ERR timeout is out of range"

# -- commands called incorrectly ----------------------------------------------------------------------------------


def wrong_arity(full_name: bytes) -> bytes:
    """Return the error for a wrong number of arguments. ``full_name``: ``command`` or ``container|subcommand``."""
    return b"ERR wrong number of arguments for '%b' command" % full_name


def unknown_command(argv: list[bytes]) -> bytes:
    """Return the error for an unknown command, which quotes its first arguments, up to 128 bytes in total."""
    if len(argv) == 1:
        return b"ERR unknown command '%b'" % argv[0][:128]
    shown = b""
    for word in argv[1:]:
        if len(shown) >= 128:
            break
        shown += b"'%b' " % word[: 128 - len(shown)]
    return b"ERR unknown command '%b', with args beginning with: %b" % (argv[0][:128], shown)


def left_out(name: bytes, family: bytes) -> bytes:
    """Return the error for a Redis command that the engine lacks. The text starts like that for an unknown command."""
    text = b"ERR unknown command '%b': this engine stores streams; %b need Redis or Valkey"
    return text % (name[:128].replace(b"|", b" "), family)


def unknown_subcommand(container: bytes, word: bytes) -> bytes:
    """Return the error for an unknown subcommand."""
    return b"ERR unknown subcommand '%b'. Try %b HELP." % (word[:128], container.upper())


def subcommand_arguments(container: bytes, word: bytes) -> bytes:
    """Return the error for an unknown subcommand, or for wrong arguments of a subcommand."""
    return b"ERR unknown subcommand or wrong number of arguments for '%b'. Try %b HELP." % (
        word[:128],
        container.upper(),
    )


# -- HELP ---------------------------------------------------------------------------------------------------------


def help_lines(container: str, rows: list[tuple[str, str]]) -> list[bytes]:
    """Return the reply to ``container HELP``, in Redis's form. ``rows``: syntax and description of each subcommand."""
    lines = [f"{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for form, meaning in [*rows, ("HELP", "Print this help.")]:
        lines += [form.rstrip(), f"    {meaning}"]
    return [line.encode() for line in lines]
