"""Which slot of a cluster a key lives in, and how to name another key that lives there too.

The rule is the protocol's: CRC16 (XMODEM) of the key, or of what stands between its first `{` and the next `}` if that
is not empty, modulo 16384. Pure.
"""

from __future__ import annotations

import binascii

COUNT = 16384


def tag_of(key: bytes) -> bytes:
    """The part of the key that decides."""
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin + 1)
        if end > begin + 1:
            return key[begin + 1 : end]
    return key


def slot_of(key: bytes) -> int:
    """The key's slot."""
    return checksum(tag_of(key)) % COUNT


def checksum(text: bytes) -> int:
    """CRC16 as clusters count it."""
    return binascii.crc_hqx(text, 0)


def same_slot_tag(key: bytes) -> bytes:
    """A word that, in braces, puts a key into the same slot as `key`: its own tag where that can stand in braces."""
    tag = tag_of(key)
    if tag and b"}" not in tag:
        return tag
    slot = slot_of(key)
    return next(word for word in (b"%d" % number for number in range(1 << 24)) if checksum(word) % COUNT == slot)
