"""Destinations of rows: `--to stream:NAME`, `parquet:URI` or `console`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StructType

from pystreams.errors import fail
from pystreams.jobs.parquet import Parquet, check_directory
from pystreams.jobs.run import Run, Work

_SHOWN = 1000  # maximum number of rows of a batch on the console


@dataclass(frozen=True)
class Target:
    """Destination of rows. `name`: name of a stream, or URI of a directory."""

    kind: Literal["stream", "parquet", "console"]
    name: str = ""


class TargetType(click.ParamType[Target]):
    """Type of the flag --to."""

    name = "stream:NAME|parquet:URI|console"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        del ctx
        if isinstance(value, Target):
            return value
        kind, _, name = str(value).partition(":")
        if value == "console":
            return Target("console")
        if kind == "stream" and name:
            return Target("stream", name)
        if kind == "parquet" and name:
            check_directory(name)
            return Target("parquet", name.rstrip("/"))
        flag = param.opts[0] if param is not None else "--to"
        return fail("INVALID_VALUE", name=flag, value=value, expected="it must be stream:NAME, parquet:URI or console")


to_flag = click.option("--to", "target", type=TargetType(), required=True, help="Destination of the rows.")


def work_of(run: Run, target: Target) -> Work:
    """Return a function that writes a batch to the target.

    A repeated batch is written once to a stream or to files, but shown again on the console.
    """
    if target.kind == "console":
        return lambda rows, _number: rows.show(_SHOWN, truncate=False)
    if target.kind == "stream":
        return lambda rows, _number: run.write(flat(rows), stream=target.name)
    files: list[Parquet] = []

    def add(rows: DataFrame, number: int) -> None:
        if not files:
            files.append(Parquet(run.spark, run.files, target.name, run.query_id()))
        files[0].add(flat(rows), number)

    return add


def flat(rows: DataFrame) -> DataFrame:
    """Return the rows without structs: `window` becomes `window_start` and `window_end`."""
    columns = []
    for field in rows.schema.fields:
        if isinstance(field.dataType, StructType):
            columns += [
                F.col(f"`{field.name}`.`{inner}`").alias(f"{field.name}_{inner}")
                for inner in field.dataType.fieldNames()
            ]
        else:
            columns.append(F.col(f"`{field.name}`"))
    return rows.select(*columns)
