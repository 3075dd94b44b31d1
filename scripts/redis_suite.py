"""Run Redis's own Tcl suite against the engine. The suite starts the servers itself.

    scripts/redis-suite [--release 8.6] [UNIT...]

The sources come from the machine's Debian mirror, as with `scripts/peers`, and are unpacked in `.peers/suite`. They do
not belong to this project. `src/redis-server` is replaced by a program that starts the engine of this checkout and
prints the line that the suite waits for. UNIT is a name such as `unit/type/stream`. Without UNIT, all units about
features of the engine run. Needs tclsh, redis-cli, redis-benchmark and apt-get.

Each unit's output is kept next to the sources. Failures that name a family of commands which the engine leaves out are
counted by family; docs/reference/programs.md explains the others.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.peers import PEERS_DIR, Apt, PeerError, source_text

ROOT = Path(__file__).resolve().parent.parent
#: Debian suites with the sources of each release.
SUITES = {"7.0": "bookworm", "8.0": "testing", "8.6": "experimental"}
_SECONDS = 600  # timeout of a unit
#: Error of the engine about a command that it leaves out, with the command's family.
_LEFT_OUT = re.compile(r"this engine stores streams; (.+?) needs? Redis or Valkey")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Units that run by default: about streams, strings, hashes, keys, transactions, pub/sub, users, files and replicas.
UNITS = (
    *(f"unit/type/{name}" for name in ("stream", "stream-cgroups", "string", "incr", "hash")),
    *("unit/auth", "unit/protocol", "unit/keyspace", "unit/scan", "unit/expire", "unit/dump", "unit/multi"),
    *("unit/pubsub", "unit/acl", "unit/acl-v2", "unit/wait", "unit/aofrw"),
    *("integration/aof", "integration/aof-multi-part", "integration/rdb", "integration/shutdown"),
    *("integration/replication", "integration/replication-2", "integration/replication-3", "integration/replication-4"),
    *("integration/replication-psync", "integration/block-repl", "integration/failover"),
    *("integration/psync2", "integration/psync2-reg"),
)
#: Cases that are not run, by reason. Those of lists would leave a transaction open, so that all later cases would fail.
EXCLUDED = {
    "count the nodes of Redis's listpacks, where the engine trims exactly": (
        "XADD with MAXLEN option and the '~' argument",
        "XADD with LIMIT delete entries no more than limit",
        "XADD with LIMIT consecutive calls",
        "XADD with ~ MAXLEN can propagate correctly",
        "XADD with ~ MAXLEN and LIMIT can propagate correctly",
        "XADD with ~ MINID can propagate correctly",
        "XADD with ~ MINID and LIMIT can propagate correctly",
        "XTRIM with ~ is limited",
        "XTRIM with ~ MAXLEN can propagate correctly",
        "XTRIM with LIMIT delete entries no more than limit",
        "XTRIM with MAXLEN option basic test",
        "XTRIM without ~ is not limited",  # sets stream-node-max-entries, and so does the next
        "XTRIM without ~ and with LIMIT",
        "XDEL fuzz test",  # adds entries until XINFO reports more than 20 nodes
    ),
    "need lists": ("XREAD: XADD + DEL + LPUSH should not awake client",),
}
#: Program that prints the ready line for which the suite waits, instead of the engine's own line.
_SERVER = """#!{python}
import os, sys

sys.path.insert(0, {root!r})
import engine.__main__ as main


def ready(line):
    print(f"{{os.getpid()}}:M # Server initialized, PID: {{os.getpid()}} # Server initialized", flush=True)
    print(f"{{os.getpid()}}:M * Ready to accept connections", flush=True)


if {{"--version", "-v"}} & set(sys.argv):
    os.execvp("redis-server", sys.argv)
main._announce = ready
sys.exit(main.main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one unit: its passed and failed cases, and the reason if the unit was aborted.

    `failed`: the name of each case, and the family of the command that it lacks, or an empty text.
    """

    unit: str
    passed: int
    failed: tuple[tuple[str, str], ...]
    aborted: str

    @property
    def line(self) -> str:
        end = f", then: {self.aborted}" if self.aborted else ""
        return f"{self.unit}: {self.passed} passed, {len(self.failed)} failed{end}"


def main() -> int:
    """Run the units and return 1 if any case failed."""
    parser = argparse.ArgumentParser(
        prog="scripts/redis-suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--release", default="8.6", choices=SUITES, help="release of Redis whose suite is run")
    parser.add_argument("units", nargs="*", metavar="UNIT", help="unit of the suite, such as unit/type/stream")
    arguments = parser.parse_args()
    for program in ("tclsh", "redis-cli", "redis-benchmark"):
        if shutil.which(program) is None:
            print(f"{program} is missing", file=sys.stderr)
            return 1
    try:
        folder = sources(arguments.release)
    except PeerError as error:
        print(error, file=sys.stderr)
        return 1
    install(folder)
    outcomes = []
    for unit in arguments.units or UNITS:
        outcome = run(folder, unit)
        outcomes.append(outcome)
        print(outcome.line, flush=True)
        for case, family in outcome.failed:
            print(f"  {case}{f' ({family})' if family else ''}")
    families = Counter(family for outcome in outcomes for _, family in outcome.failed if family)
    print(
        f"failed for lack of commands: {families.total()}",
        *(f"  {family}: {n}" for family, n in families.most_common()),
        sep="\n",
    )
    failed = sum(len(outcome.failed) + bool(outcome.aborted) for outcome in outcomes)
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {failed} failed")
    return 1 if failed else 0


def sources(release: str) -> Path:
    """Return the folder with the unpacked sources. They are downloaded if they are missing."""
    home = PEERS_DIR / "suite"
    home.mkdir(parents=True, exist_ok=True)
    found = sorted(home.glob(f"redis-{release}*/runtest"))
    if found:
        return found[0].parent
    apt, suite = Apt(PEERS_DIR / "apt"), SUITES[release]
    text = source_text(apt.mirror, (suite,)).replace("Types: deb\n", "Types: deb-src\n")
    name = f"{suite}-sources"
    apt.home.joinpath("sources", f"{name}.sources").write_text(text)
    apt.run("apt-get", "update", "--error-on=any", suite=name)
    apt.run("apt-get", "source", "--download-only", "--only-source", "redis", suite=name, cwd=home)
    for archive in home.glob(f"redis_{release}*.orig.tar.*"):
        with tarfile.open(archive) as tar:
            tar.extractall(home, filter="data")
    found = sorted(home.glob(f"redis-{release}*/runtest"))
    if not found:
        raise PeerError(f"{suite} has no sources of Redis {release}")
    return found[0].parent


def install(folder: Path) -> None:
    """Replace the suite's server with the engine, and its tools with those of the machine."""
    server = folder / "src" / "redis-server"
    server.write_text(_SERVER.format(python=sys.executable, root=str(ROOT)))
    server.chmod(0o755)
    for name in ("redis-cli", "redis-benchmark", "redis-check-rdb", "redis-check-aof", "redis-sentinel"):
        path = folder / "src" / name
        path.unlink(missing_ok=True)
        path.symlink_to(shutil.which(name) or "/bin/false")


def run(folder: Path, unit: str) -> Outcome:
    """Run one unit and read its output."""
    skipped = [word for cases in EXCLUDED.values() for case in cases for word in ("--skiptest", case)]
    command = ["./runtest", "--single", unit, "--clients", "1", "--no-latency", "--durable", *skipped]
    aborted = ""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # also the servers, whose ports the next unit needs
            output, _ = process.communicate()
            aborted = f"no end within {_SECONDS} seconds"
    text = _COLOURS.sub("", output)
    (folder / f"{unit.replace('/', '_')}.txt").write_text(text)
    return outcome_of(unit, text, aborted)


def outcome_of(unit: str, text: str, aborted: str = "") -> Outcome:
    """Return the outcome in a unit's output. `aborted`: reason why the unit was aborted, or an empty text."""
    lines = text.splitlines()
    exceptions = [line for line in lines if line.startswith("[exception]")]
    parts = re.split(r"^(?=\[\w+\]: )", text, flags=re.MULTILINE)
    failed = [part.removeprefix("[err]: ") for part in parts if part.startswith("[err]")]
    return Outcome(
        unit,
        sum(line.startswith("[ok]") for line in lines),
        tuple((case.splitlines()[0], found[1] if (found := _LEFT_OUT.search(case)) else "") for case in failed),
        aborted or (exceptions[0][:200] if exceptions else ""),
    )


if __name__ == "__main__":
    sys.exit(main())
