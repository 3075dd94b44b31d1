"""Random commands on streams and their consumer groups: those of redis-server 7, and newer ones."""

from __future__ import annotations

from tests.differential.vocabulary import CONSUMERS, GROUPS, IDLES, MIN_IDLES, TIMES, Family, Maker, Vocabulary, Words


def _xadd(g: Vocabulary) -> Words:
    trim = g.trim() if not g.plain and g.chance(0.15) else []
    options = [*(["NOMKSTREAM"] if g.chance(0.1) else []), *trim]
    return ["XADD", g.key(), *options, "*" if g.chance(0.008) else g.next_id(), *g.fields()]


def _xtrim(g: Vocabulary) -> Words:
    return ["XLEN", g.key()] if g.plain else ["XTRIM", g.key(), *g.trim()]


def _xdel(g: Vocabulary) -> Words:
    return ["XLEN", g.key()] if g.plain else ["XDEL", g.key(), *g.ids()]


def _xread(g: Vocabulary) -> Words:
    keys = [g.key() for _ in range(g.number(1, 3))]
    return ["XREAD", *g.count(), "STREAMS", *keys, *("$" if g.chance(0.1) else g.id() for _ in keys)]


def _xsetid(g: Vocabulary) -> Words:
    options = []
    if g.plain:
        return ["XLEN", g.key()]
    if g.chance(0.4):
        options = ["ENTRIESADDED", str(g.number(0, 40)), "MAXDELETEDID", g.one(["0-0", g.id()])]
    return ["XSETID", g.key(), g.next_id() if g.chance(0.8) else g.id(), *options]


def _xinfo_stream(g: Vocabulary) -> Words:
    return ["XINFO", "STREAM", g.key(), *(["FULL", *g.count()] if g.chance(0.5) else [])]


def _xreadgroup(g: Vocabulary) -> Words:
    keys = [g.key() for _ in range(g.number(1, 2))]
    noack = ["NOACK"] if g.chance(0.15) else []
    ids = [">" if g.chance(0.7) else g.one(["0", g.id()]) for _ in keys]
    return ["XREADGROUP", "GROUP", g.one(GROUPS), g.one(CONSUMERS), *g.count(), *noack, "STREAMS", *keys, *ids]


def _xpending(g: Vocabulary) -> Words:
    if g.chance(0.4):
        return ["XPENDING", g.key(), g.one(GROUPS)]
    idle = ["IDLE", g.one(MIN_IDLES)] if g.chance(0.3) else []
    consumer = [g.one(CONSUMERS)] if g.chance(0.4) else []
    return ["XPENDING", g.key(), g.one(GROUPS), *idle, g.low(), g.high(), str(g.number(-1, 8)), *consumer]


def _xclaim(g: Vocabulary) -> Words:
    options: Words = []
    for _ in range(g.number(0, 3)):
        options += g.one(
            [
                ["IDLE", g.one(IDLES)],
                ["TIME", g.one(TIMES)],
                ["RETRYCOUNT", str(g.number(-1, 5))],
                ["FORCE"],
                ["FORCE"],
                ["JUSTID"],
                ["LASTID", g.id()],
            ]
        )
    return ["XCLAIM", g.key(), g.one(GROUPS), g.one(CONSUMERS), g.one(MIN_IDLES), *g.ids(), *options]


def _xautoclaim(g: Vocabulary) -> Words:
    justid = ["JUSTID"] if g.chance(0.3) else []
    return ["XAUTOCLAIM", g.key(), g.one(GROUPS), g.one(CONSUMERS), g.one(MIN_IDLES), g.low(), *g.count(), *justid]


def _xgroup_create(g: Vocabulary) -> Words:
    options = [*(["MKSTREAM"] if g.chance(0.4) else []), *_entries_read(g)]
    return ["XGROUP", "CREATE", g.key(), g.one(GROUPS), g.one(["0", "$", g.id()]), *options]


def _entries_read(g: Vocabulary) -> Words:
    # No count exceeds the number of added entries, because only newer releases reduce such a count to that number.
    return ["ENTRIESREAD", g.one(["-1", "0", "0", "-2"])] if not g.plain and g.chance(0.2) else []


def _xgroup_setid(g: Vocabulary) -> Words:
    return ["XGROUP", "SETID", g.key(), g.one(GROUPS), g.one(["0", "$", g.id(), "-"]), *_entries_read(g)]


def _consumer(subcommand: str) -> Maker:
    return lambda g: ["XGROUP", subcommand, g.key(), g.one(GROUPS), g.one(CONSUMERS)]


def _policy(g: Vocabulary) -> Words:
    return [g.one(["KEEPREF", "DELREF", "ACKED"])] if g.chance(0.7) else []


def _newer_xadd(g: Vocabulary) -> Words:
    producer, iid = g.one(["p", "q"]), g.one(["1", "2", "3"])
    idempotent = g.one([["IDMP", producer, iid], ["IDMPAUTO", producer], []])
    trim = [*g.trim(), *_policy(g)] if g.chance(0.3) else []
    return ["XADD", g.key(), *idempotent, *trim, "*" if idempotent else g.next_id(), "f", g.one(["1", "2"])]


def _newer_read(g: Vocabulary) -> Words:
    limits = [word for name in ("MAXCOUNT", "MAXSIZE") if g.chance(0.3) for word in (name, str(g.number(1, 200)))]
    claim = ["CLAIM", g.one(["0", "0", "500000"])] if g.chance(0.6) else []
    words = ["XREADGROUP", "GROUP", g.one(GROUPS), g.one(CONSUMERS), *limits, *claim]
    return [*words, "STREAMS", g.key(), g.key(), ">", ">" if g.chance(0.8) else "0"]


def _xnack(g: Vocabulary) -> Words:
    some = g.ids()
    options = [*(["RETRYCOUNT", str(g.number(0, 5))] if g.chance(0.3) else []), *(["FORCE"] if g.chance(0.4) else [])]
    mode = g.one(["SILENT", "FAIL", "FATAL"])
    return ["XNACK", g.key(), g.one(GROUPS), mode, "IDS", str(len(some)), *some, *options]


def _with_policy(*words: str) -> Maker:
    def make(g: Vocabulary) -> Words:
        some = g.ids()
        group = [g.one(GROUPS)] if words[0] == "XACKDEL" else []
        return [words[0], g.key(), *group, *_policy(g), "IDS", str(len(some)), *some]

    return make


STREAM: Family = [
    (_xadd, 30),
    (lambda g: ["XLEN", g.key()], 2),
    (lambda g: ["XRANGE", g.key(), g.low(), g.high(), *g.count()], 5),
    (lambda g: ["XREVRANGE", g.key(), g.high(), g.low(), *g.count()], 4),
    (_xread, 4),
    (_xdel, 5),
    (_xtrim, 4),
    (_xsetid, 1),
    (_xinfo_stream, 5),
]

GROUP: Family = [
    (_xgroup_create, 7),
    (_xgroup_setid, 2),
    (_consumer("CREATECONSUMER"), 2),
    (_consumer("DELCONSUMER"), 1.5),
    (lambda g: ["XGROUP", "DESTROY", g.key(), g.one(GROUPS)], 0.7),
    (_xreadgroup, 16),
    (lambda g: ["XACK", g.key(), g.one(GROUPS), *g.ids()], 5),
    (_xpending, 6),
    (_xclaim, 6),
    (_xautoclaim, 5),
    (lambda g: ["XINFO", "GROUPS", g.key()], 4),
    (lambda g: ["XINFO", "CONSUMERS", g.key(), g.one(GROUPS)], 3),
]

NEWER: Family = [
    (_newer_xadd, 12),
    (_newer_read, 8),
    (lambda g: ["XTRIM", g.key(), *g.trim(), *_policy(g)], 4),
    (_with_policy("XDELEX"), 5),
    (_with_policy("XACKDEL"), 5),
    (_xnack, 5),
    (lambda g: ["XCFGSET", g.key(), "IDMP-MAXSIZE", str(g.number(1, 3))], 0.3),
    (lambda g: ["XIDMPRECORD", g.key(), g.one(["p", "q"]), g.one(["1", "2", "9"]), g.id()], 1),
]
