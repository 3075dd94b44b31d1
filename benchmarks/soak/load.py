"""The load: the work of a busy server, in small portions.

The data is bounded: streams are trimmed, keys expire or are deleted, and consumers and connections come and go. So the
size of the data is constant after the first minutes, and any growth after that is a leak. The load is limited to ten
portions per second. If the server cannot keep up, the load has fewer portions per second.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

from benchmarks.soak.client import Client

STREAMS = [f"stream:{number}" for number in range(4)]
GROUPS = ["readers", "auditors"]
#: Number of entries to which each stream is trimmed, in two streams only approximately.
MAXLEN = 20_000
#: Portions per second.
PACE = 10
#: Entries added to each stream per portion.
_ADDED = 50
_CONSUMERS = 3
_SECOND = PACE
#: Database whose keys are all deleted from time to time.
_OTHER_DB = 1


class Load:
    """Clients of one server. ``portion`` does the next portion of work; ``count`` is the number of portions so far."""

    def __init__(self, port: int, seed: int, stack: ExitStack) -> None:
        self._port = port
        self._chooser = random.Random(seed)
        self._stack = stack
        self._producer, self._consumer, self._keys, self._admin = (self._open() for _ in range(4))
        self._listener = self._open()
        self._waiting: list[Client] = []
        self.count = 0
        self._every: list[tuple[int, Callable[[], None]]] = [
            (1, self._produce),
            (1, self._consume),
            (1, self._change_keys),
            (2, self._connect_and_leave),
            (3, self._wait),
            (5, self._claim),
            (7, self._transact),
            (10, self._publish),
            (2 * _SECOND, self._renew_consumers),
            (5 * _SECOND, self._renew_streams),
            (20 * _SECOND, self._save),
            (45 * _SECOND, self._rewrite),
            (60 * _SECOND, self._drop_database),
            (150 * _SECOND, self._switch_log),
        ]
        for stream in STREAMS:
            for group in GROUPS:
                self._admin.run("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
        self._listener.run("PSUBSCRIBE", "news:*")

    def _open(self) -> Client:
        return self._stack.enter_context(closing(Client(self._port)))

    def portion(self) -> None:
        """Do the work that is due."""
        self.count += 1
        for every, work in self._every:
            if self.count % every == 0:
                work()

    # -- streams ------------------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        value = self._chooser.randbytes(self._chooser.choice((8, 30, 200))).hex()
        for number, stream in enumerate(STREAMS):
            trim = ("MAXLEN", "~" if number % 2 else "=", MAXLEN)
            words = ("XADD", stream, *trim, "*", "sensor", self._chooser.randrange(1000), "value", value)
            self._producer.run_all([words] * _ADDED)
        sender, message = self._chooser.randrange(200), self._chooser.randrange(10_000)
        once = ("XADD", STREAMS[0], "IDMP", f"sender-{sender}", f"message-{message}", "*", "f", value)
        self._producer.run_all([once, once])

    def _consume(self) -> None:
        for stream in STREAMS:
            for group in GROUPS:
                name = f"consumer-{self._chooser.randrange(_CONSUMERS)}"
                read = ("XREADGROUP", "GROUP", group, name, "COUNT", 2 * _ADDED, "STREAMS", stream, ">")
                found = self._consumer.run(*read)
                ids = [entry[0] for entry in found[0][1]] if found else []
                # A few entries stay pending, and are claimed later.
                done = [entry_id for entry_id in ids if self._chooser.random() < 0.95]
                if done:
                    self._consumer.run("XACK", stream, group, *done)
        stream = self._chooser.choice(STREAMS)
        some = self._consumer.run("XREVRANGE", stream, "+", "-", "COUNT", 20)
        self._consumer.run("XDEL", stream, *[entry[0] for entry in some[::4]])

    def _claim(self) -> None:
        for stream in STREAMS:
            for group in GROUPS:
                claimed = self._consumer.run(
                    "XAUTOCLAIM", stream, group, "rescuer", 5000, "0-0", "COUNT", 500, "JUSTID"
                )
                if claimed[1]:
                    self._consumer.run("XACK", stream, group, *claimed[1])
            self._consumer.run("XINFO", "STREAM", stream, "FULL", "COUNT", 5)

    def _renew_consumers(self) -> None:
        for stream in STREAMS:
            group = self._chooser.choice(GROUPS)
            self._consumer.run("XGROUP", "CREATECONSUMER", stream, group, f"guest-{self.count}")
            for consumer in self._consumer.run("XINFO", "CONSUMERS", stream, group):
                if consumer[1].startswith(b"guest-"):
                    self._consumer.run("XGROUP", "DELCONSUMER", stream, group, consumer[1])

    def _renew_streams(self) -> None:
        name = f"short:{self.count}"
        self._producer.run_all([("XADD", name, "*", "f", number) for number in range(2000)])
        self._producer.run("XGROUP", "CREATE", name, "g", "0")
        self._producer.run("XREADGROUP", "GROUP", "g", "c", "COUNT", 1500, "STREAMS", name, ">")
        self._producer.run("PEXPIRE" if self.count % 100 else "UNLINK", name, *([3000] if self.count % 100 else []))

    # -- other keys ---------------------------------------------------------------------------------------------------

    def _change_keys(self) -> None:
        choose = self._chooser
        number = choose.randrange(1 << 30)
        body = choose.randbytes(choose.choice((10, 100, 2000)))
        self._keys.run_all(
            [
                ("SET", f"text:{number}", body, "PX", choose.randrange(100, 30_000)),
                ("SET", f"slot:{number % 1000}", body),
                ("HSET", f"hash:{number % 50}", f"field:{number % 97}", body),
                ("INCR", "count"),
                ("DEL", f"slot:{choose.randrange(1000)}"),
                ("SELECT", _OTHER_DB),
                ("SET", f"other:{number}", body),
                ("SELECT", 0),
                ("SCAN", 0, "MATCH", "text:*", "COUNT", 20),
            ]
        )

    def _transact(self) -> None:
        self._keys.run("WATCH", "count")
        self._keys.run_all([("MULTI",), ("INCR", "count"), ("XADD", STREAMS[1], "*", "f", "v"), ("EXEC",)])

    def _publish(self) -> None:
        self._keys.run_all([("PUBLISH", f"news:{number}", "x" * 100) for number in range(5)])
        for _ in range(5):
            self._listener.receive()

    def _drop_database(self) -> None:
        self._keys.run_all([("SELECT", _OTHER_DB), ("FLUSHDB",), ("SELECT", 0)])

    # -- connections --------------------------------------------------------------------------------------------------

    def _connect_and_leave(self) -> None:
        """Run a client that leaves in a random way: by QUIT, within a command, without reading a reply, or while it
        watches a key or is subscribed.
        """
        leave = self._chooser.randrange(5)
        with closing(Client(self._port)) as client:
            client.run("CLIENT", "SETNAME", f"guest-{self.count}")
            if leave == 0:
                client.run("QUIT")
            elif leave == 1:
                client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n" + b"x" * 5000)
            elif leave == 2:
                client.send("XRANGE", STREAMS[2], "-", "+", "COUNT", 5000)
            elif leave == 3:
                client.run_all([("WATCH", "count"), ("MULTI",), ("SET", "k", "x" * 10_000)])
            else:
                client.run("SUBSCRIBE", f"channel-{self.count}")

    def _wait(self) -> None:
        """Start a client that waits for entries. If there are more than ten of these clients, disconnect one of the ten
        oldest, which may have received entries.
        """
        client = Client(self._port)
        stream = self._chooser.choice([*STREAMS, "never"])
        client.send("XREAD", "BLOCK", self._chooser.choice((50, 5000)), "STREAMS", stream, "$")
        self._waiting.append(client)
        if len(self._waiting) > 10:
            self._waiting.pop(self._chooser.randrange(10)).close()

    # -- files --------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        with suppress(RuntimeError):  # a rewrite is running
            self._admin.run("BGSAVE", "SCHEDULE")

    def _rewrite(self) -> None:
        with suppress(RuntimeError):
            self._admin.run("BGREWRITEAOF")

    def _switch_log(self) -> None:
        self._admin.run("CONFIG", "SET", "appendonly", "no")
        self._admin.run("CONFIG", "SET", "appendonly", "yes")

    def close(self) -> None:
        """Close the waiting clients."""
        for client in self._waiting:
            client.close()


def run(port: int, seconds: float, seed: int) -> int:
    """Run the load on the server for ``seconds``; return the number of portions. An error reply raises RuntimeError."""
    with ExitStack() as stack:
        load = Load(port, seed, stack)
        stack.callback(load.close)
        begin = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            load.portion()
            rest = 1 / PACE - (time.monotonic() - now)
            if rest > 0:
                time.sleep(rest)
        return load.count
