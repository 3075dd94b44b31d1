"""The page of Spark queries: reports stored by StreamMonitor, next to group positions."""

from __future__ import annotations

import redis

from spark_streams.reports import STREAM, StreamReport, summary, to_fields
from tests.pystreams.dashboard.conftest import Dashboard


def test_the_last_report_of_each_query_is_shown_with_its_trend(client: redis.Redis, dashboard: Dashboard) -> None:
    """The last report of each query is shown with its trend and the group's position. Invalid reports are skipped."""
    assert dashboard.get("queries") == {"rows": [], "streams": []}
    client.xadd("orders", {"n": 1}, id="7-0")
    client.xgroup_create("orders", "g", "5-0")
    dashboard.wait_for_sample()
    for batch in range(3):
        each = StreamReport("q", batch, "orders", "6-0", "7-0", 1, True, 1, 1, "g", 0, 10, 5.0, 0, batch)
        words = to_fields(summary("q", "id-of-q", batch, 100 * batch, 1000, [each]))
        client.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)))
    client.xadd(STREAM, {"no": "report"})
    found = dashboard.get("queries")
    (row,), (stream,) = found["rows"], found["streams"]
    assert (row["query"], row["batch"], row["rows"], row["lost"]) == ("q", 2, 200, 2)
    assert row["trends"] == {"rate": [0.0, 100.0, 200.0]}
    assert (stream["position"], stream["group_position"], stream["group"]["text"]) == ("6-0", "5-0", "g")


def test_a_group_is_compared_with_its_query(client: redis.Redis, dashboard: Dashboard) -> None:
    """A group behind its query is shown with the number of entries, and so is a group that is gone; others have no
    difference.
    """
    for at in range(1, 10):
        client.xadd("orders", {"n": at}, id=f"{at}-0")
    for group, at in (("behind", 2), ("even", 6), ("ahead", 8)):
        client.xgroup_create("orders", group, f"{at}-0")
    for group in ("behind", "even", "ahead", "gone", None):
        each = StreamReport(str(group), 1, "orders", "6-0", "9-0", 3, True, 1, 1, group, 0, 10, 5.0, 0, 0)
        words = to_fields(summary(str(group), str(group), 1, 100, 1000, [each]))
        client.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)))
    assert {each["query"]: each["difference"] for each in dashboard.get("queries")["streams"]} == {
        "behind": "the group is behind the checkpoint: GROUP_BEHIND, 4 entries",
        "even": "",
        "ahead": "",
        "gone": "the group is gone",
        "None": "",
    }
