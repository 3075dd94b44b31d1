"""The setup scripts and their messages, the Makefile's targets, and the contents of the wheel and the sdist."""

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
import yaml
from trove_classifiers import classifiers

from engine.version import ENGINE_VERSION
from scripts import dist
from tests import ROOT, servers
from tests.packaging.distributions import surroundings
from tests.suite.long import long_only
from tests.suite.tools import needed

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def run_script(name: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of scripts/ with this directory as PATH and no other environment variables but those given."""
    return subprocess.run(
        [str(ROOT / "scripts" / name)],
        env={"PATH": str(path), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a directory for PATH with shell tools, and an `id` that reports a user other than root.

    The directory has no Python and no Java.
    """
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in ("sh", "sed", "head", "grep", "dirname"):
        (directory / tool).symlink_to(needed(tool))
    program(directory / "id", "echo 1000")
    return directory


def program(path: Path, body: str) -> None:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def fake_python(path: Path, minor: int) -> None:
    """Write a program that answers the two queries of find-python as Python 3 with this minor version does."""
    program(path, f'case "$2" in *version_info*) echo {3000 + minor};; *) echo "$0";; esac')


def fake_java(path: Path, version: str) -> None:
    """Write a program that prints this version on standard error, as java does."""
    program(path, f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")


@pytest.mark.parametrize(
    ("minors", "found"),
    [
        ({"python3": 11, "python3.13": 13, "python3.12": 12}, "python3.13"),
        ({"python3.13": None, "python3": 10, "python3.11": 11}, "python3.11"),
        ({"python3": 10}, None),
    ],
)
def test_the_newest_python_on_path_that_runs_is_used(
    programs: Path, minors: dict[str, int | None], found: str | None
) -> None:
    """Without a Python that runs and is not too old, the message says what to install."""
    for name, minor in minors.items():
        if minor is None:
            program(programs / name, "exit 127")
        else:
            fake_python(programs / name, minor)
    result = run_script("find-python", programs)
    assert result.stdout.strip() == ("" if found is None else str(programs / found))
    assert ("needs Python 3.11 or later" in result.stderr, "apt-get install" in result.stderr) == (found is None,) * 2


def test_a_python_of_a_given_version_is_found_on_path_or_in_pyenv(programs: Path, tmp_path: Path) -> None:
    """A Python of the given version is found in pyenv's directory, if the one on PATH does not run."""
    program(programs / "python3.12", "exit 127")
    for release in ("3.12.1", "3.1.7"):
        of_pyenv = tmp_path / "versions" / release / "bin" / "python3"
        program(of_pyenv, f'case "$2" in *version_info*) echo {release.rpartition(".")[0]};; *) echo "$0";; esac')
    assert find_python("3.12", programs, tmp_path).stdout.strip() == str(tmp_path / "versions/3.12.1/bin/python3")
    missing = find_python("3.13", programs, tmp_path)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == f"no Python 3.13 on PATH or in {tmp_path}/versions\n"


def find_python(version: str, path: Path, pyenv: Path) -> subprocess.CompletedProcess[str]:
    """Search for a Python of this version with `path` as PATH and `pyenv` as PYENV_ROOT."""
    return subprocess.run(
        [ROOT / "scripts" / "find-python", version],
        env={"PATH": str(path), "PYENV_ROOT": str(pyenv)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_without_ensurepip_is_reported_with_the_package_to_install(programs: Path, tmp_path: Path) -> None:
    program(
        programs / "python3",
        'case "$2" in *ensurepip*) exit 1;; *venv*) echo python3.11-venv;; *version_info*) echo 3011;;'
        ' *) echo "$0";; esac',
    )
    result = subprocess.run(
        [str(ROOT / "scripts" / "make-venv"), str(tmp_path / "venv")],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "apt-get install python3.11-venv" in result.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(
    ("version", "home", "advice"),
    [
        *((version, None, "") for version in ("17.0.15", "21", "17-ea")),
        *((version, None, "openjdk-17-jre-headless") for version in ("1.8.0_392", "11.0.21", None)),
        ("11.0.21", "17.0.15", ""),
        ("17.0.15", "11.0.21", "JAVA_HOME"),
    ],
)
def test_java_17_is_required(
    programs: Path, tmp_path: Path, version: str | None, home: str | None, advice: str
) -> None:
    """An old or missing Java is reported with what to install. JAVA_HOME takes precedence over PATH."""
    if version is not None:
        fake_java(programs / "java", version)
    environment = {}
    if home is not None:
        fake_java(tmp_path / "jdk" / "bin" / "java", home)
        environment["JAVA_HOME"] = str(tmp_path / "jdk")
    result = run_script("need-java", programs, **environment)
    assert (result.returncode, advice in result.stderr) == (int(bool(advice)), True)


def test_every_dependency_and_disabled_rule_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    project = PYPROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    lines = {line.strip() for line in text.splitlines()}
    for requirement in (requirement for group in groups for requirement in group):
        assert any(line.startswith(f'"{requirement}",') and "# " in line for line in lines), requirement
    rules = (ROOT / "ruff.toml").read_text()
    ignored = re.search(r"^ignore = \[\n(.*?)^\]", rules, re.MULTILINE | re.DOTALL)
    assert ignored is not None
    for line in ignored[1].splitlines():
        assert re.search(r"# [\w`]", line), line


def test_ci_and_pages_use_existing_make_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"install", "demo", "test", "lint", "check", "bench"} <= targets
    used = re.findall(r"^make((?: [a-z-]+)+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert used
    for workflow in (ROOT / ".github" / "workflows").iterdir():
        used += re.findall(r"- run: make((?: [a-z-]+)+)", workflow.read_text())
    pages = [ROOT / "README.md", ROOT / "docs" / "design" / "working-on-it.md"]
    used += [word for page in pages for word in re.findall(r"`make ([a-z-]+)`", page.read_text())]
    assert {word for words in used for word in words.split()} <= targets


#: Other packages that texts tell users to install.
_OTHERS = {"grpcio-tools", "numpy", "pandas", "protobuf", "pyarrow", "pyspark", "redis-entraid"}
_PIP_INSTALL = re.compile(r"pip install((?: (?:--?[a-z][\w-]*|'[^'\n]+'|`[^`\n]+`|[\w./-]+(?<!\.)|\.(?!\w)))+)")


def test_texts_install_only_our_distribution_and_known_packages() -> None:
    """Each `pip install` in pages, settings and errors names what `make dist` builds, with extras that exist, or a
    listed package. The name `pystreams` belongs to another project on PyPI.
    """
    ours = ("pystreams-spark", ".", r"\S*pystreams_spark-\S+\.whl")
    extras = r"\[(?:spark|engine|formats|dashboard|testing|files|demo|<extra>|{extra})\]"
    allowed = re.compile(rf"(?:{'|'.join(ours)})(?:{extras})?|(?:{'|'.join(_OTHERS)})[<>=.,\d]*")
    folders = ("docs", "conf", "engine", "spark_streams", "streamclient", "pystreams")
    files = [*ROOT.glob("*.md"), *(each for name in folders for each in (ROOT / name).rglob("*.*"))]
    texts = {file: file.read_text() for file in files if file.suffix in (".md", ".py", ".service", ".toml", ".yaml")}
    words = [
        (str(file.relative_to(ROOT)), word.strip("'`"))
        for file, text in texts.items()
        for command in _PIP_INSTALL.findall(text)
        for word in command.split()
        if not word.startswith("-")
    ]
    assert [(file, word) for file, word in words if not allowed.fullmatch(word)] == []
    assert len(words) > 15


def test_all_files_have_the_same_version() -> None:
    """The package, the engine, and the first section of the changelog have the same version."""
    version = PYPROJECT["project"]["version"]
    assert version == ENGINE_VERSION
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == version


def test_a_release_is_installed_on_every_supported_python() -> None:
    """`make dist` and CI use the Python versions of the classifiers."""
    words = [each.rpartition(" ")[2] for each in PYPROJECT["project"]["classifiers"] if " :: Python :: 3." in each]
    assert list(dist.PYTHONS) == words
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert ci["jobs"]["matrix"]["strategy"]["matrix"]["python"] == words


def test_a_missing_python_is_reported(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing Python is reported with the searched directories, and with `--every-python` the release fails."""
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    program(programs / "python3.12", 'case "$2" in *version_info*) echo 3.12;; *) echo "$0";; esac')
    assert dist.interpreters(every=False) == {"3.12": programs / "python3.12"}
    searched = f"on PATH or in {tmp_path}/versions"
    assert capsys.readouterr().out.splitlines() == [
        f"Python {version}: SKIPPED, no Python {version} {searched}" for version in ("3.11", "3.13")
    ]
    with pytest.raises(SystemExit, match=r"Python 3\.11 is required: no Python 3\.11 on PATH"):
        dist.interpreters(every=True)


def test_a_release_is_published_without_a_secret() -> None:
    """Only the publishing job may request an identity token. It runs no code of the repository and waits for the other
    jobs.
    """
    folder = ROOT / ".github" / "workflows"
    assert not [path.name for path in folder.iterdir() if "secrets" in path.read_text()]
    release = yaml.safe_load((folder / "release.yml").read_text())
    jobs, publish = release["jobs"], release["jobs"]["publish"]
    assert release["permissions"] == {"contents": "read"}
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "publish": {"id-token": "write"}
    }
    assert set(publish["needs"]) == jobs.keys() - {"publish"}
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    artifacts = {step["with"]["name"]: step["with"]["path"].split() for step in jobs["build"]["steps"][-2:]}
    assert artifacts["packages"] == ["dist/pystreams_spark-*.whl", "dist/pystreams_spark-*.tar.gz"]
    assert "make dist DIST_ARGS=--every-python" in [step.get("run") for step in jobs["build"]["steps"]]
    pythons = next(step["with"] for step in jobs["build"]["steps"] if "setup-python" in step["uses"])
    assert pythons["python-version"].split() == list(dist.PYTHONS)


@long_only
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: there is no last commit to build")
def test_the_same_commit_gives_the_same_wheel_and_sdist(tmp_path: Path) -> None:
    """Two builds of a commit are identical, and the files in the sdist have the time of the commit."""
    sums = []
    for name in ("one", "two"):
        command = [sys.executable, ROOT / "scripts" / "dist.py", "--build-only", "--directory", tmp_path / name]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        sums.append((tmp_path / name / "SHA256SUMS").read_text())
    assert sums[0] == sums[1]
    version = PYPROJECT["project"]["version"]
    names = [f"pystreams_spark-{version}-py3-none-any.whl", f"pystreams_spark-{version}.tar.gz"]
    assert [line.split()[1] for line in sums[0].splitlines()] == names
    commit = subprocess.run([needed("git"), "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(tmp_path / "one" / names[1]) as archive:
        assert {int(member.mtime) for member in archive} == {int(commit.stdout)}


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """Return the wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_metadata_of_the_wheel(metadata: Message) -> None:
    """The wheel's metadata has an author, the license, valid classifiers of each kind, and no URLs."""
    assert metadata["Author"] == "pystreams maintainers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert not {"Home-page", "Project-URL", "Download-URL"} & set(metadata.keys())
    listed = metadata.get_all("Classifier")
    assert listed is not None
    assert set(listed) <= classifiers
    for kind in ("Framework", "Operating System", "Programming Language :: Python :: 3.", "Topic", "Typing"):
        assert any(classifier.startswith(kind) for classifier in listed), kind


def test_spark_and_the_engine_are_extras(metadata: Message) -> None:
    """Without an extra, no large package and none that would replace a platform's Spark or Arrow is installed."""
    required = metadata.get_all("Requires-Dist")
    assert required is not None
    always = {re.split(r"[^a-z0-9]", each)[0] for each in required if "extra ==" not in each}
    assert always == {"click", "hiredis", "redis", "rich"}
    assert "extra == 'spark'" in {each.rpartition("; ")[2] for each in required if each.startswith("pyspark>")}


def test_the_contents_of_the_wheel(wheel: Path) -> None:
    """The wheel contains exactly our packages and the module for Spark, all code, the type markers and the license."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (licence,) = (name for name in names if name.endswith(".dist-info/licenses/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "streamclient",
        "streamwire",
        "engine",
        "spark_streams",
        "pystreams",
        "pyspark_pystreams.py",
        "pystreams_pyspark.pth",
    }
    assert {
        f"{package}/py.typed" for package in ("streamclient", "streamwire", "engine", "spark_streams", "pystreams")
    } <= names
    code = {
        str(path.relative_to(ROOT))
        for package in ("streamclient", "streamwire", "engine", "spark_streams", "pystreams")
        for path in (ROOT / package).rglob("*.py")
    }
    assert code <= names


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the sdist, and return its directory."""
    directory = tmp_path_factory.mktemp("sdist")
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11 has it from 3.11.4 on
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(directory)
    (root,) = directory.iterdir()
    return root


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: nothing says which files belong to it")
def test_the_sdist_is_the_checkout(unpacked: Path) -> None:
    """The sdist contains exactly the files that git does not ignore."""
    git = [needed("git"), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert found - {"PKG-INFO"} == {name for name in listed if (ROOT / name).exists()}


@long_only
@pytest.mark.slow
def test_the_tests_run_from_the_sdist(unpacked: Path) -> None:
    """Tests that read other files of the checkout, such as pages, settings and scripts, pass in the unpacked sdist."""
    some = [
        "tests/engine/settings/test_config.py",
        "tests/documentation/test_readme.py",
        "tests/packaging/test_packaging.py",
        "tests/architecture/test_source.py",
    ]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "not sdist and not wheel and not slow", *some],
        cwd=unpacked,
        env=surroundings(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout


def test_the_images_have_every_dependency_with_its_hashes() -> None:
    """The lock file of the images has all dependencies except pyspark, each with hashes, which pip checks."""
    folder = ROOT / "conf" / "containers"
    blocks = re.split(r"^(?=\S)", (folder / "requirements.lock").read_text(), flags=re.MULTILINE)[1:]
    locked = {block.split("=")[0] for block in blocks}
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    extras = PYPROJECT["project"]["optional-dependencies"]
    needed_by = [extras[each] for each in ("engine", "dashboard")]
    named = {re.split(r"[^a-z0-9-]", each)[0] for some in needed_by for each in some}
    assert named <= locked
    assert "pyspark" not in locked
    for file in folder.glob("*.Containerfile"):
        for line in re.findall(r"pip .*install.*", file.read_text()):
            assert "--require-hashes" in line or "--no-deps --no-index" in line
        assert re.search(r"^USER [1-9]", file.read_text(), re.MULTILINE), file


def test_the_health_check() -> None:
    """A server is alive if it replies, even without a login. It is ready if INFO shows no loading and no lost master;
    if INFO is refused, it is not ready.
    """
    check = [sys.executable, str(ROOT / "conf" / "containers" / "health.py")]

    def status(*words: str, **environment: str) -> int:
        return subprocess.run(
            [*check, *words], env={**os.environ, **environment}, capture_output=True, check=False
        ).returncode

    lost = ("--replicaof", "127.0.0.1 1")
    with servers.engine("--requirepass", "hush") as engine:
        port = str(engine.port)
        assert (status(port), status("--ready", port)) == (0, 1)
        assert status("--ready", port, PYSTREAMS_PASSWORD="hush") == 0
    for flags in (lost, (*lost, "--replica-serve-stale-data", "no"), (*lost, "--requirepass", "hush")):
        with servers.engine(*flags) as engine:
            assert (status(str(engine.port)), status("--ready", str(engine.port), PYSTREAMS_PASSWORD="hush")) == (0, 1)
    assert status(str(engine.port)) == 1
