"""Cluster slots: the slot of a key, and how to name another key in the same slot. Pure.

The protocol's rule: CRC16 (XMODEM) modulo 16384 of the key's hash tag. That is the text between the first `{` and the
next `}` if it is not empty, otherwise the whole key.
"""

from __future__ import annotations

import binascii

COUNT = 16384


def tag_of(key: bytes) -> bytes:
    """The key's hash tag."""
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
    """CRC16 (XMODEM)."""
    return binascii.crc_hqx(text, 0)


def same_slot_tag(key: bytes) -> bytes:
    """A hash tag for keys in the same slot as `key`: the key's own if it can stand in braces, else a number."""
    tag = tag_of(key)
    if tag and b"}" not in tag:
        return tag
    slot = slot_of(key)
    return next(word for word in (b"%d" % number for number in range(1 << 24)) if checksum(word) % COUNT == slot)
