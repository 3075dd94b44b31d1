"""The contracts about imports: they can fail, cover every package, and are drawn on the architecture page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts import architecture
from tests import ROOT

_LINT = str(Path(sys.executable).with_name("lint-imports"))


def test_the_page_shows_the_current_packages() -> None:
    """The drawing on the page equals the output of `python scripts/architecture.py`."""
    page = architecture.PART.page.read_text()
    assert architecture.PART.replaced(page, architecture.written()) == page


def test_every_package_has_a_layer() -> None:
    """Every subpackage and every top-level module of a package has a layer in the contracts."""
    named = {module for _, rows in architecture.layers() for row in rows for module in row}
    packages = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in (
            "streamwire",
            "streamclient",
            "engine",
            "engine/core",
            "engine/shell",
            "spark_streams",
            "spark_streams/read",
            "spark_streams/write",
            "pystreams",
        )
        for path in (ROOT / package).iterdir()
        if path.name not in ("__init__.py", "__pycache__", "py.typed") and not path.name.startswith(".")
    }
    # The subpackages of engine.core and engine.shell have layers instead. A version number belongs to no layer.
    assert packages - named == {"engine.core", "engine.shell", "engine.version"}


def test_every_package_has_a_summary() -> None:
    """The docstring of every package in a layer has a first sentence, which the page shows."""
    packages = [module for _, rows in architecture.layers() for row in rows for module in row]
    assert [module for module in packages if not architecture.summary(module)] == []


def test_the_pages_name_files_that_exist() -> None:
    """Every path on a page is a file or folder of the checkout, or is created by a run."""
    folders = "streamwire|streamclient|engine|spark_streams|pystreams|tests|scripts|jobs|conf|benchmarks|docs"
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    paths = {path for page in pages for path in re.findall(rf"`((?:{folders})/[\w/.]*)`", page.read_text())}
    assert len(paths) > 80
    assert {path for path in paths if not (ROOT / path).exists()} <= {"benchmarks/results/"}


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_LINT, "--no-cache"], cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )


#: Imports that the contracts forbid: the file, the line, the contract, and the check's message about it.
_FORBIDDEN = [
    (
        "engine/text/words.py",
        "from engine.core.streams import stream",
        "engine-layers",
        "engine.text.words -> engine.core.streams.stream",
    ),
    (
        "spark_streams/reports.py",
        "from spark_streams.config import options",
        "connector-layers",
        "spark_streams.reports -> spark_streams.config.options",
    ),
    (
        "spark_streams/write/protocol.py",
        "from spark_streams.write import publishing",
        "write-layers",
        "spark_streams.write.protocol -> spark_streams.write.publishing",
    ),
    (
        "streamclient/link.py",
        "import engine.wire.parser",
        "packages",
        "streamclient.link -> engine.wire.parser",
    ),
    (
        "pystreams/streams/inventory.py",
        "from spark_streams.read import batch",
        "command-line-uses",
        "pystreams.streams.inventory -> spark_streams.read.batch",
    ),
    (
        "engine/core/protocol/replies.py",
        "from engine.core.protocol import args",
        "no-circles",
        "No cycles are allowed in engine.core.protocol.",
    ),
]


def test_contracts_can_fail(tmp_path: Path) -> None:
    """An import upwards, across or in a cycle fails the check, even one under TYPE_CHECKING."""
    for name in ("streamwire", "streamclient", "engine", "spark_streams", "pystreams"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, line, _, _ in _FORBIDDEN:
        path = tmp_path / module
        path.write_text(f"{path.read_text()}\n\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    {line}\n")
    run = _lint(tmp_path)
    assert run.returncode != 0, run.stdout
    names = {contract["id"]: contract["name"] for contract in architecture.contracts()}
    parts = re.split("^(.+)\n-+$", run.stdout, flags=re.MULTILINE)
    found = {title: " ".join(text.split()) for title, text in zip(parts[1::2], parts[2::2], strict=True)}
    for _, _, broken, message in _FORBIDDEN:
        assert message in found[names[broken]]
