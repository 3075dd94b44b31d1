"""The examples of the introduction to Redis streams."""

from __future__ import annotations

from tests.harness.replies import Error, Streams, entries, entry
from tests.redis_docs.scenes import XINFO_HELP, Fields, Scene, aged, idle

_SENSORS = entries(
    "1518951480106-0 sensor-id 1234 temperature 19.8",
    "1518951482479-0 sensor-id 9999 temperature 18.2",
)
_VALUES = entries(
    "1519073278252-0 foo value_1",
    "1519073279157-0 foo value_2",
    "1519073280281-0 foo value_3",
    "1519073281432-0 foo value_4",
    "1519073287312-0 foo value_10",
)
_ADD_VALUES = (
    "XADD mystream 1519073278252-0 foo value_1",
    "XADD mystream 1519073279157-0 foo value_2",
    "XADD mystream 1519073280281-0 foo value_3",
    "XADD mystream 1519073281432-0 foo value_4",
    "XADD mystream 1519073287312-0 foo value_10",
)
_FRUITS = entries(
    "1526569495631-0 message apple",
    "1526569498055-0 message orange",
    "1526569506935-0 message strawberry",
    "1526569535168-0 message apricot",
    "1526569544280-0 message banana",
)
_APPLE, _ORANGE, _STRAWBERRY, _APRICOT, _BANANA = _FRUITS
_GROUP = ("XGROUP CREATE mystream mygroup $ MKSTREAM",)
_ADD_FRUITS = tuple(f"XADD mystream {entry_id.decode()} message {fields[1].decode()}" for entry_id, fields in _FRUITS)
_READ = (
    *_GROUP,
    *_ADD_FRUITS,
    "XREADGROUP GROUP mygroup Alice COUNT 1 STREAMS mystream >",
    "XACK mystream mygroup 1526569495631-0",
    "XREADGROUP GROUP mygroup Bob COUNT 2 STREAMS mystream >",
    aged("mystream", "mygroup", "Bob", 74170458, "1526569498055-0", "1526569506935-0"),
)

SCENES = [
    Scene(
        "adding",
        [
            ("XADD mystream 1518951480106-0 sensor-id 1234 temperature 19.8", "1518951480106-0"),
            ("XLEN mystream", 1),
        ],
    ),
    Scene(
        "explicit IDs",
        [
            ("XADD somestream 0-1 field value", "0-1"),
            ("XADD somestream 0-2 foo bar", "0-2"),
            (
                "XADD somestream 0-1 foo bar",
                Error("ERR The ID specified in XADD is equal or smaller than the target stream top item"),
            ),
            ("XADD somestream 0-* baz qux", "0-3"),
        ],
    ),
    Scene(
        "ranges",
        [
            ("XRANGE mystream - +", _SENSORS),
            ("XRANGE mystream 1518951480106 1518951480107", _SENSORS[:1]),
        ],
        before=(
            "XADD mystream 1518951480106-0 sensor-id 1234 temperature 19.8",
            "XADD mystream 1518951482479-0 sensor-id 9999 temperature 18.2",
        ),
    ),
    Scene(
        "iterating",
        [
            ("XRANGE mystream - + COUNT 2", _VALUES[:2]),
            ("XRANGE mystream (1519073279157-0 + COUNT 2", _VALUES[2:4]),
            ("XREVRANGE mystream + - COUNT 1", _VALUES[4:]),
            ("XREAD COUNT 2 STREAMS mystream 0", Streams({"mystream": _VALUES[:2]})),
        ],
        before=_ADD_VALUES,
    ),
    Scene(
        "creating groups",
        [
            ("XGROUP CREATE mystream mygroup $", "OK"),
            ("XGROUP CREATE newstream mygroup $ MKSTREAM", "OK"),
        ],
        before=_ADD_VALUES,
    ),
    Scene(
        "reading as consumers",
        [
            *((command, entry_id.decode()) for command, (entry_id, _) in zip(_ADD_FRUITS, _FRUITS, strict=True)),
            ("XREADGROUP GROUP mygroup Alice COUNT 1 STREAMS mystream >", Streams({"mystream": [_APPLE]})),
            ("XREADGROUP GROUP mygroup Alice STREAMS mystream 0", Streams({"mystream": [_APPLE]})),
            ("XACK mystream mygroup 1526569495631-0", 1),
            ("XREADGROUP GROUP mygroup Alice STREAMS mystream 0", Streams({"mystream": []})),
            ("XREADGROUP GROUP mygroup Bob COUNT 2 STREAMS mystream >", Streams({"mystream": [_ORANGE, _STRAWBERRY]})),
        ],
        before=_GROUP,
    ),
    Scene(
        "pending entries",
        [
            ("XPENDING mystream mygroup", [2, "1526569498055-0", "1526569506935-0", [["Bob", "2"]]]),
            (
                "XPENDING mystream mygroup - + 10",
                [
                    ["1526569498055-0", "Bob", idle(74170458), 1],
                    ["1526569506935-0", "Bob", idle(74170458), 1],
                ],
            ),
            ("XRANGE mystream 1526569498055-0 1526569498055-0", [_ORANGE]),
        ],
        before=_READ,
    ),
    Scene(
        "claiming",
        [
            ("XCLAIM mystream mygroup Alice 3600000 1526569498055-0", [_ORANGE]),
            ("XCLAIM mystream mygroup Lora 3600000 1526569498055-0", []),
        ],
        before=_READ,
    ),
    Scene(
        "claiming automatically",
        [
            ("XAUTOCLAIM mystream mygroup Alice 3600000 0-0 COUNT 1", ["1526569506935-0", [_ORANGE], []]),
            ("XAUTOCLAIM mystream mygroup Lora 3600000 1526569498055-0 COUNT 1", ["0-0", [_STRAWBERRY], []]),
        ],
        before=_READ,
    ),
    Scene(
        "observing a stream",
        [
            (
                "XINFO STREAM mystream",
                Fields(
                    {
                        "length": 13,
                        "radix-tree-keys": 1,
                        "radix-tree-nodes": 2,
                        "groups": 2,
                        "first-entry": _APPLE,
                        "last-entry": _BANANA,
                    }
                ),
            ),
        ],
        before=(
            *_ADD_FRUITS[:4],
            *(f"XADD mystream {n}-0 message more" for n in range(1526569535169, 1526569535177)),
            _ADD_FRUITS[4],
            "XGROUP CREATE mystream mygroup 0",
            "XGROUP CREATE mystream some-other-group 0",
        ),
    ),
    Scene(
        "observing groups",
        [
            (
                "XINFO GROUPS mystream",
                [
                    Fields({"name": "mygroup", "consumers": 2, "pending": 2, "last-delivered-id": "1588152489012-0"}),
                    Fields(
                        {
                            "name": "some-other-group",
                            "consumers": 1,
                            "pending": 0,
                            "last-delivered-id": "1588152498034-0",
                        }
                    ),
                ],
            ),
            (
                "XINFO CONSUMERS mystream mygroup",
                [
                    Fields({"name": "Alice", "pending": 1, "idle": idle(0)}),
                    Fields({"name": "Bob", "pending": 1, "idle": idle(0)}),
                ],
            ),
        ],
        before=(
            *_ADD_FRUITS,
            "XGROUP CREATE mystream mygroup 0",
            "XREADGROUP GROUP mygroup Alice COUNT 1 STREAMS mystream >",
            "XREADGROUP GROUP mygroup Bob COUNT 1 STREAMS mystream >",
            "XGROUP SETID mystream mygroup 1588152489012-0",
            "XGROUP CREATE mystream some-other-group 1588152498034-0",
            "XGROUP CREATECONSUMER mystream some-other-group Carl",
        ),
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
            ("XADD mystream MAXLEN 2 1526654998691-0 value 1", "1526654998691-0"),
            ("XADD mystream MAXLEN 2 1526654999635-0 value 2", "1526654999635-0"),
            ("XADD mystream MAXLEN 2 1526655000369-0 value 3", "1526655000369-0"),
            ("XLEN mystream", 2),
            ("XRANGE mystream - +", entries("1526654999635-0 value 2", "1526655000369-0 value 3")),
            ("XADD mystream MAXLEN ~ 1000 1526655000370-0 entry fields", "1526655000370-0"),
            ("XTRIM mystream MAXLEN 10", 0),
            ("XTRIM mystream MAXLEN ~ 10", 0),
        ],
    ),
    Scene(
        "removing single entries",
        [
            ("XRANGE mystream - + COUNT 2", entries("1526654999635-0 value 2", "1526655000369-0 value 3")),
            ("XDEL mystream 1526654999635-0", 1),
            ("XRANGE mystream - + COUNT 2", [entry("1526655000369-0 value 3")]),
        ],
        before=("XADD mystream 1526654999635-0 value 2", "XADD mystream 1526655000369-0 value 3"),
    ),
]
