"""Records of idempotent producers: their expiry and their copies."""

from __future__ import annotations

from random import Random

import pytest

from engine.core.streams.idempotency import Producers
from tests.harness.replay import NOW_US, new_core


@pytest.mark.parametrize("seed", range(10))
def test_records_expire_after_the_duration(seed):
    """Expiry drops exactly the IDs that are too old, and copies do not change with the original."""
    random, producers = Random(seed), Producers(10, 5)
    expected: dict[bytes, dict[bytes, int]] = {}
    copies = []
    for now in range(0, 100_000, 500):
        producer = b"%d" % random.randrange(8)
        sent = expected.setdefault(producer, {})
        sent[b"%d" % now] = now << 64
        producers.remember(producer, b"%d" % now, now << 64)
        if len(sent) > 5:
            del sent[next(iter(sent))]
        if random.random() < 0.2:
            while producers.expire(now, 3) >= 3:
                pass
            limit = (now - 10_000) << 64
            kept = {name: {iid: at for iid, at in sent.items() if at > limit} for name, sent in expected.items()}
            expected = {name: sent for name, sent in kept.items() if sent}
            assert producers.by_producer == expected
        if random.random() < 0.1:
            copies.append((producers.copy(), {name: dict(sent) for name, sent in expected.items()}))
        if random.random() < 0.1 and copies:
            producers, expected = copies.pop()
    assert [copy.by_producer for copy, _ in copies] == [at_copy for _, at_copy in copies]


def test_many_producers_expire_in_steps():
    """The records of very many producers expire in several calls, between which other clients are served."""
    core = new_core()
    session = core.open_session(NOW_US)
    for number in range(5000):
        core.execute(session, [b"XADD", b"s", b"IDMP", b"%d" % number, b"i", b"*", b"f", b"v"], NOW_US)
    late = NOW_US + 1_000_000 * (core.config.integer("stream-idmp-duration") + 1)
    calls = 1
    while core.tick(late):
        calls += 1
    stream = core.databases[0].stream(b"s")
    assert stream is not None
    assert stream.producers is not None
    assert calls > 1
    assert stream.producers.by_producer == {}
