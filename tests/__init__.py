"""The project's tests, in packages as what they test; ``contract`` runs on every server (see ``conftest.py``)."""

import pytest

# The harness's assertions shall show both sides, as those of test files do; this must come before it is imported.
pytest.register_assert_rewrite("tests.harness", "tests.waiting")
