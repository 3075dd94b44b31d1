"""Lines of the engine's log, as text and as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.settings.config import Config
from engine.shell.observation.log_lines import LOG, start_logging


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    """Yield a configuration whose log goes to a file, and restore the logger after the test."""
    level, propagate, handlers = LOG.level, LOG.propagate, list(LOG.handlers)
    made = Config()
    made.put("logfile", str(tmp_path / "log").encode())
    yield made
    for handler in LOG.handlers:
        if handler not in handlers:
            LOG.removeHandler(handler)
            handler.close()
    LOG.setLevel(level)
    LOG.propagate = propagate


def _failed() -> None:
    try:
        raise ValueError("of a\nvalue")
    except ValueError:
        LOG.error("it failed: %r", b"\xff\n", exc_info=sys.exc_info())


def test_each_line_is_a_json_object(config: Config, tmp_path: Path) -> None:
    """Line breaks and quotes are escaped, and a traceback is a field of its line."""
    config.put("log-format", b"json")
    start_logging(config)
    LOG.info('a "word", %d', 7)
    _failed()
    first, second = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (first["level"], first["message"], first["logger"]) == ("info", 'a "word", 7', "pystreams.engine")
    assert first["time"].endswith("+00:00")
    assert "exception" not in first
    assert (second["level"], second["message"]) == ("error", "it failed: b'\\xff\\n'")
    assert second["exception"].endswith("ValueError: of a\nvalue")


def test_the_format_changes_while_the_engine_runs(config: Config, tmp_path: Path) -> None:
    """CONFIG SET log-format changes the format of later lines, and the log level stays."""
    start_logging(config)
    LOG.warning("for people")
    assert config.change([(b"log-format", b"json")]) is None
    LOG.warning("for programs")
    assert config.change([(b"log-format", b"xml")]) is not None
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.endswith("WARNING for people")
    assert json.loads(second)["message"] == "for programs"
    assert LOG.level == logging.INFO
