"""The audit log: a record for every change, written before the change to a file that only its owner can read."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from pystreams.connect import Wanted
from pystreams.dashboard.audit_log import Audit, RecordedChange
from pystreams.dashboard.changes import CHANGES
from tests import servers
from tests.pystreams.dashboard.browser.conftest import fill
from tests.pystreams.dashboard.conftest import Dashboard, address_of, dashboard_of

pytestmark = pytest.mark.parametrize("instance", ["engine"], indirect=True)

#: One change of each kind, ordered so that each is possible after the previous ones.
EACH = [
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
    assert ([row["action"] for row in found["rows"]], found["file"]) == (["trim"], None)


def _facts(instance: servers.Running, plan: str, **given: str) -> dict[str, str]:
    return {"server": address_of(instance.url).shown, "key": "orders", "plan": plan, **given}


def _make(log: Audit, facts: dict[str, str]) -> None:
    number = log.record_start(facts)
    log.record_result(number, {**facts, "event": "done", "result": "Made."})


def _pages(dashboard: Dashboard, **given: str | int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each page up to the last one."""
    at: str | int | None = ""
    while at is not None:
        found = dashboard.get("audit", at=at, **given)
        yield found["rows"]
        at = found["next"]


def test_a_page_has_the_requested_number_of_changes(instance: servers.Running, tmp_path: Path) -> None:
    """Each page but the last has the requested number of changes, and each change is on one page."""
    log = Audit(tmp_path / "audit.jsonl")
    for number in range(250):
        _make(log, _facts(instance, str(number), filling="x" * 1000))
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        pages = list(_pages(dashboard, size=40))
        last = list(_pages(dashboard, size=125))
    assert [len(page) for page in pages] == [40] * 6 + [10]
    assert [row["plan"] for page in pages for row in page] == [str(number) for number in reversed(range(250))]
    assert {row["result"] for page in pages for row in page} == {"Made."}
    assert [len(page) for page in last] == [125, 125]


def test_a_change_is_shown_once_with_a_result_on_another_page(instance: servers.Running, tmp_path: Path) -> None:
    """A change whose records are on different pages is shown once, with its result and the time of its start."""
    log = Audit(tmp_path / "audit.jsonl")
    long = _facts(instance, "long")
    number = log.record_start(long)
    for other in range(45):
        _make(log, _facts(instance, str(other)))
    log.record_result(number, {**long, "event": "failed", "result": "Broken."})
    start = json.loads(log.path.read_text().splitlines()[0])["time"]
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        pages = list(_pages(dashboard, size=10))
    assert [len(page) for page in pages] == [10, 10, 10, 10, 6]
    found = [(row["time"], row["event"], row["result"]) for page in pages for row in page if row["plan"] == "long"]
    assert found == [(start, "failed", "Broken.")]
    assert pages[-1][-1]["plan"] == "long"


def test_a_search_finds_a_change_by_each_record(instance: servers.Running, tmp_path: Path) -> None:
    """A search for a text that only one record of a change contains finds the change, with its result."""
    log = Audit(tmp_path / "audit.jsonl")
    number = log.record_start(_facts(instance, "other", note="only at the start"))
    _make(log, _facts(instance, "another"))
    log.record_result(number, _facts(instance, "other", event="done", result="Made at last."))
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        for search in ("only at the START", "at last"):
            (row,) = dashboard.get("audit", search=search, size=1)["rows"]
            assert (row["id"], row["event"], row["result"]) == (number, "done", "Made at last."), search


def test_a_change_in_parts_is_one_row(instance: servers.Running, tmp_path: Path) -> None:
    """A change that took several requests is one row with all results, newest first, and the last state."""
    log = Audit(tmp_path / "audit.jsonl")
    facts = _facts(instance, "trim")
    number = log.record_start(facts)
    for event, result in (
        ("done", "Removed 9 entries so far."),
        ("failed", "No answer."),
        ("done", "Removed 1 entry."),
    ):
        log.record_result(number, {**facts, "event": event, "result": result})
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        (row,) = dashboard.get("audit")["rows"]
    assert (row["event"], row["result"]) == ("done", "Removed 1 entry.\nNo answer.\nRemoved 9 entries so far.")


def test_a_change_that_ends_after_a_rotation_is_shown(instance: servers.Running, tmp_path: Path) -> None:
    """The result of a change that started before a rotation is shown once, on the last page."""
    log = Audit(tmp_path / "audit.jsonl")
    facts = _facts(instance, "long")
    number = log.record_start(facts)
    log.path.rename(tmp_path / "audit.jsonl.1")
    for other in range(5):
        _make(log, _facts(instance, str(other)))
    log.record_result(number, {**facts, "event": "done", "result": "Made."})
    with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
        dashboard.log_in()
        pages = [[row["plan"] for row in page] for page in _pages(dashboard, size=2)]
    assert pages == [["4", "3"], ["2", "1"], ["0", "long"]]


def test_a_page_is_full_if_a_user_may_read_few_streams(
    instance: servers.Running, client: redis.Redis, tmp_path: Path
) -> None:
    """Changes of streams that the user may not read do not count towards the size of a page."""
    client.acl_setuser("ada", enabled=True, passwords=["+lovelace"], commands=["+@all"], keys=["orders"])
    log = Audit(tmp_path / "audit.jsonl")
    for number in range(60):
        _make(log, _facts(instance, str(number), key="orders" if number % 3 == 0 else "failed"))
    try:
        with dashboard_of(Wanted(instance.url), state=tmp_path) as dashboard:
            dashboard.log_in(user="ada", password="lovelace")
            pages = [[int(row["plan"]) for row in page] for page in _pages(dashboard, size=10)]
    finally:
        client.acl_deluser("ada")
    assert pages == [list(range(57, 29, -3)), list(range(27, -1, -3))]


def test_a_search_reads_a_limited_part_of_the_log(instance: servers.Running, tmp_path: Path) -> None:
    """A search without matches reads a limited part of a long log and returns the offset at which to continue."""
    log = Audit(tmp_path / "audit.jsonl")
    numbers = [f"{number:016x}" for number in range(20_000)]
    lines = (
        json.dumps({"event": event, "id": each, "n": "x" * 100}) for each in numbers for event in ("begun", "done")
    )
    log.path.write_text("\n".join(lines))
    size, seen, at, reads = log.path.stat().st_size, list[str](), None, 0

    def wanted(changes: list[RecordedChange]) -> list[RecordedChange]:
        seen.extend(str(each.records[-1]["id"]) for each in changes if len(each.records) == 2)
        return []

    while reads == 0 or at is not None:
        found, at = log.page(at, 50, wanted)
        reads += 1
        assert found == []
    assert seen == numbers[::-1]
    assert size // (1 << 20) <= reads <= size // (1 << 20) + 1


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
        page, at = log.page(at, 40, lambda changes: [each for each in changes if each.records[0]["n"] % 2 == 0])
        seen += [each.records[0]["n"] for each in page]
        if at is None:
            break
    assert seen == list(range(248, -1, -2))
    path.rename(tmp_path / "audit.jsonl.1")
    log.record_start({"n": 1})
    assert [each.records[0]["n"] for each in log.page(None, 10, list)[0]] == [1]


def test_an_offset_beyond_the_end_of_the_log_means_its_end(instance: servers.Running, tmp_path: Path) -> None:
    """An offset beyond the end of the log means its end, as after a rotation."""
    audit = Audit(tmp_path / "audit.jsonl")
    number = audit.record_start({"action": "trim"})
    found, following = audit.page(2**53, 10, list)
    assert ([each.records[0]["id"] for each in found], following) == ([number], None)


def test_a_truncated_line_is_skipped(instance: servers.Running, tmp_path: Path) -> None:
    """A record after a truncated line starts on a new line, and the truncated line is skipped."""
    log = Audit(tmp_path / "audit.jsonl")
    log.record_start({"action": "first"})
    with log.path.open("ab") as file:
        file.write(b'{"time": "2026-01-')
    log.record_start({"action": "later"})
    assert [each.records[0]["action"] for each in log.page(None, 10, list)[0]] == ["later", "first"]
