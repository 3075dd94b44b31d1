"""The tables that scripts write into the reference are today's."""

from __future__ import annotations

from scripts import option_docs


def test_the_tables_of_options_are_the_connectors() -> None:
    """`python scripts/option_docs.py` writes them anew."""
    page = option_docs.PART.page.read_text()
    assert option_docs.PART.replaced(page, option_docs.written()) == page
