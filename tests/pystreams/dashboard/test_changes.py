"""Changes in the dashboard: the preview, the confirmed change, and rejections without permission or confirmation."""

from __future__ import annotations

import pytest
import redis

from pystreams.dashboard import changes
from pystreams.dashboard.changes import CHANGES
from tests.pystreams.dashboard.conftest import Dashboard, Started


def _filled(client: redis.Redis, count: int = 10) -> None:
    for at in range(1, count + 1):
        client.xadd("s", {"n": at}, id=f"{at}-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "alice", {"s": ">"}, count=6)


@pytest.mark.parametrize("action", list(CHANGES))
@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_dashboard_is_read_only_by_default(started: Started, client: redis.Redis, action: str) -> None:
    """Without `--allow-changes` every action is rejected, and the error names the option."""
    _filled(client)
    dashboard = started()
    dashboard.log_in()
    answer = dashboard.post(action, stream="s", group="g", all=True)
    assert (answer.status_code, answer.json()["error"]["id"]) == (403, "READ_ONLY")
    assert "--allow-changes" in answer.json()["error"]["message"]


def test_a_group_is_moved_to_the_previewed_position(client: redis.Redis, dashboard: Dashboard) -> None:
    """A confirmed move goes to the previewed position. If the group has advanced since then, it is refused."""
    _filled(client)
    plan = dashboard.post("seek", stream="s", group="g", to="+2").json()
    assert plan["facts"] == [["Position", "6-0", "8-0"], ["Lag", "4", "2"]]
    assert plan["notes"][0] == "Pending entries stay pending: 6."
    client.xreadgroup("g", "alice", {"s": ">"}, count=1)
    outdated = dashboard.post("seek", stream="s", group="g", to="+2", confirm=plan["confirm"])
    assert (outdated.status_code, outdated.json()["error"]["id"]) == (409, "PLAN_OUTDATED")
    plan = dashboard.post("seek", stream="s", group="g", to="+1").json()
    done = dashboard.post("seek", stream="s", group="g", to="+1", confirm=plan["confirm"])
    assert done.json()["done"] == "Moved the group g to 8-0."
    (info,) = client.xinfo_groups("s")
    assert info["last-delivered-id"] == b"8-0"
    again = dashboard.post("seek", stream="s", group="g", to="+1", confirm=plan["confirm"])
    assert (again.status_code, again.json()["error"]["id"]) == (400, "INVALID_VALUE")
    other = dashboard.post("seek", stream="s", group="g", to="start").json()
    wrong = dashboard.post("seek", stream="s", group="g", to="end", confirm=other["confirm"])
    assert wrong.status_code == 400
    assert client.xinfo_groups("s")[0]["last-delivered-id"] == b"8-0"


def test_pending_entries_are_acknowledged_claimed_and_returned(client: redis.Redis, dashboard: Dashboard) -> None:
    """Pending entries are selected by ID, by a filter, or with an explicit `all`."""
    _filled(client)
    which = {"stream": "s", "group": "g"}
    refused = dashboard.post("ack", **which)
    assert (refused.status_code, refused.json()["error"]["id"]) == (400, "INVALID_VALUE")
    plan, done = dashboard.change("ack", **which, ids=["1-0", "3-0", "9-0"])
    assert (plan["plan"], done["done"]) == (
        "Acknowledge 2 of 6 pending entries of the group g of s.",
        "Acknowledged 2 pending entries.",
    )
    plan, done = dashboard.change("claim", **which, consumer="alice", to="bob")
    assert (plan["plan"], done["count"]) == ("Claim 4 of 4 pending entries of the group g of s for bob.", 4)
    assert {row["consumer"] for row in client.xpending_range("s", "g", "-", "+", 10)} == {b"bob"}
    _, done = dashboard.change("nack", **which, ids=["2-0"])
    assert done["count"] == 1
    plan, done = dashboard.change("ack", **which, all=True)
    assert (plan["plan"], done["count"]) == ("Acknowledge all 4 of 4 pending entries of the group g of s.", 4)
    assert client.xpending("s", "g")["pending"] == 0
    assert dashboard.post("claim", **which, all=True).status_code == 400
    assert dashboard.post("ack", **which, ids=["1-0"] * 3 + [7]).status_code == 400


def test_a_long_change_is_made_in_steps(
    client: redis.Redis, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each response of a long change has a count and whether more remains. The confirmation stays
    valid until the end.
    """
    monkeypatch.setattr(changes, "_SECONDS", -1.0)
    _filled(client, 2500)
    client.xreadgroup("g", "alice", {"s": ">"})
    given = {"stream": "s", "group": "g", "all": True}
    confirm = dashboard.post("ack", **given).json()["confirm"]
    counts = []
    more = True
    while more:
        answer = dashboard.post("ack", **given, confirm=confirm).json()
        counts.append(answer["count"])
        more = answer["more"]
    assert counts[:2] == [1000, 1000]
    assert sum(counts) == 2500
    assert dashboard.post("ack", **given, confirm=confirm).status_code == 400


def test_groups_and_consumers_are_removed(client: redis.Redis, dashboard: Dashboard) -> None:
    """The preview of a removal shows the pending entries and consumers that will be deleted."""
    _filled(client)
    plan, _ = dashboard.change("remove-consumer", stream="s", group="g", consumer="alice")
    assert "6 pending entries" in plan["plan"]
    plan, _ = dashboard.change("remove-group", stream="s", group="g")
    assert plan["plan"] == "Remove the group g of s with 0 pending entries and 0 consumers."
    assert client.xinfo_groups("s") == []
    client.xgroup_create("s", "new", "0")
    missing = dashboard.post("remove-consumer", stream="s", group="new", consumer="alice")
    assert (missing.status_code, missing.json()["error"]["id"]) == (404, "NO_SUCH_CONSUMER")


def test_dead_letters_are_counted_replayed_and_removed(client: redis.Redis, dashboard: Dashboard) -> None:
    """Letters are selected by reason and origin, and a replay moves a letter back to its stream."""
    for at in range(1, 41):
        origin = "orders" if at % 4 else "payments"
        reason = "no number" if at % 2 else "too often"
        letter = {"_original_stream": origin, "_original_id": f"{at}-0", "_original_deliveries": 6, "_reason": reason}
        client.xadd("failed", {**letter, "n": at}, id=f"{at}-0")
    dashboard.wait_for_sample()
    assert [row["name"]["text"] for row in dashboard.get("letters")["rows"]] == ["failed"]
    found = dashboard.get("letters/overview", stream="failed")
    assert dict(found["reasons"]) == {"no number": 20, "too often": 20}
    assert [(each["name"]["text"], each["count"]) for each in found["origins"]] == [("orders", 30), ("payments", 10)]
    page = dashboard.get("letters/page", stream="failed", reason="no number", size=15)
    rest = dashboard.get("letters/page", stream="failed", reason="no number", size=15, at=page["next"])
    assert [len(page["rows"]), len(rest["rows"]), rest["next"]] == [15, 5, None]
    assert page["rows"][0]["fields"] == [["n", "39"]]
    plan, done = dashboard.change("replay", stream="failed", origin="payments")
    assert plan["plan"] == "Replay 10 dead letters of failed to the original streams."
    assert (done["count"], client.xlen("payments"), client.xlen("failed")) == (10, 10, 30)
    assert dashboard.post("purge", stream="failed").status_code == 400
    _, done = dashboard.change("purge", stream="failed", reason="no number")
    assert (done["count"], client.xlen("failed")) == (20, 10)
    _, done = dashboard.change("replay", stream="failed", all=True, to="elsewhere")
    assert (done["count"], client.xlen("elsewhere"), client.xlen("failed")) == (10, 10, 0)
