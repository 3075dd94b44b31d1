"""The dashboard's data API: paged lists, streams, entries, groups, pending entries, dead letters and the server."""

from __future__ import annotations

import pytest
import redis

from pystreams.streams import sampling
from tests.pystreams.dashboard.conftest import Dashboard, Started


def _names(rows: list[dict]) -> list[str]:
    return [row["name"]["text"] for row in rows]


def test_streams_are_sorted_searched_and_paged_on_the_server(client: redis.Redis, dashboard: Dashboard) -> None:
    """Streams can be sorted by each column and searched. Pages include the total number of matches."""
    for at in range(25):
        for _ in range(at % 5 + 1):
            client.xadd(f"s{at:02}", {"a": 1})
    client.xgroup_create("s07", "g", "0")
    dashboard.wait_for_sample()
    first = dashboard.get("streams", sort="name", size=10)
    assert (_names(first["rows"])[0], len(first["rows"]), first["total"]) == ("s00", 10, 25)
    last = dashboard.get("streams", sort="name", order="falling", size=10, page=2)
    assert _names(last["rows"]) == [f"s{at:02}" for at in range(4, -1, -1)]
    longest = dashboard.get("streams", sort="length", order="falling", size=5)
    assert [row["length"] for row in longest["rows"]] == [5] * 5
    found = dashboard.get("streams", search="S2")
    assert (_names(found["rows"]), found["total"]) == (["s20", "s21", "s22", "s23", "s24"], 5)
    worst = dashboard.get("streams", sort="lag", order="falling", size=1)["rows"][0]
    assert (worst["name"]["text"], worst["lag"], worst["status"]) == ("s07", 3, "ok")
    for sort in ("bytes", "rate", "newest", "groups", "behind", "pending", "status"):
        assert dashboard.get("streams", sort=sort)["total"] == 25
    assert dashboard.refused("streams", sort="nothing") == (400, "INVALID_VALUE")
    assert dashboard.refused("streams", size=100_000) == (400, "INVALID_VALUE")
    assert dashboard.refused("streams", size="0" * 17 + "199999") == (400, "INVALID_VALUE")
    assert dashboard.get("overview")["totals"]["entries"] == 75


def test_hostile_names_and_values_come_back_as_texts(client: redis.Redis, dashboard: Dashboard) -> None:
    """Names and values may be any bytes: their text has no control characters, and a name's key identifies it in
    requests.
    """
    names = [b"<img src=x onerror=alert(1)>", b"\xff\x00\n", "\u202eevil".encode(), b"a/b?c#d%25&e", b" "]
    for name in names:
        client.xadd(name, {name: name})
        client.xgroup_create(name, name, "0")
    dashboard.wait_for_sample()
    rows = dashboard.get("streams")["rows"]
    assert len(rows) == len(names)
    for row in rows:
        assert row["name"]["text"].isprintable()
        found = dashboard.get("stream", stream=row["name"]["key"])
        assert (found["length"], found["name"]) == (1, row["name"])
        group = dashboard.get("group", stream=row["name"]["key"], group=row["name"]["key"])
        assert group["lag"] == 1
        entry = dashboard.get("entries", stream=row["name"]["key"])["rows"][0]
        assert all(text.isprintable() for pair in entry["fields"] for text in pair)


def test_entries_are_paged_in_both_directions_and_filtered(client: redis.Redis, dashboard: Dashboard) -> None:
    """Entries are paged in both directions from an ID or a time, with conditions; `next` is null on the last page."""
    for at in range(1, 301):
        client.xadd("s", {"n": at, "even": "yes" if at % 2 == 0 else ""}, id=f"{at * 1000}-0")

    def walk(**given: str) -> list[str]:
        found: list[str] = []
        at = given.pop("at", "")
        while True:
            page = dashboard.get("entries", stream="s", size=70, at=at, **given)
            found += [row["id"] for row in page["rows"]]
            if page["next"] is None:
                return found
            at = page["next"]

    every = [f"{at * 1000}-0" for at in range(1, 301)]
    assert walk(order="rising") == every
    assert walk(order="falling") == every[::-1]
    assert walk(order="rising", at="1970-01-01T00:04:00Z") == every[239:]
    assert walk(order="falling", at="10000-0") == every[9::-1]
    assert walk(order="rising", where="even and n > 290") == [f"{at}000-0" for at in range(292, 301, 2)]
    assert walk(order="falling", where="n in (3, 5)") == ["5000-0", "3000-0"]
    assert walk(order="rising", where="n > 1000") == []
    assert dashboard.refused("entries", stream="s", where="n >") == (400, "INVALID_VALUE")
    assert dashboard.refused("entries", stream="s", at="nonsense") == (400, "INVALID_VALUE")
    entry = dashboard.get("entry", stream="s", id="5000-0")
    assert (entry["time"], entry["fields"]) == ("1970-01-01T00:00:05.000Z", [["n", "5"], ["even", ""]])
    assert dashboard.refused("entry", stream="s", id="5000-7") == (404, "NO_SUCH_ENTRY")
    assert dashboard.refused("entry", stream="s", id="x") == (400, "INVALID_VALUE")
    assert dashboard.refused("stream", stream="t") == (404, "NO_SUCH_STREAM")


def test_long_values_are_truncated(client: redis.Redis, dashboard: Dashboard) -> None:
    """Long values are truncated, with their length, so a page of entries stays small."""
    client.xadd("s", {"x": b"y" * 1_000_000, **{f"f{at}": 1 for at in range(100)}})
    answer = dashboard.web.get("/api/entries", params={"stream": "s"})
    assert len(answer.content) < 10_000
    row = answer.json()["rows"][0]
    assert row["fields"][0][1].endswith("(1,000,000 bytes)")
    assert row["more"] == 41


def test_a_group_with_its_consumers_and_pending_entries(client: redis.Redis, dashboard: Dashboard) -> None:
    """A group has its position, lag and consumers; its pending entries are paged, filtered, and counted by age and
    deliveries.
    """
    for at in range(1, 101):
        client.xadd("s", {"n": at}, id=f"{at}-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "alice", {"s": ">"}, count=40)
    client.xreadgroup("g", "bob", {"s": ">"}, count=20)
    client.xclaim("s", "g", "bob", 0, ["41-0", "42-0"], idle=700_000, retrycount=7)
    group = dashboard.get("group", stream="s", group="g")
    assert (group["position"], group["lag"], group["pending"], group["consumers"]) == ("60-0", 40, 60, 2)
    assert [(row["name"]["text"], row["pending"]) for row in group["consumer_rows"]] == [("alice", 40), ("bob", 20)]
    assert (set(group["curves"]), set(dashboard.get("stream", stream="s")["curves"])) == (
        {"lag", "pending", "behind"},
        {"length", "rate"},
    )
    found = dashboard.get("pending", stream="s", group="g")
    assert (found["total"], found["sample"]) == (60, 60)
    assert dict(found["ages"])["10–60 min"] == 2
    assert (dict(found["deliveries"])["1"], dict(found["deliveries"])["5–9"]) == (58, 2)
    assert [(each["name"]["text"], each["pending"]) for each in found["consumers"]] == [("alice", 40), ("bob", 20)]
    page = dashboard.get("pending/entries", stream="s", group="g", size=50)
    rest = dashboard.get("pending/entries", stream="s", group="g", size=50, after=page["next"])
    assert [row["id"] for row in page["rows"] + rest["rows"]] == [f"{at}-0" for at in range(1, 61)]
    assert rest["next"] is None
    old = dashboard.get("pending/entries", stream="s", group="g", idle="5m", deliveries=2, consumer="bob")
    assert [row["id"] for row in old["rows"]] == ["41-0", "42-0"]
    assert dashboard.refused("group", stream="s", group="h") == (404, "NO_SUCH_GROUP")
    assert dashboard.refused("pending/entries", stream="s", group="g", idle="soon") == (400, "INVALID_VALUE")


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_returned_entries_are_shown(client: redis.Redis, dashboard: Dashboard) -> None:
    """Entries returned with XNACK match every filter by idle time and are counted separately from
    ages and consumers.
    """
    for at in range(1, 6):
        client.xadd("s", {"n": at}, id=f"{at}-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "alice", {"s": ">"})
    client.execute_command("XNACK", "s", "g", "FAIL", "IDS", 2, "2-0", "4-0")
    found = dashboard.get("pending", stream="s", group="g")
    assert dict(found["ages"]) | {"given back": 2} == dict(found["ages"])
    assert sum(count for _, count in found["ages"]) == 5
    assert (found["given_back"], [each["pending"] for each in found["consumers"]]) == (2, [3])
    old = dashboard.get("pending/entries", stream="s", group="g", idle="10m")
    assert [(row["id"], row["idle_ms"], row["consumer"]["text"]) for row in old["rows"]] == [
        ("2-0", None, ""),
        ("4-0", None, ""),
    ]


def test_a_sample_reads_a_limited_number_of_consumers(client: redis.Redis, started: Started) -> None:
    """A sample reads a limited number of consumers, small groups first. Groups left out still have a lag and a consumer
    count.
    """
    client.xadd("s", {"n": 1})
    for group, count in (("few", 2), ("many", 30)):
        client.xgroup_create("s", group, "0")
        for number in range(count):
            client.xgroup_createconsumer("s", group, f"c{number}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling.ConsumerBudget, "MOST", 31)
        dashboard = started()
        dashboard.log_in()
        rows = {each["name"]["text"]: each for each in dashboard.get("groups")["rows"]}
        assert (rows["few"]["idle_seconds"] is None, rows["many"]["idle_seconds"] is None) == (False, True)
        assert (rows["many"]["lag"], rows["many"]["consumers"]) == (1, 30)


@pytest.mark.parametrize("order", ["rising", "falling"])
@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_search_is_done_in_bounded_steps(client: redis.Redis, dashboard: Dashboard, order: str) -> None:
    """A search scans at most 5,000 entries per step, and scans each entry of the range once."""
    pipe = client.pipeline(transaction=False)
    for at in range(1, 12_001):
        pipe.xadd("s", {"n": at}, id=f"{at}-0")
    pipe.execute()
    ends = {"at": "501-0", "to": "11500-0"} if order == "rising" else {"at": "11500-0", "to": "501-0"}
    given = {"stream": "s", "order": order, "where": "n in (500, 501, 7000, 11500, 11501)", **ends}
    found, steps, cursor = [], [], ""
    while cursor is not None:
        page = dashboard.get("entries", **given, cursor=cursor)
        found += [row["id"] for row in page["rows"]]
        steps.append(page["scanned"])
        cursor = page["next"]
    assert sorted(found) == ["11500-0", "501-0", "7000-0"]
    assert (sum(steps), max(steps) <= 5_000) == (11_000, True)


def test_the_groups_that_need_attention_are_ordered_by_weight(client: redis.Redis, dashboard: Dashboard) -> None:
    """Groups that need attention are ordered by the entries that wait, delivered or not, rather than by their age. The
    overview has their number, and the group that is furthest behind.
    """
    now = int(client.time()[0]) * 1000
    for at in range(10):
        hours = 3_600_000 * (at + 2)
        for count in range(10 - at):
            client.xadd(f"s{at}", {"n": count}, id=f"{now - hours}-{count + 1}")
        client.xgroup_create(f"s{at}", "g", "0")
    for count in range(30):
        client.xadd("held", {"n": count}, id=f"{now - 120_000}-{count}")
    client.xgroup_create("held", "g", "0")
    read = client.xreadgroup("g", "c", {"held": ">"})[0][1]
    client.execute_command("XCLAIM", "held", "g", "c", 0, *(each for each, _ in read), "IDLE", 90_000)
    client.xadd("new", {"n": 1})
    client.xgroup_create("new", "well", "0")
    dashboard.wait_for_sample()
    found = dashboard.get("overview")
    assert [row["stream"]["text"] for row in found["attention"]] == ["held", "s0", "s1", "s2", "s3", "s4"]
    assert (found["attention_total"], found["furthest"]["stream"]["text"]) == (11, "s9")
    listed = dashboard.get("groups", status="attention", sort="status")
    assert (listed["total"], [row["stream"]["text"] for row in listed["rows"]][:2]) == (11, ["held", "s0"])


def test_conditions_use_members_and_report_unknown_fields(client: redis.Redis, dashboard: Dashboard) -> None:
    """Conditions can use paths of members, unknown fields are reported, and errors do not mention
    command-line options.
    """
    client.xadd("s", {"doc": '{"a": 3, "card": {"number": "41"}}'}, id="1-0")
    client.xadd("s", {"doc": '{"a": 4}'}, id="2-0")
    found = dashboard.get("entries", stream="s", where="doc.card.number == 41 and doc.a == 3")
    assert ([row["id"] for row in found["rows"]], found["unseen"]) == (["1-0"], [])
    found = dashboard.get("entries", stream="s", where="nosuch == 1 or doc.b == 2")
    assert (found["rows"], found["unseen"]) == ([], ["nosuch", "doc.b"])
    refused = dashboard.web.get("/api/entries", params={"stream": "s", "where": "n >"}).json()["error"]["message"]
    assert refused.startswith("Where is 'n >', but it is not a condition")
    missing = dashboard.web.get("/api/stream", params={"stream": "t"}).json()["error"]["message"]
    assert "pystreams ls" not in missing
    assert "--" not in refused
