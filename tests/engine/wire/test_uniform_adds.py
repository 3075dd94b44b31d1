"""XADDs of a log, parsed together by numpy: the same entries as those parsed command by command."""

from __future__ import annotations

import os
import random
from itertools import islice

import pytest

from engine.shell.durability.recovery import commands_in
from engine.wire.bulk import UniformAdds
from streamwire.frames import frame

EXAMPLES = int(os.environ.get("ALIKE_EXAMPLES", "50"))


def encode(words: list[bytes]) -> bytes:
    """Return a command as clients send it."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def log(values: list[bytes], key: bytes = b"s", ms: int = 1_790_000_000_000, first: int = 0) -> bytes:
    """Return commands that add these values with ascending IDs."""
    ids = [b"%d-%d" % (ms, first + number) for number in range(len(values))]
    return b"".join(encode([b"XADD", key, word, b"f", value]) for word, value in zip(ids, values, strict=True))


def assert_equals_twin(data: bytes) -> int:
    """Assert that the fast path finds what the strict parser finds; return the number of commands."""
    found = UniformAdds().scan(data, 0)
    if found is None:
        return 0
    at, frames, sizes, ids = 0, [], [], []
    for words, at in islice(commands_in(memoryview(data), 0, len(data)), found.count):  # noqa: B007 - the end is used
        assert words[:2] == [b"XADD", found.key]
        ms, seq = map(int, words[2].split(b"-"))
        assert words[2] == b"%d-%d" % (ms, seq)
        ids.append((ms, seq))
        frames.append(frame(words[2], words[3:]))
        sizes.append(len(frames[-1]))
    assert (at, bytes(found.frames), found.sizes) == (found.end, b"".join(frames), sizes)
    assert list(zip(found.ms, found.seq, strict=True)) == ids == sorted(set(ids))
    return found.count


@pytest.mark.parametrize("cut", range(1, 120))
def test_a_run_may_end_anywhere_in_a_command(cut: int) -> None:
    """The run ends before a command that is cut off, also if it is cut within its ID."""
    data = log([b"19.8"] * 100, ms=1_234_567_890_123_456, first=100)
    assert assert_equals_twin(data[:-cut]) == (len(data) - cut) * 100 // len(data)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (log([b"19.8"] * 100), 100),
        (log([b"v" * size for size in range(100)]), 100),
        (log([b"v" * (90 + size) for size in range(100)]), 100),
        (log([b"v" * 9_999] * 5 + [b"v"] * 95), 100),
        (log([b"v"] * 100, ms=7), 100),
        (log([b"v"] * 100, ms=12_345_678), 100),
        (log([b"v"] * 100, first=999_950), 100),
        (log([b"v"] * 100, key=b"a:long{key}" * 20), 100),
        (log([b"\r\n$1\r\nf\r\n", b"*2\r\n", b"\xff" * 8, b""] * 25), 100),
        # The rest is cut off or has another form.
        (log([b"19.8"] * 100)[:-1], 99),
        (log([b"19.8"] * 100) + encode([b"DEL", b"s"]), 100),
        (log([b"19.8"] * 80) + log([b"v"] * 80, key=b"t"), 80),
        (log([b"19.8"] * 80) + log([b"v"] * 80, first=79), 80),
        (log([b"v"] * 80) + log([b"v" * 10_000]), 80),
        # A value that looks like a command ends the run before that command.
        (log([b"v"] * 80 + [log([b"w"])] + [b"v"] * 20), 80),
        # Declined: too few, IDs that are not canonical, a key that could make cutting ambiguous, or another command.
        (log([b"v"] * 20), 0),
        (log([b"v"] * 100).replace(b"-", b"-0").replace(b"$15", b"$16").replace(b"$16\r\n1", b"$17\r\n1"), 0),
        (log([b"v"] * 100, key=b"*7\r\n" * 8), 0),
        (log([b"v"] * 100).replace(b"XADD", b"xadd"), 0),
        (log([b"*5\r\n$4\r\nXADD\r"] * 100), 0),
        (log([b"v"] * 100).replace(b"$1\r\nv", b"$01\r\nv"), 0),
        (log([b"v"] * 100, first=99_999_990), 0),
        (encode([b"SET", b"k", b"v"]) * 100, 0),
        (b"", 0),
    ],
)
def test_exactly_the_longest_run_of_the_form_is_found(data: bytes, count: int) -> None:
    """The scan finds exactly the leading commands that have one form, with the frames of single commands."""
    assert assert_equals_twin(data) == count


def test_any_bytes_give_the_frames_of_the_strict_parser() -> None:
    """Random words, and logs with a changed byte, never give entries that the strict parser does not give."""
    chooser = random.Random(7)
    found = damaged = 0
    for _ in range(EXAMPLES):
        alphabet = chooser.choice([b"0123456789", b"\r\n*$15-XAD\xff", bytes(range(256))])
        longest = chooser.choice([3, 12, 150])
        names = [bytes(chooser.choices(alphabet, k=chooser.randrange(12))) for _ in range(chooser.randrange(1, 6))]
        key = bytes(chooser.choices(b"abc:{}$\r\n", k=chooser.randrange(20)))
        ms, seq = 10 ** chooser.randrange(16), chooser.choice([0, 1, 95, 9_990])
        commands = []
        for _ in range(chooser.randrange(60, 140)):
            ms, seq = (ms, seq + chooser.randrange(1, 3)) if chooser.random() < 0.9 else (ms + 1, 0)
            fields = [
                word
                for name in names
                for word in (name, bytes(chooser.choices(alphabet, k=chooser.randrange(longest))))
            ]
            commands.append(encode([b"XADD", key, b"%d-%d" % (ms, seq), *fields]))
        data = bytearray(b"".join(commands))
        found += assert_equals_twin(bytes(data)) > 0
        for _ in range(3):
            at = chooser.randrange(len(data))
            data[at] = chooser.choice(b"0159\r\n*$-\x00\xff")
            damaged += assert_equals_twin(bytes(data)) > 0
    assert found > EXAMPLES // 4
    assert damaged > EXAMPLES // 8


def test_without_runs_few_positions_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log of other commands one position in 64 is scanned, so that scanning costs almost nothing."""
    looks = []
    monkeypatch.setattr("engine.wire.bulk._read", lambda *where: looks.append(where))
    alike = UniformAdds()
    for at in range(1000):
        assert alike.scan(b"", at) is None
    assert len(looks) < 25
