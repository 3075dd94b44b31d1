"""The server process: listening sockets, signals, start and end. The runner serves the clients.

``Server.serve`` returns after a signal, SHUTDOWN or a failure has stopped the server and everything is closed.

``maxclients`` is lowered if the process's limit of file descriptors cannot be raised. Without a free descriptor, a
client does not even receive an error reply, and the log cannot be rewritten. So some descriptors are reserved for files
and listening sockets.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import resource
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.clients.session import Session
from engine.core.dispatch import Core, FatalError
from engine.core.environment.host import Host, ProcessFacts
from engine.core.protocol.replies import CommandError
from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.clock import Ticker
from engine.shell.durability.background import Workers
from engine.shell.durability.disk import DiskDurability
from engine.shell.housekeeping.cold_packer import ColdPacker
from engine.shell.network.runner import Client, Runner
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.process_facts import Facts
from engine.shell.replication.node import Node
from engine.shell.tls import DIRECTIVES, server_context
from engine.shell.users_file import reload_accounts, start_accounts
from engine.text import messages

_HANDSHAKE_SECONDS = 10.0
#: Seconds until the next attempt if a client could not be accepted, for example because no descriptor is left.
_PAUSE_SECONDS = 0.1


class TlsListener:
    """Accepts clients over TLS on bound sockets. Changed directives and SIGHUP make a new context; existing connections
    keep their context. If a new context cannot be built, the change fails and the old context stays in use.

    A client counts towards ``maxclients`` as soon as it connects, because it uses a descriptor during its handshake.
    """

    def __init__(self, config: Config, clients: Runner, accept: Callable[[], asyncio.Protocol], backlog: int) -> None:
        self._config = config
        self._clients = clients
        self._accept = accept
        self._backlog = backlog
        self._context = server_context(config)
        #: Tasks that accept clients, and tasks that wait for handshakes.
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []

    def start(self, sockets: list[socket.socket]) -> None:
        """Start accepting clients on the sockets, which the listener takes over."""
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        for sock in sockets:
            sock.listen(self._backlog)
            self._start_task(self._serve(sock))
        for name in DIRECTIVES:
            self._config.on_change(name, self.reload)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket) -> None:
        while True:
            try:
                client, _ = await self._loop.sock_accept(sock)
            except OSError as error:
                LOG.warning("a client could not be accepted: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if self._clients.is_full():
                self._clients.traffic.rejected += 1
                client.close()
            else:
                client.setblocking(False)
                self._start_task(self._shake_hands(client))

    async def _shake_hands(self, client: socket.socket) -> None:
        traffic = self._clients.traffic
        traffic.handshaking += 1
        try:
            await self._loop.connect_accepted_socket(
                self._accept, client, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
            )
        except OSError as error:
            LOG.info("a client's TLS handshake failed: %s", str(error) or type(error).__name__)
        finally:
            traffic.handshaking -= 1

    def reload(self) -> None:
        """Make a new context from the directives and files. On failure, raise ConfigError and keep the old context."""
        self._context = server_context(self._config)

    def close(self) -> None:
        """Stop accepting clients."""
        for task in self._tasks:
            task.cancel()
        for sock in self._sockets:
            sock.close()


class ServerHost(Host):
    """Services of the process for the core. ``stop`` makes the process exit."""

    def __init__(self, config: Config, runner: Runner, facts: Facts, stop: Callable[[], None]) -> None:
        super().__init__()
        self._config = config
        self._runner = runner
        self._facts = facts
        self._stop = stop

    # -- work after the reply -----------------------------------------------------------------------------------------

    def after_reply(self, work: Callable[[], None]) -> None:
        self._runner.after_reply.append(work)

    def close(self, session: Session) -> None:
        self.after_reply(lambda: self._runner.abort(session))

    def wake_at_new_time(self, session: Session) -> None:
        self.after_reply(lambda: self._runner.timers.follow_session(session))

    def follow_pause(self) -> None:
        # Not after the reply, because a pause may also end while no command runs.
        self._runner.timers.follow_pause()

    # -- immediate work -----------------------------------------------------------------------------------------------

    def flush_effects(self) -> None:
        self._runner.flush_effects()

    def shut_down(self) -> None:
        LOG.info("shutting down (SHUTDOWN or signal)")
        self._stop()

    def report_failure(self, command: str, error: Exception) -> None:
        LOG.error("unexpected error in the command %s, returning an error to its client", command, exc_info=error)

    def draw(self, count: int) -> int:
        return random.randrange(count)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def give_back_memory(self) -> None:
        self._runner.give_back_memory()

    def rewrite_configuration(self) -> None:
        path = self._config.file
        if path is None:
            raise CommandError(messages.NO_CONFIG_FILE)
        new = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            new.write_bytes(self._config.rewritten(path.read_bytes()))
            new.replace(path)
        except OSError as error:
            raise CommandError(b"ERR Rewriting config file: %b" % os.strerror(error.errno or 0).encode()) from None

    def facts(self) -> ProcessFacts:
        return replace(self._facts.collect(), held_back=self._runner.held_back())

    def reset_statistics(self) -> None:
        self._facts.reset()


#: Number of descriptors reserved for other uses than clients, as in Redis.
RESERVED = 32


def reserve(config: Config) -> None:
    """Raise the process's limit of open files to the number that ``maxclients`` needs. If the system allows fewer open
    files, lower ``maxclients``.

    Raises ConfigError if no client could be served. From then on, ``CONFIG SET maxclients`` raises the process's limit
    in the same way, and fails if the system does not allow the new limit.
    """
    wanted = config.integer("maxclients")
    limit = _raise_limit(wanted + RESERVED)
    if limit < wanted + RESERVED:
        if limit <= RESERVED:
            raise ConfigError(
                f"maxclients: the limit of open files is {limit}; at least {RESERVED + 1} are needed (ulimit -n)"
            )
        config.put("maxclients", b"%d" % (limit - RESERVED))
        LOG.warning(
            "maxclients %d needs %d open files, and the system allows %d: lowering it to %d (ulimit -n)",
            wanted,
            wanted + RESERVED,
            limit,
            limit - RESERVED,
        )
    config.on_change("maxclients", lambda: _follow(config))


def _follow(config: Config) -> None:
    wanted = config.integer("maxclients") + RESERVED
    limit = _raise_limit(wanted)
    if limit < wanted:
        raise ConfigError(
            f"The operating system is not able to handle the specified number of clients, try with {limit - RESERVED}"
        )


def _raise_limit(wanted: int) -> int:
    """Let the process open ``wanted`` files if possible; return the number that it can open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        # macOS rejects more than kern.maxfilesperproc, regardless of the hard limit.
        return soft
    return allowed


#: Exit status after an unexpected error in a command (EX_SOFTWARE of sysexits.h).
FAULT_STATUS = 70


class Server:
    """One engine in this process. ``announce`` is called with a line when the server accepts clients."""

    # A single class, because it creates and owns all parts of the process.

    def __init__(self, config: Config, announce: Callable[[str], None]) -> None:
        self.config = config
        self.announce = announce
        self.core = Core(config)
        self._stop = asyncio.Event()
        self._listeners: list[asyncio.Server] = []
        self._tickers: list[Ticker] = []
        #: Exit status of the process, valid when `serve` has returned.
        self.status = 0

    async def serve(self) -> None:
        """Accept clients until stopped."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._unhandled)
        reserve(self.config)
        self._disk = DiskDurability(self.core, Workers(self._loop))
        self.runner = Runner(self.core, self._loop, self._disk.log)
        start_accounts(self.config, self.core.accounts)
        self._open_ports()
        facts = Facts(self.config, self.runner.traffic, self.core.telemetry, type(self._loop), self._port)
        self.core.host = ServerHost(self.config, self.runner, facts, self._stop.set)
        # Loaded data has no garbage, but repeated searches for cycles would take nearly as long as loading.
        gc.disable()
        try:
            self._disk.start()
        finally:
            gc.enable()
        self.runner.settle()
        port = self._tls_port if self.config.flag("tls-replication") else self._port
        self._node = Node(self.core, self.runner, self._disk, self._loop, port)
        self._node.start()
        self.runner.on_failure = self._give_up
        self.core.telemetry.stopwatch = time.time_ns
        backlog = self.config.integer("tcp-backlog") or 511
        for sock in self._sockets:
            self._listeners.append(await self._loop.create_server(self._accept, sock=sock, backlog=backlog))
        if self._tls is not None:
            self._tls.start(self._tls_sockets)
        await self._listen_on_path(backlog)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signalled, number)
        self._loop.add_signal_handler(signal.SIGHUP, self._reload)
        pid_file = self._write_pid()
        self._tune_gc()
        self._tickers = [Ticker(self._loop, 1.0, self.runner.tick), Ticker(self._loop, 0.1, self._disk.tick)]
        segments = self._disk.keeping.segments
        shelf = segments.write if segments.is_in_use else None
        self._cold_packer = ColdPacker(self.config, self.core.streams.storage, self._loop, shelf)
        self._cold_packer.start()
        self._announce()
        try:
            await self._stop.wait()
        finally:
            await self._close(pid_file)

    # -- listening ----------------------------------------------------------------------------------------------------

    def _open_ports(self) -> None:
        """Bind ``port`` and ``tls-port``. ``port`` 0 means a free port, or no plain port if a TLS port or a Unix socket
        is configured.
        """
        port, tls_port = self.config.integer("port"), self.config.integer("tls-port")
        self._host, self._port, self._sockets = "", 0, list[socket.socket]()
        self._tls_port, self._tls_sockets = tls_port, list[socket.socket]()
        backlog = self.config.integer("tcp-backlog") or 511
        self._tls = TlsListener(self.config, self.runner, self._accept, backlog) if tls_port else None
        if port or not (tls_port or self.config.text("unixsocket")):
            self._host, self._port, self._sockets = self._bind(port)
        if tls_port:
            self._host, self._tls_port, self._tls_sockets = self._bind(tls_port)

    def _bind(self, wanted: int) -> tuple[str, int, list[socket.socket]]:
        """Bind the addresses of ``bind``; return the first host, the port and the sockets.

        An optional address (prefix ``-``) is skipped if it does not exist. It is also skipped if it cannot be bound to
        the free port that the system chose for the first address.
        """
        first, port = "", wanted
        sockets: list[socket.socket] = []
        for word in map(bytes.decode, self.config.value("bind", tuple)):
            optional = word.startswith("-")
            host = {"*": "0.0.0.0", "::*": "::"}.get(word.lstrip("-"), word.lstrip("-"))
            try:
                sock = _bound_socket(host, port)
            except OSError as error:
                missing = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) or isinstance(error, socket.gaierror)
                if optional and (missing or port != wanted):
                    continue
                for bound in sockets:
                    bound.close()
                raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
            if not sockets:
                first, port = host, sock.getsockname()[1]
            sockets.append(sock)
        return first, port, sockets

    def _announce(self) -> None:
        """Announce the plain TCP address and the TLS address, or the Unix socket if there is no TCP address."""
        if self._sockets or self._tls is not None:
            address = f"{self._host}:{self._port if self._sockets else self._tls_port}"
        else:
            address = f"unix:{self.config.text('unixsocket').decode()}"
        line = f"ready on {address} pid {os.getpid()}"
        if self._tls is not None:
            line += f", TLS on {self._host}:{self._tls_port}"
        self.announce(line)
        LOG.info("accepting clients: %s", line)

    async def _listen_on_path(self, backlog: int) -> None:
        path = self.config.text("unixsocket").decode()
        if not path:
            return
        try:
            server = await self._loop.create_unix_server(self._accept, path=path, backlog=backlog)
        except OSError as error:
            raise ConfigError(f"cannot listen on {path}: {error.strerror or error}") from None
        self._listeners.append(server)
        mode = self.config.integer("unixsocketperm")
        if mode:
            Path(path).chmod(mode)

    def _accept(self) -> asyncio.Protocol:
        return Client(self.runner, self.config.integer("tcp-keepalive"))

    # -- running ------------------------------------------------------------------------------------------------------

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an uncaught exception: the event loop continues, unless the core is unusable."""
        error = context.get("exception")
        if isinstance(error, FatalError):
            self.runner.fail(error)
        else:
            LOG.error("unexpected error in the event loop: %s", context.get("message"), exc_info=error)

    def _give_up(self) -> None:
        self.status = FAULT_STATUS
        self._disk.give_up_data()
        self._stop.set()

    @staticmethod
    def _tune_gc() -> None:
        """Exempt all existing objects from garbage collection. The engine's data has few objects and no cycles, so full
        collections are rare, and collections of new objects are small and short.
        """
        gc.collect()
        gc.freeze()
        gc.set_threshold(30_000, 2, 1000)

    def _write_pid(self) -> Path | None:
        name = self.config.text("pidfile").decode()
        if not name:
            return None
        path = Path(name)
        try:
            path.write_text(f"{os.getpid()}\n")
        except OSError as error:
            LOG.warning("cannot write %s: %s", name, error)
            return None
        return path

    # -- shutdown -----------------------------------------------------------------------------------------------------

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        try:
            self._disk.prepare_shutdown(set())
        except CommandError:
            LOG.warning("%s ignored, because the data could not be written", name)
        else:
            LOG.info("stopped by %s", name)
            self._stop.set()

    def _reload(self) -> None:
        """Reload the TLS files and the ACL file (SIGHUP). If a file cannot be used, the error is logged and the old
        state is kept.

        The log file needs no signal: if it has been moved or removed, the next log line opens a new file.
        """
        LOG.info("SIGHUP: reloading the TLS files and the ACL file")
        try:
            if self._tls is not None:
                self._tls.reload()
        except ConfigError as error:
            LOG.warning("keeping the previous TLS files: %s", error)
        try:
            reload_accounts(self.core.accounts)
        except ConfigError as error:
            LOG.warning("keeping the ACL users: %s", error)

    async def _close(self, pid_file: Path | None) -> None:
        for ticker in self._tickers:
            ticker.stop()
        self._cold_packer.stop()
        self._node.stop()
        for listener in self._listeners:
            listener.close()
        if self._tls is not None:
            self._tls.close()
        self.runner.replies.end_iteration()
        for connection in list(self.runner.connections.values()):
            connection.transport.close()
        # A transport calls connection_lost in the next iteration. One with unsent bytes has a second to send them.
        end = self._loop.time() + 1.0
        while self.runner.connections and self._loop.time() < end:
            await asyncio.sleep(0.001)
        for connection in list(self.runner.connections.values()):
            connection.transport.abort()
        await asyncio.sleep(0)
        self.runner.replies.end_iteration()
        self._disk.close()
        path = self.config.text("unixsocket").decode()
        if path:
            Path(path).unlink(missing_ok=True)
        if pid_file is not None:
            pid_file.unlink(missing_ok=True)


def _bound_socket(host: str, port: int) -> socket.socket:
    """Return a bound socket; the event loop makes it listen."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, address = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock
