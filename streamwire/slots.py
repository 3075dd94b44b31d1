"""Hash slots of a cluster: the slot of a key, and names for other keys in the same slot.

A slot is CRC16 (XMODEM) of the key's hash tag, modulo 16384. The hash tag is the text between the first `{` and the
next `}` if it is not empty, otherwise the whole key.
"""

from __future__ import annotations

import binascii

#: Number of slots.
COUNT = 16384


def tag_of(key: bytes) -> bytes:
    """Return the key's hash tag."""
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin + 1)
        if end > begin + 1:
            return key[begin + 1 : end]
    return key


def slot_of(key: bytes) -> int:
    """Return the key's slot, 0 to 16383."""
    return binascii.crc_hqx(tag_of(key), 0) % COUNT


def same_slot_tag(key: bytes) -> bytes:
    """Return a hash tag for keys in the same slot as `key`: the key's own tag, or a number if that tag is empty or
    contains `}`.
    """
    tag = tag_of(key)
    if tag and b"}" not in tag:
        return tag
    slot = slot_of(key)
    return next(word for word in (b"%d" % number for number in range(1 << 24)) if slot_of(word) == slot)
