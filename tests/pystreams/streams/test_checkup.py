"""`pystreams doctor` for a user without permission to read the server's status."""

from __future__ import annotations

from contextlib import closing

import redis

from pystreams.connect import Wanted, connect
from pystreams.streams.checkup import check
from tests import servers


def test_without_info_and_config_their_facts_are_unknown(instance: servers.Running, client: redis.Redis) -> None:
    """Without INFO and CONFIG, persistence and memory are reported as unknown, and replicas are not mentioned."""
    client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", ">pass", "~*", "+@all", "-info", "-config")
    try:
        with closing(connect(Wanted(f"redis://narrow:pass@{instance.host}:{instance.port}"), "")) as connection:
            found = {finding.subject: finding.found for finding in check(connection)}
    finally:
        client.acl_deluser("narrow")
    assert found["server"] == "INFO is refused"
    assert (found["persistence"], found["memory"]) == ("unknown", "unknown")
    assert "replicas" not in found


def test_a_user_name_that_contains_key_does_not_hide_refused_commands(
    instance: servers.Running, client: redis.Redis
) -> None:
    """A refused command is not mistaken for a refused key if the user's name contains "key"."""
    client.execute_command("ACL", "SETUSER", "monkey", "reset", "on", ">pass", "~*", "+@all", "-xreadgroup")
    try:
        with closing(connect(Wanted(f"redis://monkey:pass@{instance.host}:{instance.port}"), "")) as connection:
            found = {finding.subject: finding.found for finding in check(connection, probe=True)}
    finally:
        client.acl_deluser("monkey")
    assert found["user"] == "monkey may not call XREADGROUP (reading with a group)"
    assert "keys" not in found
