"""Reading past values in Redis's RDB format, in steps, without building them.

A file is scanned in this way for types that the engine does not store. Values of these types are also read past while a
file is loaded.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, whole
from engine.core.formats.rdb.streams import forms, group_fields
from engine.core.formats.rdb.value_forms import (
    ELEMENTS,
    HASH,
    LIST,
    QUICKLIST,
    QUICKLIST_2,
    SET,
    SORTED_SET,
    SORTED_SET_2,
)

#: Bytes in place of the length of a score's text: the score is infinite or not a number, and has no text.
_NO_TEXT = (253, 254, 255)
#: Opcode of the end of a module's value.
_MODULE_END = 0
#: Opcode of a string in a module's value.
_MODULE_STRING = 5
#: Opcodes of integers in a module's value.
_MODULE_NUMBERS = (1, 2)
#: Opcodes of floating-point numbers in a module's value -> size of the number in bytes.
_MODULE_FLOATS = {3: 4, 4: 8}
_ID_SIZE, _TIME_SIZE = 16, 8
_NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def skip(reader: Reader, kind: int) -> Steps[None]:
    """Read past a value with the type byte ``kind``, which must not be that of a module or an expiring hash."""
    if kind in forms.FORMS:
        yield from _stream(reader, kind)
    elif kind in _ELEMENTS:
        yield from _elements(reader, _ELEMENTS[kind])
    else:
        # A string, or elements packed into a string.
        yield from whole(reader, reader.stored)


def module_name(number: int) -> str:
    """Return the name of a module's type from its number: nine letters of six bits, followed by ten bits of version."""
    return "".join(_NAME_LETTERS[number >> 10 + 6 * letter & 63] for letter in range(8, -1, -1))


def skip_module_data(reader: Reader) -> Steps[None]:
    """Read past a module's data, including the end opcode."""

    def read_item() -> bool:
        opcode = reader.length()
        if opcode in _MODULE_NUMBERS:
            reader.length()
        elif opcode in _MODULE_FLOATS:
            reader.read(_MODULE_FLOATS[opcode])
        elif opcode == _MODULE_STRING:
            reader.stored()
        elif opcode != _MODULE_END:
            raise BadFormatError
        return opcode != _MODULE_END

    while (yield from whole(reader, read_item)):
        yield False


def _elements(reader: Reader, skip_element: Callable[[Reader], object]) -> Steps[None]:
    """Read past elements, which are preceded by their number."""
    left = yield from whole(reader, reader.length)
    while left:
        left -= 1
        yield from whole(reader, lambda: skip_element(reader))
        if not left % ELEMENTS:
            yield False


def _scored_text(reader: Reader) -> None:
    """Read past a member and the text of its score."""
    reader.stored()
    size = reader.byte()
    if size not in _NO_TEXT:
        reader.read(size)


#: Type byte -> the function that reads past one element, for values that are preceded by the number of their elements.
_ELEMENTS: dict[int, Callable[[Reader], object]] = {
    **dict.fromkeys((LIST, SET, QUICKLIST), Reader.stored),
    HASH: lambda reader: (reader.stored(), reader.stored()),
    QUICKLIST_2: lambda reader: (reader.length(), reader.stored()),
    SORTED_SET: _scored_text,
    SORTED_SET_2: lambda reader: (reader.stored(), reader.read(8)),
}


# -- streams ----------------------------------------------------------------------------------------------------------


def _stream(reader: Reader, form: int) -> Steps[None]:
    # Each node is its key and its entries.
    yield from _elements(reader, lambda reader: (reader.stored(), reader.stored()))
    # Length and last ID; since 7.0, also the first ID, the greatest deleted ID and the number of added entries.
    yield from whole(reader, lambda: _lengths(reader, 8 if form >= forms.V7_0 else 3))
    for _ in range((yield from whole(reader, reader.length))):
        yield from _named(reader, group_fields.GROUP, form)
        yield from _elements(reader, lambda reader: (reader.read(_ID_SIZE + _TIME_SIZE), reader.length()))
        for _ in range((yield from whole(reader, reader.length))):
            yield from _named(reader, group_fields.CONSUMER, form)
            yield from _elements(reader, _entry_id)
        if form == forms.V8_8:
            yield from _elements(reader, _entry_id)
    if form >= forms.V8_6:
        yield from whole(reader, lambda: _lengths(reader, 2))
        for _ in range((yield from whole(reader, reader.length))):
            yield from whole(reader, reader.stored)
            yield from _elements(reader, _sent_id)
        yield from whole(reader, lambda: _lengths(reader, 2))


def _lengths(reader: Reader, count: int) -> None:
    for _ in range(count):
        reader.length()


def _sent_id(reader: Reader) -> None:
    """Read past an idempotent ID and the ID of its entry."""
    reader.stored()
    _lengths(reader, 2)


def _entry_id(reader: Reader) -> bytes:
    return reader.read(_ID_SIZE)


def _named(reader: Reader, fields: tuple[group_fields.Field, ...], form: int) -> Steps[None]:
    """Read past the name and the fields of a group or consumer."""
    yield from whole(reader, lambda: (reader.stored(), group_fields.load(fields, reader, form)))
