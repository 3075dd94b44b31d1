"""The audit log: a record for every change, written before the change to a file that only its owner can read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import redis

from pystreams.connect import Wanted
from pystreams.dashboard.audit_log import Audit
from pystreams.dashboard.changes import CHANGES
from tests import servers
from tests.pystreams.dashboard.browser.conftest import fill
from tests.pystreams.dashboard.conftest import address_of, dashboard_of

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)

#: One change of each kind, ordered so that each is possible after the previous ones.
EACH = [
    ("seek", {"stream": "orders", "group": "billing", "to": "start"}),
    ("claim", {"stream": "orders", "group": "billing", "ids": ["1-0"], "to": "bob"}),
    ("nack", {"stream": "orders", "group": "billing", "ids": ["2-0"]}),
    ("ack", {"stream": "orders", "group": "billing", "ids": ["1-0"]}),
    ("remove-consumer", {"stream": "orders", "group": "billing", "consumer": "bob"}),
    ("remove-group", {"stream": "orders", "group": "billing"}),
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
    assert seek["changes"] == [["Position", "6-0", "0-0"], ["Lag", "4", "10"]]
    assert (seek["stream"], seek["group"], seek["result"]) == ("orders", "billing", "Moved the group billing to 0-0.")
    path = tmp_path / "audit.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["event"] for record in records[:4]] == ["begun", "done", "begun", "done"]
    assert "Ghent" not in path.read_text()


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
    assert (row["event"], "PLAN_OUTDATED" in row["result"]) == ("failed", True)


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
    assert ([row["action"] for row in found["rows"]], found["file"]) == (["remove-group"], None)


def _facts(instance: servers.Running, plan: str, **given: str) -> dict[str, str]:
    return {"server": address_of(instance.url).shown, "key": "orders", "plan": plan, **given}


def _make(log: Audit, facts: dict[str, str]) -> None:
    number = log.record_start(facts)
    log.record_result(number, {**facts, "event": "done", "result": "Made."})


def test_the_last_changes_are_shown_in_pages(instance: servers.Running, tmp_path: Path) -> None:
    """Each change is one row, newest first, in pages of the requested size. Truncated lines are skipped."""
    log = Audit(tmp_path / "audit.jsonl")
    for number in range(100):
        _make(log, _facts(instance, str(number)))
    with log.path.open("ab") as file:
        file.write(b'{"time": "2026-01-')
    _make(log, _facts(instance, "100"))
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        pages = [dashboard.get("audit", size=40, page=page) for page in range(3)]
    assert [row["plan"] for page in pages for row in page["rows"]] == [str(number) for number in range(100, -1, -1)]
    assert {page["total"] for page in pages} == {101}
    assert {row["result"] for page in pages for row in page["rows"]} == {"Made."}


def test_a_search_finds_a_change_by_each_record(instance: servers.Running, tmp_path: Path) -> None:
    """A search for a text that only one record of a change contains finds the change, with its result."""
    log = Audit(tmp_path / "audit.jsonl")
    number = log.record_start(_facts(instance, "other", note="only at the start"))
    _make(log, _facts(instance, "another"))
    log.record_result(number, _facts(instance, "other", event="done", result="Made at last."))
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        for search in ("only at the START", "at last"):
            (row,) = dashboard.get("audit", search=search)["rows"]
            assert (row["id"], row["event"], row["result"]) == (number, "done", "Made at last."), search


def test_a_change_in_parts_is_one_row(instance: servers.Running, tmp_path: Path) -> None:
    """A change that took several requests is one row with all results and the last state, also after a rotation."""
    log = Audit(tmp_path / "audit.jsonl")
    facts = _facts(instance, "trim")
    number = log.record_start(facts)
    log.path.rename(tmp_path / "audit.jsonl.1")
    for event, result in (
        ("done", "Removed 9 entries so far."),
        ("failed", "No answer."),
        ("done", "Removed 1 entry."),
    ):
        log.record_result(number, {**facts, "event": event, "result": result})
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        (row,) = dashboard.get("audit")["rows"]
    assert (row["event"], row["result"]) == ("done", "Removed 9 entries so far.\nNo answer.\nRemoved 1 entry.")
