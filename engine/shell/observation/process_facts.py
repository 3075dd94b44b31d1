"""What only the process knows and INFO tells: addresses, memory, processor time, traffic."""

from __future__ import annotations

import os
import platform
import resource
import secrets
import sys
from typing import Any

from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.network.runner import Runner
from engine.shell.observation.memory import resident

_PAGE = resource.getpagesize()


class Facts:
    """Collects them when they are asked for; nothing is kept up to date in between, but for what a rate needs."""

    def __init__(self, config: Config, runner: Runner, port: int) -> None:
        self._config = config
        self._runner = runner
        self._port = port
        self._run_id = secrets.token_hex(20)
        self._started_us = now_us()
        self._peak = 0
        self._at_start = resident()
        self._sample = (self._started_us, 0, 0, 0)
        self._rates = (0, 0.0, 0.0)
        self._base = (0, 0, 0, 0)

    def reset(self) -> None:
        """CONFIG RESETSTAT: counts begin anew."""
        runner = self._runner
        self._base = (runner.bytes_in, runner.bytes_out, runner.accepted, runner.rejected)
        runner.overruns.update(query=0, output=0)
        self._peak = 0

    def collect(self) -> dict[str, Any]:
        """All facts, by names that INFO's sections use."""
        runner, now = self._runner, now_us()
        size = resident()
        self._peak = max(self._peak, size)
        usage, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        ops, rate_in, rate_out = self._rate(now)
        bytes_in, bytes_out, accepted, rejected = self._base
        return {
            "pid": os.getpid(),
            "run_id": self._run_id,
            "port": self._port,
            "now_us": now,
            "started_us": self._started_us,
            "os": f"{platform.system()} {platform.release()} {platform.machine()}",
            "executable": sys.executable,
            "config_file": str(self._config.file or ""),
            "python": platform.python_version(),
            "loop": type(runner.loop).__module__.partition(".")[0],
            "memory": size,
            "memory_peak": self._peak,
            "memory_start": self._at_start,
            "memory_system": os.sysconf("SC_PHYS_PAGES") * _PAGE,
            "cpu_sys": usage.ru_stime,
            "cpu_user": usage.ru_utime,
            "cpu_sys_children": children.ru_stime,
            "cpu_user_children": children.ru_utime,
            "connections": len(runner.connections),
            "accepted": runner.accepted - accepted,
            "rejected": runner.rejected - rejected,
            "bytes_in": runner.bytes_in - bytes_in,
            "bytes_out": runner.bytes_out - bytes_out,
            "query_overruns": runner.overruns["query"],
            "output_overruns": runner.overruns["output"],
            "ops_per_sec": ops,
            "kbps_in": rate_in,
            "kbps_out": rate_out,
        }

    def _rate(self, now: int) -> tuple[int, float, float]:
        """Commands and KiB a second since the last time this was asked, at least a tenth of a second ago."""
        since, commands, bytes_in, bytes_out = self._sample
        seconds = (now - since) / 1e6
        runner = self._runner
        if seconds >= 0.1:
            total = runner.core.commands_processed
            self._rates = (
                round(max(total - commands, 0) / seconds),
                round((runner.bytes_in - bytes_in) / seconds / 1024, 2),
                round((runner.bytes_out - bytes_out) / seconds / 1024, 2),
            )
            self._sample = (now, total, runner.bytes_in, runner.bytes_out)
        return self._rates
