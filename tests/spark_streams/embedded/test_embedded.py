"""Embedded engine: one per driver, its directory, its warnings, and its end with the driver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_streams.embedded import drivers, launcher, supervisor
from spark_streams.embedded.drivers import Process
from spark_streams.embedded.supervisor import Record
from spark_streams.errors import EmbeddedError
from tests import ROOT
from tests.suite.jvm import QUICK
from tests.suite.long import long_only
from tests.suite.waiting import DEADLINE, wait_for

STANDIN = f"{sys.executable} {Path(__file__).with_name('standin_engine.py')}"
Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Temporary directory with a short path, because the path of a Unix socket is limited."""
    directory = Path(tempfile.mkdtemp(prefix="ps-"))
    yield directory
    # os.walk skips directories that ending engines remove meanwhile.
    for left in [supervisor.record_in(Path(at)) for at, _, files in os.walk(directory) if "processes" in files]:
        wait_for(lambda left=left: left is None or not left.supervisor.runs(), "the engines to end with their drivers")
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Function that starts a Python program as a driver with its own temporary directory. Remaining processes are
    killed at the end.
    """
    started: list[subprocess.Popen[str]] = []

    def start(
        program: str, directory: Path | None = None, stderr: int | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYSTREAMS_")}
        surroundings |= {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(tmp_path),
            # A killed JVM does not remove its files.
            "SPARK_LOCAL_DIRS": str(tmp_path),
            "JDK_JAVA_OPTIONS": f"{QUICK} -Djava.io.tmpdir={tmp_path}",
            launcher.COMMAND: STANDIN,
            **environment,
        }
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=directory,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    text = process.stdout.readline().strip()
    assert text, "the driver printed nothing"
    return text


def state(tmp_path: Path) -> Record:
    """Return the record that the supervisor has written."""
    (path,) = tmp_path.glob("pystreams-*/*/processes")
    found = supervisor.record_in(path.parent)
    assert found is not None
    return found


def wait_until_removed(tmp_path: Path, left: Record) -> None:
    """Wait until engine and supervisor have ended and their directory is removed."""
    for process in (left.engine, left.supervisor):
        wait_for(lambda process=process: not process.runs(), f"process {process} to end")
    wait_for(lambda: not list(tmp_path.glob("pystreams-*")), "the directory to be removed")


MANY = """
    import subprocess, sys
    from spark_streams.embedded import launcher as embedded
    child = "from spark_streams.embedded import launcher as embedded; print(embedded.url())"
    from spark_streams.embedded import drivers
    drivers.find()  # the first child starts the engine
    children = [subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    urls = {each.communicate()[0].strip() for each in children}
    print(*urls, embedded.url(), flush=True)
    sys.stdin.read()
"""


def test_all_processes_of_a_driver_find_one_engine(run: Run, tmp_path: Path) -> None:
    """Concurrent requests of a driver's processes start one engine, which outlives these processes."""
    driver = run(MANY)
    first, second, *others = line(driver).split()
    assert first == second
    assert not others
    running = state(tmp_path)
    assert running.engine.runs()
    assert driver.stdin is not None
    driver.stdin.close()
    driver.wait()
    wait_until_removed(tmp_path, running)


ONE = """
    import sys
    from spark_streams.embedded import launcher as embedded
    print(embedded.url(), flush=True)
    sys.stdin.readline()
    print(embedded.url(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_engine_ends_with_its_supervisor_and_is_started_again(
    run: Run, tmp_path: Path, number: signal.Signals
) -> None:
    """If the supervisor is killed or stopped, the engine ends, and the next request waits for that and starts one."""
    driver = run(ONE)
    line(driver)
    before = state(tmp_path)
    os.kill(before.supervisor.pid, number)
    if number == signal.SIGKILL and sys.platform.startswith("linux"):
        wait_for(lambda: not before.engine.runs(), "the engine to end")
    assert driver.stdin is not None
    driver.stdin.write("\n")
    driver.stdin.flush()
    line(driver)
    after = state(tmp_path)
    assert after.engine != before.engine
    driver.kill()
    wait_until_removed(tmp_path, after)


FAILING = """
    from spark_streams import errors
    from spark_streams.embedded import launcher
    try:
        launcher.address(start_seconds={seconds})
    except errors.EmbeddedError as error:
        print(error, error.parameters.get("log"), flush=True)
"""


@pytest.mark.parametrize(
    ("engine", "seconds", "expected"),
    [
        (
            "raise(SystemExit('no'))",
            DEADLINE,
            "[EMBEDDED_NOT_STARTED] The embedded engine did not start: it ended with status 1: no. ",
        ),
        (
            "import(time);time.sleep(99)".replace("import(time)", "time=__import__('time')"),
            0.5,
            "[EMBEDDED_NOT_STARTED] The embedded engine did not start: it was not ready after 0.5 seconds. ",
        ),
        (
            "print('missing\\x20package\\x20nonesuch');exit(1)",
            DEADLINE,
            f"[EMBEDDED_NOT_INSTALLED] The embedded engine "
            f"needs the package 'nonesuch', which {sys.executable} does not have. Install the engine's packages (pip "
            "install 'pystreams-spark[engine]'), or set the option 'url' to a server.",
        ),
    ],
)
def test_an_engine_that_does_not_start_is_an_error(run: Run, engine: str, seconds: float, expected: str) -> None:
    """An engine that ends or hangs at its start is an error with the reason; the next driver removes its directory."""
    driver = run(FAILING.format(seconds=seconds), **{launcher.COMMAND: f'{sys.executable} -c "{engine}"'})
    error, _, log = line(driver).rpartition(" ")
    assert error.startswith(expected)
    driver.wait()
    line(run(ONE))
    assert log == "None" or not Path(log).parent.exists()


LISTENING = """
    import sys
    from spark_streams.embedded import launcher
    client = launcher.connect()
    print(client.info("server")["tcp_port"], launcher.url(), flush=True)
    sys.stdin.read()
"""


def test_the_engine_listens_on_a_private_socket(run: Run, tmp_path: Path) -> None:
    """The engine has no TCP port; its socket is in a private directory, which is in /tmp if TMPDIR is too long."""
    temporary = tmp_path / ("x" * 60)
    temporary.mkdir()
    driver = run(LISTENING, **{launcher.COMMAND: "", "TMPDIR": str(temporary)})
    port, url = line(driver).split()
    path = Path(url.removeprefix("unix://"))
    assert port == "0"
    assert path.is_socket()
    for directory in (path.parent, path.parent.parent):
        assert directory.stat().st_mode & 0o777 == 0o700
        assert directory.owner() == Path.home().owner()
    assert path.parent.parent.parent == Path("/tmp")
    driver.kill()
    wait_for(lambda: not path.parent.exists(), "the directory to be removed")


#: A user's modules with the names of this project's, as packages and as files.
USER_MODULES = {
    "directories": ("engine/__init__.py", "engine/wire.py", "jobs/__init__.py"),
    "files": ("engine.py", "jobs.py"),
}


def user_modules(directory: Path, kind: str) -> Path:
    """Create a user's modules with the names of this project's modules in the directory, and return it."""
    for name in USER_MODULES[kind]:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('WHOSE = "the user\'s"\n')
    return directory


SHADOWED = """
    import sys
    import engine, jobs
    from spark_streams.embedded import launcher
    client = launcher.connect()
    client.xadd("s", {"n": 1})
    print(client.xlen("s"), engine.WHOSE, jobs.WHOSE, sep=";", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("kind", "where"), [("directories", "PYTHONPATH"), ("files", "working directory")])
def test_a_users_modules_do_not_replace_the_engine(run: Run, tmp_path: Path, kind: str, where: str) -> None:
    """A user's modules `engine` and `jobs` are imported by the user's program, and the embedded engine still starts."""
    directory = user_modules(tmp_path / "own", kind)
    if where == "PYTHONPATH":
        python_path = {"PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)])}
        driver = run(SHADOWED, tmp_path, **python_path, **{launcher.COMMAND: ""})
    else:
        driver = run(SHADOWED, directory, **{launcher.COMMAND: ""})
    assert line(driver) == "1;the user's;the user's"


def test_files_next_to_the_engine_do_not_replace_the_standard_library(tmp_path: Path) -> None:
    """Files next to the engine's package do not replace modules of the standard library."""
    (tmp_path / "json.py").write_text("raise ImportError('not the standard library')")
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").touch()
    (tmp_path / "engine" / "__main__.py").write_text("import json\ndef main(words): print(json.dumps(words))\n")
    bootstrap = ROOT / "streamwire" / "bootstrap.py"
    result = subprocess.run(
        [sys.executable, "-P", str(bootstrap), str(tmp_path), "engine.__main__", "--port", "0"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout) == ["--port", "0"]


KEPT = """
    import sys
    from spark_streams.embedded import launcher as embedded
    client = embedded.connect("readings")
    client.xadd("s", {"run": sys.argv[0]})
    print(client.xlen("s"), flush=True)
"""


def runs(tmp_path: Path) -> bool:
    """Return whether the record of an engine with a data directory still exists."""
    try:
        return any(tmp_path.glob("pystreams-*/*/*/processes"))
    except FileNotFoundError:  # a directory was removed during the search
        return True


def test_a_data_directory_keeps_the_data(run: Run, tmp_path: Path) -> None:
    """With a data directory, the next driver finds the data of the previous one."""
    settings = {launcher.HOME: str(tmp_path / "home"), launcher.COMMAND: f"{sys.executable} -m engine --port 0"}
    for lives in (1, 2):
        program = run(KEPT, **settings)
        assert program.stdout is not None
        assert program.stdout.readline().strip() == str(lives)
        program.wait()
        wait_for(lambda: not runs(tmp_path), "the engine to end with its driver")
    assert (tmp_path / "home" / "readings" / "appendonlydir").is_dir()


SPARK = """
    import sys
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.range(5).write.format("pystreams").mode("append").option("stream", "s").save()
    from spark_streams.embedded import launcher as embedded
    client = embedded.connect()
    rows = spark.read.format("pystreams").option("stream", "s").load().count()
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    print(rows, client.xlen("s"), jvm, flush=True)
    sys.stdin.read()
"""


@pytest.mark.spark
@pytest.mark.slow
@long_only
@pytest.mark.parametrize("victim", ["python", "jvm"])
def test_spark_without_a_url_uses_the_embedded_engine(run: Run, tmp_path: Path, victim: str) -> None:
    """Spark's workers and the user's program share one engine, which ends if the driver's Python or JVM is killed."""
    driver = run(SPARK, **{launcher.COMMAND: os.environ.get(launcher.COMMAND, "")})
    rows, length, jvm = map(int, line(driver).split())
    assert (rows, length) == (5, 5)
    running = state(tmp_path)
    os.kill(driver.pid if victim == "python" else jvm, signal.SIGKILL)
    wait_until_removed(tmp_path, running)
    wait_for(lambda: not drivers.runs(jvm), "the JVM to end")


@pytest.mark.parametrize("kind", ["file", "link to a directory", "open", "foreign"])
def test_another_object_at_its_path_is_not_used(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the path of the engine's directory, a file, a link, or a directory that another user owns or can access is an
    error that names TMPDIR.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted, target = tmp_path / f"pystreams-{os.getuid()}", tmp_path / "target"
    if kind == "file":
        planted.touch()
    elif kind == "link to a directory":
        target.mkdir()
        planted.symlink_to(target)
    else:
        planted.mkdir(mode=0o700)
        if kind == "open":
            planted.chmod(0o770)
        else:
            other = os.getuid() + 1
            monkeypatch.setattr(os, "getuid", lambda: other)
            planted.rename(tmp_path / f"pystreams-{other}")
    with pytest.raises(
        EmbeddedError, match=r"EMBEDDED_NO_DIRECTORY.*not a directory that only this user can access.*TMPDIR"
    ):
        drivers.make_directory(Process.of(os.getpid()))
    assert not target.is_dir() or not [*target.iterdir()]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, the error contains the reason."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(EmbeddedError, match=r"EMBEDDED_NO_DIRECTORY.*No space left on device.*TMPDIR"):
        drivers.make_directory(Process.of(os.getpid()))


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """If the data directory cannot be created, the error names its path and the settings for it."""
    (tmp_path / "file").touch()
    with pytest.raises(
        EmbeddedError, match=r"EMBEDDED_NO_DATA.*file/data: Not a directory.*embedded\.dir.*PYSTREAMS_HOME"
    ):
        launcher.address(str(tmp_path / "file" / "data"))


REMOVED = """
    import os, shutil, sys
    from pathlib import Path
    from spark_streams.embedded import drivers, launcher
    from spark_streams.errors import EmbeddedError
    print(launcher.url(), flush=True)
    sys.stdin.readline()
    shutil.rmtree(Path(launcher.url().removeprefix("unix://")).parent)
    for each in ("the process that knows it", "one that Spark starts"):
        try:
            print(launcher.address(ending_seconds=0.1), flush=True)
        except EmbeddedError as error:
            print(error, flush=True)
        os.environ.pop(drivers.VARIABLE, None)
    sys.stdin.read()
"""


def test_no_second_engine_starts_after_its_directory_was_removed(run: Run, tmp_path: Path) -> None:
    """After a running engine's directory was removed, requests for its URL fail, and no second engine starts."""
    driver = run(REMOVED)
    line(driver)
    first = state(tmp_path)
    assert driver.stdin is not None
    driver.stdin.write("\n")
    driver.stdin.flush()
    assert "[EMBEDDED_NO_DIRECTORY]" in line(driver)
    error = line(driver)
    assert "[EMBEDDED_NO_DIRECTORY]" in error
    assert "removed while its engine runs" in error
    assert first.engine.runs()
    assert not [*tmp_path.glob("pystreams-*/*/processes")]
    driver.stdin.close()
    driver.wait()
    wait_until_removed(tmp_path, first)


WARNED = """
    from spark_streams.embedded import launcher
    import os, signal
    for _ in range(2):
        client = launcher.connect({directory!r})
    (running,) = launcher.running()
    client.shutdown(nosave=True)
    while launcher.running():
        pass
    launcher.url({directory!r})
"""


@pytest.mark.parametrize("directory", [None, "kept"])
def test_data_in_memory_and_its_loss_are_logged(run: Run, tmp_path: Path, directory: str | None) -> None:
    """A warning says where data in memory is kept, and another one that the engine ended before its driver."""
    environment = {launcher.COMMAND: "", launcher.HOME: str(tmp_path / "home")}
    driver = run(WARNED.format(directory=directory), None, subprocess.PIPE, **environment)
    lines = driver.communicate(timeout=DEADLINE)[1].splitlines()
    if directory is not None:
        assert lines == []
        return
    first, lost, second = lines
    assert first == second
    assert first.startswith(
        "No server is named: the embedded engine keeps all streams in memory, until its driver ends"
    )
    assert "'url' or 'embedded.dir', or the environment variable PYSTREAMS_URL" in first
    assert lost.startswith("The embedded engine ended before its driver. Its entries are lost")


RUNNING = """
    import sys
    from spark_streams.embedded import launcher
    print(launcher.url({directory!r}), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("has_directory", [False, True])
def test_engines_of_this_user_are_found(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_directory: bool
) -> None:
    """`running` lists the engines with their drivers, without those whose driver has ended."""
    directory = str(tmp_path / "kept") if has_directory else None
    driver = run(RUNNING.format(directory=directory), **{launcher.COMMAND: ""})
    assert driver.stdout is not None
    url = driver.stdout.readline().strip()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (found,) = [each for each in launcher.running() if each.driver.pid == driver.pid]
    assert (found.url, found.data) == (url, directory)
    data = f"in {directory}" if has_directory else "in memory"
    assert str(found).startswith(f"{url} ({data}, of process {driver.pid}: {sys.executable[:20]}")
    driver.kill()
    driver.wait()
    assert all(each.driver.pid != driver.pid for each in launcher.running())
