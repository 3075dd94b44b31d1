"""Real servers with every kind of address: reading, writing, and failovers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis

from spark_streams.config import options
from spark_streams.config.write import WriteOptions
from spark_streams.errors import ServerError, StreamError
from spark_streams.write.encoding import RowEncoder, WriteSchema
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.records import WriterId
from streamclient.config.address import Address, Credentials, Tls
from streamclient.connection import Connection
from streamclient.pool import borrow, close_all
from streamwire.slots import slot_of
from tests import servers
from tests.servers import topologies
from tests.spark_streams.driver import Query
from tests.spark_streams.write.test_exactly_once import table

pytestmark = pytest.mark.redis
WRITER = WriterId("query", 0, 0)
SCHEMA = WriteSchema(("n",), False, False, False)


@pytest.fixture(autouse=True)
def _needs_redis(redis_process: servers.Running) -> Iterator[None]:
    yield
    close_all()


def write(connection: Connection, first: int, end: int, writer: WriterId = WRITER, **extra: Any) -> ExactlyOnceSender:
    """Run a write task of rows numbered from `first`, in small chunks."""
    given = WriteOptions(**{"stream": "s", "chunk_size": 50, **extra})
    sender = ExactlyOnceSender(connection, writer, given, lasting=True)
    for chunk in RowEncoder(given, SCHEMA).chunks(iter([table(first, end)])):
        sender.submit(chunk)
    return sender


def numbers(client: Any, stream: str = "s") -> list[int]:
    return [int(fields[b"n"]) for _, fields in client.xrange(stream)]


def test_tls_with_client_certificates() -> None:
    """`rediss://` connects with a CA, a certificate and a key; a missing CA or certificate, and a plain URL, are errors
    with the reason.
    """
    with topologies.encrypted() as server:
        given = {
            "stream": "s",
            "url": server.url,
            "tls.cafile": str(server.ca),
            "tls.certfile": str(server.certificate),
            "tls.keyfile": str(server.key),
        }
        address = options.write_options(given).address
        assert address is not None
        with borrow(address) as connection:
            first = connection.command("CLIENT", "ID")
            write(connection, 0, 3000, chunk_size=1000).finish()
            buffer, stop = connection.receive(connection.request([("XRANGE", "s", "-", "+")]))
            assert bytes(buffer[:stop]).startswith(b"*3000\r\n")
        with borrow(address) as connection:
            assert connection.command("CLIENT", "ID") == first
        tls = address.credentials.tls
        for wrong, reason in (
            (Tls(ca_file=tls.ca_file), "certificate required"),
            (replace(tls, ca_file=None), "verify failed"),
            (Tls(), "verify failed"),
        ):
            with pytest.raises(ServerError, match=rf"SERVER_UNREACHABLE.*{reason}.*tls\.c"):
                Connection(Address(server.url, credentials=Credentials(tls=wrong)))
        with pytest.raises(ServerError, match=r"TLS_NEEDED.*requires TLS.*'url' to rediss://localhost"):
            Connection(Address(server.url.replace("rediss", "redis")))
        by_number = Address(server.url.replace("localhost", "127.0.0.1"), credentials=Credentials(tls=tls))
        with pytest.raises(ServerError, match="SERVER_UNREACHABLE"):
            Connection(by_number)
        unchecked = Credentials(tls=replace(tls, verify="ca"))
        Connection(Address(by_number.url, credentials=unchecked)).close()


def test_tls_in_a_cluster_and_to_sentinels() -> None:
    """`rediss+cluster://` and `rediss+sentinel://` use TLS with all servers and Sentinels."""
    bus = ("--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", str(servers.free_port()))
    with topologies.encrypted(*bus) as server:
        with server.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            topologies.wait_until_whole(client)
        given = {
            **server.options,
            "url": f"rediss+cluster://localhost:{server.port}",
            "tls.verify": "ca",
            "stream": "s",
        }
        with borrow(options.read_options(given).address) as connection:  # type: ignore[arg-type]
            write(connection, 0, 200).finish()
            assert connection.command("XLEN", "s") == 200
    with topologies.encrypted() as server:
        tls = [" ".join(pair).removeprefix("--") for pair in batched(server.flags)]
        monitor = f"sentinel monitor main 127.0.0.1 {server.port} 1"
        with servers.sentinel("port 0", *tls, monitor, port_setting="tls-port") as sentinel:
            given = {
                **server.options,
                "url": f"rediss+sentinel://localhost:{sentinel.port}/main",
                "tls.verify": "ca",
                "stream": "s",
            }
            with borrow(options.read_options(given).address) as connection:  # type: ignore[arg-type]
                write(connection, 0, 200).finish()
                assert connection.command("XLEN", "s") == 200


def batched(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    return list(zip(words[::2], words[1::2], strict=True))


@contextmanager
def one_node(*flags: str) -> Iterator[redis.Redis]:
    """A client of a cluster with one node."""
    with (
        servers.redis("--cluster-enabled", "yes", "--cluster-port", str(servers.free_port()), *flags) as server,
        redis.Redis(port=server.port, protocol=2) as client,
    ):
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        topologies.wait_until_whole(client)
        yield client


def port_of(client: redis.Redis) -> int:
    return int(client.connection_pool.connection_kwargs["port"])


def test_a_delivery_that_a_replica_lacks_is_repeated() -> None:
    """If a failover is possible, a group that lacks only the last batch is advanced; a group further behind is an
    error.
    """
    with one_node() as client:
        query = Query(f"redis+cluster://127.0.0.1:{port_of(client)}", stream="s", group="g", startingOffsets="earliest")
        for batch in range(3):
            for n in range(5):
                client.xadd("s", {"n": n}, id=f"{batch}-{n + 1}")
            assert len(query.trigger() or []) == 5
        assert query.trigger() is None
        client.xgroup_setid("s", "g", "1-5")
        client.xadd("s", {"n": 5}, id="3-1")
        assert [row["_id"] for row in query.trigger() or []] == ["3-1"]
        assert client.xpending("s", "g")["pending"] == 1
        client.xadd("s", {"n": 6}, id="4-1")
        client.xgroup_setid("s", "g", "2-4")
        with pytest.raises(StreamError, match="GROUP_BEHIND"):
            query.trigger()
        query.restart()
        with pytest.raises(StreamError, match="GROUP_BEHIND"):
            query.run()


def test_an_unserved_slot_is_waited_for() -> None:
    """CLUSTERDOWN is retried: a read and a transaction continue when the slot is served again."""
    with one_node() as client:
        connection = Connection(Address(f"redis+cluster://127.0.0.1:{port_of(client)}"))
        write(connection, 0, 100).finish()
        slot = slot_of(b"s")

        def serve(begun: threading.Event) -> None:
            begun.set()
            client.execute_command("CLUSTER", "ADDSLOTS", slot)

        for action in (
            lambda: connection.command("XLEN", "s"),
            lambda: connection.receive(connection.request([("XRANGE", "s", "-", "+")])),
            lambda: write(connection, 0, 200).finish(),
        ):
            client.execute_command("CLUSTER", "DELSLOTS", slot)
            begun = threading.Event()
            again = threading.Timer(0.3, serve, [begun])
            again.start()
            action()
            assert begun.is_set()
            again.join()
        assert connection.command("XLEN", "s") == 200
        connection.close()
