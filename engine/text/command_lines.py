"""Commands as MONITOR and the slow log show them: secrets replaced, bytes escaped, long commands shortened.

A new command with a secret among its arguments must be added to ``without_secrets``. A new directive with a secret
value must be added to ``_SECRET_SETTINGS``.
"""

from __future__ import annotations

_REDACTED = b"(redacted)"
#: Directives and aliases whose values are secret.
_SECRET_SETTINGS = frozenset(
    b"requirepass masterauth primaryauth masteruser primaryuser tls-key-file-pass tls-client-key-file-pass".split()
)
_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
_SHOWN = [_ESCAPES.get(code, bytes([code]) if 32 <= code < 127 else b"\\x%02x" % code) for code in range(256)]
#: The bytes that are not escaped.
_PLAIN = bytes(code for code in range(32, 127) if code not in _ESCAPES)

#: Maximum number of words of a command in the slow log.
MAX_WORDS = 32
#: Maximum number of bytes of a word in the slow log.
MAX_WORD = 128


def without_secrets(argv: list[bytes]) -> list[bytes]:
    """Return the words of a command with its secrets replaced by ``(redacted)``."""
    name = argv[0].upper()
    if name == b"AUTH":
        return [argv[0], *[_REDACTED] * (len(argv) - 1)]
    if name == b"HELLO":
        return _redact_behind(argv, b"AUTH", 2)
    sub = argv[1].upper() if len(argv) > 1 else b""
    if name == b"CONFIG" and sub == b"SET":
        words = argv[:]
        for at in range(3, len(words), 2):
            if words[at - 1].lower() in _SECRET_SETTINGS:
                words[at] = _REDACTED
        return words
    if name == b"ACL" and sub in (b"SETUSER", b"GETUSER", b"DELUSER"):
        return [*argv[:2], *[_REDACTED] * (len(argv) - 2)]
    return argv


def _redact_behind(argv: list[bytes], word: bytes, count: int) -> list[bytes]:
    words = argv[:]
    for at, argument in enumerate(argv):
        if argument.upper() == word:
            for behind in range(at + 1, min(at + 1 + count, len(words))):
                words[behind] = _REDACTED
    return words


def quoted(word: bytes) -> bytes:
    """Return a word in double quotes, with unprintable bytes escaped."""
    if not word.translate(None, _PLAIN):
        return b'"%b"' % word
    return b'"%b"' % b"".join([_SHOWN[code] for code in word])


def shortened(argv: list[bytes]) -> list[bytes]:
    """Return the command as the slow log stores it: at most MAX_WORDS words of about MAX_WORD bytes each.

    The numbers of omitted words and bytes are appended.
    """
    words = argv if len(argv) <= MAX_WORDS else argv[: MAX_WORDS - 1]
    shown = [
        word if len(word) <= MAX_WORD else b"%b... (%d more bytes)" % (word[:MAX_WORD], len(word) - MAX_WORD)
        for word in words
    ]
    if len(argv) > MAX_WORDS:
        shown.append(b"... (%d more arguments)" % (len(argv) - MAX_WORDS + 1))
    return shown
