"""The files in conf/ that run the engine and the dashboard with systemd, in containers, and on Kubernetes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import redis
import yaml

from tests import ROOT, servers
from tests.servers import topologies
from tests.suite.tools import needed
from tests.suite.waiting import wait_for

_UNITS = sorted((ROOT / "conf" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_valid_and_hardened(unit: Path, tmp_path: Path) -> None:
    """systemd accepts each unit and rates its exposure as at most 1.5 of 10."""
    program = Path(sys.executable).parent / "pystreams"
    (copy := tmp_path / unit.name).write_text(unit.read_text().replace("/opt/pystreams/bin/pystreams", str(program)))
    analyze = needed("systemd-analyze")
    verified = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    command = [analyze, "security", "--offline=yes", "--no-pager", str(copy)]
    rated = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (exposure,) = re.findall(r"exposure level for .*: ([0-9.]+)", rated)
    assert float(exposure) <= 1.5, rated


def test_the_units_start_existing_verbs() -> None:
    """There are units for the engine and the dashboard, and both start existing verbs."""
    assert [unit.name for unit in _UNITS] == ["pystreams-dashboard.service", "pystreams-engine.service"]
    for unit in _UNITS:
        (verb,) = re.findall(r"^ExecStart=/opt/pystreams/bin/pystreams (\w+)", unit.read_text(), re.MULTILINE)
        done = subprocess.run(
            [sys.executable, "-m", "pystreams", verb, "--help"], capture_output=True, cwd=ROOT, check=False
        )
        assert done.returncode == 0


_DENIED = """
import ctypes, runpy, sys
assert ctypes.CDLL(None, use_errno=True).prctl(65, 1, 0, 0, 0) == 0, ctypes.get_errno()  # PR_SET_MDWE
sys.argv = ["engine", *sys.argv[1:]]
runpy.run_module("engine", run_name="__main__", alter_sys=True)
"""


def test_the_engine_runs_without_writable_executable_memory(tmp_path: Path) -> None:
    """The engine works with MemoryDenyWriteExecute=yes."""
    port = servers.free_port()
    output = tmp_path / "output.txt"
    command = servers.tied_to_us([sys.executable, "-c", _DENIED, "--port", str(port), "--dir", str(tmp_path)])
    with output.open("wb") as file, subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file) as process:
        try:
            wait_for(lambda: b"ready on" in output.read_bytes() or process.poll() is not None, "the engine")
            with redis.Redis(port=port, protocol=2) as client:
                client.xadd("s", {"n": 1})
                assert client.xlen("s") == 1
        finally:
            servers.stop(process)


def test_logs_are_rotated_without_a_signal(tmp_path: Path) -> None:
    """After logrotate has renamed the log, the engine's next line, here about SIGHUP, is in a new file.

    SIGHUP does not end the engine.
    """
    log = tmp_path / "engine.log"
    settings = (ROOT / "conf" / "logrotate.conf").read_text().replace("/var/log/pystreams/engine.log", str(log))
    (rules := tmp_path / "logrotate.conf").write_text(settings.replace("nocreate", "nocreate\n    su root root"))
    rules.chmod(0o644)
    tmp_path.chmod(0o755)
    with servers.engine("--logfile", str(log)) as engine, redis.Redis(port=engine.port, protocol=2) as client:
        wait_for(lambda: "accepting clients" in log.read_text(), "the first line of the log")
        rotate = [needed("logrotate"), "--force", "--state", str(tmp_path / "state"), str(rules)]
        subprocess.run(rotate, check=True, capture_output=True)
        moved = tmp_path / "engine.log.1"
        assert moved.exists()
        engine.process.send_signal(1)
        wait_for(lambda: log.exists() and "SIGHUP" in log.read_text(), "a new log with the line about SIGHUP")
        assert "SIGHUP" not in moved.read_text()
        assert client.ping()


def test_the_compose_file_is_valid(tmp_path: Path) -> None:
    """Docker Compose accepts the file if a password is set, and rejects a misspelled setting."""
    program, file = Path(sys.executable).parent / "docker-compose", ROOT / "conf" / "containers" / "compose.yaml"
    (misspelt := tmp_path / "compose.yaml").write_text(file.read_text().replace("read_only", "raed_only"))

    def errors(path: Path, **environment: str) -> str:
        command = [program, "--file", path, "config", "--quiet"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stderr

    assert errors(file, PASSWORD="hush") == ""
    assert "PASSWORD" in errors(file)
    assert "raed_only" in errors(misspelt, PASSWORD="hush")


_KUBERNETES = ROOT / "conf" / "kubernetes"


def _manifests() -> list[dict[str, Any]]:
    paths = [path for path in sorted(_KUBERNETES.glob("*.yaml")) if path.name != "kustomization.yaml"]
    return [each for path in paths for each in yaml.safe_load_all(path.read_text())]


def test_the_manifests_are_valid() -> None:
    """The manifests are valid by the Kubernetes schemas, which reject a misspelled field."""
    checked = []
    for each in _manifests():
        if each["kind"] != "PodMonitor":  # defined by the Prometheus operator, not by Kubernetes
            kubernetes_validate.validate(each, "1.37", strict=True)
            checked.append(each["kind"])
            with pytest.raises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate({**each, "spec": {**each["spec"], "sepc": {}}}, "1.37", strict=True)
    assert checked == ["Service", "PodDisruptionBudget", "StatefulSet", "NetworkPolicy"]


def test_the_pods_are_restricted_and_the_manifests_fit_together() -> None:
    """Containers run without root and capabilities, with a read-only root file system. Ports and labels agree between
    manifests.
    """
    by_kind = {each["kind"]: each for each in _manifests()}
    pod = by_kind["StatefulSet"]["spec"]["template"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        restricted = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["securityContext"] == restricted
        assert container["resources"]["limits"]["memory"]
    ports = {port["name"]: port["containerPort"] for each in pod["spec"]["containers"] for port in each["ports"]}
    assert ports == {"redis": 6379, "metrics": 9121, "sentinel": 26379}
    allowed = {port["port"] for rule in by_kind["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
    assert allowed == set(ports.values())
    assert by_kind["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["port"] in ports
    for kind in ("PodMonitor", "PodDisruptionBudget", "StatefulSet"):
        assert by_kind[kind]["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    listed = yaml.safe_load((_KUBERNETES / "kustomization.yaml").read_text())
    named = [*listed["resources"], *(file for made in listed["configMapGenerator"] for file in made["files"])]
    assert sorted([*named, "kustomization.yaml"]) == sorted(
        path.name for path in _KUBERNETES.iterdir() if path.is_file()
    )


def _configured(directory: Path, host: str, sentinels: str) -> str:
    (password := directory.parent / "password").write_text("hush\n")
    directory.mkdir(exist_ok=True)
    environment = {"HOST": host, "FIRST": "first", "SENTINELS": sentinels, "SERVICE": "main"}
    command = [sys.executable, str(_KUBERNETES / "configure.py"), str(directory)]
    done = subprocess.run(
        command, env={**environment, "PASSWORD_FILE": str(password)}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def test_a_server_follows_the_master_named_by_the_sentinels(tmp_path: Path) -> None:
    """A server follows the master that the Sentinels name, or the first server if no Sentinel replies.

    The engine and a Sentinel accept the written files.
    """
    assert _configured(tmp_path / "first", "first", "127.0.0.1:1") == "first: master"
    assert _configured(tmp_path / "other", "other", "127.0.0.1:1") == "other: replica of first"
    with topologies.watched() as watched:
        sentinels = ",".join(f"127.0.0.1:{port}" for port in watched.sentinels)
        assert _configured(tmp_path / "new", "new", sentinels) == "new: replica of 127.0.0.1"
        assert _configured(tmp_path / "master", "127.0.0.1", sentinels) == "127.0.0.1: master"
    sentinel_config = (tmp_path / "new" / "sentinel" / "sentinel.conf").read_text()
    with (
        servers.engine("--bind", "127.0.0.1", config_file=str(tmp_path / "first" / "engine.conf")) as engine,
        redis.Redis(port=engine.port, password="hush") as client,
    ):
        assert client.config_get("appendonly") == {"appendonly": "yes"}
    lines = [line for line in sentinel_config.splitlines() if not line.startswith("dir ")]
    with servers.sentinel(*lines) as sentinel, redis.Redis(port=sentinel.port, password="hush") as client:
        assert client.sentinel_get_master_addr_by_name("main") == (b"127.0.0.1", 6379)
    _configured(tmp_path / "new", "new", "127.0.0.1:1")
    assert (tmp_path / "new" / "sentinel" / "sentinel.conf").read_text() == sentinel_config
    assert (tmp_path / "new" / "engine.conf").stat().st_mode & 0o077 == 0
