"""`doctor`, `serve` and `server replication`: a server's capabilities, the engine in the foreground, and replicas."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import click
from click.core import ParameterSource

from pystreams.commands.verbs import PERIOD, Run, examples_of, exit_with_found, verb, verb_group
from pystreams.errors import error, fail, status_of
from pystreams.measures import BYTES, DURATION, TEXT, Form, Measure, View
from pystreams.output import Output
from pystreams.streams import checkup, servers
from pystreams.streams.checkup import STYLES, Finding, Verdict
from pystreams.streams.servers import Replica
from streamwire import bootstrap

_REPLICATION: View[Replica] = (
    Measure("node", lambda row: row.node, TEXT),
    Measure("role", lambda row: row.role, TEXT),
    Measure("state", lambda row: row.state, TEXT),
    Measure("offset", lambda row: row.offset),
    Measure("behind", lambda row: row.behind, BYTES, "behind_bytes"),
    Measure(
        "seen", lambda row: None if row.lag is None else row.lag * 1000, DURATION, "seen_seconds_ago", title="LAST SEEN"
    ),
)


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
@click.option("--wait", type=PERIOD, default="60s", show_default=True, help="Maximum time to wait for the new master.")
def replication(run: Run, failover: bool, wait: int) -> None:
    """Show each master and its replicas, with their lag in bytes; or make a replica the master.

    A failover pauses writes until the new master has all data, so no acknowledged write is lost.
    """
    if failover:
        if run.connection.topology.is_cluster:
            raise click.UsageError("In a cluster, send CLUSTER FAILOVER to the replica instead of --failover.")
        before = run.connection.topology.endpoint(None)
        if [each.role for each in servers.replication(run.connection)] == ["master"]:
            fail("NO_REPLICA", node=before)
        if run.may(f"make a replica of {before} the master", {"from": str(before)}):
            after = servers.fail_over(run.connection, wait / 1000)
            run.done(f"The master was {before} and is {after}.", {"from": str(before), "to": str(after)})
        return
    run.show("servers", _REPLICATION, servers.replication(run.connection), empty="No servers.")


_FINDINGS: View[Finding] = (
    Measure("check", lambda row: row.subject, TEXT, "what"),
    Measure("verdict", lambda row: row.verdict.value, Form("verdict", str, right=False, styles=STYLES)),
    Measure("found", lambda row: row.found, TEXT),
)
_ADVICE: View[Finding] = (Measure("advice", lambda row: row.advice, TEXT),)


@verb(
    "doctor",
    examples=(
        "pystreams doctor",
        "pystreams doctor redis://reader@streams.example.com",
        "pystreams doctor --json | jq '.findings[] | select(.verdict == \"problem\")'",
    ),
)
@click.argument("address", metavar="[URL]", required=False)
@click.option("--probe", is_flag=True, help="Find the user's rights by calls, whose refusals ACL LOG shows.")
def doctor(run: Run, address: str | None, probe: bool) -> None:
    """Check a server's capabilities, security and durability, and the user's permissions, and give advice.

    Checks the release, clocks, scripts, eviction, memory, persistence and replicas. The security checks cover
    passwords, encryption, the permission for each command, and rights of the default user. Nothing is changed. Ends
    with status 3 if there is a problem.

    The permission for each command is known if the user may call ACL DRYRUN, or with --probe.
    """
    if address is not None:
        run.use(address)
    findings = list(run.out.progress("checks", checkup.check(run.connection, probe=probe)))
    run.show("findings", _FINDINGS, findings, more=_ADVICE, url=run.connection.address.shown)
    advice = [f"{each.subject}: {each.advice}" for each in findings if each.advice and each.verdict != Verdict.OK]
    if advice and not run.out.structured:
        run.out.line()
        for line in advice:
            run.out.line(line)
    if any(each.verdict == Verdict.PROBLEM for each in findings):
        exit_with_found(run)


_SERVE_EXAMPLES = (
    "pystreams serve",
    "pystreams serve --data /var/lib/streams --appendfsync always",
    "pystreams serve --config /etc/pystreams.conf",
    "pystreams serve --port 7000 --maxmemory 2gb",
)


@click.command("serve", context_settings={"ignore_unknown_options": True}, epilog=examples_of(_SERVE_EXAMPLES))
@click.option("--data", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Data directory.")
@click.option("--port", default=6379, show_default=True, help="Port to listen on; 0 selects a free port.")
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of directives like redis.conf; the command line overrides it.",
)
@click.argument("directives", nargs=-1, type=click.UNPROCESSED, metavar="[--DIRECTIVE VALUE]...")
@click.pass_context
def serve(
    ctx: click.Context,
    data: Path | None,
    port: int,
    bind: str,
    config: Path | None,
    directives: tuple[str, ...],
) -> None:
    """Run the engine in the foreground, until Ctrl-C or SIGTERM.

    With --data, changes are logged to an append-only file in that directory. Without --data, data exists only in memory
    and is lost when the engine stops, unless --config sets persistence. Each directive of the engine can be given as a
    flag; 'conf/engine.conf' explains the directives. 'pystreams ui' and 'pystreams metrics' are processes of their own.
    """
    settings = [] if config is None else [str(config.absolute())]
    for name, value in (("port", str(port)), ("bind", bind)):
        # Default values do not override the configuration file.
        if config is None or ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            settings += [f"--{name}", value]
    if data is None:
        settings += ["--save", ""] if config is None else []
    else:
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as cause:
            raise click.BadParameter(f"{data} cannot be created: {cause.strerror}", param_hint="--data") from None
        settings += ["--dir", str(data.absolute()), "--appendonly", "yes"]
    if importlib.util.find_spec("xxhash") is None:  # required only by the engine
        failure = error("PACKAGE_MISSING", what=ctx.command_path, package="xxhash", extra="engine")
        Output().failed(failure)
        ctx.exit(status_of(failure))
    command = [*bootstrap.program("engine.__main__"), *settings, *directives]
    # The engine replaces this process: it receives the signals and sets the exit status.
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


VERBS = (doctor, serve, verb_group("server", "Replication of servers.", replication))
