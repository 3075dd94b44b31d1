"""Every example on every page runs, in order, and has the output that the page shows.

The examples of slow pages run only in `make test-long`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from spark_streams.errors import CONDITIONS
from tests import ROOT, servers
from tests.documentation.blocks import PARSED, RUN, SHOWN, Block, blocks_of, pages
from tests.documentation.running import Reader, server_of_session
from tests.suite.long import long_only


def _runs(block: Block) -> bool:
    return block.language in RUN | PARSED and not block.excuse


#: Pages whose examples take ten seconds and more.
_GUIDES = "archive backfill cdc dead-letters enrichment fixes notebooks reading retention scaling-out schemas state"
_LONG = {
    "concepts/from-redis.md",
    "reference/columns.md",
    *(f"guides/{name}.md" for name in (*_GUIDES.split(), "testing")),
}


#: Link to the page that creates a session. Other pages with Python create one themselves.
_SESSION = "start.md#read-the-entries-into-spark"


def _with_examples(spark: bool) -> list[object]:
    """Return the pages with executable examples: those that use Spark, or the others."""
    found = {
        str(page.relative_to(ROOT)).removeprefix("docs/"): [block for block in blocks_of(page) if _runs(block)]
        for page in pages()
    }
    return [
        pytest.param(blocks, id=name, marks=[long_only] if name in _LONG else [])
        for name, blocks in found.items()
        if blocks and spark == any(block.language in ("python", "sql") and not block.file for block in blocks)
    ]


def _empty(server: servers.Running) -> None:
    with redis.Redis(host=server.host, port=server.port) as client:
        client.flushall()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty directory, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("blocks", _with_examples(spark=False))
def test_the_examples_of_a_page(blocks: list[Block], engine_process: servers.Running, here: Path) -> None:
    """Commands, transcripts and settings of a page work on an empty engine, which is restored afterwards."""
    _empty(engine_process)
    reader = Reader(engine_process, here)
    with redis.Redis(host=engine_process.host, port=engine_process.port) as client:
        settings = client.config_get("*")
        try:
            for block in blocks:
                reader.follow(block)
        finally:
            now = client.config_get("*")
            for name, value in settings.items() - now.items():
                client.config_set(name, value)
    _empty(engine_process)


@pytest.mark.spark
@pytest.mark.parametrize("blocks", _with_examples(spark=True))
def test_the_examples_of_a_page_with_spark(
    blocks: list[Block],
    spark: SparkSession,
    spark_engine: servers.Running,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python and SQL of a page run in the Spark session that all tests share, on an empty engine."""
    _empty(spark_engine)
    monkeypatch.setenv("PYSTREAMS_URL", spark_engine.url)  # for what the page does outside of Spark
    reader = Reader(spark_engine, here)
    if _SESSION in (ROOT / blocks[0].page).read_text():
        reader.names["spark"] = spark
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        with server_of_session(spark, spark_engine.url):
            for block in blocks:
                reader.follow(block)
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.conf.set("spark.sql.shuffle.partitions", partitions)  # a page's session sets its own
        _empty(spark_engine)


def test_every_block_has_a_known_language() -> None:
    """Every block has a language that is run or parsed, or is plain text, so that no example is untested by mistake."""
    known = RUN | PARSED | SHOWN
    assert [block.location for page in pages() for block in blocks_of(page) if block.language not in known] == []


def test_few_blocks_do_not_run() -> None:
    """At most twenty blocks do not run. Each has a reason before it, and every reason belongs to a block."""
    excused = [block for page in pages() for block in blocks_of(page) if block.excuse]
    assert all(len(block.excuse) > 15 and block.language in RUN | PARSED for block in excused)
    markers = sum(len(re.findall(r"^<!-- not run: ", page.read_text(), re.MULTILINE)) for page in pages())
    assert markers == len(excused)
    assert len(excused) <= 20


def test_the_product_names_pages_and_anchors_that_exist() -> None:
    """Each page in a text of the product exists with its anchor, and each error of the connector has an anchor."""
    packages = ("engine", "spark_streams", "streamclient", "streamwire", "pystreams", "jobs")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py")]
    named = {found for file in files for found in re.findall(r"docs/[\w/-]+\.md(?:#[\w-]+)?", file.read_text())}
    named |= {f"docs/reference/errors.md#{name}" for name in CONDITIONS}
    missing = []
    for name in sorted(named):
        page, _, anchor = name.partition("#")
        text = (ROOT / page).read_text() if (ROOT / page).exists() else ""
        headings = {
            re.sub(r"[^\w-]", "", each.lower().replace(" ", "-"))
            for each in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        if not text or (anchor and anchor not in headings and f'<a id="{anchor}">' not in text):
            missing.append(name)
    assert missing == []
