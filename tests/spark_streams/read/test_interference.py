"""Changes of a query's streams and groups by other programs: losses are reported, and the rows stay correct."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_streams.errors import StreamError
from streamclient.link import Command, Link
from tests.spark_streams.driver import Site, numbers


def change_group(site: Site, how: str) -> None:
    """Add three entries to the ten of `s`, then move, recreate or destroy its group."""
    site.add("s", 3, first=10)
    position = "0" if how.endswith("back") else "$"
    if how == "destroyed":
        site.client.xgroup_destroy("s", "g")
        return
    if how.startswith("recreated"):
        site.client.xgroup_destroy("s", "g")
        site.client.xgroup_create("s", "g", position)
    else:
        site.client.xgroup_setid("s", "g", position)


@pytest.mark.parametrize("ack", ["commit", "cursor"])
@pytest.mark.parametrize("how", ["destroyed", "recreated ahead", "moved ahead"])
def test_a_changed_group_does_not_affect_the_rows(site: Site, how: str, ack: str) -> None:
    """If another program changes the query's group, the rows are not affected, and the group reaches their end."""
    site.add("s", 10)
    query = site.query(stream="s", group="g", ack=ack)
    query.drain()
    change_group(site, how)
    assert numbers(query.drain()) == [10, 11, 12]
    site.add("s", 2, first=13)
    assert numbers(query.drain()) == [13, 14]
    assert (site.group()["pending"], site.group()["lag"]) == (0, 0)


@pytest.mark.parametrize("options", [{"ack": "commit"}, {"ack": "cursor"}, {"consume": "shared"}], ids=str)
def test_a_group_may_be_destroyed_at_any_moment(
    site: Site, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query whose own group is destroyed before any command loses no batch; a shared group is reported as lost."""
    send = Link.send
    doomed = ("XPENDING", "SETID", "DELCONSUMER", "XREADGROUP", "PS.DELIVER", "PS.ACKRANGE")
    reached: set[object] = set()

    def meddle(link: Link, commands: Sequence[Command]) -> None:
        words = {word for command in commands for word in command[:2] if word in doomed} - reached
        if words:
            reached.update(words)
            site.client.xgroup_destroy("s", "g")
        send(link, commands)

    monkeypatch.setattr(Link, "send", meddle)
    query = site.query(stream="s", group="g", idleWaitMs=1, **options)
    rows: list[int] = []
    for first in range(0, 25, 5):
        site.add("s", 5, first=first)
        try:
            rows += numbers(query.drain())
        except StreamError as problem:
            if options.get("consume") != "shared" or problem.condition != "GROUP_LOST":
                raise
            query.restart(failOnDataLoss="false")
    assert reached
    if options.get("consume") != "shared":
        assert rows == list(range(25))
        assert site.group()["pending"] == 0


@pytest.mark.parametrize("how", ["recreated back", "moved back", "recreated ahead", "moved ahead"])
def test_a_query_continues_at_the_position_of_a_moved_shared_group(site: Site, how: str) -> None:
    """If a shared group is moved, the query continues at its new position."""
    site.add("s", 10)
    query = site.query(stream="s", group="g", consume="shared")
    query.drain()
    change_group(site, how)
    assert numbers(query.drain()) == ([] if how.endswith("ahead") else list(range(13)))
    site.add("s", 2, first=13)
    assert numbers(query.drain()) == [13, 14]


def test_a_shared_groups_loss_under_a_pattern_is_an_error(site: Site) -> None:
    """A shared group that was destroyed is an error, although new streams of the pattern get a group."""
    site.add("in:a", 5)
    query = site.query(streamPattern="in:*", group="g", consume="shared")
    query.drain()
    site.client.xgroup_destroy("in:a", "g")
    for _ in range(2):
        with pytest.raises(StreamError, match="GROUP_LOST"):
            query.trigger()


def test_a_stream_that_joins_a_shared_list_gets_its_group(site: Site) -> None:
    """A restart with an additional stream creates its group; a missing group of the other streams is an error."""
    site.add("a", 5)
    site.add("b", 5)
    query = site.query(streams="a", group="g", consume="shared")
    query.drain()
    query.restart(streams="a,b")
    assert len(query.drain()) == 5
    site.client.xgroup_destroy("a", "g")
    query.restart()
    with pytest.raises(StreamError, match=r"GROUP_LOST.*'a'"):
        query.trigger()


def test_a_planned_batch_of_a_lost_group_is_skipped(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a batch whose group is missing has no rows, and the next batch reads all entries."""
    site.add("s", 5)
    query = site.query(stream="s", group="g", consume="shared")
    query.plan()
    site.client.xgroup_destroy("s", "g")
    for _ in range(2):
        with pytest.raises(StreamError, match="GROUP_LOST"):
            query.run()
        query.restart()
    query.restart(failOnDataLoss="false")
    assert query.run() == []
    assert caplog.text.count("GROUP_LOST") == 1
    assert numbers(query.drain()) == list(range(5))


@pytest.mark.parametrize("options", [{}, {"group": "g"}, {"group": "g", "consume": "shared"}], ids=str)
@pytest.mark.parametrize("planned", [True, False])
def test_a_stream_overwritten_by_another_type_is_an_error(
    site: Site, options: dict[str, str], *, planned: bool
) -> None:
    """Overwriting a stream with SET is the error NOT_A_STREAM, before and after a batch was planned."""
    site.add("s", 10)
    query = site.query(stream="s", **options)
    if planned:
        query.plan()
    else:
        query.trigger()
    site.client.set("s", "x")
    with pytest.raises(StreamError, match=r"NOT_A_STREAM.*'s'"):
        query.run()
    with pytest.raises(StreamError, match=r"NOT_A_STREAM.*'s'"):
        query.trigger()


def test_a_deleted_stream_of_a_pattern_is_not_recreated(site: Site) -> None:
    """A stream that is deleted after its pattern was looked up is not recreated for its group."""
    site.add("in:a", 5)
    query = site.query(streamPattern="in:*", group="g", consume="shared")
    query.drain()
    site.client.delete("in:a")
    assert query.trigger() is None
    assert not site.client.exists("in:a")
    site.add("in:a", 2, first=10)
    assert numbers(query.drain()) == [10, 11]
