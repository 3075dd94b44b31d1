"""The examples of the draft of consumer groups, with the commands that resulted from it (see ``left_out``)."""

from __future__ import annotations

from tests.harness.replies import Streams, entries
from tests.redis_docs.scenes import Scene, aged, idle

_MESSAGES = entries("1500000000000-0 Message 1", "1500000000000-1 Message 2")
_BEFORE = (
    "XGROUP CREATE mystream mygroup $ MKSTREAM",
    "XADD mystream 1500000000000-0 Message 1",
    "XADD mystream 1500000000000-1 Message 2",
)
_READ = (*_BEFORE, "XREADGROUP GROUP mygroup c-1234 STREAMS mystream >")

SCENES = [
    Scene(
        "creating and moving a group",
        [
            ("XGROUP CREATE mystream groupname $", "OK"),
            ("XGROUP SETID mystream groupname 1507282666292-0", "OK"),
        ],
        before=_BEFORE,
    ),
    Scene(
        "new messages and one's own",
        [
            ("XREADGROUP GROUP mygroup c-1234 STREAMS mystream >", Streams({"mystream": _MESSAGES})),
            ("XREADGROUP GROUP mygroup c-1234 STREAMS mystream 1500000000000-0", Streams({"mystream": _MESSAGES[1:]})),
            ("XREADGROUP GROUP mygroup c-1234 STREAMS mystream 0", Streams({"mystream": _MESSAGES})),
            ("XREADGROUP GROUP mygroup other STREAMS mystream 0", Streams({"mystream": []})),
            ("XACK mystream mygroup 1500000000000-0 1500000000000-1", 2),
            ("XREADGROUP GROUP mygroup c-1234 STREAMS mystream 0", Streams({"mystream": []})),
            ("XPENDING mystream mygroup", [0, None, None, None]),
        ],
        before=_BEFORE,
    ),
    Scene(
        "two seconds ago",
        [
            (
                "XPENDING mystream mygroup - + 10",
                [
                    ["1500000000000-0", "c-1234", idle(2000), 1],
                    ["1500000000000-1", "c-1234", idle(2000), 1],
                ],
            ),
        ],
        before=(*_READ, aged("mystream", "mygroup", "c-1234", 2000, "1500000000000-0", "1500000000000-1")),
    ),
    Scene(
        "claiming resets the idle time and counts",
        [
            ("XCLAIM mystream mygroup consumer-9999 60000 1500000000000-0", _MESSAGES[:1]),
            ("XCLAIM mystream mygroup consumer-9999 60000 1500000000000-0", []),
            (
                "XPENDING mystream mygroup - + 10",
                [
                    ["1500000000000-0", "consumer-9999", idle(0), 2],
                    ["1500000000000-1", "c-1234", idle(61000), 1],
                ],
            ),
            ("XREADGROUP GROUP mygroup c-1234 STREAMS mystream 0", Streams({"mystream": _MESSAGES[1:]})),
        ],
        before=(*_READ, aged("mystream", "mygroup", "c-1234", 61000, "1500000000000-0", "1500000000000-1")),
    ),
    Scene(
        "without acknowledgement",
        [
            ("XREADGROUP GROUP mygroup c-1234 NOACK STREAMS mystream >", Streams({"mystream": _MESSAGES})),
            ("XPENDING mystream mygroup", [0, None, None, None]),
        ],
        before=_BEFORE,
    ),
    Scene(
        "deleting consumers and groups",
        [
            ("XGROUP DELCONSUMER mystream mygroup c-1234", 2),
            ("XPENDING mystream mygroup", [0, None, None, None]),
            ("XGROUP DESTROY mystream mygroup", 1),
            ("XINFO GROUPS mystream", []),
        ],
        before=_READ,
    ),
]
