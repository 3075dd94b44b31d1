"""ACL rules: each verb works with exactly the rules that its NOT_PERMITTED error names."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import redis

from pystreams.commands.verbs import NEEDS
from tests import servers
from tests.pystreams.conftest import Cli, verbs

_LINES = """
ls
info s
produce s n=1
tail s
groups create s h --at -1 -y
groups ls s
groups lag
groups describe s g
groups seek s g --to -1 -y
consume s -g g --ack
pending ls s p
pending claim s p --to c2 --idle 0s --consumer c -y
pending nack s p 1-0 -y
pending ack s p --all -y
consumers rm s p c2 -y
groups rm s h -y
dlq ls
dlq ls dead
dlq replay dead 1-0 -y
dlq purge dead --all -y
export s file.jsonl
import file.jsonl i
trim s --acked -y
trim s --older-than 1d -y
groups rm s 'q*' -y
rm i* -y
server replication
metrics --once
batches ls
"""


def _verb(words: list[str]) -> click.Command:
    command = verbs()[words[0]]
    return command.commands[words[1]] if isinstance(command, click.Group) else command


def test_the_named_rules_suffice(cli_of: Cli, client: redis.Redis, instance: servers.Running, tmp_path: Path) -> None:
    """Each command succeeds for a user with only the rules listed for its verb."""
    for number in (1, 2):
        client.xadd("s", {"n": 1}, id=f"{number}-0")
        origin = {"_original_stream": "s", "_original_id": "1-0", "_original_deliveries": 3, "_reason": "r"}
        client.xadd("dead", {**origin, "n": 1}, id=f"{number}-0")
    for group in ("g", "p"):
        client.xgroup_create("s", group, 0)
    client.xreadgroup("p", "c", {"s": ">"})
    url = f"redis://narrow:pass@{instance.host}:{instance.port}"
    try:
        for line in _LINES.strip().splitlines():
            words = shlex.split(line.replace("file.jsonl", str(tmp_path / "file.jsonl")))
            client.execute_command(
                "ACL", "SETUSER", "narrow", "reset", "on", ">pass", "~*", *NEEDS[_verb(words)].split()
            )
            result = cli_of.result(*words, "--url", url)
            assert (line, result.exit_code, result.stderr.count("NOPERM")) == (line, 0, 0), result.output
    finally:
        client.acl_deluser("narrow")


def test_a_missing_permission_is_named(cli_of: Cli, client: redis.Redis, instance: servers.Running) -> None:
    """The error names a key that the user may not read, and the rules for the options that were used."""
    client.xadd("orders", {"n": 1})
    url = ("--url", f"redis://narrow:pass@{instance.host}:{instance.port}")
    try:
        client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", ">pass", "~visits", "+@read", "+echo")
        refusal = cli_of.failure("info", "orders", *url, status=6)
        assert "XINFO with the key 'orders'" in refusal
        assert "All required permissions: ACL SETUSER narrow ~orders +echo +scan" in refusal
        for words, rules in (
            ((), "narrow +echo +info ("),
            (("--failover", "--yes"), "narrow +echo +info +failover +client|pause +client|unpause +replicaof ("),
        ):
            assert rules in cli_of.failure("server", "replication", *words, *url, status=6)
    finally:
        client.acl_deluser("narrow")
