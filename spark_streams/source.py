"""The data source `pystreams`: from Spark's options and schema to a reader or writer.

Spark makes this object in short-lived processes of its own, again and again; it does nothing but check and hand over.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from spark_streams.columns.read_schema import DEFAULT, DEFAULT_BINARY, ReadSchema
from spark_streams.columns.write_schema import WriteSchema
from spark_streams.config import options, time_zones
from spark_streams.config.address import Address, Embedded
from spark_streams.embedded import launcher
from spark_streams.errors import fail
from spark_streams.read import infer, pushdown
from spark_streams.read.batch import BatchReader
from spark_streams.read.stream import StreamReader
from spark_streams.write import sink
from spark_streams.write.sink import BatchWriter, Sink, StreamWriter


class PystreamsDataSource(DataSource):
    """Redis streams, read and written in batches and micro-batches."""

    @classmethod
    def name(cls) -> str:
        return "pystreams"

    def schema(self) -> StructType | str:
        options.check_names(self.options)
        if {name.lower() for name in self.options} & {"inferschema", "fieldstype"}:
            said = options.read_options(self.options)
            if said.samples is not None:
                return infer.schema(said, _address(said.address))
            if said.binary:
                return DEFAULT_BINARY
        return DEFAULT

    def reader(self, schema: StructType) -> DataSourceReader:
        said = options.read_options(self.options)
        if said.shared:
            fail("INVALID_OPTION", option="consume", value="shared", expected="a batch read takes part in no group")
        made = pushdown.PushdownReader if pushdown.asked_for() else BatchReader
        return made(said, ReadSchema.of(schema, said, time_zones.of_machine()), _address(said.address))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        said = options.read_options(self.options)
        if said.ending is not None:
            fail("INVALID_OPTION", option="endingOffsets", value="...", expected="a streaming read has no end")
        return StreamReader(said, ReadSchema.of(schema, said, time_zones.of_machine()), _address(said.address))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(self._sink(schema, streaming=False, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        if overwrite:
            fail("UNSUPPORTED_OUTPUT_MODE")
        return StreamWriter(self._sink(schema, streaming=True, overwrite=False))

    def _sink(self, schema: StructType, *, streaming: bool, overwrite: bool) -> Sink:
        said = options.write_options(self.options)
        columns = WriteSchema.of(schema, said.null_value, said.json_field, said.zone)
        if said.stream is None and not columns.has_stream:
            fail("MISSING_STREAM")
        if said.key_column is not None and said.key_column not in schema.fieldNames():
            expected = f"the rows' columns are {', '.join(schema.fieldNames())}"
            fail("INVALID_OPTION", option="keyColumn", value=said.key_column, expected=expected)
        for name in ("saveMode", "writeId"):
            if streaming and getattr(said, {"saveMode": "save_mode", "writeId": "write_id"}[name]) not in (
                None,
                "append",
            ):
                fail("INVALID_OPTION", option=name, value="...", expected="it is for batch writes alone")
        return sink.sink(_address(said.address), said, columns, streaming, overwrite)


def _address(given: Address | Embedded) -> Address:
    return given if isinstance(given, Address) else launcher.address(given.directory)
