"""Destinations of a query's batches: `--to stream:NAME`, `parquet:URI` or `console`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StructType

from pystreams.errors import fail
from pystreams.jobs.run import Run, Work

_SHOWN = 1000  # maximum number of rows of a batch on the console


@dataclass(frozen=True)
class Target:
    """Destination of rows. `name`: name of a stream, or URI of a directory."""

    kind: Literal["stream", "parquet", "console"]
    name: str = ""


class TargetType(click.ParamType[Target]):
    """Type of the flag --to, with the kinds of targets of a job."""

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds
        forms = {"stream": "stream:NAME", "parquet": "parquet:URI", "console": "console"}
        self.name = "|".join(forms[kind] for kind in kinds)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        del param, ctx
        if isinstance(value, Target):
            return value
        kind, _, name = str(value).partition(":")
        if kind not in self._kinds or (kind == "console") == bool(name):
            fail("INVALID_VALUE", name="--to", value=value, expected=f"it must be {self.name.replace('|', ' or ')}")
        return Target(kind, name.rstrip("/") if kind == "parquet" else name)  # type: ignore[arg-type]


to_flag = click.option(
    "--to", "target", type=TargetType("stream", "parquet", "console"), required=True, help="Destination of the rows."
)


def work_of(run: Run, target: Target) -> Work:
    """Return a function that writes a batch to the target.

    A repeated batch is written once to a stream or to files, but shown again on the console.
    """
    if target.kind == "console":
        return lambda rows, _number: rows.show(_SHOWN, truncate=False)
    if target.kind == "parquet":
        return lambda rows, number: write_files(run, rows, number, target.name)
    return lambda rows, _number: run.write(_flat(rows), stream=target.name)


def write_files(run: Run, rows: DataFrame, number: int, directory: str, *partitions: str) -> None:
    """Write a batch to Parquet files in directories of its own: DIRECTORY/batch=<query>-<number>/.

    A repeated batch replaces these directories, so that each row is stored once. `partitions`: columns whose values
    become directories above.
    """
    query = str(run.spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
    whole = rows.select("*", F.lit(f"{query[:8]}-{number:010d}").alias("batch"))
    whole.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(*partitions, "batch").parquet(
        directory
    )


def _flat(rows: DataFrame) -> DataFrame:
    """Return the rows as entries: `window` becomes `window_start` and `window_end`, and the ID and stream of a source
    entry become `source_id` and `source_stream`, since they do not determine those of the new entry.
    """
    columns = []
    for field in rows.schema.fields:
        if isinstance(field.dataType, StructType):
            columns += [
                F.col(f"`{field.name}`.`{inner}`").alias(f"{field.name}_{inner}")
                for inner in field.dataType.fieldNames()
            ]
        else:
            columns.append(
                F.col(f"`{field.name}`").alias(
                    {"_id": "source_id", "_stream": "source_stream"}.get(field.name, field.name)
                )
            )
    return rows.select(*columns)
