"""The cost of samples and pages with 5,000 streams and 500,000 pending entries, as numbers of commands and bytes.

These figures do not depend on the load of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from pystreams.connect import Wanted, connect
from pystreams.dashboard.sampler import ServerSamples
from pystreams.metrics import Chosen, Collector
from tests import servers
from tests.pystreams.dashboard.conftest import dashboard_of
from tests.pystreams.metrics.exposed import exposed, value
from tests.suite.long import long_only

_STREAMS, _PENDING = 5000, 500_000

pytestmark = long_only


@pytest.fixture(scope="module")
def instance() -> Iterator[servers.Running]:
    """An engine shared by all tests of the module, because filling it takes most of a minute."""
    with servers.engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def many(instance: servers.Running) -> Iterator[redis.Redis]:
    """Streams whose group is behind, and one stream whose group has read everything and acknowledged nothing."""
    with redis.Redis(host=instance.host, port=instance.port, protocol=2) as client:
        _fill(client)
        yield client


def _fill(client: redis.Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for number in range(_STREAMS):
        for _ in range(3):
            pipe.xadd(f"s{number:04}", {"n": number})
        pipe.xgroup_create(f"s{number:04}", "g", "0")
        pipe.xreadgroup("g", "c", {f"s{number:04}": ">"}, count=1)
        if number % 500 == 499:
            pipe.execute()
    for _ in range(_PENDING // 5000):
        for _ in range(5000):
            pipe.xadd("big", {"n": 1})
        pipe.execute()
    client.xgroup_create("big", "g", "0")
    for part in range(_PENDING // 10_000):
        client.xreadgroup("g", f"c{part % 3}", {"big": ">"}, count=10_000)


def _cost(client: redis.Redis) -> tuple[int, int]:
    stats = client.info("stats")
    return stats["total_commands_processed"], stats["total_net_output_bytes"]


def test_a_sample_costs_a_few_commands_per_stream(many: redis.Redis, instance: servers.Running) -> None:
    """A sample costs fewer than ten commands per stream at first, then fewer than six, and less than 3,000 bytes."""
    connection = connect(Wanted(instance.url), "")
    samples = ServerSamples()
    for most in (10, 6):
        before = _cost(many)
        found = samples.sample(connection)
        commands, sent = (now - then for now, then in zip(_cost(many), before, strict=True))
        assert (len(found.streams), found.totals["pending"]) == (_STREAMS + 1, _STREAMS + _PENDING)
        assert commands < most * _STREAMS
        assert sent < 3_000 * _STREAMS
    connection.close()


def test_a_scrape_costs_in_proportion_to_its_limit(many: redis.Redis, instance: servers.Running) -> None:
    """Streams beyond the limit of a scrape cost nothing except scanning the key space."""
    collector = Collector(Wanted(instance.url), Chosen(limit=200), seconds=60)
    for _ in range(2):
        before = _cost(many)
        found = exposed(collector.collect())
        commands, sent = (now - then for now, then in zip(_cost(many), before, strict=True))
        assert value(found, "pystreams_exporter_streams") == 200
        assert value(found, "pystreams_exporter_streams_left_out") == 1
        assert (commands < 2000, sent < 2_000_000) == (True, True)
    collector.close()


def test_pages_about_half_a_million_pending_entries_are_small(many: redis.Redis, instance: servers.Running) -> None:
    """Streams, groups and pending entries are read in pages, and a preview gives a minimum instead of counting all
    entries.
    """
    with dashboard_of(Wanted(instance.url), changes=True) as dashboard:
        dashboard.log_in()
        before = _cost(many)[1]
        assert dashboard.get("streams", size=50)["total"] == _STREAMS + 1
        assert len(dashboard.get("groups", sort="pending", order="falling", size=50)["rows"]) == 50
        found = dashboard.get("pending", stream="big", group="g")
        assert (found["total"], found["sample"] <= 10_000) == (_PENDING, True)
        assert len(dashboard.get("pending/entries", stream="big", group="g", consumer="c1", size=50)["rows"]) == 50
        plan = dashboard.post("ack", stream="big", group="g", deliveries="1").json()["plan"]
        assert plan.startswith("Acknowledge the first 20,000 of 500,000 pending entries")
        assert _cost(many)[1] - before < 30_000_000
