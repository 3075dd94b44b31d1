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


def test_the_first_mirror_of_debian_is_the_fallback() -> None:
    """If the machine's release has no name, as on sid, the first mirror of Debian is used, not that of a vendor."""
    targets = "\n".join([target("stable", "http://vendor/", "Vendor"), target("sid", "http://mirror/", "Debian")])
    assert peers.mirror_of(targets, "")[0] == "http://mirror/"


def test_no_mirror_is_an_error_that_names_the_sources() -> None:
    """With only third-party repositories, the error names the source files."""
    with pytest.raises(peers.PeerError, match=r"/etc/apt/sources\.list"):
        peers.mirror_of(target("nodistro", "https://nodes/"), "twelve")


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


def test_a_suites_servers_are_found_and_named() -> None:
    """Only rows of the suite itself count, not those of suites it depends on; names have two version numbers."""
    madison = (
        "redis-server | 5:8.6.3-1 | http://mirror/debian experimental/main amd64 Packages\n"
        "redis-server | 5:8.0.6-3 | http://mirror/debian unstable/main amd64 Packages\n"
        "valkey-server | 9.1.2+dfsg1-1~bpo12+1 | http://mirror/debian experimental/main amd64 Packages\n"
    )
    offers = peers.offers_in(madison, "experimental")
    assert [(offer.name, offer.release) for offer in offers] == [("redis-8.6", (8, 6, 3)), ("valkey-9.1", (9, 1, 2))]


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


def test_server_packages_and_libraries_are_downloaded() -> None:
    """Packages that only a running system needs, such as adduser, are left out."""
    simulation = (
        "Inst libc6 (2.44-3 Debian:testing [amd64])\n"
        "Inst adduser (3.159 Debian:testing [all])\n"
        "Inst redis-tools (5:8.0.6-3 Debian:testing [amd64])\n"
        "Conf libc6 (2.44-3 Debian:testing [amd64])\n"
    )
    chosen = peers.to_download(simulation, ("redis-server", "redis-tools"))
    assert chosen == ["libc6=2.44-3", "redis-tools=5:8.0.6-3"]


def test_the_first_error_of_apt_is_reported() -> None:
    """Warnings before the first error and further errors after it are not reported."""
    output = "W: old\nE: The repository 'http://mirror x Release' does not have a Release file.\nE: Some more\n"
    assert peers.complaint(output).startswith("The repository")
    assert peers.complaint("killed\n") == "killed"


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
