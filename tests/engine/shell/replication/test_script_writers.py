"""Programs that write only through scripts lose nothing in a failover."""

from __future__ import annotations

import threading

import pytest
import redis

from tests import servers
from tests.engine.shell.replication.family import follow, replication, wait_until_up
from tests.suite.waiting import wait_for

PUSH = "redis.call('RPUSH', KEYS[1], ARGV[1]) return 1"
LIBRARY = "#!lua name=queue\nredis.register_function('push', function(keys, args) "
LIBRARY += "return redis.call('RPUSH', keys[1], args[1]) end)"


class Writer(threading.Thread):
    """Pushes numbers in one way until the server refuses; `accepted` has the acknowledged numbers."""

    def __init__(self, port: int, way: str) -> None:
        super().__init__(daemon=True)
        self._port, self._way = port, way
        self.accepted: list[bytes] = []

    def run(self) -> None:
        with redis.Redis(port=self._port, socket_timeout=60) as client:
            sha = client.script_load(PUSH)
            for number in range(1_000_000):
                item = b"%s-%d" % (self._way.encode(), number)
                try:
                    if self._way == "eval":
                        client.eval(PUSH, 1, "queue", item)
                    elif self._way == "evalsha":
                        client.evalsha(sha, 1, "queue", item)
                    elif self._way == "fcall":
                        client.fcall("push", 1, "queue", item)
                    else:
                        with client.pipeline(transaction=True) as pipe:
                            pipe.eval(PUSH, 1, "queue", item).execute()
                except redis.RedisError:
                    return
                self.accepted.append(item)


@pytest.mark.redis
def test_a_failover_under_script_writers_completes_and_loses_nothing() -> None:
    """FAILOVER succeeds during EVAL, EVALSHA, FCALL and MULTI; the new master has each acknowledged write."""
    with (
        servers.engine() as first,
        servers.engine() as second,
        redis.Redis(port=first.port) as master,
        redis.Redis(port=second.port) as replica,
    ):
        follow(replica, first.port)
        wait_until_up(replica)
        master.function_load(LIBRARY)
        writers = [Writer(first.port, way) for way in ("eval", "evalsha", "fcall", "multi")]
        for writer in writers:
            writer.start()
        for writer in writers:
            wait_for(lambda writer=writer: len(writer.accepted) > 20, "every writer to write")
        master.execute_command("FAILOVER")
        wait_for(lambda: replication(replica)["role"] == "master", "the replica to lead")
        for writer in writers:
            writer.join(60)
            assert not writer.is_alive()
        here = set(replica.lrange("queue", 0, -1))
        assert [item for writer in writers for item in writer.accepted if item not in here] == []
