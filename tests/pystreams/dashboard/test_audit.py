"""The audit log: a record for every change, written before the change to a file that only its owner can read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import redis

from pystreams.connect.target import Wanted
from pystreams.dashboard.api.changes import CHANGES
from pystreams.dashboard.history.audit import Audit
from tests import servers
from tests.pystreams.dashboard.browser.conftest import fill
from tests.pystreams.dashboard.conftest import dashboard_of

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)

#: One change of each kind, ordered so that each is possible after the previous ones.
EACH = [
    ("produce", {"stream": "orders", "fields": [["n", "secret-value"]]}),
    ("seek", {"stream": "orders", "group": "billing", "to": "start"}),
    ("claim", {"stream": "orders", "group": "billing", "ids": ["1-0"], "to": "bob"}),
    ("nack", {"stream": "orders", "group": "billing", "ids": ["2-0"]}),
    ("ack", {"stream": "orders", "group": "billing", "ids": ["1-0"]}),
    ("remove-consumer", {"stream": "orders", "group": "billing", "consumer": "bob"}),
    ("create-group", {"stream": "orders", "group": "new"}),
    ("remove-group", {"stream": "orders", "group": "new"}),
    ("trim", {"stream": "orders", "by": "maxlen", "maxlen": "8"}),
    ("replay", {"stream": "failed", "ids": ["1-0"]}),
    ("purge", {"stream": "failed", "ids": ["2-0"]}),
]


def test_every_kind_of_change_is_recorded(instance: servers.Running, client: redis.Redis, tmp_path: Path) -> None:
    """A record has the user, time, client, plan, and positions before and after, but no values of entries."""
    fill(client)
    assert {action for action, _ in EACH} == set(CHANGES)
    with dashboard_of(Wanted(instance.url), changes=True, state=tmp_path) as dashboard:
        dashboard.log_in()
        for action, given in EACH:
            dashboard.change(action, **given)
        rows = dashboard.get("audit")["rows"]
    assert [row["action"] for row in rows] == [action for action, _ in reversed(EACH)]
    assert {(row["event"], row["user"], row["from"]) for row in rows} == {("done", "token", "testclient")}
    assert all(row["changes"] and row["plan"] and row["result"] and row["time"].endswith("Z") for row in rows)
    seek = next(row for row in rows if row["action"] == "seek")
    assert seek["changes"] == [["Position", "6-0", "0-0"], ["Lag", "5", "11"]]
    assert (seek["stream"], seek["group"], seek["result"]) == ("orders", "billing", "Moved billing to 0-0.")
    path = tmp_path / "audit.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["event"] for record in records[:4]] == ["begun", "done", "begun", "done"]
    assert "secret-value" not in path.read_text()


def test_a_change_without_a_record_is_not_made(instance: servers.Running, client: redis.Redis, tmp_path: Path) -> None:
    """If the log cannot be written, the change is refused and the server is not changed."""
    fill(client)
    (tmp_path / "audit.jsonl").mkdir()
    with dashboard_of(Wanted(instance.url), changes=True, state=tmp_path) as dashboard:
        dashboard.log_in()
        plan = dashboard.post("seek", stream="orders", group="billing", to="start").json()
        answer = dashboard.post("seek", stream="orders", group="billing", to="start", confirm=plan["confirm"])
    assert (answer.status_code, answer.json()["error"]["id"]) == (409, "AUDIT_UNWRITABLE")
    assert client.xinfo_groups("orders")[0]["last-delivered-id"] == b"6-0"


def test_a_change_that_fails_is_recorded_with_its_error(
    instance: servers.Running, client: redis.Redis, tmp_path: Path
) -> None:
    """The record of a failed change has the state `failed` and the error."""
    fill(client)
    with dashboard_of(Wanted(instance.url), changes=True, state=tmp_path) as dashboard:
        dashboard.log_in()
        plan = dashboard.post("seek", stream="orders", group="billing", to="start").json()
        client.xgroup_destroy("orders", "billing")
        dashboard.post("seek", stream="orders", group="billing", to="start", confirm=plan["confirm"])
        (row,) = dashboard.get("audit")["rows"]
    assert (row["event"], "NO_SUCH_GROUP" in row["result"]) == ("failed", True)


def test_a_user_sees_only_changes_of_readable_streams(
    instance: servers.Running, client: redis.Redis, tmp_path: Path
) -> None:
    """A user sees only changes of streams that the user may read, and not the path of the log."""
    fill(client)
    client.acl_setuser("ada", enabled=True, passwords=["+lovelace"], commands=["+@all"], keys=["orders"])
    try:
        with dashboard_of(Wanted(instance.url), changes=True, state=tmp_path) as dashboard:
            dashboard.log_in()
            for action, given in EACH[-3:]:
                dashboard.change(action, **given)
            dashboard.log_in(user="ada", password="lovelace")
            found = dashboard.get("audit")
    finally:
        client.acl_deluser("ada")
    assert ([row["action"] for row in found["rows"]], found["file"]) == (["trim"], None)


def test_pages_are_read_backwards_and_rotation_is_a_rename(instance: servers.Running, tmp_path: Path) -> None:
    """Pages contain each complete record once, newest first. If the file is renamed, a new one is created."""
    assert instance.port
    path = tmp_path / "audit.jsonl"
    log = Audit(path)
    for number in range(250):
        log.record_start({"n": number, "filling": "x" * 1000})
    with path.open("a") as file:
        file.write('{"n": 250, "fill')
    seen, at = [], None
    while True:
        page, at = log.page(at, 40, lambda record: record["n"] % 2 == 0)
        seen += [record["n"] for record in page]
        if at is None:
            break
    assert seen == list(range(248, -1, -2))
    path.rename(tmp_path / "audit.jsonl.1")
    log.record_start({"n": 1})
    assert [record["n"] for record in log.page(None, 10, lambda _: True)[0]] == [1]


def test_an_offset_beyond_the_end_of_the_log_means_its_end(instance: servers.Running, tmp_path: Path) -> None:
    """An offset beyond the end of the log means its end, as after a rotation."""
    audit = Audit(tmp_path / "audit.jsonl")
    number = audit.record_start({"action": "trim"})
    found, following = audit.page(2**53, 10, lambda _: True)
    assert ([record["id"] for record in found], following) == ([number], None)


def test_a_truncated_line_is_skipped(instance: servers.Running, tmp_path: Path) -> None:
    """A record after a truncated line starts on a new line, and the truncated line is skipped."""
    log = Audit(tmp_path / "audit.jsonl")
    log.record_start({"action": "first"})
    with log.path.open("ab") as file:
        file.write(b'{"time": "2026-01-')
    log.record_start({"action": "later"})
    assert [each["action"] for each in log.page(None, 10, lambda record: True)[0]] == ["later", "first"]
