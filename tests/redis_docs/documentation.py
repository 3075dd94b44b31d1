"""The examples of the streams page of Redis's documentation."""

from __future__ import annotations

from tests.harness.replies import Error, Streams, entries
from tests.redis_docs.scenes import XINFO_HELP, Fields, Scene, aged, idle

_FRANCE = entries(
    "1692632086370-0 rider Castilla speed 30.2 position 1 location_id 1",
    "1692632094485-0 rider Norem speed 28.8 position 3 location_id 1",
    "1692632102976-0 rider Prickett speed 29.7 position 2 location_id 1",
    "1692632147973-0 rider Castilla speed 29.9 position 1 location_id 2",
)
_ADD_FRANCE = tuple(
    f"XADD race:france {entry_id.decode()} {' '.join(word.decode() for word in fields)}" for entry_id, fields in _FRANCE
)
_ITALY = entries(
    "1692632639151-0 rider Castilla",
    "1692632647899-0 rider Royce",
    "1692632662819-0 rider Sam-Bodden",
    "1692632670501-0 rider Prickett",
    "1692632678249-0 rider Norem",
)
_CASTILLA, _ROYCE, _SAM_BODDEN, _PRICKETT, _NOREM = _ITALY
_ADD_ITALY = tuple(f"XADD race:italy {entry_id.decode()} rider {fields[1].decode()}" for entry_id, fields in _ITALY)
_GROUP = ("XGROUP CREATE race:italy italy_riders $ MKSTREAM",)
_READ = (
    *_GROUP,
    *_ADD_ITALY,
    "XREADGROUP GROUP italy_riders Alice COUNT 1 STREAMS race:italy >",
    "XACK race:italy italy_riders 1692632639151-0",
    "XREADGROUP GROUP italy_riders Bob COUNT 2 STREAMS race:italy >",
    aged("race:italy", "italy_riders", "Bob", 74642, "1692632647899-0", "1692632662819-0"),
)

SCENES = [
    Scene(
        "adding and reading",
        [
            *(
                (command, entry_id.decode())
                for command, (entry_id, _) in zip(_ADD_FRANCE[:3], _FRANCE[:3], strict=True)
            ),
            ("XRANGE race:france 1692632086370-0 + COUNT 2", _FRANCE[:2]),
            ("XREAD COUNT 100 STREAMS race:france $", None),
            (_ADD_FRANCE[3], "1692632147973-0"),
            ("XLEN race:france", 4),
        ],
    ),
    Scene(
        "explicit IDs",
        [
            ("XADD race:usa 0-1 racer Castilla", "0-1"),
            ("XADD race:usa 0-2 racer Norem", "0-2"),
            (
                "XADD race:usa 0-1 racer Prickett",
                Error("ERR The ID specified in XADD is equal or smaller than the target stream top item"),
            ),
            ("XADD race:usa 0-* racer Prickett", "0-3"),
        ],
    ),
    Scene(
        "ranges",
        [
            ("XRANGE race:france - +", _FRANCE),
            ("XRANGE race:france 1692632086369 1692632086371", _FRANCE[:1]),
            ("XRANGE race:france - + COUNT 2", _FRANCE[:2]),
            ("XRANGE race:france (1692632094485-0 + COUNT 2", _FRANCE[2:]),
            ("XRANGE race:france (1692632147973-0 + COUNT 2", []),
            ("XREVRANGE race:france + - COUNT 1", _FRANCE[3:]),
            ("XREAD COUNT 2 STREAMS race:france 0", Streams({"race:france": _FRANCE[:2]})),
        ],
        before=_ADD_FRANCE,
    ),
    Scene(
        "creating groups",
        [
            ("XGROUP CREATE race:france france_riders $", "OK"),
            ("XGROUP CREATE race:italy italy_riders $ MKSTREAM", "OK"),
        ],
        before=_ADD_FRANCE,
    ),
    Scene(
        "reading as consumers",
        [
            *((command, entry_id.decode()) for command, (entry_id, _) in zip(_ADD_ITALY, _ITALY, strict=True)),
            ("XREADGROUP GROUP italy_riders Alice COUNT 1 STREAMS race:italy >", Streams({"race:italy": [_CASTILLA]})),
            ("XREADGROUP GROUP italy_riders Alice STREAMS race:italy 0", Streams({"race:italy": [_CASTILLA]})),
            ("XACK race:italy italy_riders 1692632639151-0", 1),
            ("XREADGROUP GROUP italy_riders Alice STREAMS race:italy 0", Streams({"race:italy": []})),
            (
                "XREADGROUP GROUP italy_riders Bob COUNT 2 STREAMS race:italy >",
                Streams({"race:italy": [_ROYCE, _SAM_BODDEN]}),
            ),
        ],
        before=_GROUP,
    ),
    Scene(
        "pending entries",
        [
            ("XPENDING race:italy italy_riders", [2, "1692632647899-0", "1692632662819-0", [["Bob", "2"]]]),
            (
                "XPENDING race:italy italy_riders - + 10",
                [
                    ["1692632647899-0", "Bob", idle(74642), 1],
                    ["1692632662819-0", "Bob", idle(74642), 1],
                ],
            ),
            ("XRANGE race:italy 1692632647899-0 1692632647899-0", [_ROYCE]),
        ],
        before=_READ,
    ),
    Scene(
        "claiming",
        [
            ("XCLAIM race:italy italy_riders Alice 60000 1692632647899-0", [_ROYCE]),
            ("XCLAIM race:italy italy_riders Lora 60000 1692632647899-0", []),
            ("XAUTOCLAIM race:italy italy_riders Alice 60000 0-0 COUNT 1", ["0-0", [_SAM_BODDEN], []]),
            (aged("race:italy", "italy_riders", "Alice", 74642, "1692632647899-0"), ["1692632647899-0"]),
            ("XAUTOCLAIM race:italy italy_riders Lora 60000 0-0 COUNT 1", ["1692632662819-0", [_ROYCE], []]),
            (
                "XINFO STREAM race:italy",
                Fields(
                    {
                        "length": 5,
                        "radix-tree-keys": 1,
                        "radix-tree-nodes": 2,
                        "last-generated-id": "1692632678249-0",
                        "groups": 1,
                        "first-entry": _CASTILLA,
                        "last-entry": _NOREM,
                    }
                ),
            ),
            (
                "XINFO GROUPS race:italy",
                [
                    Fields(
                        {"name": "italy_riders", "consumers": 3, "pending": 2, "last-delivered-id": "1692632662819-0"}
                    ),
                ],
            ),
            (
                "XINFO CONSUMERS race:italy italy_riders",
                [
                    Fields({"name": "Alice", "pending": 1, "idle": idle(0)}),
                    Fields({"name": "Bob", "pending": 0, "idle": idle(0)}),
                    Fields({"name": "Lora", "pending": 1, "idle": idle(0)}),
                ],
            ),
        ],
        before=_READ,
    ),
    Scene(
        "help",
        [
            ("XINFO HELP", XINFO_HELP),
        ],
    ),
    Scene(
        "capped streams",
        [
            ("XADD race:italy MAXLEN 2 1692633189161-0 rider Jones", "1692633189161-0"),
            ("XADD race:italy MAXLEN 2 1692633198206-0 rider Wood", "1692633198206-0"),
            ("XADD race:italy MAXLEN 2 1692633208557-0 rider Henshaw", "1692633208557-0"),
            ("XLEN race:italy", 2),
            ("XRANGE race:italy - +", entries("1692633198206-0 rider Wood", "1692633208557-0 rider Henshaw")),
            ("XTRIM race:italy MAXLEN 10", 0),
            ("XTRIM mystream MAXLEN ~ 10", 0),
            ("XRANGE race:italy - + COUNT 2", entries("1692633198206-0 rider Wood", "1692633208557-0 rider Henshaw")),
            ("XDEL race:italy 1692633208557-0", 1),
            ("XRANGE race:italy - + COUNT 2", entries("1692633198206-0 rider Wood")),
        ],
        before=_ADD_ITALY,
    ),
]
