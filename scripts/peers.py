"""Newer Redis and Valkey servers for tests and benchmarks, from newer suites of the machine's Debian mirror.

    scripts/peers list           available peers, unpacked peers, and why a suite is not available
    scripts/peers get [NAME...]  download and unpack the named peers, without names all peers
    scripts/peers path [NAME...] path of an unpacked peer's server, for REDIS_SERVER; without names,
                                 all unpacked peers with their paths

Needs apt-get, dpkg-deb and a Debian machine, but no root. The mirror and its signing keys are those in the machine's
package sources. apt runs with its own lists, caches and sources in `.peers/apt`, so the machine's packages and sources
do not change. A peer is `.peers/NAME`: `root` with the unpacked packages of the server and its libraries, and `bin`
with a wrapper for each program, which starts it with the loader and libraries of `root`. Valkey's programs are also
available under Redis's names. The environment variable PEERS_DIR overrides the folder `.peers`.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PEERS_DIR = Path(os.environ.get("PEERS_DIR") or Path(__file__).parent.parent / ".peers").resolve()
#: Debian packages of each product, which have the same version. The second package contains the programs.
PRODUCTS = {"redis": ("redis-server", "redis-tools"), "valkey": ("valkey-server", "valkey-tools")}
#: Debian's names for its suites, oldest first, each with the suites that its packages may depend on.
SUITES = {"stable": (), "testing": (), "unstable": (), "experimental": ("unstable",)}
_ABOUT = "peer.json"


class PeerError(Exception):
    """A peer is not available. The message contains the reason."""


@dataclass(frozen=True)
class Mirror:
    """Package mirror of the machine. `keyring`: file with its signing keys; empty if apt's default keys are used."""

    uri: str
    keyring: str = ""


@dataclass(frozen=True)
class Offer:
    """A server in a suite. ``version``: version of the Debian package (``5:8.0.6-3``)."""

    product: str
    version: str
    suite: str

    @property
    def release(self) -> tuple[int, ...]:
        """The server's own version."""
        return release(self.version)

    @property
    def name(self) -> str:
        """The peer's name: product and first two numbers of the version."""
        return f"{self.product}-{'.'.join(map(str, self.release[:2]))}"


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a Debian version, without epoch, revision and suffixes of the packager."""
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    if found is None:
        raise PeerError(f"{version!r} is not a version")
    return tuple(int(part) for part in found[1].split("."))


def mirror_of(targets: str, codename: str) -> tuple[str, str]:
    """Return the mirror's address, and the file that names it, from ``apt-get indextargets``.

    The mirror is that of the machine's release, or else the first Debian mirror.
    """
    stanzas = [dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.MULTILINE)) for stanza in targets.split("\n\n")]
    main = [stanza for stanza in stanzas if stanza.get("Component") == "main" and stanza.get("Repo-URI")]
    of_release = [
        stanza for stanza in main if codename in (stanza.get("Release"), stanza.get("Codename"), stanza.get("Suite"))
    ]
    debian = [stanza for stanza in main if stanza.get("Label") == "Debian"]
    for stanza in of_release or debian:
        return stanza["Repo-URI"], stanza.get("Sourcesentry", "").rpartition(":")[0]
    raise PeerError("the machine's package sources (/etc/apt/sources.list*) contain no Debian mirror")


def keyring_of(sources: str, uri: str) -> str:
    """Return the keyring for an address in a source file, or an empty text."""
    bare = uri.rstrip("/")
    for stanza in re.split(r"\n\s*\n", sources):
        if bare in stanza and (found := re.search(r"^Signed-By:\s*(/\S+)", stanza, re.MULTILINE | re.IGNORECASE)):
            return found[1]
    for line in sources.splitlines():
        if bare in line and (found := re.search(r"signed-by=(/[^\s\]]+)", line)):
            return found[1]
    return ""


def source_text(mirror: Mirror, suites: Iterable[str]) -> str:
    """Return the text of an apt source file for suites of a mirror."""
    keyring = f"Signed-By: {mirror.keyring}\n" if mirror.keyring else ""
    return f"Types: deb\nURIs: {mirror.uri}\nSuites: {' '.join(suites)}\nComponents: main\n{keyring}"


def offers_in(madison: str, suite: str) -> list[Offer]:
    """Return the servers of one suite, from ``apt-cache madison``."""
    servers = {packages[0]: product for product, packages in PRODUCTS.items()}
    rows = [[cell.strip() for cell in line.split("|")] for line in madison.splitlines()]
    return [
        Offer(servers[row[0]], row[1], suite)
        for row in rows
        if len(row) == 3 and row[0] in servers and f" {suite}/" in row[2]
    ]


def newest(offers: Iterable[Offer]) -> dict[str, Offer]:
    """Return the newest offer for each name, sorted by product and release. Of equal releases, the first one wins."""
    best: dict[str, Offer] = {}
    for offer in offers:
        if offer.name not in best or offer.release > best[offer.name].release:
            best[offer.name] = offer
    return dict(sorted(best.items(), key=lambda item: (item[1].product, item[1].release)))


def to_download(simulation: str, packages: Iterable[str]) -> list[str]:
    """Return the packages to unpack, as ``name=version``, from the output of ``apt-get install --simulate``.

    These are the product's packages and all libraries.
    """
    installed = re.findall(r"^Inst (\S+) (?:\[.*?\] )?\((\S+) ", simulation, re.MULTILINE)
    return [f"{name}={version}" for name, version in installed if name.startswith("lib") or name in packages]


def complaint(output: str) -> str:
    """Return the first error in apt's output, or else its last line."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line[2:].strip() for line in lines if line.startswith("E:")] or lines[-1:] or ["no reason was given"]
    return errors[0]


def output_of(command: list[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Return a command's output. Raises PeerError with the message of a failed command."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd)
    if done.returncode:
        raise PeerError(f"{Path(command[0]).name}: {complaint(done.stderr or done.stdout)}")
    return done.stdout


def wrapper(loader: Path, libraries: Iterable[Path], program: Path) -> str:
    """Return a shell script that starts a program with a given loader and libraries."""
    words = [str(loader), "--library-path", ":".join(map(str, libraries)), str(program)]
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


class Apt:
    """apt with its own lists, caches and sources in a folder."""

    def __init__(self, home: Path) -> None:
        for program in ("apt-get", "apt-cache", "dpkg-deb"):
            if shutil.which(program) is None:
                raise PeerError(f"{program} is missing: peers are unpacked Debian packages, found through apt")
        self.home = home
        for folder in ("lists/partial", "archives/partial", "sources", "settings"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "status").touch()  # count no package as installed, so that all libraries come from the suite
        self._environment = {**os.environ, "LC_ALL": "C", "APT_CONFIG": str(self._settings())}

    def _settings(self) -> Path:
        """Write apt's first settings file, and return its path.

        The machine's settings, such as a proxy, also apply, except files that name programs for apt to run.
        """
        parts = self.home / "settings"
        for path in parts.iterdir():
            path.unlink()
        machine = Path("/etc/apt/apt.conf.d")
        for path in machine.iterdir() if machine.is_dir() else ():
            if os.access(path, os.R_OK) and "Invoke" not in path.read_text():
                (parts / path.name).symlink_to(path)
        settings = self.home / "apt.conf"
        settings.write_text(f'Dir::Etc::parts "{parts}";\n')
        return settings

    def run(self, program: str, *words: str, suite: str = "", cwd: Path | None = None) -> str:
        options: dict[str, object] = {"Acquire::Languages": "none", "APT::Install-Recommends": "false"}
        if os.geteuid() == 0:
            options["APT::Sandbox::User"] = "root"  # apt's user cannot write below a home directory
        if suite:
            options |= {
                "Dir::Etc::sourcelist": self.home / "sources" / f"{suite}.sources",
                "Dir::Etc::sourceparts": "/dev/null",
                "Dir::State::lists": self.home / "lists",
                "Dir::State::status": self.home / "status",
                "Dir::State::extended_states": self.home / "extended_states",
                "Dir::Cache::archives": self.home / "archives",
                "Dir::Cache::pkgcache": "",  # keep no caches: fifty megabytes per suite save only a second
                "Dir::Cache::srcpkgcache": "",
                "Acquire::GzipIndexes": "true",
                "APT::Get::List-Cleanup": "false",  # the suites share one folder of lists
            }
        settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return output_of([program, *settings, *words], self._environment, cwd)

    @functools.cached_property
    def mirror(self) -> Mirror:
        """Debian mirror of the machine."""
        uri, source = mirror_of(self.run("apt-get", "indextargets", "Created-By: Packages"), self.codename())
        path = Path(source)
        return Mirror(uri, keyring_of(path.read_text(), uri) if path.is_file() else "")

    @staticmethod
    def codename() -> str:
        """Return the name of the machine's release."""
        path = Path("/etc/os-release")
        found = re.search(r'^VERSION_CODENAME="?(\w+)', path.read_text() if path.is_file() else "", re.MULTILINE)
        return found[1] if found else ""

    def suites(self) -> dict[str, tuple[str, ...]]:
        """Return the suites to search, each with the suites that its packages may depend on."""
        backports = f"{self.codename()}-backports"
        return {backports: (self.codename(),), **SUITES} if self.codename() else dict(SUITES)

    def offers(self, suite: str, refresh: bool) -> list[Offer]:
        """Return the servers in a suite. Package lists are fetched if they are missing or ``refresh`` is set."""
        source = self.home / "sources" / f"{suite}.sources"
        known = self.home / "sources" / f"{suite}.servers"
        text = source_text(self.mirror, (suite, *self.suites()[suite]))
        if refresh or not known.exists() or source.read_text() != text:
            known.unlink(missing_ok=True)
            source.write_text(text)
            print(f"Fetching the package lists of {suite}", file=sys.stderr)
            self.run("apt-get", "update", "--error-on=any", suite=suite)
            names = [packages[0] for packages in PRODUCTS.values()]
            known.write_text(self.run("apt-cache", "madison", *names, suite=suite))
        return offers_in(known.read_text(), suite)

    def download(self, offer: Offer, folder: Path) -> None:
        """Download the packages of a server and its libraries."""
        packages = PRODUCTS[offer.product]
        pinned = [f"{package}={offer.version}" for package in packages]
        simulation = self.run("apt-get", "install", "--simulate", *pinned, suite=offer.suite)
        self.run("apt-get", "download", *to_download(simulation, packages), suite=offer.suite, cwd=folder)


class Peers:
    """The folder of unpacked peers."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @functools.cached_property
    def apt(self) -> Apt:
        """Access to apt, created on first use: unpacked peers do not need apt."""
        return Apt(self.home / "apt")

    def here(self) -> list[str]:
        """Return the names of unpacked peers."""
        found = (path.parent.name for path in self.home.glob(f"*/{_ABOUT}"))
        return sorted(found, key=lambda name: (name.rpartition("-")[0], release(name.rpartition("-")[2])))

    def server(self, name: str) -> Path:
        """Return the path of an unpacked peer's server."""
        if name not in self.here():
            raise PeerError(
                f"there is no unpacked peer {name!r} (here: {', '.join(self.here()) or 'none'}); "
                f"scripts/peers list shows the available ones, scripts/peers get {name} unpacks it"
            )
        return self.home / name / "bin" / "redis-server"

    def offered(self, refresh: bool = False) -> tuple[dict[str, Offer], dict[str, str]]:
        """Return the available peers by name, and the reasons why other suites have none."""
        offers: list[Offer] = []
        missing: dict[str, str] = {}
        for suite in self.apt.suites():
            try:
                found = self.apt.offers(suite, refresh)
                offers += found
                if not found:
                    missing[suite] = "has neither Redis nor Valkey"
            except PeerError as error:
                missing[suite] = str(error)
        return newest(offers), missing

    def get(self, offer: Offer) -> None:
        """Download and unpack a peer, replacing an existing one. After a failure, the peer counts as missing."""
        with tempfile.TemporaryDirectory(prefix="new-", dir=self.home) as temporary:
            packages, new = Path(temporary) / "packages", Path(temporary) / "peer"
            packages.mkdir()
            (new / "root").mkdir(parents=True)
            print(f"Downloading {offer.name}: {offer.version} of {offer.suite}", file=sys.stderr)
            self.apt.download(offer, packages)
            for package in sorted(packages.glob("*.deb")):
                output_of(["dpkg-deb", "-x", str(package), str(new / "root")])
            final = self.home / offer.name
            shutil.rmtree(final, ignore_errors=True)
            new.rename(final)
            wrap(final)
            output = output_of([str(final / "bin" / "redis-server"), "--version"])
            about = {"version": offer.version, "suite": offer.suite, "server": output.strip()}
            (final / _ABOUT).write_text(json.dumps(about, indent=2) + "\n")

    def about(self, name: str) -> Mapping[str, str]:
        """Return the recorded facts about an unpacked peer: ``version``, ``suite``, ``server``."""
        known: dict[str, str] = json.loads((self.home / name / _ABOUT).read_text())
        return known


def wrap(peer: Path) -> None:
    """Write the wrappers of an unpacked peer's programs, under their own names and under Redis's."""
    root = peer / "root"
    loaders = [path for path in sorted(root.rglob("ld-linux*.so.*")) if path.is_file() and not path.is_symlink()]
    if not loaders:
        raise PeerError(f"{peer.name}: the packages contain no ld-linux*.so.*")
    # Search both /usr/lib and /lib: packages from before their merge have libraries in both.
    triplet = loaders[0].parent.name
    libraries = [path for top in ("usr/lib", "lib") if (path := root / top / triplet).is_dir()]
    (peer / "bin").mkdir()
    programs = (root / "usr" / "bin").iterdir()
    for program in sorted(path for path in programs if path.name.startswith(tuple(PRODUCTS))):
        for name in {program.name, program.name.replace("valkey-", "redis-", 1)}:
            script = peer / "bin" / name
            script.write_text(wrapper(loaders[0], libraries, program))
            script.chmod(0o755)


def show(peers: Peers, refresh: bool) -> None:
    """Print the available and the unpacked peers."""
    offered, missing = peers.offered(refresh)
    here = peers.here()
    print(f"{'name':14}{'package':28}{'suite':22}here")
    for name, offer in offered.items():
        have = peers.about(name)["version"] if name in here else "no"
        print(f"{name:14}{offer.version:28}{offer.suite:22}{'yes' if have == offer.version else have}")
    print("".join(reasons(missing)), end="")


def reasons(missing: Mapping[str, str]) -> list[str]:
    """Return a line for each suite without an available peer."""
    return [f"not from {suite}: {why}\n" for suite, why in missing.items()]


def fetch(peers: Peers, names: list[str], refresh: bool) -> bool:
    """Unpack missing peers: those in ``names``, or all available peers if it is empty. With ``refresh``, also replace
    outdated peers. Return whether that succeeded.
    """
    if names and not refresh and set(names) <= set(peers.here()):
        return True
    offered, missing = peers.offered(refresh)
    unknown = [name for name in names if name not in offered]
    if unknown:
        whys = "".join(reasons(missing))
        raise PeerError(f"no {', '.join(unknown)}: there is {', '.join(offered) or 'nothing'}\n{whys}".rstrip())
    if not names:
        print("".join(reasons(missing)), end="", file=sys.stderr)
    good = bool(offered)
    for name in names or offered:
        if name in peers.here() and (not refresh or peers.about(name)["version"] == offered[name].version):
            continue
        try:
            peers.get(offered[name])
        except PeerError as error:
            good = False
            hint = "" if refresh else "; the lists may be old: scripts/peers get --refresh"
            print(f"{name}: {error}{hint}", file=sys.stderr)
    return good


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("list", "get", "path"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="a peer, such as valkey-8.1")
    parser.add_argument("--refresh", action="store_true", help="fetch the package lists of the suites again")
    options = parser.parse_args()
    PEERS_DIR.mkdir(parents=True, exist_ok=True)
    peers = Peers(PEERS_DIR)
    try:
        with (PEERS_DIR / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process at a time
            if options.action == "list":
                show(peers, options.refresh)
            elif options.action == "get":
                return 0 if fetch(peers, options.names, options.refresh) else 1
            else:
                for name in options.names or peers.here():
                    print(peers.server(name) if options.names else f"{name} {peers.server(name)}")
    except PeerError as error:
        print(f"scripts/peers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
