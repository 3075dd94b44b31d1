"""Preflight: work on calls of `load()`, `save()`, `start()` and `toTable()` in the program's process, in any thread.

Spark calls a Python data source late. For a read with a schema, and for streaming reads and writes, it does so when the
query runs, after `load()` and `start()` have returned. `install` wraps these methods of pyspark. For the format
`pystreams` the wrappers first parse the options: names, values, and options that exclude or require each other. Checks
that depend on a server are left to the query.

Spark also calls a data source in processes of its own, with the environment that the JVM had at its start. A program
may set PYSTREAMS_URL later, as in a notebook. So the wrappers add the server that the program's environment names to
the options.

A write in `foreachBatch` is exactly once because Spark passes query and batch to tasks. Spark Connect does not: there
the function runs in a process of its own, as another client. So the wrapper of `foreachBatch` marks this process, and
`save()` refuses a write without `writeId`, which would be repeated with the batch.

Spark finds a registered source only through the active session of the calling thread, and a thread that the program
has started itself has none. So the wrappers also make the builder's session the active one.

A batch that is repeated must have the same rows, except with `writeMode=staged`. Only here are both the options and the
plan known, so writes warn if the plan is not deterministic; not in Spark Connect, whose clients have no analyzed plan.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from spark_streams.config import options as parsing
from spark_streams.errors import fail

FORMAT = "pystreams"

_batches = 0  # number of functions of Connect's `foreachBatch` that are running in this process


def _check_identity(options: Mapping[str, str]) -> None:
    """Raise NO_BATCH_IDENTITY for a write that would add rows again if its batch is repeated."""
    folded = {name.lower(): value for name, value in options.items()}
    if _batches and "writeid" not in folded and folded.get("writemode", "").lower() != "append":
        fail("NO_BATCH_IDENTITY")


#: Classes with their modules, their wrapped methods, and the function that checks the options.
_WAYS: tuple[tuple[str, str, tuple[str, ...], Callable[[Mapping[str, str]], None]], ...] = (
    ("DataFrameReader", "readwriter", ("load",), functools.partial(parsing.check_read, streaming=False)),
    ("DataStreamReader", "streaming.readwriter", ("load",), functools.partial(parsing.check_read, streaming=True)),
    ("DataStreamWriter", "streaming.readwriter", ("start", "toTable"), parsing.check_streaming_write),
    # Spark creates a batch writer at once, which checks its options.
    ("DataFrameWriter", "readwriter", ("save",), _check_identity),
)


def install(*, connect: bool) -> None:
    """Wrap the methods of Spark, or of Spark Connect, in this process, so that they check their options.

    Repeated calls change nothing.
    """
    package = "pyspark.sql.connect" if connect else "pyspark.sql"
    for name, module, methods, check in _WAYS:
        kind = getattr(import_module(f"{package}.{module}"), name)
        for method in methods:
            original = getattr(kind, method)
            if not hasattr(original, "checks_pystreams"):
                setattr(kind, method, _checked(original, check, connect=connect))
    if connect:
        kind = import_module(f"{package}.streaming.readwriter").DataStreamWriter
        original = kind.foreachBatch
        if not hasattr(original, "checks_pystreams"):
            kind.foreachBatch = _marked(original)


def _checked(
    original: Callable[..., Any], check: Callable[[Mapping[str, str]], None], *, connect: bool
) -> Callable[..., Any]:
    @functools.wraps(original)
    def called(builder: Any, *words: Any, **named: Any) -> Any:
        form, given = _of_connect(builder) if connect else _of_spark(builder)
        path = words[0] if words else named.get("path")
        form = (words[1] if len(words) > 1 else named.get("format")) or form
        if form is not None and form.lower() == FORMAT:
            further = {name: value for name, value in named.items() if name not in _ARGUMENTS and value is not None}
            if isinstance(path, str) and original.__name__ != "toTable":
                further["path"] = path
            folded = {name.lower() for name in further}
            options = {name: value for name, value in given.items() if name.lower() not in folded}
            options |= {name: _text(value) for name, value in further.items()}
            check(options)
            named |= parsing.of_environment(options)
            if not connect:
                named |= _activate(builder)
                if original.__name__ != "load" and (warning := _warning(original, options, builder)):
                    warnings.warn(warning, stacklevel=2)
        return original(builder, *words, **named)

    called.checks_pystreams = True  # type: ignore[attr-defined]
    return called


def _marked(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Connect's `foreachBatch` for functions whose process is marked while they run."""

    @functools.wraps(original)
    def called(builder: Any, function: Callable[[Any, int], None]) -> Any:
        # Pickled by value, because the server may run a query that does not use this package, and may not have it.
        def run(batch: Any, number: int) -> None:
            try:
                from spark_streams import preflight  # noqa: PLC0415, PLW0406 - see above
            except ModuleNotFoundError:
                return function(batch, number)
            with preflight.within_batch():
                return function(batch, number)

        return original(builder, run)

    called.checks_pystreams = True  # type: ignore[attr-defined]
    return called


@contextmanager
def within_batch() -> Iterator[None]:
    """Refuse writes without an identity in this process, which runs a function of Connect's `foreachBatch`."""
    global _batches  # noqa: PLW0603 - state of the process: the function may write in other threads
    install(connect=True)
    _batches += 1
    try:
        yield
    finally:
        _batches -= 1


def _warning(original: Callable[..., Any], options: Mapping[str, str], builder: Any) -> str:
    """Return a warning if the rows of a write may differ when it is repeated, and its mode does not allow that."""
    folded = {name.lower(): value for name, value in options.items()}
    mode = folded.get("writemode", "exactlyOnce")
    if mode.lower() not in ("exactlyonce", "atomic"):
        return ""
    try:
        causes = _causes(builder, original.__name__ != "save" or "writeid" in folded)
    except Exception:  # noqa: BLE001 - this Spark has other internals, which must not prevent a write
        return ""
    if not causes:
        return ""
    return (
        f"The plan is not deterministic ({', '.join(sorted(causes))}). If a batch is repeated after a failure, its "
        f"rows differ, and writeMode={mode} refuses it (REPLAY_DIFFERS). Use writeMode=staged."
    )


def _causes(builder: Any, is_named: bool) -> set[str]:
    """Return the functions by which the rows may differ when the batch is repeated. `is_named`: whether the whole write
    may be repeated under its name. If not, only its tasks are repeated, for which Spark keeps the seeds of its own
    functions. A write in `foreachBatch` depends on the plan of its query, which is returned once for each query.
    """
    causes = _causes_in(builder._df._jdf.queryExecution().analyzed())
    query = builder._spark._sc.getLocalProperty("sql.streaming.queryId")
    if query is None:
        return causes if is_named else {each for each in causes if "udf" in each}
    if query in _warned:
        return set()
    _warned.add(query)
    number = builder._spark._jvm.java.util.UUID.fromString(query)
    running = builder._spark._jsparkSession.sharedState().activeStreamingQueries().get(number)
    return causes | _causes_in(running.lastExecution().analyzed())


_warned: set[str] = set()  # queries whose writes in `foreachBatch` were checked


def _causes_in(plan: Any) -> set[str]:
    """Return the functions in a plan of the JVM that are not deterministic."""
    if plan.deterministic():
        return set()
    own = {cause for each in _items(plan.expressions()) for cause in _functions_in(each)}
    return own.union(*map(_causes_in, _items(plan.children())))


def _functions_in(expression: Any) -> set[str]:
    """Return the functions in an expression of the JVM that are not deterministic."""
    if expression.deterministic():
        return set()
    below = {cause for each in _items(expression.children()) for cause in _functions_in(each)}
    return below or {f"{expression.prettyName()}()"}


def _items(sequence: Any) -> list[Any]:
    """Return the elements of a sequence of Scala."""
    return [sequence.apply(at) for at in range(sequence.size())]


#: Arguments of the wrapped methods that are not options.
_ARGUMENTS = frozenset({"path", "format", "schema", "outputMode", "partitionBy", "queryName", "tableName"})


def _text(value: Any) -> str:
    """Return an option's value as pyspark passes it on."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_spark(builder: Any) -> tuple[str | None, dict[str, str]]:
    """Return the format and the options that a Spark builder has so far. Both are fields of the builder's object in the
    JVM.
    """
    made = getattr(builder, "_jreader", None) or builder._jwrite
    jvm = builder._spark._jvm
    source, given = (_field(made, name) for name in ("source", "extraOptions"))
    return source, dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(given.originalMap()))


def _activate(builder: Any) -> dict[str, str]:
    """Make the builder's session the active one of this thread, if the thread has none. Return the options of a read
    that depend on the session. With Spark Connect, which has no RDDs and passes the session, neither is needed.
    """
    session = builder._spark
    if session._jvm.SparkSession.getActiveSession().isEmpty():
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
    if not hasattr(builder, "_jreader"):
        return {}
    return {parsing.SESSION_ZONE: session.conf.get("spark.sql.session.timeZone")}


def _field(made: Any, name: str) -> Any:
    kind = made.getClass()
    while name not in {field.getName() for field in kind.getDeclaredFields()}:
        kind = kind.getSuperclass()
    found = kind.getDeclaredField(name)
    found.setAccessible(True)
    return found.get(made)


def _of_connect(builder: Any) -> tuple[str | None, dict[str, str]]:
    """Return the format and the options that a Spark Connect builder has so far."""
    written = getattr(builder, "_write_proto", None)
    if written is not None:
        return written.format, dict(written.options)
    write = getattr(builder, "_write", None)
    if write is not None:
        return write.source, dict(write.options)
    return builder._format, dict(builder._options)
