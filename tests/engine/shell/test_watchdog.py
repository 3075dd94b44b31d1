"""Event-loop watchdog: iterations that took too long, in LATENCY and in the log.

The thresholds are far above the delays of a busy machine, so that no other iteration is reported.
"""

from __future__ import annotations

from tests import servers
from tests.servers.connection import Connection
from tests.suite.waiting import wait_for


def events(client: Connection) -> dict[bytes, int]:
    """Return the longest time of each event of LATENCY, in milliseconds."""
    return {event[0]: event[3] for event in client.run("LATENCY", "LATEST")}


def test_a_long_iteration_is_an_event_and_a_log_line() -> None:
    """An iteration longer than the threshold is logged with its commands and without their arguments.

    It is logged even if each of its commands is shorter than the threshold.
    """
    with (
        servers.engine("--latency-monitor-threshold", "200", "--enable-debug-command", "yes") as engine,
        Connection(engine) as client,
    ):
        client.socket.sendall(b"DEBUG SLEEP 0.1\r\n" * 3 + b"GET secret\r\n")
        assert [client.receive() for _ in range(4)] == [b"OK"] * 3 + [None]
        wait_for(lambda: b"command" in events(client), "an event of LATENCY")
        assert 300 <= events(client)[b"command"] < 10_000
        output = engine.output.read_text()
        assert "an iteration of the event loop took" in output
        assert "3 * debug, get" in output
        assert "secret" not in output
