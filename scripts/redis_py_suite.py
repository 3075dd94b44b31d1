"""Run redis-py's own test suite against the engine and against redis-server, and classify the differences.

    scripts/redis-py-suite [--protocol 2] [FILE...]

pip downloads the source distribution of the redis-py release in this environment, and the requirements of its tests,
into `.peers/redis-py`. None of these files belong to this project. REDIS_SERVER names the redis-server to compare with.
Both servers run with a replica, three Sentinels and a TLS port on free loopback ports. FILE is a test file or node ID
of the suite, such as tests/test_commands.py. Without FILE, all files whose results depend on the server are run.

A test that fails only on the engine is a difference. A difference is explained if its error is about a feature that the
engine omits on purpose. The exit status is 1 if any difference is unexplained.
docs/reference/programs.md has the results.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import venv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.core.table.unsupported import UNSUPPORTED
from pystreams.testing.servers import free_port
from scripts.peers import PEERS_DIR
from tests.servers.certificates import authority, certificate
from tests.servers.processes import redis_release
from tests.servers.sentinels import family, sentinels
from tests.suite import tools

_MASTER = "redis-py-test"
_SECONDS = 2400  # timeout of the suite on one server
#: Milliseconds of silence before Sentinels fail over: longer than any test.
_DOWN_AFTER = 600_000
#: Excludes tests of clusters, modules and cloud services, which need other servers.
_MARKS = "not onlycluster and not redismod and not cp_integration and not multidb_integration"
#: Excludes tests that contact other machines.
_NAMES = "not ocsp"
#: Files and folders that are not run: their results do not depend on the server, or they need the fault injector of a
#: cloud service.
_IGNORED = (
    *("tests/maint_notifications", "tests/test_auth", "tests/test_http", "tests/test_parsers"),
    *(f"{folder}/test_{name}" for folder in ("tests", "tests/test_asyncio") for name in ("multidb", "observability")),
    *(f"{folder}/test_scenario" for folder in ("tests", "tests/test_asyncio")),
)
#: Error of the engine about a command that it leaves out, with the command's family.
_LEFT_OUT = re.compile(r"this engine stores streams; (.+?) need Redis or Valkey")
#: Error of redis-py about a command that the server does not list.
_UNLISTED = re.compile(r"([A-Z]+) command doesn't exist")
_FAMILIES = {name: feature.family for feature in UNSUPPORTED for name in feature.commands}
_WORST_LAST = ("passed", "skipped", "failed")


@dataclass(frozen=True, slots=True)
class Case:
    """Outcome of one test: "passed", "skipped" or "failed", and its error."""

    file: str
    outcome: str
    message: str = ""


def main() -> int:
    """Run the suite on both servers and return 1 if a difference is unexplained."""
    parser = argparse.ArgumentParser(
        prog="scripts/redis-py-suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--protocol", choices=("2", "3"), default="3", help="version of the RESP protocol")
    parser.add_argument("files", nargs="*", metavar="FILE", help="test file or node ID of the suite")
    arguments = parser.parse_args()
    if missing := [name for name in ("redis-server", "openssl") if tools.path_of(name) is None]:
        print(f"missing: {', '.join(missing)}", file=sys.stderr)
        return 1
    release = version("redis")
    folder = suite(release)
    print(f"redis-py {release} with RESP{arguments.protocol}, engine and {redis_release()}", flush=True)
    results = {kind: run(folder, kind, arguments.protocol, arguments.files) for kind in ("redis", "engine")}
    lines, unexplained = report(results["engine"], results["redis"])
    print(*lines, sep="\n")
    return 1 if unexplained else 0


def suite(release: str) -> Path:
    """Return the folder of the suite. The folder and the suite's environment in it (`venv`) are created if missing."""
    home = PEERS_DIR / "redis-py"
    folder = home / f"redis-{release}"
    if not (folder / "tests").is_dir():
        home.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "redis"]
        subprocess.run([*pip, "--dest", str(home), f"redis=={release}"], check=True)
        with tarfile.open(home / f"redis-{release}.tar.gz") as tar:
            tar.extractall(home, filter="data")
    python = folder / "venv" / "bin" / "python"
    if not (folder / "venv" / "ready").exists():
        venv.create(folder / "venv", with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", str(folder / "dev_requirements.txt")], check=True)
        (folder / "venv" / "ready").touch()
    return folder


def run(folder: Path, kind: str, protocol: str, files: Iterable[str]) -> dict[str, Case]:
    """Run the tests on an engine ("engine") or a redis-server ("redis") and return their outcomes by node ID."""
    output = folder / f"{kind}-resp{protocol}"
    tls_port = free_port()
    with (
        family(kind, kind, flags=("--enable-debug-command", "yes"), first=tls(folder, kind, tls_port)) as members,
        sentinels() as watchers,
        watchers.watching(_MASTER, members, down_after=_DOWN_AFTER),
        output.with_suffix(".txt").open("wb") as sink,
    ):
        command = [
            *(str(folder / "venv" / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"),
            *("--tb", "native"),  # other tracebacks parse a file of 20,000 lines for each failure
            *("--redis-url", f"redis://localhost:{members[0].port}/0", "--protocol", protocol),
            *("--redis-ssl-url", f"rediss://localhost:{tls_port}/0"),
            *("--sentinels", ",".join(f"localhost:{port}" for port in watchers.ports), "--master-service", _MASTER),
            *("-m", _MARKS, "-k", _NAMES, *(f"--ignore={path}" for path in _IGNORED)),
            *("-o", "junit_family=xunit1", f"--junitxml={output.with_suffix('.xml')}", *(files or ["tests"])),
        ]
        subprocess.run(command, cwd=folder, stdout=sink, stderr=subprocess.STDOUT, timeout=_SECONDS, check=False)
    return outcomes(output.with_suffix(".xml").read_text())


def tls(folder: Path, kind: str, port: int) -> tuple[str, ...]:
    """Return the flags for a TLS port. Creates new certificates at the paths that the suite expects."""
    directory = folder / "dockers" / "standalone" / "tls"
    directory.mkdir(parents=True, exist_ok=True)
    signer = authority(directory, "ca")
    for name in ("redis", "client", "test_user"):
        certificate(directory, name, signer)
    files = {"--tls-cert-file": "redis.crt", "--tls-key-file": "redis.key", "--tls-ca-cert-file": "ca.crt"}
    knows_users = kind == "engine" or redis_release().since("8.6")
    return (
        *("--tls-port", str(port), "--tls-auth-clients", "optional"),
        *(("--tls-auth-clients-user", "CN") if knows_users else ()),
        *(word for flag, name in files.items() for word in (flag, str(directory / name))),
    )


def outcomes(junit: str) -> dict[str, Case]:
    """Return the outcome of each test in pytest's XML report. Of several outcomes (test and teardown), the worst
    counts.
    """
    found: dict[str, Case] = {}
    for element in ElementTree.fromstring(junit).iter("testcase"):  # noqa: S314 - pytest's own report
        file, owner, name = (element.get(key, "") for key in ("file", "classname", "name"))
        inner = owner.removeprefix(file.removesuffix(".py").replace("/", ".")).lstrip(".")
        node = "::".join(part for part in (file, inner, name) if part)
        case = Case(file, "passed")
        for child in element:
            if child.tag in ("failure", "error"):
                case = Case(file, "failed", child.get("message", ""))
            elif child.tag == "skipped":
                case = Case(file, "skipped", child.get("message", ""))
        if node not in found or _WORST_LAST.index(case.outcome) > _WORST_LAST.index(found[node].outcome):
            found[node] = case
    return found


def subject(message: str) -> str:
    """Return the family of left-out commands that an error is about, or "" for other errors."""
    if found := _LEFT_OUT.search(message):
        return found[1]
    found = _UNLISTED.search(message)
    return _FAMILIES.get(found[1].lower(), "") if found else ""


def report(engine: Mapping[str, Case], redis: Mapping[str, Case]) -> tuple[list[str], int]:
    """Return the lines of the report and the number of unexplained differences."""
    lines = []
    for file in sorted({case.file for case in engine.values()}):
        here = Counter(case.outcome for case in engine.values() if case.file == file)
        there = Counter(case.outcome for case in redis.values() if case.file == file)
        lines.append(
            f"{file}: {here['passed']} passed, {here['failed']} failed; "
            f"redis-server: {there['passed']} passed, {there['failed']} failed"
        )
    failed = {node: case for node, case in engine.items() if case.outcome == "failed"}
    both = {node for node in failed if node in redis and redis[node].outcome == "failed"}
    differences = {node: case for node, case in failed.items() if node not in both}
    explained = Counter(about for case in differences.values() if (about := subject(case.message)))
    unexplained = {node: case for node, case in differences.items() if not subject(case.message)}
    only_there = sorted(node for node, case in redis.items() if case.outcome == "failed" and node not in failed)
    lines += [
        "",
        f"Left out on purpose: {explained.total()}",
        *(f"  {about}: {n}" for about, n in sorted(explained.items())),
    ]
    lines += [f"Failed on both: {len(both)}", *(f"  {node}" for node in sorted(both))]
    lines += [f"Failed on redis-server only: {len(only_there)}", *(f"  {node}" for node in only_there)]
    lines += [f"Unexplained: {len(unexplained)}"]
    lines += [
        f"  {node}: {case.message.splitlines()[0][:200] if case.message else ''}"
        for node, case in sorted(unexplained.items())
    ]
    totals = (
        f"{name} {Counter(case.outcome for case in of.values())['passed']}"
        for name, of in (("engine", engine), ("redis-server", redis))
    )
    lines.append(f"Passed: {', '.join(totals)} of {len(engine)}")
    return lines, len(unexplained)


if __name__ == "__main__":
    sys.exit(main())
