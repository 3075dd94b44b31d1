"""Protobuf: schemas as descriptors, message classes, and messages as JSON.

A schema must consist of descriptors: a FileDescriptorSet, as written by `protoc --include_imports
--descriptor_set_out`, or a registry's `serialized` form. The text of a `.proto` file needs the compiler of
`grpcio-tools`.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streamclient.errors import error, fail
from streamclient.formats.schemas import Reference, Schema, UndecodableError, package

_WRONG = (TypeError, ValueError, RecursionError)
_MAIN = "schema.proto"  # name for a file that has none
_COMPILE_SECONDS = 60  # timeout of the compiler
_BUILT_IN = "google/protobuf/"
_MODULES = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)


def from_file(content: bytes, source: str, message: str | None = None) -> Schema:
    """Return the schema in a FileDescriptorSet, or in the text of a `.proto` file that imports only Google's files.

    In a set, the schema is the file that defines `message`. If no file does, or no message is given, the schema is the
    last file with a message. Raises SCHEMA_UNUSABLE.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if "message" in text and "{" in text:
        return Schema("PROTOBUF", text)
    descriptors = package("google.protobuf.descriptor_pb2")
    try:
        files = {each.name: each for each in descriptors.FileDescriptorSet.FromString(content).file}
    except package("google.protobuf.message").DecodeError as cause:
        raise error("SCHEMA_UNUSABLE", source=source, reason="it is not a FileDescriptorSet") from cause
    with_messages = [each for each in files.values() if each.message_type]
    if not with_messages:
        fail("SCHEMA_UNUSABLE", source=source, reason="it has no message")
    main = with_messages[-1]
    if message is not None:
        main = next((each for each in with_messages if _path(each, message)), main)
    return _with_imports(main, files, source)


def _with_imports(file: Any, files: dict[str, Any], source: str) -> Schema:
    references = []
    for name in file.dependency:
        if name.startswith(_BUILT_IN):
            continue
        if name not in files:
            reason = f"it imports {name} but does not contain it (protoc --include_imports)"
            fail("SCHEMA_UNUSABLE", source=source, reason=reason)
        references.append(Reference(name, _with_imports(files[name], files, source)))
    return Schema("PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), tuple(references))


def serialized(text: str) -> str:
    """Convert a descriptor, or a `.proto` text that imports only Google's files, to a FileDescriptorProto in Base64."""
    return base64.b64encode(_file(Schema("PROTOBUF", text), _MAIN, "to serialize").SerializeToString()).decode()


class Messages:
    """The messages of a schema. Raises SCHEMA_UNUSABLE; `source`: origin of the schema, for the error text."""

    def __init__(self, schema: Schema, source: str) -> None:
        self.source = source
        self._pool = package("google.protobuf.descriptor_pool").DescriptorPool()
        self._added: set[str] = set()
        try:
            self._file = self._add(schema, None)
        except TypeError as cause:  # raised by the pool if files contradict each other
            raise error("SCHEMA_UNUSABLE", source=source, reason=str(cause)) from cause

    def message(self, name: str | None = None) -> tuple[Any, tuple[int, ...]]:
        """Return the class of a message of the main file, by full or short name, and its path in the file.

        Without a name, returns the first message. Raises MESSAGE_MISSING.
        """
        path = (0,) if name is None and self._file.message_type else _path(self._file, name or "")
        if not path:
            known = ", ".join(full for full, _ in _paths(self._file)) or "none"
            fail("MESSAGE_MISSING", source=self.source, message=name, known=known)
        return self.at(path), path

    def at(self, path: tuple[int, ...]) -> Any:
        """Return the class of the message with this path. Raises UndecodableError if it does not exist."""
        try:
            found = self._file.message_type[path[0]]
            names = [found.name]
            for index in path[1:]:
                found = found.nested_type[index]
                names.append(found.name)
        except IndexError:
            raise UndecodableError(f"the schema has no message at {list(path)}") from None
        full = ".".join([*filter(None, [self._file.package]), *names])
        return package("google.protobuf.message_factory").GetMessageClass(self._pool.FindMessageTypeByName(full))

    def as_json(self, message: Any) -> Any:
        """Return a message as JSON, with the schema's field names.

        Missing fields without presence have their default values.
        """
        formatter = package("google.protobuf.json_format")
        try:
            return formatter.MessageToDict(
                message,
                always_print_fields_with_no_presence=True,
                preserving_proto_field_name=True,
                descriptor_pool=self._pool,
            )
        except (formatter.Error, package("google.protobuf.message").DecodeError, *_WRONG) as cause:
            # an Any that is malformed, nested too deep or of an unknown message, or a time out of range
            raise UndecodableError(str(cause)) from cause

    def from_json(self, full: str, text: str) -> Any:
        """Parse JSON as the message with this full name. Raises ValueError if it does not fit."""
        formatter = package("google.protobuf.json_format")
        made = package("google.protobuf.message_factory").GetMessageClass(self._pool.FindMessageTypeByName(full))()
        try:
            return formatter.Parse(text, made, descriptor_pool=self._pool)
        except formatter.Error as cause:
            raise ValueError(str(cause)) from cause

    def _add(self, schema: Schema, name: str | None) -> Any:
        """Add a file and its imports to the pool, and return the file's descriptor.

        `name`: name by which other files import this file; None for the main file.
        """
        for reference in schema.references:
            if reference.name not in self._added:
                self._add(reference.schema, reference.name)
        file = _file(schema, name or _MAIN, self.source)
        if name is not None or not file.name:
            file.name = name or _MAIN
        for imported in file.dependency:
            self._add_built_in(imported)
        self._pool.AddSerializedFile(file.SerializeToString())
        self._added.add(file.name)
        return file

    def _add_built_in(self, name: str) -> None:
        """Add one of Google's files, which are part of the package `protobuf`."""
        if name in self._added or not name.startswith(_BUILT_IN):
            return
        module = name.removeprefix(_BUILT_IN).removesuffix(".proto")
        if module not in _MODULES:
            return
        file = package("google.protobuf.descriptor_pb2").FileDescriptorProto()
        package(f"google.protobuf.{module}_pb2").DESCRIPTOR.CopyToProto(file)
        for imported in file.dependency:
            self._add_built_in(imported)
        self._pool.AddSerializedFile(file.SerializeToString())
        self._added.add(name)


def parse(kind: Any, data: bytes) -> Any:
    """Parse bytes as a message. Raises UndecodableError if they are invalid."""
    try:
        return kind.FromString(data)
    except package("google.protobuf.message").DecodeError as cause:
        raise UndecodableError(str(cause)) from cause


def _paths(file: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the full names of a file's messages, with their paths."""

    def below(messages: Any, prefix: str, path: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        for at, each in enumerate(messages):
            full = f"{prefix}{each.name}"
            if not each.options.map_entry:
                yield full, (*path, at)
                yield from below(each.nested_type, f"{full}.", (*path, at))

    return below(file.message_type, f"{file.package}." if file.package else "", ())


def _path(file: Any, message: str) -> tuple[int, ...]:
    """Return the path of a message in a file; empty if the name is missing, or is a short name of several messages."""
    found = dict(_paths(file))
    ends = [path for full, path in found.items() if full.rpartition(".")[2] == message]
    return found.get(message) or (ends[0] if len(ends) == 1 else ())


def _file(schema: Schema, name: str, source: str) -> Any:
    """Return the schema as a FileDescriptorProto."""
    descriptors = package("google.protobuf.descriptor_pb2")
    try:
        data = base64.b64decode(schema.text, validate=True)
    except ValueError:
        return _compiled(schema, name, source)
    try:
        return descriptors.FileDescriptorProto.FromString(data)
    except package("google.protobuf.message").DecodeError as cause:
        raise error("SCHEMA_UNUSABLE", source=source, reason="it is not a FileDescriptorProto") from cause


def _compiled(schema: Schema, name: str, source: str) -> Any:
    """Compile the text of a `.proto` file."""
    if find_spec("grpc_tools") is None:
        fail("PROTO_TEXT", source=source)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder).resolve()
        for at, text in {**_texts(schema), name: schema.text}.items():
            path = (directory / at).resolve()
            if not path.is_relative_to(directory):
                fail("SCHEMA_UNUSABLE", source=source, reason=f"it imports {at}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        google = Path(str(find_spec("grpc_tools").submodule_search_locations[0])) / "_proto"  # type: ignore[union-attr,index]
        command = (
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{directory}",
            f"-I{google}",
            "--descriptor_set_out=out",
            name,
        )
        done = subprocess.run(command, cwd=directory, capture_output=True, timeout=_COMPILE_SECONDS, check=False)
        if done.returncode:
            fail("SCHEMA_UNUSABLE", source=source, reason=done.stderr.decode("utf-8", "replace").strip())
        content = (directory / "out").read_bytes()
    (file,) = package("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(content).file
    return file


def _texts(schema: Schema) -> dict[str, str]:
    """Return the texts of all files that the schema imports, directly or indirectly, by name."""
    found: dict[str, str] = {}
    for reference in schema.references:
        found |= {**_texts(reference.schema), reference.name: reference.schema.text}
    return found
