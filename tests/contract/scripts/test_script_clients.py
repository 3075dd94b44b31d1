"""Scripts as redis-py uses them: locks, registered scripts, and pipelines after a script flush."""

from __future__ import annotations

import pytest
import redis as redis_py

from tests import servers


@pytest.fixture(scope="module")
def client():
    with servers.engine() as running, redis_py.Redis(port=running.port, socket_timeout=20) as client:
        yield client


def test_a_lock(client: redis_py.Redis) -> None:
    """redis-py's lock is acquired once, and only its owner can extend and release it."""
    first, second = client.lock("lock", timeout=30), client.lock("lock", timeout=30, blocking=False)
    assert first.acquire()
    assert not second.acquire()
    assert first.extend(10)
    assert first.reacquire()
    assert first.owned()
    first.release()
    assert second.acquire()
    with pytest.raises(redis_py.exceptions.LockError):
        first.release()


def test_a_registered_script(client: redis_py.Redis) -> None:
    """A registered script is called by its SHA-1, alone and in a pipeline, even if the server has dropped it."""
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert add(keys=["n"], args=[2]) == 2
    client.script_flush()
    assert add(keys=["n"], args=[3]) == 5
    client.script_flush()
    with client.pipeline() as pipeline:
        add(keys=["n"], args=[1], client=pipeline)
        pipeline.get("n")
        assert pipeline.execute() == [6, b"6"]
    with pytest.raises(redis_py.exceptions.NoScriptError):
        client.evalsha("0" * 40, 0)
