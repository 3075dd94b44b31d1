"""Blocks and commands of the append-only file, and its manifest: what is read, and what is damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.formats.damage import DamagedError
from engine.shell.durability.log import TornError, head, pieces
from engine.shell.durability.log_files import BASE, HISTORY, INCREMENT, Entry, Manifest, ManifestError, decode
from engine.shell.durability.recovery import as_client_command, commands_in
from tests.engine.shell.durability.lives import encode


def file_of(blocks: list[bytes]) -> bytes:
    data = b""
    for block in blocks:
        data += head(len(data), block) + block
    return data


def read(data: bytes) -> list[bytes]:
    return [data[piece.start : piece.end] for piece in pieces(memoryview(data))]


def test_a_missing_first_block_is_damage():
    """A file without its first block is rejected, because the head of a block depends on its offset in the file."""
    blocks = [b"one", b"another", b"one"]
    whole = file_of(blocks)
    first = len(file_of(blocks[:1]))
    with pytest.raises(DamagedError):
        read(whole[first:])


def test_commands_without_blocks_are_left_to_the_parser():
    """Commands without block heads are one unverified piece; a timestamp before them is skipped; the rest is damage."""
    commands = encode([b"SET", b"k", b"v"])
    found = list(pieces(memoryview(b"#TS:1700000000\r\n" + commands)))
    assert [(piece.start, piece.proven) for piece in found] == [(16, False)]
    for other in (b"#Ts:1\r\n" + commands, b"x", b"#PS 1\r\n" + commands, b"\0" * 40):
        with pytest.raises(DamagedError):
            list(pieces(memoryview(other)))


ARGVS = st.lists(st.binary(max_size=12), min_size=1, max_size=4)


@given(ARGVS)
def test_a_command_is_read_strictly(argv):
    """A command is read as it was written, and every shorter piece of it is torn."""
    data = encode(argv)
    assert list(commands_in(memoryview(data), 0, 1)) == [(argv, len(data))]
    for size in range(1, len(data)):
        with pytest.raises(TornError):
            list(commands_in(memoryview(data)[:size], 0, 1))


@pytest.mark.parametrize(
    "data",
    [
        b"*x\r\n",
        b"*1\r\n:1\r\n",
        b"*1\r\n$01\r\na\r\n",
        b"*1\r\n$1\r\nab\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*1\n$1\r\na\r\n",
        b"*1\r\n$1\r\na\rX",
    ],
)
def test_invalid_commands_are_damage(data):
    """Wrong type bytes, invalid numbers and words of another length are damage."""
    with pytest.raises(DamagedError):
        list(commands_in(memoryview(data), 0, 1))


@pytest.mark.parametrize(
    ("logged", "sent", "record"),
    [
        ("XADD k MAXLEN = 5 LIMIT 100 1-1 f v", "XADD k MAXLEN = 5 1-1 f v", ""),
        ("XADD k NOMKSTREAM MINID = 3-0 LIMIT 0 1-1 LIMIT v", "XADD k NOMKSTREAM MINID = 3-0 1-1 LIMIT v", ""),
        ("XTRIM k MINID = 3-0 LIMIT 7", "XTRIM k MINID = 3-0", ""),
        ("XADD k IDMP p i MAXLEN 5 1-1 f v", "XADD k MAXLEN 5 1-1 f v", "p i 1-1"),
        ("XADD k idmp p i 1-1 f v", "XADD k 1-1 f v", "p i 1-1"),
        ("XADD k IDMP p i * f v", "", ""),
    ],
)
def test_forms_that_only_a_redis_master_may_send(logged, sent, record):
    """In logged commands, LIMIT after an exact threshold is dropped, and the idempotent ID of XADD is returned
    separately.
    """
    words, found = as_client_command(logged.encode().split())
    assert words == sent.encode().split()
    assert found == record.encode().split()


# -- the manifest -----------------------------------------------------------------------------------------------------

MANIFEST = Manifest(
    Entry("a.aof.2.base.aof", 2, BASE),
    (Entry("a.aof.3.incr.aof", 3, INCREMENT), Entry("a.aof.4.incr.aof", 4, INCREMENT)),
    (Entry("a.aof.1.base.aof", 1, HISTORY),),
)


def test_a_manifest_is_restored():
    """A manifest is read as it was written; a manifest of Redis, without a checksum, is accepted."""
    assert decode(MANIFEST.encode()) == MANIFEST
    plain = b"".join(MANIFEST.encode().splitlines(keepends=True)[:-1])
    assert decode(plain) == MANIFEST
    odd = Manifest(Entry('it has "blanks".1.base.aof', 1, BASE))
    assert decode(odd.encode()) == odd


def test_a_flipped_bit_in_a_manifest_is_found():
    """With any one bit changed the manifest is rejected."""
    for at in range(8 * len(MANIFEST.encode())):
        data = bytearray(MANIFEST.encode())
        data[at // 8] ^= 1 << at % 8
        with pytest.raises(ManifestError):
            decode(bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello\n",
        b"file a seq 1\n",
        b"file a seq x type b\n",
        b"file a seq 1 type z\n",
        b"file a/b seq 1 type b\n",
        b"file a seq 1 type b\nfile b seq 2 type b\n",
        b"file a seq 2 type i\nfile b seq 1 type i\n",
        b"file a seq 1 type i",
    ],
)
def test_invalid_manifests_are_rejected(data):
    """Invalid lines, two bases, and increments out of order are errors."""
    with pytest.raises(ManifestError):
        decode(data)


def test_a_rewrite_turns_older_files_into_history():
    """A rewrite keeps its new base and the increments from its first increment on; all other files become history."""
    base = Entry("a.aof.3.base.psb", 3, BASE)
    changed = MANIFEST.rewritten(base, 4)
    assert [file.name for file in changed.files] == ["a.aof.3.base.psb", "a.aof.4.incr.aof"]
    assert [file.name for file in changed.history] == ["a.aof.1.base.aof", "a.aof.2.base.aof", "a.aof.3.incr.aof"]
    assert changed.base_seq == 3
    assert changed.without(changed.history[:2]).history == changed.history[2:]
