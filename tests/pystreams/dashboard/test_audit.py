"""The audit log: every change has a record before it is made, in a file that only its owner can read."""

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

pytestmark = pytest.mark.parametrize("place", ["engine"], indirect=True)

#: One change of each kind, in an order in which they are all possible.
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


def test_every_kind_of_change_is_recorded(place: servers.Running, client: redis.Redis, tmp_path: Path) -> None:
    """Who, when, from where, what, and values before and after; values of entries are left out."""
    fill(client)
    assert {action for action, _ in EACH} == set(CHANGES)
    with dashboard_of(Wanted(place.url), changes=True, state=tmp_path) as dashboard:
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


def test_a_change_without_a_record_is_not_made(place: servers.Running, client: redis.Redis, tmp_path: Path) -> None:
    """If the log cannot be written, the change is refused and the server is asked nothing."""
    fill(client)
    (tmp_path / "audit.jsonl").mkdir()
    with dashboard_of(Wanted(place.url), changes=True, state=tmp_path) as dashboard:
        dashboard.log_in()
        plan = dashboard.post("seek", stream="orders", group="billing", to="start").json()
        answer = dashboard.post("seek", stream="orders", group="billing", to="start", confirm=plan["confirm"])
    assert (answer.status_code, answer.json()["error"]["id"]) == (409, "AUDIT_UNWRITABLE")
    assert client.xinfo_groups("orders")[0]["last-delivered-id"] == b"6-0"


def test_a_change_that_fails_is_recorded_with_its_error(
    place: servers.Running, client: redis.Redis, tmp_path: Path
) -> None:
    """The record says failed, and has the error."""
    fill(client)
    with dashboard_of(Wanted(place.url), changes=True, state=tmp_path) as dashboard:
        dashboard.log_in()
        plan = dashboard.post("seek", stream="orders", group="billing", to="start").json()
        client.xgroup_destroy("orders", "billing")
        dashboard.post("seek", stream="orders", group="billing", to="start", confirm=plan["confirm"])
        (row,) = dashboard.get("audit")["rows"]
    assert (row["event"], "NO_SUCH_GROUP" in row["result"]) == ("failed", True)


def test_a_user_sees_the_changes_of_streams_that_it_may_read(
    place: servers.Running, client: redis.Redis, tmp_path: Path
) -> None:
    """Others are left out, and so is the place of the file."""
    fill(client)
    client.acl_setuser("ada", enabled=True, passwords=["+lovelace"], commands=["+@all"], keys=["orders"])
    try:
        with dashboard_of(Wanted(place.url), changes=True, state=tmp_path) as dashboard:
            dashboard.log_in()
            for action, given in EACH[-3:]:
                dashboard.change(action, **given)
            dashboard.log_in(user="ada", password="lovelace")
            found = dashboard.get("audit")
    finally:
        client.acl_deluser("ada")
    assert ([row["action"] for row in found["rows"]], found["file"]) == (["trim"], None)


def test_pages_are_read_backwards_and_rotation_is_a_rename(place: servers.Running, tmp_path: Path) -> None:
    """Each record is on one page, lines that were cut off are left out, and a new file follows a renamed one."""
    assert place.port
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


def test_an_offset_behind_the_end_of_the_log_means_its_end(place: servers.Running, tmp_path: Path) -> None:
    """After a rotation, or by any number in a request, the newest changes are found at once."""
    audit = Audit(tmp_path / "audit.jsonl")
    number = audit.record_start({"action": "trim"})
    found, following = audit.page(2**53, 10, lambda _: True)
    assert ([record["id"] for record in found], following) == ([number], None)


def test_a_line_that_a_full_disk_cut_harms_no_later_one(place: servers.Running, tmp_path: Path) -> None:
    """The record after a cut line has a line of its own; the cut one is skipped."""
    log = Audit(tmp_path / "audit.jsonl")
    log.record_start({"action": "first"})
    with log.path.open("ab") as file:
        file.write(b'{"time": "2026-01-')
    log.record_start({"action": "later"})
    assert [each["action"] for each in log.page(None, 10, lambda record: True)[0]] == ["later", "first"]
