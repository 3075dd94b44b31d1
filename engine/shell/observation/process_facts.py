"""Facts about the process for INFO: identity, memory, processor time, traffic."""

from __future__ import annotations

import os
import platform
import resource
import secrets
import sys
from dataclasses import dataclass

from engine.core.clients.telemetry import Telemetry
from engine.core.environment.host import ProcessFacts
from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.housekeeping.memory import resident


@dataclass(slots=True)
class Traffic:
    """Counters of one server since its start, updated by the connections."""

    bytes_in: int = 0
    bytes_out: int = 0
    #: Number of accepted connections, including those that were rejected afterwards.
    accepted: int = 0
    #: Number of connections that were rejected after they had been accepted.
    rejected: int = 0
    #: Number of connected clients whose TLS handshake is not complete.
    handshaking: int = 0
    #: Number of clients dropped because of client-query-buffer-limit.
    query_overruns: int = 0
    #: Number of clients dropped because of client-output-buffer-limit.
    output_overruns: int = 0


_PAGE = resource.getpagesize()


class Facts:
    """Collector of the facts. It measures only in `collect`: the peak is the largest size that `collect` has found."""

    def __init__(self, config: Config, traffic: Traffic, telemetry: Telemetry, loop: type, port: int) -> None:
        self._config = config
        self._traffic = traffic
        self._telemetry = telemetry
        self._loop = loop.__module__.partition(".")[0]
        self._port = port
        self._run_id = secrets.token_hex(20)
        self._started_us = now_us()
        self._peak = 0
        self._at_start = resident()
        self._sample = (self._started_us, 0, 0, 0)
        self._rates = (0, 0.0, 0.0)
        self._base = (0, 0, 0, 0)

    def reset(self) -> None:
        """Reset the counters, for CONFIG RESETSTAT."""
        traffic = self._traffic
        self._base = (traffic.bytes_in, traffic.bytes_out, traffic.accepted, traffic.rejected)
        traffic.query_overruns = traffic.output_overruns = 0
        self._peak = 0

    def collect(self) -> ProcessFacts:
        """Return all current facts."""
        traffic, now = self._traffic, now_us()
        size = resident()
        self._peak = max(self._peak, size)
        usage, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        ops, rate_in, rate_out = self._rate(now)
        bytes_in, bytes_out, accepted, rejected = self._base
        return ProcessFacts(
            pid=os.getpid(),
            run_id=self._run_id,
            port=self._port,
            now_us=now,
            started_us=self._started_us,
            os=f"{platform.system()} {platform.release()} {platform.machine()}",
            executable=sys.executable,
            config_file=str(self._config.file or ""),
            python=platform.python_version(),
            loop=self._loop,
            memory=size,
            memory_peak=self._peak,
            memory_start=self._at_start,
            memory_system=os.sysconf("SC_PHYS_PAGES") * _PAGE,
            cpu_sys=usage.ru_stime,
            cpu_user=usage.ru_utime,
            cpu_sys_children=children.ru_stime,
            cpu_user_children=children.ru_utime,
            accepted=traffic.accepted - accepted,
            rejected=traffic.rejected - rejected,
            bytes_in=traffic.bytes_in - bytes_in,
            bytes_out=traffic.bytes_out - bytes_out,
            query_overruns=traffic.query_overruns,
            output_overruns=traffic.output_overruns,
            ops_per_sec=ops,
            kbps_in=rate_in,
            kbps_out=rate_out,
        )

    def _rate(self, now: int) -> tuple[int, float, float]:
        """Return the commands per second, KiB received per second and KiB sent per second between the last two samples,
        which are at least a tenth of a second apart.
        """
        since, commands, bytes_in, bytes_out = self._sample
        seconds = (now - since) / 1e6
        traffic = self._traffic
        if seconds >= 0.1:
            total = self._telemetry.commands
            self._rates = (
                round(max(total - commands, 0) / seconds),
                round((traffic.bytes_in - bytes_in) / seconds / 1024, 2),
                round((traffic.bytes_out - bytes_out) / seconds / 1024, 2),
            )
            self._sample = (now, total, traffic.bytes_in, traffic.bytes_out)
        return self._rates
