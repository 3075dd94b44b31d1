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
        each = StreamReport("q", batch, "orders", "6-0", "7-0", 1, True, 1, 90, 1, "g", 0, 10, 5.0, 0, batch)
        words = to_fields(summary("q", "id-of-q", batch, 100 * batch, 1000, [each]))
        client.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)))
    client.xadd(STREAM, {"no": "report"})
    found = dashboard.get("queries")
    (row,), (stream,) = found["rows"], found["streams"]
    assert (row["query"], row["batch"], row["rows"], row["lost"]) == ("q", 2, 200, 2)
    assert row["trends"] == {"rate": [0.0, 100.0, 200.0]}
    assert (stream["position"], stream["group_position"], stream["group"]["text"]) == ("6-0", "5-0", "g")
