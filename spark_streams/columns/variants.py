"""Conversion of Spark's variant type by Spark's own code, one value at a time.

In Arrow a variant is a struct of two binaries.
"""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.variant_utils import VariantUtils

_WRONG = (PySparkException, RecursionError, OverflowError, IndexError, ArithmeticError)
_EXACT = decimal.Context(prec=76)  # twice the digits of Spark's decimals


def is_variant(kind: Any) -> bool:
    """Return whether the Arrow type is a variant, which Spark marks in the metadata of its second field."""
    return (
        pa.types.is_struct(kind) and kind.num_fields == 2 and (kind.field(1).metadata or {}).get(b"variant") == b"true"
    )


def from_json(text: str) -> dict[str, bytes]:
    """Return the variant of a JSON text. Raises ValueError if the text is not JSON, or too large for a variant."""
    try:
        value, metadata = VariantUtils.parse_json(text)
    except _WRONG as refused:
        raise ValueError(text) from refused
    return {"value": value, "metadata": metadata}


def to_python(value: dict[str, bytes]) -> Any:
    """Return a variant as Python values: dictionaries, lists, strings, bytes, numbers, booleans, dates, times in UTC
    and None.
    """
    with decimal.localcontext(_EXACT):  # Spark's code multiplies decimals; the default context rounds to 28 digits
        return VariantUtils.to_python(value["value"], value["metadata"])
