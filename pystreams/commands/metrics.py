"""`metrics`: metrics of a server and its streams, for Prometheus."""

from __future__ import annotations

from contextlib import closing

import click

from pystreams.commands.verbs import Run, verb
from pystreams.connect import address_of
from pystreams.errors import fail
from pystreams.metrics import NEEDS, TIMEOUT_SECONDS, UP, Chosen, Collector, Sample, registry_of
from streamclient.errors import error as client_error

#: The port that redis_exporter listens on.
PORT = 9121


@verb(
    "metrics",
    needs=NEEDS,
    examples=(
        "pystreams metrics",
        "pystreams metrics --port 9200 --streams 'orders:*' --limit 200 --consumer-metrics",
        "pystreams metrics --once | grep group_lag",
    ),
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 selects a free port.",
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--streams", "patterns", multiple=True, metavar="PATTERN", help="Name or glob of streams. Repeatable.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Maximum number of streams; 0 omits all streams.",
)
@click.option(
    "--consumer-metrics",
    is_flag=True,
    help="Add metrics of each consumer. Use it only if consumers have permanent names; each name is a new time series.",
)
@click.option(
    "--scrape-timeout",
    type=click.FloatRange(0.1),
    default=TIMEOUT_SECONDS,
    show_default=True,
    help="Timeout of a scrape in seconds.",
)
@click.option("--once", is_flag=True, help="Write the current metrics and exit. Fails if the server is unreachable.")
def metrics(
    run: Run,
    port: int,
    bind: str,
    patterns: tuple[str, ...],
    limit: int,
    consumer_metrics: bool,
    scrape_timeout: float,
    once: bool,
) -> None:
    """Serve a server's metrics for Prometheus, at http://ADDRESS:PORT/metrics.

    Metrics of streams and groups include the lag in seconds and the status. The server's own metrics are those that
    alerts need, with the names of redis_exporter, which has all others. The cost of a scrape depends on the number of
    selected streams. If the server is unreachable, 'redis_up' is 0.
    """
    with closing(
        Collector(run.wanted, Chosen(patterns or ("*",), limit, consumer_metrics), scrape_timeout)
    ) as collector:
        if once:
            _write(run, collector)
            return
        from prometheus_client import start_http_server  # noqa: PLC0415 - an extra, which other verbs do without

        try:
            server, thread = start_http_server(port, bind, registry_of(collector.samples))
        except OSError as cause:
            fail("PORT_UNUSABLE", address=f"{bind}:{port}", reason=cause.strerror or type(cause).__name__)
        shown = f"[{bind}]" if ":" in bind else bind
        run.out.note(f"metrics at http://{shown}:{server.server_port}/metrics")
        thread.join()


def _write(run: Run, collector: Collector) -> None:
    """Write the current metrics, and raise the failure if they are incomplete."""
    samples = collector.samples()
    if run.out.structured:
        for sample in samples:
            run.out.record(_document(sample))
    else:
        from prometheus_client import generate_latest  # noqa: PLC0415 - an extra, which other verbs do without

        run.out.write(generate_latest(registry_of(lambda: samples)).decode())
    if collector.failure is not None:
        raise collector.failure
    if any(sample.metric is UP and not sample.value for sample in samples):
        address = address_of(run.wanted, NEEDS).shown
        raise client_error("SERVER_UNREACHABLE", address=address, reason="redis_up is 0")


def _document(sample: Sample) -> dict[str, object]:
    """Return the name, the labels and the value of a sample."""
    labels = dict(zip(sample.metric.labels, sample.labels, strict=True))
    if sample.node:
        labels["node"] = sample.node
    return {"name": sample.metric.name, "labels": labels, "value": sample.value}


VERBS = (metrics,)
