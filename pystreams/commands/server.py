"""`server replication`: masters and their replicas, and planned failover."""

from __future__ import annotations

import click

from pystreams.commands.verbs import Run, verb, verb_group
from pystreams.errors import fail
from pystreams.output import Column
from pystreams.streams import servers
from pystreams.values import numbers, times


@verb(
    "replication",
    needs="+info",
    options_need={"failover": "+failover +client|pause +client|unpause +replicaof"},
    changes=True,
    examples=(
        "pystreams server replication",
        "pystreams server replication --failover --url redis+sentinel://s1,s2,s3/main",
    ),
)
@click.option(
    "--failover",
    is_flag=True,
    help="Make a replica the master: by Sentinel if the URL names Sentinels, otherwise by FAILOVER.",
)
@click.option("--wait", default="60s", show_default=True, help="Maximum time to wait for the new master.")
def replication(run: Run, failover: bool, wait: str) -> None:
    """Show each master and its replicas, with their lag in bytes; or make a replica the master.

    A failover pauses writes until the new master has all data, so no acknowledged write is lost.
    """
    seconds = times.duration(wait, "--wait") / 1000
    if failover:
        if run.connection.topology.is_cluster:
            raise click.UsageError("In a cluster, send CLUSTER FAILOVER to the replica instead of --failover.")
        before = run.connection.topology.endpoint(None)
        if [each.role for each in servers.replication(run.connection)] == ["master"]:
            fail("NO_REPLICA", node=before)
        if run.may(f"make a replica of {before} the master", {"from": str(before)}):
            after = servers.fail_over(run.connection, seconds)
            run.done(f"The master was {before} and is {after}.", {"from": str(before), "to": str(after)})
        return
    found = servers.replication(run.connection)
    columns = [Column("NODE"), Column("ROLE"), Column("STATE"), Column("OFFSET", right=True)]
    columns += [Column("BEHIND", right=True), Column("LAST SEEN", right=True)]
    cells = [
        [
            each.node,
            each.role,
            each.state,
            numbers.count(each.offset),
            numbers.size(each.behind),
            "-" if each.lag is None else times.shown(each.lag * 1000),
        ]
        for each in found
    ]
    records = [
        {
            "node": each.node,
            "role": each.role,
            "state": each.state,
            "offset": each.offset,
            "behind_bytes": each.behind,
            "seen_seconds_ago": each.lag,
        }
        for each in found
    ]
    if run.out.structured:
        run.out.document({"servers": records}, "servers")
    else:
        run.out.table(columns, cells, empty="No servers.")


VERBS = (verb_group("server", "Replication of servers.", replication),)
