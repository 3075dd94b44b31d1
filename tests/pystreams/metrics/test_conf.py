"""The Grafana dashboard, the alerts and the examples in conf/: validity, and metrics that exist."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from pystreams.metrics import METRICS
from tests import ROOT
from tests.suite.tools import needed

_CONF = ROOT / "conf"
_NAME = re.compile(r"\b(?:redis|pystreams)_\w+")
# A metric of Prometheus itself.
_OWN = re.compile(r"\bup\{job=")
# Labels added by Prometheus and by the relabelling in conf/prometheus.yml.
_ADDED = {"instance", "job", "node"}


def _loaded(name: str) -> Any:
    text = (_CONF / name).read_text()
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


def _of_dashboard() -> Iterator[tuple[str, str, str]]:
    """Yield title, query and legend of each panel, and name and query of each variable."""
    dashboard = _loaded("grafana-dashboard.json")
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"], ""


def _of_alerts() -> Iterator[tuple[str, str, str]]:
    for group in _loaded("prometheus-alerts.yml")["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"], " ".join(rule["annotations"].values())


_QUERIES = [*_of_dashboard(), *_of_alerts()]


@pytest.mark.parametrize(("title", "query", "texts"), _QUERIES, ids=[title for title, _, _ in _QUERIES])
def test_each_query_uses_existing_metrics(title: str, query: str, texts: str) -> None:
    """Queries use existing metrics and labels, close their brackets, and apply `rate` only to counters."""
    names = _NAME.findall(query)
    assert names or _OWN.search(query)
    assert [name for name in names if name not in METRICS] == []
    known = {label for name in names for label in METRICS[name].labels} | _ADDED
    matched = set(re.findall(r"(\w+)\s*=~?\"", query))
    shown = set(re.findall(r"\{\{(\w+)\}\}", texts)) | set(re.findall(r"\$labels\.(\w+)", texts))
    assert (matched | shown) - known == set()
    for opening, closing in ("()", "[]", "{}"):
        assert query.count(opening) == query.count(closing)
    for name in re.findall(r"(?:rate|increase)\((\w+)", query):
        # This metric only grows, but redis_exporter declares it as a gauge.
        assert METRICS[name].kind == "counter" or name == "redis_stream_group_entries_read"


@pytest.mark.parametrize(("title", "query", "texts"), _QUERIES, ids=[title for title, _, _ in _QUERIES])
def test_each_query_is_promql(title: str, query: str, texts: str) -> None:
    """A PromQL parser, which checks the types of functions, accepts each query."""
    asked = re.sub(r"label_values\((.+), \w+\)", r"\1", query.replace("$__rate_interval", "5m"))
    promql_parser.parse(asked)


@pytest.mark.long
def test_alerts_fire_and_resolve() -> None:
    """Prometheus's rule tests pass: an alert fires if a server, an exporter or all targets are gone."""
    tested = ROOT / "tests" / "pystreams" / "metrics" / "alerts.test.yml"
    run = subprocess.run(
        [needed("promtool"), "test", "rules", str(tested)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_panels_do_not_overlap() -> None:
    """No two panels overlap, and each has a unique ID."""
    panels = _loaded("grafana-dashboard.json")["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_examples_fit_together() -> None:
    """The Prometheus example loads the alerts and scrapes the exporter's port, and the KEDA example has all values of
    its scaler.
    """
    prometheus = _loaded("prometheus.yml")
    assert [(_CONF / name).exists() for name in prometheus["rule_files"]] == [True]
    assert prometheus["scrape_configs"][0]["static_configs"][0]["targets"] == ["127.0.0.1:9121"]
    (trigger,) = _loaded("keda-redis-streams.yml")["spec"]["triggers"]
    assert trigger["type"] == "redis-streams"
    assert {"address", "stream", "consumerGroup", "lagCount"} <= set(trigger["metadata"])
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
