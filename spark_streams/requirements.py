"""Error for a missing or outdated package of the data source."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def explained(missing: ImportError) -> ImportError:
    """Return the error to raise in place of `missing`.

    It names the missing package, the Python, and what to install.
    """
    if not isinstance(missing, ModuleNotFoundError) or missing.name == "pyspark.sql.datasource":
        version = getattr(sys.modules.get("pyspark"), "__version__", "?")
        return ImportError(
            f"The Spark data source pystreams needs Spark 4.0 or later, but {sys.executable} has pyspark {version}.",
            name=missing.name,
        )
    package = (missing.name or "").partition(".")[0]
    extra = "spark" if package == "py4j" or find_spec("pyspark") is None else "engine"
    beside = " If Spark is already installed for another Python, use that Python instead." if extra == "spark" else ""
    return ModuleNotFoundError(
        f"The Spark data source pystreams needs the package '{package}', which {sys.executable} does not have. "
        f"Install it: pip install 'pystreams-spark[{extra}]'.{beside}",
        name=missing.name,
    )
