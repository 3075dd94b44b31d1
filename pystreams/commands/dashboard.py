"""`ui`: the dashboard of a server, in a browser."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec

import click

from pystreams.commands.verbs import Run, verb
from pystreams.connect import parent
from pystreams.connect.target import address_of
from pystreams.errors import fail
from pystreams.values import times

_SHORTEST_TOKEN = 16
_READS = (
    "+ping +time +info +scan +xinfo +xlen +xrange +xrevrange +xread +xpending "
    "+memory|usage +client|list +slowlog|get +latency|latest +acl|log"
)


@verb(
    "ui",
    needs=_READS,
    examples=(
        "pystreams ui",
        "pystreams ui --url redis://reader@streams.example.com --port 9000",
        "pystreams ui --allow-changes",
    ),
)
@click.option("--port", default=8379, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A name that browsers may call it by.")
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy in front, whose X-Forwarded-For names the client. Repeatable.",
)
@click.option("--interval", default="2s", show_default=True, help="How often the server is looked at, at most.")
@click.option("--from-parent", is_flag=True, hidden=True, help="Settings from standard input; end with it.")
@click.option("--allow-changes", is_flag=True, help="Let those who are logged in change streams and groups.")
@click.option(
    "--token",
    envvar="PYSTREAMS_DASHBOARD_TOKEN",
    metavar="TEXT",
    help="The token to log in with. Better in PYSTREAMS_DASHBOARD_TOKEN, where other users do not see it.",
)
def ui(
    run: Run,
    port: int,
    bind: str,
    hosts: tuple[str, ...],
    proxies: tuple[str, ...],
    interval: str,
    from_parent: bool,
    allow_changes: bool,
    token: str | None,
) -> None:
    """Serve the dashboard of a server: its streams, groups, pending entries and dead letters in a browser.

    Log in with the URL that is shown when it starts, or as a user of the server. It changes nothing without
    --allow-changes, and answers this machine alone without --bind.
    """
    if token is not None and len(token) < _SHORTEST_TOKEN:
        fail("INVALID_VALUE", name="--token", value="...", expected=f"it must have {_SHORTEST_TOKEN} characters")
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            expected = "it must be an IP address or a network such as 10.0.0.0/8"
            fail("INVALID_VALUE", name="--trusted-proxy", value=proxy, expected=expected)
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        fail("PACKAGE_MISSING", what="pystreams ui", package="starlette", extra="dashboard")
    from pystreams.dashboard.app import run as dashboard  # noqa: PLC0415 - an extra, which other verbs do without

    if from_parent:
        run.wanted = parent.wanted()
        parent.end_with_it()
    pause = max(100, times.duration(interval, "--interval")) / 1000
    settings = dashboard.Settings(bind, port, token or "", allow_changes, hosts, pause, not from_parent, proxies)
    try:
        made = dashboard.listen(bind, port)
    except OSError as cause:
        fail("PORT_UNUSABLE", address=f"{bind}:{port}", reason=cause.strerror or cause)

    def say(line: str) -> None:
        if from_parent:
            run.out.note(line)
        else:
            run.out.line(line)
            run.out.flush()

    with ExitStack() as stack:
        dashboard.run(address_of(run.wanted, f"+echo {_READS}"), settings, made, say, _metrics(run, stack))


def _metrics(run: Run, stack: ExitStack) -> Callable[[str], tuple[bytes, str]] | None:
    """What makes the page for Prometheus until the stack ends; None where the extra is not installed."""
    if find_spec("prometheus_client") is None:
        return None
    from pystreams.metrics import collector, exporter  # noqa: PLC0415 - an extra, which the dashboard does without

    made = exporter.Exporter(collector.Collector(run.wanted))
    stack.callback(made.close)
    return made.page


VERBS = (ui,)
