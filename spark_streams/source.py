"""The data source `pystreams`: creates a reader or writer from Spark's options and schema.

Spark creates this object repeatedly in short-lived processes. The object checks its arguments, determines the schema,
and creates other objects. Each process needs one reader, one writer, or only the schema, so modules are imported when
they are needed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

try:
    import numpy  # noqa: F401 - so that a missing package causes the same message as a missing pyspark
    import pyarrow  # noqa: F401 - as above
    from pyspark.sql import datasource
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType
except ImportError as missing:
    from spark_streams.errors import explained

    raise explained(missing) from None

from spark_streams import worker
from spark_streams.config import options
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail, headed
from streamclient.config.address import Address, Embedded
from streamclient.config.option import refuse

if TYPE_CHECKING:
    from spark_streams.columns.read_schema import ReadSchema
    from spark_streams.read.batch import BatchReader
    from spark_streams.read.stream import StreamCalls
    from spark_streams.write.sink import Sink

#: Whether Spark pushes filters down to Python sources, as it does from 4.1 on.
_HAS_FILTERS = hasattr(datasource, "Filter")

#: The directory or zip archive from which this package was imported.
_ROOT = str(Path(__file__).absolute().parents[1])


class PystreamsDataSource(DataSource):
    """Batch and streaming reads and writes of Redis streams."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        worker.prepare()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickle the source with the path from which this package was imported.

        The process that plans a streaming read has the directory of `--py-files` on its path. Unlike all other
        processes, it does not have the archives in that directory on its path (PythonStreamingSourceRunner, Spark 4.0
        to 4.3). So the object is pickled with a function that adds the package's location if needed. The function is
        defined in this method, because cloudpickle then pickles it by value, not by name. A subclass is pickled like
        any other object, so that its class is preserved.
        """
        if type(self) is not PystreamsDataSource:
            return super().__reduce_ex__(protocol)

        def rebuilt(root: str, given: dict[str, str]) -> DataSource:
            import sys

            try:
                from spark_streams.source import PystreamsDataSource as Source
            except ModuleNotFoundError:
                sys.path.append(root)
                from spark_streams.source import PystreamsDataSource as Source
            return Source(given)

        return rebuilt, (_ROOT, dict(self.options))

    @classmethod
    def name(cls) -> str:
        return "pystreams"

    @headed
    def schema(self) -> StructType | str:
        if "provider" in self.options:  # a property of a table, which Spark adds to the user's options
            fail("TABLE_NOT_KEPT")
        given = options.read_options(self.options)
        _check_service(given.address)
        from spark_streams.columns.read_schema import DEFAULT, DEFAULT_BINARY

        if given.infers:
            from spark_streams.read.batch import infer_schema

            return infer_schema(given, _started(given.address))
        if given.fields_type == "binary":
            return DEFAULT_BINARY
        if given.has_schema(given.value_format):
            from spark_streams.formats import resolution

            return resolution.schema(given)
        return DEFAULT

    @headed
    def reader(self, schema: StructType) -> DataSourceReader:
        given = options.read_options(self.options, streaming=False)
        return batch_reader()(given, _read_schema(schema, given), _address(given))

    @headed
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        given = options.read_options(self.options, streaming=True)
        return stream_reader()(given, _read_schema(schema, given), _address(given))

    @headed
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_streams.write.sink import BatchWriter

        return BatchWriter(self._sink(schema, streaming=False, overwrite=overwrite))

    @headed
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        if overwrite:
            fail("UNSUPPORTED_OUTPUT_MODE")
        from spark_streams.write.sink import StreamWriter

        return StreamWriter(self._sink(schema, streaming=True, overwrite=False))

    def _sink(self, schema: StructType, *, streaming: bool, overwrite: bool) -> Sink:
        from spark_streams.write import sink
        from spark_streams.write.encoding import WriteSchema

        given = options.write_options(self.options, streaming=streaming)
        columns = WriteSchema.of(schema, given.null_value, given.row_field, given.zone)
        if given.has_schema(given.value_format):
            from spark_streams.columns.read_schema import arrow_schema
            from spark_streams.formats import resolution

            fields = [arrow_schema(schema).field(name) for name in columns.fields]
            columns = replace(columns, writer=resolution.writer(given, fields))
        if given.stream is None and not columns.has_stream:
            fail("MISSING_STREAM")
        if given.key_column is not None and given.key_column not in schema.fieldNames():
            refuse(given, "key_column", f"the rows' columns are {', '.join(schema.fieldNames())}")
        address = _started(given.address)
        address = replace(address, needs=options.for_write(given, address, overwrite=overwrite))
        return sink.plan(address, given, columns, streaming, overwrite)


def batch_reader() -> type[BatchReader]:
    """Return the class of batch readers for this process: one with filter pushdown in the worker that pushes filters
    down.
    """
    if _HAS_FILTERS:
        from spark_streams.read import pushdown

        if pushdown.is_enabled():
            return pushdown.PushdownReader
    from spark_streams.read.batch import BatchReader

    return BatchReader


def stream_reader() -> type[StreamCalls]:
    """Return the class of streaming readers for this release of Spark.

    There are two classes, because Spark passes a batch's start to the reader only from 4.2 on.
    """
    from spark_streams.read import stream

    return stream.StreamReader if stream.HAS_LIMITS else stream.LegacyStreamReader


def _read_schema(schema: StructType, given: ReadOptions) -> ReadSchema:
    from spark_streams.columns.read_schema import ReadSchema

    reader = None
    if given.has_schema(given.value_format):
        from spark_streams.formats import resolution

        reader = resolution.reader(given)
    return ReadSchema.of(schema, given, reader)


def _address(given: ReadOptions) -> Address:
    address = _started(given.address)
    return replace(address, needs=options.for_read(given, address))


def _check_service(server: Address | Embedded) -> None:
    """Raise EMBEDDED_NOT_KEPT in a Spark service for other programs if the options name no server or data directory.

    This is checked when Spark asks for the columns, which also happens in a dry run of a pipeline.
    """
    if isinstance(server, Embedded) and server.directory is None:
        from spark_streams.embedded import drivers

        drivers.check_service()


def _started(server: Address | Embedded) -> Address:
    if isinstance(server, Address):
        return server
    from spark_streams.embedded import launcher

    return launcher.started(server)
