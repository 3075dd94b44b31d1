"""MULTI, EXEC, DISCARD, WATCH."""

from __future__ import annotations

import pytest

from tests.contract.transcripts import play
from tests.harness.kinds import Server
from tests.harness.replies import NOT_AN_INTEGER, OK, WRONGTYPE, Error, unknown_command
from tests.servers.releases import Newest

ABORTED = Error("EXECABORT Transaction discarded because of previous errors.")
QUEUED = b"QUEUED"


def not_inside(command: str) -> dict[str, Error]:
    """Return Valkey's error for a command that is not allowed between MULTI and EXEC; it aborts the transaction."""
    return {
        "9.0": Error(f"ERR Command '{command}' not allowed inside a transaction"),
        "8.0": Error("ERR Command not allowed inside a transaction"),
    }


def test_transactions(server: Server) -> None:
    """Commands are queued and run together; one that cannot be queued aborts the transaction, one that
    fails does not.
    """
    for dialogue in [
        [
            ("MULTI", OK),
            ("MULTI", Newest(Error("ERR MULTI calls can not be nested"), valkey=not_inside("multi"))),
            ("PING", QUEUED),
            ("EXEC", Newest(["PONG"], valkey={"8.0": ABORTED})),
        ],
        *(
            [
                ("MULTI", OK),
                (
                    command,
                    Newest(
                        Error("ERR Command not allowed inside a transaction"),
                        valkey={
                            "9.0": Error(f"ERR Command '{command.split()[0].lower()}' not allowed inside a transaction")
                        },
                    ),
                ),
                ("SET a 1", QUEUED),
                ("EXEC", ABORTED),
                ("GET a", None),
            ]
            for command in ("SAVE", "SHUTDOWN NOSAVE")
        ),
        [
            ("MULTI", OK),
            ("WATCH a", Newest(Error("ERR WATCH inside MULTI is not allowed"), valkey=not_inside("watch"))),
            ("PING", QUEUED),
            ("EXEC", Newest(["PONG"], valkey={"8.0": ABORTED})),
        ],
        [
            ("MULTI", OK),
            ("NOTHING", unknown_command("NOTHING")),
            ("SET a 1", QUEUED),
            ("EXEC", ABORTED),
            ("GET a", None),
        ],
        [
            ("MULTI", OK),
            ("GET", Error("ERR wrong number of arguments for 'get' command")),
            ("EXEC", ABORTED),
            ("EXEC", Error("ERR EXEC without MULTI")),
        ],
        [
            ("SET s x", OK),
            ("MULTI", OK),
            ("INCR s", QUEUED),
            ("HSET s f 1", QUEUED),
            ("SET t 1", QUEUED),
            ("EXEC", [NOT_AN_INTEGER, WRONGTYPE, "OK"]),
            ("GET t", "1"),
        ],
    ]:
        server.given("FLUSHALL")
        play(server, dialogue)


def test_a_change_of_a_watched_key_fails_the_transaction(server: Server) -> None:
    """After any change of a watched key, EXEC returns nil and runs nothing."""
    for change in [
        "SET k 2",
        "INCR k",
        "APPEND k 1",
        "DEL k",
        "EXPIRE k 100",
        "RENAME k l",
        "RENAME other k",
        "FLUSHALL",
        "FLUSHDB",
        "COPY other k REPLACE",
        "MOVE k 1",
        "SWAPDB 0 1",
        "GETDEL k",
        "PEXPIREAT k 1",
        "GETEX k EX 100",
    ]:
        server.given("FLUSHALL")
        server.given("SET k 1", "SET other 2", "WATCH k")
        server.client().run(change)
        server.given("MULTI", "SET done 1")
        assert server.wire("EXEC") == (b"_\r\n" if server.proto == 3 else b"*-1\r\n"), change
        server.given("SELECT 0")
        server.expect("EXISTS done", 0)


def test_commands_that_do_not_change_a_watched_key(server: Server) -> None:
    """Reads, and writes that do not change the key, do not affect the transaction."""
    for other in [
        "GET k",
        "SET l 2",
        "EXPIRE missing 5",
        "SETNX k 5",
        "SET k 5 NX",
        "PERSIST k",
        "DEL missing",
        "COPY k l",
        "TOUCH k",
        "RENAME k k",
    ]:
        server.given("FLUSHALL")
        server.given("SET k 1", "WATCH k")
        server.client().run(other)
        server.given("MULTI", "PING")
        assert server.run("EXEC") == [b"PONG"], other


@pytest.mark.parametrize("forget", ["UNWATCH", "EXEC", "DISCARD"])
def test_watching_ends(server: Server, forget: str) -> None:
    """UNWATCH, EXEC and DISCARD end the watch."""
    server.given("WATCH k")
    server.given(*(["UNWATCH"] if forget == "UNWATCH" else ["MULTI", forget]))
    server.client().run("SET k 1")
    server.given("MULTI", "PING")
    server.expect("EXEC", ["PONG"])


def test_missing_keys_can_be_watched(server: Server) -> None:
    """Creating a watched key fails the transaction; creating a key of the same name in another database does not."""
    server.given("WATCH a b", "SELECT 1", "WATCH c", "SELECT 0")
    server.client().run("SET c 1")
    server.given("MULTI", "PING")
    server.expect("EXEC", ["PONG"])
    server.given("WATCH a b")
    server.client().run("HSET b f v")
    server.given("MULTI", "PING")
    server.expect("EXEC", None)


def test_a_watched_key_that_expires_fails_the_transaction(server: Server) -> None:
    """Expiry between WATCH and EXEC is a change."""
    for command in ("SET k 1 PX 200", "WATCH k"):  # Send both together, so that WATCH runs in time on a busy machine.
        server.main.send(command)
    server.main.expect_reply(OK)
    server.main.expect_reply(OK)
    server.let_pass(205)
    server.given("MULTI", "PING")
    server.expect("EXEC", None)


def test_a_key_that_expired_before_watch(server: Server) -> None:
    """A key that had expired before WATCH does not fail the transaction."""
    server.given("SET k 1 PX 15")
    server.let_pass(20)
    server.given("WATCH k")
    server.client().expect("GET k", None)
    server.given("MULTI", "PING")
    server.expect("EXEC", ["PONG"])
