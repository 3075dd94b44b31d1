"""Commands with one argument repeated many times, derived from the command table.

The syntax in a command's declaration shows which arguments repeat. Each of these gives three cases: the same word each
time, distinct existing words, and distinct missing words. Combinations that the syntax does not show, such as the keys
and IDs of XREAD, are listed by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import engine.core.dispatch  # noqa: F401 - declares all commands
from engine.core.table.registry import COMMANDS, Command
from tests.harness.syntax import Argument, arguments

Words = list[bytes]
#: Kinds of cases, by the words of the repeated argument.
KINDS = ("same", "distinct", "missing")
#: Commands about the test server, its process or its peers, and subcommands without handlers of their own.
_NOT_MEASURED = frozenset({"debug", "cluster", "replconf", "acl|dryrun"})
#: Commands whose options stop the server or its clients.
_STOPPING = frozenset({"shutdown", "failover", "bgsave", "client|pause"})
#: Commands whose repeated arguments depend on each other or have a syntax of their own: see ``_by_hand``.
_BY_HAND = frozenset({"xread", "xreadgroup", "acl|setuser", "ps.add"} | {"client|list", "config|set"})
_COUNTS = ("numkeys", "numfields", "numids")
_STREAM_KINDS = ("stream", "extension")
_FIXED = {
    "timeout": b"0.01",
    "milliseconds": b"900000",
    "seconds": b"900",
    "unix-time-seconds": b"33000000000",
    "unix-time-milliseconds": b"33000000000000",
    "destination": b"destination",
    "min-idle-time": b"0",
    "group": b"g",
    "consumer": b"c",
    "start": b"-",
    "end": b"+",
    "value": b"1",
    "<* | id>": b"*",
}


@dataclass(frozen=True)
class Case:
    """One command: ``prepare`` returns the commands that create its data, ``command`` the measured
    words, both for n.
    """

    name: str
    prepare: Callable[[int], Iterator[Words]]
    command: Callable[[int], Words]


def _word(name: str, kind: str, i: int) -> bytes:
    i = 0 if kind == "same" else i
    if name == "id":
        return b"%d-%d" % (i + 1, 2 if kind == "missing" else 1)
    if name in _FIXED and name != "consumer":
        return _FIXED[name]
    if name == "parameter" and kind == "same":
        return b"maxmemory"
    if name in ("command-name", "command") and kind == "same":
        return b"get"
    if name == "section" and kind == "same":
        return b"server"
    if name == "pattern":
        return b"w%d_*" % i
    return b"%s%d" % (b"x" if kind == "missing" else name[:1].encode(), i)


def _filled(found: tuple[Argument, ...], repeated: Argument, kind: str, n: int) -> Words:
    """Return a command's words with ``repeated`` n times, other multiple arguments once, and without optional ones."""
    out: Words = []
    for argument in found:
        holds = _holds(argument, repeated)
        if argument.optional and not holds:
            continue
        if argument is repeated and kind == "option":
            out += n * _filled((replace(argument, optional=False),), repeated, "same", 1)
            continue
        if argument.token:
            out.append(argument.token.encode())
        if argument.kind == "pure-token":
            continue
        if argument.kind == "oneof":
            out += _filled(
                (next((p for p in argument.parts if _holds(p, repeated)), argument.parts[0]),), repeated, kind, n
            )
        elif argument is repeated:
            for i in range(n):
                out += (
                    [_word(part.name, kind, i) for part in argument.parts]
                    if argument.parts
                    else [_word(argument.name, kind, i)]
                )
        elif argument.parts:
            out += _filled(argument.parts, repeated, kind, n)
        elif argument.name in _COUNTS:
            out.append(b"%d" % n)
        elif argument.kind == "integer" and argument.name not in _FIXED:
            out.append(b"1")
        elif argument.kind == "key" and argument.name == "key":
            out.append(b"K")
        elif argument.name == "pattern":
            out.append(b"w_*")
        else:
            out.append(_FIXED.get(argument.name, argument.name[:1].encode() + b"0"))
    return out


def _holds(argument: Argument, repeated: Argument) -> bool:
    return argument is repeated or any(_holds(part, repeated) for part in argument.parts)


def _repeated(found: tuple[Argument, ...]) -> Iterator[Argument]:
    for argument in found:
        if argument.multiple:
            yield argument
        else:
            yield from _repeated(argument.parts)


def _prepared(group: str, over_keys: bool, n: int) -> Iterator[Words]:
    """Yield commands that create data of a command's type: one key K of n elements, or n keys of two elements."""
    keys = [b"k%d" % i for i in range(n)] if over_keys else [b"K"]
    count = 2 if over_keys else n
    for key in keys:
        if group in ("string", "generic", "transactions"):
            yield [b"SET", key, b"1"]
        elif group == "hash":
            yield [b"HSET", key, *(word for i in range(count) for word in (b"f%d" % i, b"1"))]
        elif group in _STREAM_KINDS:
            yield [b"XGROUP", b"CREATE", key, b"g", b"0", b"MKSTREAM"]
            for i in range(count):
                yield [b"XADD", key, b"%d-1" % (i + 1), b"f0", b"1"]
            yield [b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", key, b">"]


def _commands() -> Iterator[Command]:
    seen: set[bytes] = set()
    for parent in COMMANDS.values():
        for command in (parent, *parent.subcommands.values()):
            if command.full_name not in seen:
                seen.add(command.full_name)
                yield command


def _from_table(command: Command) -> Iterator[Case]:
    name = command.full_name.decode()
    found = arguments(command.syntax)
    first = [word.upper().encode() for word in name.split("|")]
    for repeated in _repeated(found):
        over_keys = repeated.kind == "key" or any(part.kind == "key" for part in repeated.parts)
        for kind in KINDS:
            group = command.group
            # Each element is combined with each pattern or field name, so only the patterns or names grow.
            few = repeated.name in ("pattern", "name")

            def prepare(n: int, group: str = group, over_keys: bool = over_keys, few: bool = few) -> Iterator[Words]:
                return _prepared(group, over_keys, 2 if few else n)

            def words(n: int, repeated: Argument = repeated, kind: str = kind) -> Words:
                return [*first, *_filled(found, repeated, kind, n)]

            yield Case(f"{name.replace('|', ' ')}, {kind} {repeated.name}", prepare, words)


def _options(command: Command) -> Iterator[Case]:
    """Yield a case for each option of a command, which is given n times in a row.

    Most commands reject a repeated option, and must do so quickly.
    """
    name = command.full_name.decode()
    found = arguments(command.syntax)
    first = [word.upper().encode() for word in name.split("|")]
    for option in found:
        if option.optional and not option.multiple:

            def words(n: int, option: Argument = option) -> Words:
                return [*first, *_filled(found, option, "option", n)]

            group = command.group
            yield Case(f"{name.replace('|', ' ')}, option {option.name}", lambda n, group=group: _two(group), words)


def _two(group: str) -> Iterator[Words]:
    """Return commands that create data of constant size, for cases that are rejected or that read one element."""
    return _prepared(group, False, 2)


def _named(kind: str, n: int, form: bytes = b"k%d") -> Words:
    missing = b"x" + form[1:]
    return [(missing if kind == "missing" else form) % (0 if kind == "same" else i) for i in range(n)]


_RULES: dict[str, Callable[[int], bytes]] = {
    "key patterns": lambda i: b"~k%d" % i,
    "read patterns": lambda i: b"%%R~k%d" % i,
    "channel patterns": lambda i: b"&c%d" % i,
    "passwords": lambda i: b">p%d" % i,
    "removed passwords": lambda i: b"nopass" if not i % 2 else b">p%d" % i,
    "commands": lambda i: b"+get" if i % 2 else b"-get",
    "different commands": lambda i: (b"+get", b"-set", b"+client|id", b"-@write", b"+@read")[i % 5],
    "categories": lambda i: b"+@all" if i % 2 else b"-@all",
    "selectors": lambda i: b"(+get ~k%d)" % i,
    "one selector": lambda i: b"~k%d" % i,
}


def _rules(rule: str, n: int) -> Words:
    words = [_RULES[rule](i) for i in range(n)]
    if rule == "one selector":
        words = [b"(" + b" ".join(words) + b")"]
    return [b"ACL", b"SETUSER", b"u", b"+get", *words]


def _nothing(n: int) -> Iterator[Words]:
    return iter(())


def _by_hand() -> Iterator[Case]:
    def streams(n: int) -> Iterator[Words]:
        return _prepared("stream", True, n)

    reads = (
        ("xread", b"XREAD STREAMS", b"0"),
        ("xread BLOCK", b"XREAD BLOCK 10 STREAMS", b"$"),
        ("xreadgroup", b"XREADGROUP GROUP g c STREAMS", b"0"),
        ("xreadgroup BLOCK", b"XREADGROUP GROUP g c BLOCK 10 STREAMS", b">"),
    )
    for kind in KINDS:
        for name, head, last in reads:

            def read(n: int, kind: str = kind, head: bytes = head, last: bytes = last) -> Words:
                return [*head.split(), *_named(kind, n), *[last] * n]

            yield Case(f"{name}, {kind} key", streams, read)
        yield Case(
            f"client list, {kind} client",
            _nothing,
            lambda n, kind=kind: [
                b"CLIENT",
                b"LIST",
                b"ID",
                *(b"%d" % (1 if kind == "same" else i + 1) for i in range(n)),
            ],
        )
        yield Case(
            f"acl dryrun, {kind} key",
            _nothing,
            lambda n, kind=kind: [b"ACL", b"DRYRUN", b"default", b"MGET", *_named(kind, n)],
        )
    for rule in _RULES:
        yield Case(f"acl setuser, {rule}", _nothing, lambda n, rule=rule: _rules(rule, n))
        for words in ("ACL LIST", "ACL GETUSER u", "ACL DRYRUN u GET none"):
            yield Case(
                f"{words.lower()} after {rule}",
                lambda n, rule=rule: iter([_rules(rule, n)]),
                lambda n, words=words: words.encode().split(),
            )


def _groups(n: int) -> Iterator[Words]:
    """Yield commands that create a stream with n groups of one consumer each, and n consumers of one group."""
    yield [b"XADD", b"K", b"1-1", b"f", b"1"]
    yield [b"XGROUP", b"CREATE", b"K", b"g", b"0"]
    for i in range(n):
        yield [b"XGROUP", b"CREATE", b"K", b"g%d" % i, b"0"]
        yield [b"XGROUP", b"CREATECONSUMER", b"K", b"g%d" % i, b"c"]
        yield [b"XGROUP", b"CREATECONSUMER", b"K", b"g", b"c%d" % i]


def _many_before() -> Iterator[Case]:
    """Yield commands that run after n earlier commands have left their data."""

    def queued(n: int, kind: str) -> Iterator[Words]:
        yield [b"MULTI"]
        yield from ([b"SET", key, b"1"] for key in _named(kind, n))

    def each(name: bytes, n: int, form: bytes = b"k%d") -> Iterator[Words]:
        return ([name, word] for word in _named("distinct", n, form))

    for kind in KINDS[:2]:
        for name in (b"EXEC", b"DISCARD"):
            yield Case(
                f"{name.decode().lower()} of {kind} keys",
                lambda n, kind=kind: queued(n, kind),
                lambda n, name=name: [name],
            )
    yield Case("unwatch", lambda n: each(b"WATCH", n), lambda n: [b"UNWATCH"])
    for prefix in ("", "p"):
        name = prefix.upper().encode()
        subscribe, unsubscribe = name + b"SUBSCRIBE", name + b"UNSUBSCRIBE"
        yield Case(
            f"{prefix}unsubscribe from all",
            lambda n, subscribe=subscribe: each(subscribe, n, b"k%d*"),
            lambda n, unsubscribe=unsubscribe: [unsubscribe],
        )
    for words in ("XTRIM K MAXLEN ~ 0", "XTRIM K MAXLEN = 0", "XTRIM K MINID ~ 9 LIMIT 0", "XADD K MAXLEN ~ 1 * f 1"):
        yield Case(
            f"{words.lower()} of many",
            lambda n: _prepared("stream", False, n),
            lambda n, words=words: words.encode().split(),
        )
    for words in (
        "XINFO STREAM K FULL COUNT 1",
        "XINFO GROUPS K",
        "XINFO CONSUMERS K g",
        "XPENDING K g",
        "XADD K * f 1",
        "XREADGROUP GROUP g c STREAMS K >",
        "XGROUP DESTROY K g",
        "XDEL K 1-1",
        "XTRIM K ACKED MAXLEN 0",
        "DEL K",
    ):
        yield Case(f"{words.lower()} with many groups", _groups, lambda n, words=words: words.encode().split())


def cases() -> list[Case]:
    """Return all cases."""
    found: list[Case] = []
    for command in _commands():
        name = command.full_name.decode()
        if "..." in command.syntax and name not in _NOT_MEASURED | _BY_HAND:
            found += _from_table(command)
        if name not in _NOT_MEASURED | _STOPPING:
            found += _options(command)
    return [*found, *_by_hand(), *_many_before()]
