"""scripts/peers: reading the machine's package sources and apt's output. Downloading is not tested here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import peers
from tests import ROOT
from tests.suite.tools import needed

SCRIPT = ROOT / "scripts" / "peers.py"


def target(release: str, uri: str, label: str = "", component: str = "main") -> str:
    """Return a stanza of ``apt-get indextargets``."""
    lines = [f"Release: {release}", f"Component: {component}", f"Repo-URI: {uri}", "Sourcesentry: /etc/apt/a.sources:1"]
    return "".join(f"{line}\n" for line in [*lines, *([f"Label: {label}"] if label else [])])


def test_the_mirror_is_that_of_the_machine_s_release() -> None:
    """The mirror is that of the machine's own release, not of other repositories before or after it."""
    targets = "\n".join(
        [
            target("nodistro", "https://nodes/"),
            target("twelve", "http://mirror/"),
            target("twelve-security", "http://s/"),
        ]
    )
    assert peers.mirror_of(targets, "twelve") == ("http://mirror/", "/etc/apt/a.sources")


@pytest.mark.parametrize(
    ("sources", "keyring"),
    [
        ("URIs: http://other\nSigned-By: /k/o.gpg\n\nURIs: http://mirror\nSigned-By: /k/m.gpg\n", "/k/m.gpg"),
        ("deb [signed-by=/k/o.gpg] http://other a\ndeb [signed-by=/k/m.gpg] http://mirror a main\n", "/k/m.gpg"),
        ("deb http://mirror twelve main\n", ""),
    ],
)
def test_the_keyring_is_that_of_the_mirrors_source(sources: str, keyring: str) -> None:
    """The keyring is found in both formats of source files; it is empty if the source uses apt's own trust."""
    assert peers.keyring_of(sources, "http://mirror/") == keyring


def test_of_equal_names_the_latest_release_is_chosen() -> None:
    """Versions are compared as numbers, and of equal releases the first suite is chosen."""
    offers = [
        peers.Offer("redis", "5:8.0.9-1", "stable"),
        peers.Offer("redis", "5:8.0.10-3", "testing"),
        peers.Offer("redis", "5:8.0.10-3", "unstable"),
        peers.Offer("redis", "5:8.10.1-1", "unstable"),
        peers.Offer("redis", "5:8.6.1-1", "unstable"),
    ]
    found = peers.newest(offers)
    assert {name: offer.suite for name, offer in found.items()} == {
        "redis-8.0": "testing",
        "redis-8.6": "unstable",
        "redis-8.10": "unstable",
    }
    assert list(found) == ["redis-8.0", "redis-8.6", "redis-8.10"]


def test_a_wrapper_passes_its_arguments(tmp_path: Path) -> None:
    """The program gets its arguments unchanged, also from a folder with a blank in its name."""
    loader = tmp_path / "a b" / "loader"
    loader.parent.mkdir()
    loader.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    loader.chmod(0o755)
    script = tmp_path / "redis-server"
    script.write_text(peers.wrapper(loader, [Path("/l 1"), Path("/l2")], Path("/r/redis-server")))
    done = subprocess.run([needed("sh"), str(script), "--save", ""], capture_output=True, text=True, check=True)
    assert done.stdout == "--library-path\n/l 1:/l2\n/r/redis-server\n--save\n\n"
