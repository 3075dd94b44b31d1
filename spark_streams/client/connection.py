"""A connection that survives: what the readers, the writers and the planning talk to, whatever stands behind it.

Owns the links to the nodes of one address, and their replacement: commands go where their key lives, redirections are
followed (MOVED, ASK), what the server cannot do just now is tried again (LOADING, TRYAGAIN, CLUSTERDOWN, READONLY
after a failover), and a link that breaks is replaced, with pauses, until the address's budget is spent. Nobody else
needs to know whether there is a cluster.

What must not be lost sight of: a command whose link broke may have been executed. Only commands that may be executed
twice (`retry.repeatable`) are sent again; for others the failure goes to the caller, who must find out by other means,
or has said how (`Renew`).
Refusals, in contrast, were not executed, so what was refused is always sent again.

A process keeps one connection per address (`borrow`).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import redis

from spark_streams.client.link import BROKEN, Command, Link
from spark_streams.client.retry import Budget, hopeless, is_transient, repeatable
from spark_streams.client.routing import Topology, key_of
from spark_streams.config.address import Address, Endpoint
from spark_streams.errors import PystreamsError, error, fail

__all__ = ["BROKEN", "Command", "Connection", "Link", "borrow", "close_all"]

Renew = Callable[[], list[Command]]
"""What is left to be asked, where it is not known how much of a request was executed. It may ask the server."""

_IDLE_SECONDS = 30.0  # a kept connection that was not used for so long is tried with a PING first
_ASKING_REPLY = b"+OK\r\n"
T = TypeVar("T")


@dataclass
class _Asked:
    """A raw request that was not received yet: where it went, and what the end of its reply is known by there."""

    commands: list[Command] | None
    link: Link | None
    word: bytes
    renew: Renew | None = None
    asking: bool = False

    @property
    def repeatable(self) -> bool:
        return self.commands is not None and (self.renew is not None or all(map(repeatable, self.commands)))


class Connection:
    """A connection to an address: one server, or all masters of a cluster."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.topology = Topology(address)
        self._links: dict[Endpoint, Link] = {}
        self._asked: dict[bytes, _Asked] = {}
        self._reliably(lambda: self.link(None))

    def close(self) -> None:
        while self._links:
            self._links.popitem()[1].close()

    def link(self, key: bytes | None) -> Link:
        """The link to the server that holds the key (None: any). Raises `BROKEN` or LookupError; it tries once."""
        return self.link_to(self.topology.endpoint(key))

    def link_to(self, endpoint: Endpoint) -> Link:
        """The link to that server."""
        link = self._links.get(endpoint)
        if link is None:
            link = self._links[endpoint] = Link(endpoint, self.address.login)
        return link

    def of_masters(self, ask: Callable[[Link], T]) -> list[T]:
        """What each server that holds keys says, for what concerns every one of them, as SCAN does.

        If one fails midway all are asked again, so `ask` must be something that can be asked twice.
        """

        def all_of_them() -> list[T]:
            found: list[T] = []
            for place in self.topology.masters():
                link = self.link_to(place)
                try:
                    found.append(ask(link))
                except BROKEN:
                    self.drop(link)
                    raise
            return found

        return self._reliably(all_of_them)

    def keeps(self, link: Link) -> bool:
        """Whether the link is still in use: it was not replaced, nor given up."""
        return self._links.get(link.endpoint) is link

    def drop(self, link: Link | None) -> None:
        """The link is broken, or the server behind it is not the one it was."""
        if link is not None:
            link.close()
            self._links.pop(link.endpoint, None)
        self.topology.forget()

    def unreachable(self, cause: BaseException) -> PystreamsError:
        """The error that says so."""
        return error("SERVER_UNREACHABLE", address=self.address.shown, reason=_reason(cause))

    def _reliably(self, action: Callable[[], T]) -> T:
        budget = Budget(self.address.retry_ms)
        while True:
            try:
                return action()
            except (*BROKEN, LookupError) as cause:
                self.topology.forget()
                if hopeless(cause) or budget.spent():
                    raise self.unreachable(cause) from None
            except ValueError as cause:
                raise self.unreachable(cause) from None

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """The replies of these commands; a server's error is the element in its place.

        Commands to one server are executed in their order; one that is refused for the moment is executed later.
        """
        budget = Budget(self.address.retry_ms)
        replies: list[Any] = [None] * len(commands)
        left = list(range(len(commands)))
        while left:
            left, cause = self._attempt(commands, left, replies)
            if left and budget.spent():
                if cause is not None:
                    raise self.unreachable(cause) from cause
                break
        return replies

    def _attempt(
        self, commands: Sequence[Command], wanted: Sequence[int], replies: list[Any]
    ) -> tuple[list[int], BaseException | None]:
        """Send these once. Returns those that are to be sent again, and what failed if a link did."""
        again: list[int] = []
        try:
            routed: dict[Endpoint, list[int]] = {}
            for at, key in zip(wanted, _keys([commands[at] for at in wanted]), strict=True):
                routed.setdefault(self.topology.endpoint(key), []).append(at)
        except (*BROKEN, LookupError) as cause:
            self._give_up_on(cause)
            return list(wanted), cause
        failure: BaseException | None = None
        for endpoint, places in routed.items():
            try:
                link = self.link_to(endpoint)
            except BROKEN as cause:  # nothing was sent
                self._give_up_on(cause)
                again += places
                failure = cause
                continue
            try:
                found = link.pipeline([commands[at] for at in places])
            except BROKEN as cause:
                self.drop(link)
                if not all(repeatable(commands[at]) for at in places):
                    raise
                again += places
                failure = cause
                continue
            for at, reply in zip(places, found, strict=True):
                replies[at] = reply = self._followed(commands[at], reply)
                if is_transient(reply):
                    self.heed(link, str(reply))
                    again.append(at)
        return sorted(again), failure

    def _give_up_on(self, cause: BaseException) -> None:
        self.topology.forget()
        if hopeless(cause):
            raise self.unreachable(cause) from None

    def _followed(self, command: Command, reply: Any) -> Any:
        """The reply of the node that is to be asked this once, where the reply says so."""
        if not (isinstance(reply, redis.ResponseError) and str(reply).startswith("ASK ")):
            return reply
        try:
            link = self.link_to(self.topology.place(str(reply).split()[2]))
            return link.pipeline([("ASKING",), command])[1]
        except BROKEN:
            return reply

    def heed(self, link: Link | None, refusal: str) -> None:
        """Learn from a refusal what there is to learn."""
        if refusal.startswith("MOVED "):
            self.topology.moved(refusal)
        elif refusal.startswith(("READONLY", "MASTERDOWN", "CLUSTERDOWN")):
            self.drop(link)

    def command(self, *words: bytes | str | int) -> Any:
        """One command's reply; its error is raised as SERVER_REFUSED."""
        (reply,) = self.pipeline([words])
        if isinstance(reply, redis.ResponseError):
            fail("SERVER_REFUSED", address=self.address.shown, command=words[0], reason=reply)
        return reply

    def request(self, commands: Sequence[Command], renew: Renew | None = None) -> bytes:
        """Send commands, of one server, whose replies are to be received raw; gives the word for `receive`.

        If the link breaks, or the server refuses for the moment, what `renew` gives is sent in their place.
        """
        asked = _Asked(list(commands), None, b"", renew)
        try:
            self._ask(asked)
        except (*BROKEN, LookupError) as cause:
            self._failed(asked, cause)
        word = secrets.token_hex(16).encode()
        self._asked[word] = asked
        return word

    def send_raw(self, data: Any) -> bytes:
        """As `request`, for commands that are bytes already; where there is a cluster, `link` says where to."""
        link = self.link(None)
        word = link.send_raw(data)
        self._asked[word] = _Asked(None, link, word)
        return word

    def _ask(self, asked: _Asked) -> None:
        assert asked.commands is not None
        key = next((found for found in map(key_of, asked.commands) if found is not None), None)
        asked.asking = False
        asked.link = self.link(key)
        asked.word = asked.link.request(asked.commands)

    def _failed(self, asked: _Asked, cause: BaseException) -> None:
        """A link broke: go on only where the request may be sent again."""
        self.drop(asked.link)
        asked.link = None
        if hopeless(cause):
            raise self.unreachable(cause) from None
        if not asked.repeatable:
            raise cause

    def receive(self, word: bytes) -> tuple[bytearray, int]:
        """The replies to a request: a buffer, and where in it they end. The buffer is the caller's to keep."""
        asked = self._asked.pop(word)
        budget: Budget | None = None
        while True:
            cause: BaseException | None = None
            try:
                if asked.link is None or not self.keeps(asked.link):
                    self._sendable(asked)
                    if asked.renew is not None:
                        asked.commands = asked.renew()
                    self._ask(asked)
                assert asked.link is not None
                buffer, stop = asked.link.receive(asked.word)
                if asked.asking:
                    buffer, stop = buffer[len(_ASKING_REPLY) :], stop - len(_ASKING_REPLY)
                if asked.commands is None or stop == 0 or buffer[0] != ord("-"):
                    return buffer, stop
                refusal = bytes(buffer[1 : buffer.find(b"\r\n")]).decode("utf-8", "replace")
                if not is_transient(redis.ResponseError(refusal)):
                    return buffer, stop
                if refusal.startswith("ASK "):
                    asked.link = self.link_to(self.topology.place(refusal.split()[2]))
                    asked.word = asked.link.request([("ASKING",), *asked.commands])
                    asked.asking = True
                    continue
                self.heed(asked.link, refusal)
                asked.link = None
            except (*BROKEN, LookupError) as failure:
                self._failed(asked, failure)
                cause = failure
            budget = budget or Budget(self.address.retry_ms)
            if budget.spent():
                if cause is not None:
                    raise self.unreachable(cause) from cause
                return buffer, stop

    def _sendable(self, asked: _Asked) -> None:
        """Its link was replaced while the request was under way."""
        if asked.link is not None and not asked.repeatable:
            raise redis.ConnectionError("the connection broke")

    def has_input(self) -> bool:
        """Whether something has arrived that was not received yet."""
        return any(link.has_input() for link in self._links.values())

    def can_skip_replies(self) -> bool:
        """Whether the server knows CLIENT REPLY SKIP; it is asked once."""
        return self._reliably(lambda: self.link(None).can_skip_replies())

    def usable(self) -> bool:
        """Whether it can be used again after a rest. Nothing is due on it, so what can be read is a farewell."""
        try:
            for link in self._links.values():
                rested = time.monotonic() - link.used > _IDLE_SECONDS
                if link.has_input() or (rested and link.pipeline([("PING",)]) != [b"PONG"]):
                    return False
        except (redis.RedisError, OSError):
            return False
        return bool(self._links)

    def rest(self) -> None:
        """It is used no more for now."""
        self._asked.clear()
        for link in self._links.values():
            link.used = time.monotonic()


_kept: dict[tuple[int, Address], Connection] = {}


@contextmanager
def borrow(address: Address) -> Iterator[Connection]:
    """The connection of this process to that address; it is kept for the next one unless the block fails.

    Failures of the connection come out as SERVER_UNREACHABLE. A connection that is borrowed already, by an iterator
    that was left unfinished, is not given twice.
    """
    key = (os.getpid(), address)
    connection = _kept.pop(key, None)
    if connection is not None and not connection.usable():
        connection.close()
        connection = None
    if connection is None:
        connection = Connection(address)
    try:
        yield connection
    except BROKEN as cause:
        connection.close()
        raise connection.unreachable(cause) from cause
    except BaseException:
        connection.close()
        raise
    connection.rest()
    if key in _kept:
        connection.close()
    else:
        _kept[key] = connection


def close_all() -> None:
    """Close what this process keeps."""
    while _kept:
        _kept.popitem()[1].close()


def _keys(commands: Sequence[Command]) -> list[bytes | None]:
    """The key by which each command goes: one without (MULTI, EXEC) goes with the next that has one, or the last."""
    keys = [key_of(command) for command in commands]
    last = next((key for key in reversed(keys) if key is not None), None)
    for at in range(len(keys) - 1, -1, -1):
        if keys[at] is None:
            keys[at] = last
        last = keys[at]
    return keys


def _reason(cause: BaseException) -> str:
    return f"{cause}".rstrip(".") or type(cause).__name__
