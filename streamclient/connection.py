"""A connection to an address of any kind: one server, a master found by Sentinels, or a cluster.

Owns the links to the address's nodes and their replacement. Commands go to the node that has their key. Redirections
(MOVED, ASK) are followed. Temporary refusals (LOADING, TRYAGAIN, CLUSTERDOWN, READONLY after a failover) are retried,
and broken links replaced, until the address's retry time ends. Callers need no special code for clusters.

Invariant: a command whose link broke may have been executed. Only idempotent commands are sent again
(`commands.is_idempotent`). For other commands the failure is raised, unless the caller provides a continuation
(`Resume`). A temporarily refused command was not executed, so it is always sent again.

The module is one file because the decisions about resending depend on the state of the links. `change` is a
compare-and-set change, which applies only if the records have not changed since they were read.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from streamclient.capabilities import Capabilities, is_refused
from streamclient.commands import Command, is_idempotent, key_of, keys_of
from streamclient.config.address import Address, Endpoint
from streamclient.errors import (
    BROKEN,
    HandshakeError,
    LinkError,
    LoginRefusedError,
    PystreamsError,
    ResponseError,
    error,
    fail,
)
from streamclient.link import Link
from streamclient.refusals import Budget, is_permanent, is_transient, login_refused, reason_of, refused, tls_mismatch
from streamclient.routing import UNREACHABLE, Topology
from streamclient.sockets import OtherProtocolError

__all__ = ["BROKEN", "Command", "Connection", "Link", "change"]

#: Called when it is unknown how much of a request was executed. Returns the commands that must still be sent, and may
#: query the server.
Resume = Callable[[], list[Command]]

_IDLE_SECONDS = 30.0  # a connection that was idle for longer is tested with a PING before it is used again
_ASKING_REPLY = b"+OK\r\n"
_GENERATIONS = itertools.count(1)
T = TypeVar("T")


@dataclass
class _Request:
    """A raw request without a received reply: its commands, its link (None: not sent), and its token on that link."""

    commands: list[Command]
    resume: Resume | None
    link: Link | None = None
    token: bytes = b""
    asking: bool = False

    @property
    def can_be_resent(self) -> bool:
        """Whether the request may be sent again if it is unknown whether it was executed."""
        return self.resume is not None or all(map(is_idempotent, self.commands))


class Connection:
    """A connection to an address: one server, or all masters of a cluster.

    Errors: SERVER_UNREACHABLE after unsuccessful retries; `BROKEN` if a request that is not idempotent may have been
    executed.

    `budget`: time for the first connection; by default the address's retry time, after the first failure.
    """

    def __init__(self, address: Address, budget: Budget | None = None) -> None:
        self.address = address
        self.topology = Topology(address)
        self._links: dict[Endpoint, Link] = {}
        self._sent_before = 0  # number of commands sent by links that are now closed
        #: Number of the last opened link, unique in this process. If it changes, the server may have been replaced.
        self.generation = 0
        self._requests: dict[bytes, _Request] = {}
        self.capabilities = Capabilities(self.pipeline)
        self._reliably(lambda: self.link(None), budget)

    def serve(self, address: Address) -> None:
        """Use this address from now on.

        It must be equal to the old address, but may have another retry time, reply timeout and list of ACL rules.
        """
        self.address = self.topology.address = address
        for link in self._links.values():
            link.wait_at_most(address.login)

    def close(self) -> None:
        """Close all links."""
        while self._links:
            link = self._links.popitem()[1]
            self._sent_before += link.sent
            link.close()

    @property
    def sent(self) -> int:
        """Number of commands sent to all servers, without those sent by `Link.send_raw`."""
        return self._sent_before + sum(link.sent for link in list(self._links.values()))

    def link(self, key: bytes | None) -> Link:
        """Return the link to the server that has the key, or to any server if `key` is None. Tries once; raises
        `UNREACHABLE`.
        """
        return self.link_to(self.topology.endpoint(key))

    def link_to(self, endpoint: Endpoint) -> Link:
        """Return the link to that server. Tries once; raises `BROKEN`, or ServerError if the server refuses a
        command of the handshake, such as SELECT of a database that does not exist.

        The permission for ECHO is checked, since ECHO marks the end of replies (`Link.request`): without this
        permission, waiting for a reply would never end.
        """
        link = self._links.get(endpoint)
        if link is None:
            login = self.address.login
            try:
                link = Link(endpoint, login)
            except HandshakeError as refusal:
                raise refused(self.address, refusal.command, refusal.reply) from None
            (reply,) = link.pipeline([("ECHO", "")])
            if isinstance(reply, ResponseError) and str(reply).startswith("NOPERM"):
                link.close()
                raise refused(self.address, "ECHO", reply)
            self._links[endpoint] = link
            self.generation = next(_GENERATIONS)
        elif link.logs_in_again:
            link.renew()
        return link

    def by_node(self, items: Sequence[T], stream_of: Callable[[T], str]) -> list[list[T]]:
        """Return the items grouped by the cluster's node that has their stream; one group for a single server."""
        nodes: dict[Endpoint | None, list[T]] = {}
        for item in items:
            endpoint = None  # unknown
            if self.topology.is_cluster:
                with suppress(*UNREACHABLE):
                    endpoint = self.topology.endpoint(stream_of(item).encode())
            nodes.setdefault(endpoint, []).append(item)
        return list(nodes.values())

    def link_for_ask(self, refusal: str) -> Link:
        """Return the link to the node that a refusal `ASK slot host:port` names."""
        return self.link_to(self.topology.ask_target(refusal))

    def on_each_master(self, ask: Callable[[Link], T]) -> list[T]:
        """Return the answers of all servers that have keys, for commands that concern each server, such as SCAN.

        If a server fails, `ask` is called again for all servers, so it must be idempotent.
        """

        def all_of_them() -> list[T]:
            found: list[T] = []
            for endpoint in self.topology.masters():
                link = self.link_to(endpoint)
                try:
                    found.append(ask(link))
                except BROKEN:
                    self.drop(link)
                    raise
            return found

        return self._reliably(all_of_them)

    def keeps(self, link: Link) -> bool:
        """Return whether the link is still in use: neither replaced nor dropped."""
        return self._links.get(link.endpoint) is link

    def drop(self, link: Link | None) -> None:
        """Close a link that is broken or whose server has changed its role.

        The next command looks up the servers' addresses again.
        """
        if link is not None:
            link.close()
            known = self._links.pop(link.endpoint, None)
            if known is not None:  # a newer link to the server is removed but not closed, since its replies may be due
                self._sent_before += known.sent
        self.topology.invalidate()

    def unreachable(self, cause: BaseException) -> PystreamsError:
        """Return the error SERVER_UNREACHABLE with that cause."""
        reason = _reason(cause)
        if self.topology.is_announced(reason):
            reason += "; the cluster announces this address for a node, and it must be reachable from here"
        return error("SERVER_UNREACHABLE", address=self.address.shown, reason=reason)

    def raise_permanent(self, cause: BaseException) -> None:
        """Raise the error of the cause if a retry cannot help: LOGIN_REFUSED, TLS_NEEDED, ... or SERVER_UNREACHABLE."""
        if isinstance(cause, LoginRefusedError):
            raise login_refused(self.address, cause) from None
        if isinstance(cause, OtherProtocolError):
            raise tls_mismatch(self.address, encrypted=cause.encrypted) from None
        if is_permanent(cause):
            raise self.unreachable(cause) from None

    def retry(
        self, attempt: Callable[[], T | None], lost: Callable[[BaseException], None], budget: Budget | None = None
    ) -> T | None:
        """Repeat `attempt` until it returns a result other than None. Return None when the retry time, or the given
        budget, ends.

        The attempt returns None if the server refused temporarily. If it raises `UNREACHABLE`, `lost` is called
        to drop the link; it raises the failure if there must be no other attempt. Raises SERVER_UNREACHABLE if the last
        attempt raised `UNREACHABLE`. After a permanent failure, raises its error at once (see `raise_permanent`).
        """
        while True:
            cause: BaseException | None = None
            try:
                result = attempt()
                if result is not None:
                    return result
            except UNREACHABLE as failure:
                lost(failure)
                self.raise_permanent(failure)
                cause = failure
            budget = budget or Budget(self.address.retry_ms)
            if not budget.pause():
                if cause is not None:
                    raise self.unreachable(cause) from cause
                return None

    def _reliably(self, action: Callable[[], T], budget: Budget | None = None) -> T:
        try:
            result = self.retry(action, lambda _: self.topology.invalidate(), budget)
        except PystreamsError:
            raise
        except ValueError as cause:
            raise self.unreachable(cause) from None
        assert result is not None
        return result

    def pipeline(self, commands: Sequence[Command], final: str | None = None) -> list[Any]:
        """Send commands and return their replies; an error reply is an element, not raised.

        Commands to one server are executed in order. A command that is refused temporarily is sent again, and so are
        the idempotent commands after it. Otherwise a read after a write could return the state before the write.
        `final`: first word of refusals after which a command is not sent again.
        """
        budget = Budget(self.address.retry_ms)
        replies: list[Any] = [None] * len(commands)
        left = list(range(len(commands)))
        while left:
            left, cause = self._attempt(commands, left, replies, final)
            if left and not budget.pause():
                if cause is not None:
                    raise self.unreachable(cause) from cause
                break
        return replies

    def _attempt(
        self, commands: Sequence[Command], wanted: Sequence[int], replies: list[Any], final: str | None
    ) -> tuple[list[int], BaseException | None]:
        """Send the commands with these indexes once.

        Return the indexes of the commands to send again, and the failure of a link (None if no link failed).
        """
        again: list[int] = []
        try:
            routed: dict[Endpoint, list[int]] = {}
            if self.topology.is_cluster:
                for at, key in zip(wanted, keys_of([commands[at] for at in wanted]), strict=True):
                    routed.setdefault(self.topology.endpoint(key), []).append(at)
            else:
                routed[self.topology.endpoint(None)] = list(wanted)
        except UNREACHABLE as cause:
            self._not_sent(cause)
            return list(wanted), cause
        failure: BaseException | None = None
        for endpoint, indexes in routed.items():
            try:
                link = self.link_to(endpoint)
            except BROKEN as cause:
                self._not_sent(cause)
                again += indexes
                failure = cause
                continue
            try:
                found = link.pipeline([commands[at] for at in indexes])
            except BROKEN as cause:
                self.drop(link)
                if not all(is_idempotent(commands[at]) for at in indexes):
                    raise
                again += indexes
                failure = cause
                continue
            is_behind = False
            for at, reply in zip(indexes, found, strict=True):
                replies[at] = reply
                if isinstance(reply, ResponseError):
                    replies[at] = reply = self._follow_ask(commands[at], reply)
                if is_transient(reply) and not (final is not None and str(reply).startswith(final)):
                    self.learn_from(str(reply), link)
                    is_behind = True
                    again.append(at)
                elif is_behind and is_idempotent(commands[at]):
                    again.append(at)
        return sorted(again), failure

    def _not_sent(self, cause: BaseException) -> None:
        """Drop the known addresses of servers after a failed connection. The next attempt looks them up again.

        Raises the errors of `raise_permanent`.
        """
        self.topology.invalidate()
        self.raise_permanent(cause)

    def _follow_ask(self, command: Command, reply: ResponseError) -> Any:
        """Return the reply of the node that an ASK redirection names; other refusals are returned unchanged."""
        if not str(reply).startswith("ASK "):
            return reply
        try:
            return self.link_for_ask(str(reply)).pipeline([("ASKING",), command])[1]
        except BROKEN:
            return reply

    def learn_from(self, refusal: str, link: Link | None) -> None:
        """Update the routing after a temporary refusal by that link's server.

        Raises CLUSTER_NODE if the address names a single server and the refusal is MOVED.
        """
        refusal = reason_of(refusal)
        if refusal.startswith("MOVED "):
            if self.address.kind == "single":
                raise refused(self.address, "commands", refusal)
            self.topology.learn_moved(refusal)
        elif refusal.startswith(("READONLY", "MASTERDOWN", "CLUSTERDOWN", "UNBLOCKED")):
            self.drop(link)

    def learn_or_raise(self, reply: ResponseError, command: str, link: Link | None) -> None:
        """Update the routing if that link's server refused temporarily; otherwise raise the error of the reply."""
        if not is_transient(reply):
            raise refused(self.address, command, reply)
        self.learn_from(str(reply), link)

    def commands(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands like `pipeline`, but raise the first error reply (see `check`)."""
        replies = self.pipeline(commands)
        self.check(commands, replies)
        return replies

    def check(self, commands: Sequence[Command], replies: Sequence[Any]) -> None:
        """Raise the first error among the replies to these commands as SERVER_REFUSED or NOT_PERMITTED."""
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ResponseError):
                raise refused(self.address, command[0], reply, key_of(command))

    def command(self, *words: bytes | str | int) -> Any:
        """Send one command and return its reply. An error reply is raised (see `check`)."""
        return self.commands([words])[0]

    def request(self, commands: Sequence[Command], resume: Resume | None = None) -> bytes:
        """Send commands to one server. Returns the token with which `receive` returns their replies as bytes.

        If the link breaks, or the server refuses temporarily, the commands returned by `resume` are sent instead.
        Without `resume`, the same commands are sent again if that is safe.
        """
        request = _Request(list(commands), resume)
        try:
            self._send(request)
        except UNREACHABLE as cause:
            self._failed(request, cause)
        token = secrets.token_hex(16).encode()
        self._requests[token] = request
        return token

    def _send(self, request: _Request) -> None:
        key = next((found for found in map(key_of, request.commands) if found is not None), None)
        request.asking = False
        request.link = self.link(key)
        request.token = request.link.request(request.commands)

    def _failed(self, request: _Request, cause: BaseException) -> None:
        """Drop the request's link. Raise the failure if the request must not be sent again."""
        self.drop(request.link)
        request.link = None
        self.raise_permanent(cause)
        if not request.can_be_resent:
            raise cause

    def receive(self, token: bytes) -> tuple[bytearray, int]:
        """Return the replies to a request: a buffer, and the position in it where they end. The caller owns the
        buffer.
        """
        request = self._requests.pop(token)
        last = bytearray(), 0

        def attempt() -> tuple[bytearray, int] | None:
            nonlocal last
            if request.link is None or not self.keeps(request.link):
                self._send_again(request)
            assert request.link is not None
            buffer, stop = request.link.receive(request.token)
            if request.asking:
                buffer, stop = buffer[len(_ASKING_REPLY) :], stop - len(_ASKING_REPLY)
            last = buffer, stop
            if stop == 0 or buffer[0] != ord("-"):
                return last
            refusal = bytes(buffer[1 : buffer.find(b"\r\n")]).decode("utf-8", "replace")
            if not is_transient(ResponseError(refusal)):
                return last
            if refusal.startswith("ASK "):
                request.link = self.link_for_ask(refusal)
                request.token = request.link.request([("ASKING",), *request.commands])
                request.asking = True
            else:
                self.learn_from(refusal, request.link)
                request.link = None
            return None

        return self.retry(attempt, lambda cause: self._failed(request, cause)) or last

    def _send_again(self, request: _Request) -> None:
        """Send a request that is not on a current link. Raises LinkError if it must not be executed twice."""
        if request.link is not None and not request.can_be_resent:
            raise LinkError("the connection broke")
        if request.resume is not None:
            request.commands = request.resume()
        self._send(request)

    def can_skip_replies(self) -> bool:
        """Return whether the server supports CLIENT REPLY SKIP. The server is asked once per link."""
        return self._reliably(lambda: self.link(None).can_skip_replies())

    def usable(self) -> bool:
        """Return whether the connection can be used again.

        No reply is outstanding, so any input means that the server is closing the connection.
        """
        try:
            for link in self._links.values():
                idle = time.monotonic() - link.last_used > _IDLE_SECONDS
                if link.has_input() or (idle and link.pipeline([("PING",)]) != [b"PONG"]):
                    return False
        except (ResponseError, OSError):
            return False
        return bool(self._links)

    def mark_idle(self) -> None:
        """Drop the requests whose replies were not received, and record the time."""
        self._requests.clear()
        for link in self._links.values():
            link.last_used = time.monotonic()


def _reason(cause: BaseException) -> str:
    text = f"{cause}".rstrip(".") or type(cause).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"{text}; tls.caFile names the certificates to trust, tls.verify selects the checks"
    return text


#: Returns the commands of the change, given the replies to the reads; an empty list if nothing must change.
Decide = Callable[[list[Any]], list[Command]]


def change(
    connection: Connection,
    keys: Sequence[bytes],
    reads: Sequence[Command],
    decide: Decide,
    *,
    partial: bool = False,
    stops: bool = False,
) -> list[Any]:
    """Read, decide, and execute the commands; repeat this if one of `keys` has changed meanwhile.

    Return the replies to the executed commands; an empty list if `decide` returned no commands. All keys must be in one
    slot. After a broken connection it is unknown whether the commands were executed, and `decide` is called again.
    Raises WRITE_CONTENDED, the errors of `decide`, and the error of a refused command. With `partial`, the error of a
    refused command is among the replies instead. With `stops`, which requires `Capabilities.stops_at_errors`, it is the
    last reply, and the commands after it were not executed.
    """
    link: Link | None = None
    done: list[Any] = []
    #: The last attempt's temporary refusal, with its command.
    refusal: tuple[str, ResponseError] | None = None

    def attempt() -> bool | None:
        nonlocal link, done, refusal
        link = refusal = None
        link = connection.link(keys[0])
        looking: list[Command] = [("WATCH", *keys), *reads]
        found = link.pipeline(looking)
        if _was_refused(looking, found, link):
            return None
        commands = decide(found[1:])
        if not commands:
            link.pipeline([("UNWATCH",)])
            return True
        changing: list[Command] = [("MULTI",), *commands, ("PS.EXEC" if stops else "EXEC",)]
        replies = link.pipeline(changing)
        if _was_refused(changing, replies, link):
            return None
        done = replies[-1] or []
        if done and not partial:
            connection.check(commands[: len(done)], done)
        return True if replies[-1] is not None else None

    def _was_refused(commands: Sequence[Command], replies: Sequence[Any], link: Link) -> bool:
        nonlocal refusal
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ResponseError):
                if command[0] == "PS.EXEC" and is_refused(reason_of(reply)):  # another server, still in MULTI
                    connection.capabilities.mark_missing("PS.EXEC")
                    connection.drop(link)
                connection.learn_or_raise(reply, str(command[0]), link)
                refusal = str(command[0]), reply
                return True
        return False

    if not connection.retry(attempt, lambda _: connection.drop(link)):
        if refusal is not None:
            raise refused(connection.address, *refusal)
        fail("WRITE_CONTENDED", address=connection.address)
    return done
