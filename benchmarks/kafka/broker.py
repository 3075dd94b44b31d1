"""Kafka broker of one process (KRaft). Its data is in a temporary directory, which is removed when it stops."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import servers
from benchmarks.kafka import jars
from benchmarks.spark.session import CORES

_STOP_SECONDS = 30
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={directory}/data
num.partitions={partitions}
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=120000
log.message.timestamp.type=LogAppendTime
"""


@contextmanager
def running() -> Iterator[str]:
    """Run a broker while the block runs; yield its bootstrap address. Topics are created by the first write.

    A message's timestamp is the time at which the broker appended it, like an entry's ID.
    """
    _, files = jars.broker()
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as directory:
        port, controller = servers.free_port(), servers.free_port()
        settings = Path(directory) / "server.properties"
        settings.write_text(_SETTINGS.format(port=port, controller=controller, directory=directory, partitions=CORES))
        identity = "AAAAAAAAAAAAAAAAAAAAAQ"
        subprocess.run(
            java(files, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings)),
            check=True,
            capture_output=True,
        )
        output = Path(directory) / "output.txt"
        with output.open("wb") as sink:
            # The options are those of bin/kafka-server-start.sh.
            command = java(files, "kafka.Kafka", str(settings), options=["-Xmx1g", "-Xms1g", "-XX:+UseG1GC"])
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        try:
            if not servers.accepts(process, port):
                raise RuntimeError(f"the broker did not get ready:\n{output.read_text()}")
            yield f"127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def java(files: Iterable[Path], name: str, *words: str, options: Iterable[str] = ()) -> list[str]:
    """Return the command line that runs a class of these jars."""
    return ["java", *options, "-cp", os.pathsep.join(map(str, files)), name, *words]
