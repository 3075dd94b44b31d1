"""The Spark data source `pystreams`: batch and streaming reads and writes of Redis streams.

`register` registers it in a session. `options` returns the options of a read or write as a dict for Spark, with names
and types for editors and type checkers:

    spark.readStream.format("pystreams").options(**spark_streams.options(stream="orders", group="billing"))

`scripts/option_docs.py` generates `Options` from the declarations of the options. A dot in an option's name is an
underscore here: `tls_caFile` is `tls.caFile`. Spark calls `spark_streams.source`. `spark_streams.embedded.launcher`
starts the engine for a driver that names no server.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from spark_streams.config import options as parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["options", "register"]


# fmt: off
# options: written by scripts/option_docs.py
class Options(TypedDict, total=False):
    """Options of a read or a write, which docs/reference/options.md describes."""

    url: str
    embedded_dir: str
    user: str
    password: str
    passwordFile: str
    credentialProvider: str
    sentinelUser: str
    sentinelPassword: str
    tls_caFile: str
    tls_certFile: str
    tls_keyFile: str
    tls_keyPassword: str
    tls_verify: Literal["full", "ca", "none"]
    retryTimeoutMs: int | str | timedelta
    stream: str
    valueFormat: Literal["fields", "json", "avro", "protobuf", "debezium"]
    valueField: str
    nullValue: str
    timeZone: str
    valueSchema: str
    valueSchemaFile: str
    valueMessage: str
    schemaRegistry_url: str
    schemaRegistry_user: str
    schemaRegistry_password: str
    schemaRegistry_token: str
    schemaRegistry_caFile: str
    schemaRegistry_subject: str
    schemaRegistry_register: bool
    streams: str | Sequence[str]
    streamPattern: str
    streamPatternRefreshMs: int | str | timedelta
    startingOffsets: str | Mapping[str, str]
    startingTimestamp: str | int | datetime | Mapping[str, str | int]
    endingOffsets: str | Mapping[str, str]
    endingTimestamp: str | int | datetime | Mapping[str, str | int]
    failOnMissingStream: bool
    failOnDataLoss: bool
    group: str
    consume: Literal["range", "shared"]
    ack: Literal["commit", "cursor"]
    consumer: str
    groupTakeover: bool
    groupLeaseMs: int | str | timedelta
    claimIdleMs: int | str | timedelta
    maxDeliveries: int | str
    deadLetterStream: str
    trimOnCommit: bool
    maxEntriesPerTrigger: int | str
    minEntriesPerTrigger: int | str
    maxTriggerDelay: int | str | timedelta
    idleWaitMs: int | str | timedelta
    minPartitions: int | str
    maxPartitions: int | str
    maxEntriesPerPartition: int | str
    pageSize: int | str
    fieldsType: Literal["string", "binary"]
    inferSchema: bool
    samplingSize: int | str
    requireFields: bool
    mode: Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
    columnNameOfCorruptRecord: str
    timestampFormat: Literal["iso", "epoch", "seconds", "milliseconds", "microseconds"]
    writeMode: Literal["exactlyOnce", "atomic", "staged", "append"]
    overwriteUnread: bool
    writeId: str
    fenceRetentionMs: int | str | timedelta
    allowEviction: bool
    waitReplicas: int | str
    waitTimeoutMs: int | str | timedelta
    chunkSize: int | str
    keyColumn: str
    partitions: int | str
    keepIds: bool
    maxlen: int | str
    retentionMs: int | str | timedelta
    approximate: bool
# end of options
# fmt: on


def options(**given: Unpack[Options]) -> dict[str, str]:
    """Return the options of a read or a write in the form that Spark's `options(**...)` accepts.

    Raises an OptionsError, such as UNKNOWN_OPTION or INVALID_OPTION, or OPTION_ELSEWHERE if some options are only for
    reads and others only for writes. An option with the value None is omitted. A dict is converted to JSON, a datetime
    to ISO 8601, and a timedelta to milliseconds.
    """
    made = {parsing.dotted(name): _text(value) for name, value in given.items() if value is not None}
    parsing.check_values(made)
    return made


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    return ",".join(value) if isinstance(value, (tuple, list)) else str(value)


# Completion in notebooks and `help` read the signature at run time.
cast("Any", options).__signature__ = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in Options.__annotations__.items()
    ],
    return_annotation="dict[str, str]",
)


def register(spark: SparkSession) -> None:
    """Register the data source `pystreams` in a session of Spark or Spark Connect.

    Spark finds the data source without this call if the package was installed before Spark's processes started. The
    call is needed if the package comes with the application (`--py-files`, `--archives`, `addPyFile`, `addArtifacts`).
    It is also needed if PYSPARK_PYTHON is not set and this program's Python is not the first `python3` of PATH, as in a
    notebook. In these cases `format("pystreams")` fails with DATA_SOURCE_NOT_FOUND without the call. Repeated calls
    change nothing.

    After the call, a local Spark without PYSPARK_PYTHON runs the data source in this program's Python. Calls of
    `load()`, `start()` and `toTable()` in this program then check the format's options before Spark does, and may be
    made in any thread (`preflight`).
    """
    from spark_streams import preflight  # noqa: PLC0415 - the command line imports this package without Spark
    from spark_streams.source import PystreamsDataSource  # noqa: PLC0415 - as above

    preflight.install(connect=_is_connect(spark))
    if not _is_connect(spark):
        _silence(spark)
    if (
        _is_connect(spark)
        or "PYSPARK_PYTHON" in os.environ
        or not (spark.sparkContext.master or "").startswith("local")
    ):
        _put(spark, PystreamsDataSource)
        return
    context = spark.sparkContext
    default = context.pythonExec  # the Python that Spark records with the source, and in which it runs the source
    context.pythonExec = sys.executable
    try:
        _put(spark, PystreamsDataSource)
    finally:
        context.pythonExec = default


def _silence(spark: SparkSession) -> None:
    """Suppress the warnings of Spark that a source which it has found by itself is replaced. It logs them at each start
    of a query.
    """
    jvm: Any = spark._jvm
    jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(
        "org.apache.spark.sql.execution.datasources.DataSourceManager", jvm.org.apache.logging.log4j.Level.ERROR
    )


def _put(spark: SparkSession, source: type[DataSource]) -> None:
    """Register the source. Ignore the error that Spark 4.0 raises if it has already found the source itself."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - the command line imports this package without Spark

    try:
        spark.dataSource.register(source)
    except AnalysisException as refusal:
        if refusal.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
