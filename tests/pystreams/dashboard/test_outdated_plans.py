"""Changes in the dashboard do only what the preview showed, and an outdated preview is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.pystreams.dashboard.conftest import Dashboard

Meanwhile = Callable[[redis.Redis], Any]


def _fill(client: redis.Redis) -> None:
    """Write a stream of twenty entries. The group has delivered ten of them to one consumer."""
    for number in range(1, 21):
        client.xadd("s", {"n": number}, id=f"{number}-0")
    client.xgroup_create("s", "g", 0)
    client.xreadgroup("g", "alice", {"s": ">"}, count=10)


def _add(client: redis.Redis) -> None:
    for _ in range(50):
        client.xadd("s", {"n": 0})


def _deliver(client: redis.Redis) -> None:
    client.xreadgroup("g", "alice", {"s": ">"})


def _move(client: redis.Redis) -> None:
    client.xgroup_setid("s", "g", "19-0")


@pytest.mark.parametrize(
    ("action", "given", "meanwhile", "left"),
    [
        ("trim", {"by": "maxlen", "maxlen": "10"}, _add, lambda client: client.xlen("s") == 60),
        ("ack", {"group": "g", "all": True}, _deliver, lambda client: client.xpending("s", "g")["pending"] == 10),
    ],
)
def test_the_dashboard_changes_only_the_entries_that_it_showed(
    client: redis.Redis,
    dashboard: Dashboard,
    action: str,
    given: dict[str, Any],
    meanwhile: Meanwhile,
    left: Callable[[redis.Redis], bool],
) -> None:
    """Entries that were added or delivered since the preview are neither removed nor acknowledged."""
    _fill(client)
    plan = dashboard.post(action, stream="s", **given).json()
    meanwhile(client)
    done = dashboard.post(action, stream="s", **given, confirm=plan["confirm"])
    assert (done.status_code, done.json()["count"]) == (200, 10), done.text
    assert left(client)


@pytest.mark.parametrize(
    ("action", "given", "meanwhile"),
    [
        ("remove-group", {"group": "g"}, _deliver),
        ("remove-consumer", {"group": "g", "consumer": "alice"}, _deliver),
        ("seek", {"group": "g", "to": "5-0"}, _move),
    ],
)
def test_the_dashboard_refuses_an_outdated_plan(
    client: redis.Redis, dashboard: Dashboard, action: str, given: dict[str, Any], meanwhile: Meanwhile
) -> None:
    """If facts have changed since the preview, the change is refused, and a new preview can be confirmed."""
    _fill(client)
    plan = dashboard.post(action, stream="s", **given).json()
    meanwhile(client)
    refused = dashboard.post(action, stream="s", **given, confirm=plan["confirm"])
    assert (refused.status_code, refused.json()["error"]["id"]) == (409, "PLAN_OUTDATED")
    assert len(client.xinfo_groups("s")) == 1
    dashboard.change(action, stream="s", **given)


def test_a_move_forward_says_how_many_entries_it_skips(client: redis.Redis, dashboard: Dashboard) -> None:
    """The preview of a move over undelivered entries names their number."""
    _fill(client)
    plan = dashboard.post("seek", stream="s", group="g", to="end").json()
    assert "This skips 10 undelivered entries." in plan["notes"]
