"""Errors of a link: a broken socket, a login that was refused, and a server's error reply."""

from __future__ import annotations


class LinkError(OSError):
    """The socket broke, or could not be opened."""


class LoginRefusedError(LinkError):
    """The server refused user and password."""


class ResponseError(Exception):
    """A server's error reply, with its code as the first word of the text."""


class HandshakeError(Exception):
    """The server refused a command with which a link starts."""

    def __init__(self, command: str, reply: ResponseError) -> None:
        super().__init__(f"{command}: {reply}")
        self.command = command
        self.reply = reply


#: Exceptions of a broken or unreachable socket. A server's error reply is `ResponseError` instead.
BROKEN = (OSError,)
