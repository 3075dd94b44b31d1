"""Fuzz test of the RDB reader with damaged files: ``python -m tests.engine.core.formats.fuzz --inputs 300000``.

An input is a small file with changes: bytes changed, inserted, removed, moved or cut off, or numbers made large. Its
checksum is corrected or removed, so that the damage reaches the code after the check. For each input the reader either
raises DamagedError with a position within the file, or accepts the whole file; then the result can be written and read
again and is the same. Any other outcome, and memory that grows, is a failure. With the same
files, a seed and a number identify an input. Files of real servers contain the time, so a failing input is printed too.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Sequence

from engine.core.formats.damage import DamagedError
from engine.core.formats.rdb.primitives import crc64
from tests.engine.core.formats import real_files
from tests.engine.core.formats.rdb_files import read, samples, written
from tests.harness.replay import state

#: Maximum growth of the process over any number of inputs, in megabytes.
GROWTH_MB = 96
_NUMBERS = [0, 1, 63, 64, 16383, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1_700_000_000_000]
_PIECES = [
    *(b"\x81" + number.to_bytes(8, "big") for number in _NUMBERS),
    *(number.to_bytes(8, "little") for number in _NUMBERS),
    *(bytes((code,)) for code in (*range(28), *range(0xF0, 0x100))),
    b"\x80\xff\xff\xff\xff",
    b"\xc3\x02\x03\x01a",
    b"\xc0\x05",
    bytes(16),
]


def mutate(files: Sequence[bytes], seed: int, number: int) -> bytes:
    """Return the damaged file that the seed and the number identify."""
    draw = random.Random(seed << 32 | number)
    data = bytearray(draw.choice(files)[:-8])
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(9 if draw.random() < 0.95 else 0, max(len(data), 10))
        kind = draw.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes((draw.randrange(256),))
        elif kind == 1:
            piece = draw.choice(_PIECES)
            data[at : at + draw.choice((0, 1, len(piece)))] = piece
        elif kind == 2:
            del data[at : at + draw.choice((1, 1, 2, 8))]
        elif kind == 3:
            data[at:at] = data[at : at + draw.randrange(1, 40)]
        elif kind == 4:
            data[at : at + 1] = bytes((data[at] ^ 1 << draw.randrange(8),)) if at < len(data) else b""
        else:
            other = draw.choice(files)
            begin = draw.randrange(len(other))
            data[at:at] = other[begin : begin + draw.randrange(1, 60)]
    body = bytes(data)
    return body + (bytes(8) if draw.random() < 0.5 else crc64(body).to_bytes(8, "little"))


def accepts(data: bytes) -> bool:
    """Whether the reader accepted the input; raises an exception if the reader behaved wrongly."""
    try:
        core, _ = read(data, now=None)
    except DamagedError as error:
        if 0 <= error.offset <= len(data) and error.reason:
            return False
        raise
    found = state(core, times=True)
    for version in (10, 14):
        again, _ = read(written(core, version), now=None)
        assert state(again, times=True) == found, version
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--servers", action="store_true", help="also damage files written by real servers")
    arguments = parser.parse_args()
    real = real_files.files() if arguments.servers else {}
    files, taken, began = [*samples(), *real.values()], 0, time.monotonic()
    grown = 0
    for number in range(arguments.first, arguments.first + arguments.inputs):
        try:
            taken += accepts(mutate(files, arguments.seed, number))
        except BaseException:
            more = " --servers" if arguments.servers else ""
            sys.stderr.write(f"--seed {arguments.seed} --first {number} --inputs 1{more}\n")
            sys.stderr.write(f"{mutate(files, arguments.seed, number).hex()}\n")
            raise
        if number == arguments.first + 2000:
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if grown:
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown) // 1024
        assert grown < GROWTH_MB, f"the process has grown by {grown} MB"
    seconds = time.monotonic() - began
    summary = f"{arguments.inputs} damaged RDB files, {taken} of them taken, seed {arguments.seed}: {seconds:.0f} s"
    summary += f"; made of {len(files)} files, {len(real)} of them by real servers\n"
    sys.stdout.write(summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
