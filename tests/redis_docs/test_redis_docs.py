"""The examples of three documents give the documented replies."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.replies import Streams, entries
from tests.redis_docs import documentation, introduction, specification
from tests.redis_docs.scenes import Scene

SCENES = [
    pytest.param(scene, id=f"{name}: {scene.name}")
    for name, module in (("introduction", introduction), ("documentation", documentation), ("draft", specification))
    for scene in module.SCENES
]


@pytest.mark.parametrize("scene", SCENES)
def test_examples(server: Server, scene: Scene) -> None:
    """Each example's commands give the replies that its document shows."""
    server.given(*scene.before)
    for command, reply in scene.steps:
        server.expect(command, reply)


def test_waiting_for_new_entries(server: Server) -> None:
    """The introduction's ``XREAD BLOCK 0 ... $`` returns only the next entry."""
    server.given("XADD mystream 1519073278252-0 foo value_1")
    reader = server.client()
    reader.send("XREAD BLOCK 0 STREAMS mystream $")
    reader.expect_blocked()
    server.given("XADD mystream 1519073279157-0 foo value_2")
    reader.expect_reply(Streams({"mystream": entries("1519073279157-0 foo value_2")}))


def test_waiting_for_a_while(server: Server) -> None:
    """The documentation's ``XREAD COUNT 100 BLOCK 300 ... $`` returns nil if no entry arrives."""
    server.given("XADD race:france 1692632086370-0 rider Castilla")
    reader = server.client()
    reader.send("XREAD COUNT 100 BLOCK 300 STREAMS race:france $")
    reader.expect_blocked()
    server.let_pass(300)
    reader.expect_reply(None)
