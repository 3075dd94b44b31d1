"""Stopping: a job that is asked to end (SIGTERM, SIGINT) finishes its batch first.

The process of spark-submit is the JVM: signals do not reach Python, and Spark would end immediately. So the JVM gets a
shutdown hook that runs before Spark's own hook, asks the job to end, and waits for it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

#: Priority of the hook among Hadoop's shutdown hooks; Spark's own hook has 40.
_BEFORE_SPARK = 1000
#: Seconds that the JVM waits for the running batch.
PATIENCE_SECONDS = 600


class StopRequestedError(Exception):
    """A batch was not started, since the job was asked to stop."""


class Stop:
    """Whether the job was asked to stop, and whether a batch is running. Thread-safe."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.ended = threading.Event()
        self._turn = threading.Condition()
        self._running = 0

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Context of a batch. Raises StopRequestedError after a request to stop."""
        with self._turn:
            if self.requested.is_set():
                raise StopRequestedError("the job was asked to stop before this batch started")
            self._running += 1
        try:
            yield
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()

    @property
    def running(self) -> bool:
        """Whether a batch is running."""
        return self._running > 0

    def wait_for_batch(self) -> None:
        """Wait until no batch is running, or until `PATIENCE_SECONDS` have passed."""
        with self._turn:
            self._turn.wait_for(lambda: not self._running, PATIENCE_SECONDS)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT request a stop within the block. A later SIGINT interrupts the job."""
        if threading.current_thread() is not threading.main_thread():
            yield  # a program that runs the job in a thread has its own handlers
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def handle(number: int, _frame: Any) -> None:
            if number == signal.SIGINT and self.requested.is_set():
                raise KeyboardInterrupt
            self.requested.set()

        try:
            for number in before:
                signal.signal(number, handle)
            yield
        finally:
            self.ended.set()
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def hook(self, spark: SparkSession) -> Iterator[None]:
        """Within the block, make the JVM wait for the job before the JVM ends."""
        gateway = spark.sparkContext._gateway
        jvm = spark.sparkContext._jvm
        assert gateway is not None
        assert jvm is not None
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        # The thread is never started. The JVM needs it to identify the hook on removal.
        thread = jvm.java.lang.Thread(_Hook(self))
        manager = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
        seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
        manager.addShutdownHook(thread, _BEFORE_SPARK, PATIENCE_SECONDS, seconds)
        try:
            yield
        finally:
            self.ended.set()
            if not manager.isShutdownInProgress():
                manager.removeShutdownHook(thread)


class _Hook:
    """A `java.lang.Runnable` that requests a stop and waits for the job."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def run(self) -> None:
        self._stop.requested.set()
        self._stop.ended.wait(PATIENCE_SECONDS)

    class Java:
        """Declaration for py4j."""

        implements = ["java.lang.Runnable"]  # noqa: RUF012 - py4j's form
