"""Regular expressions of `subscribePattern`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams.values.names import glob_pattern
from spark_streams.config import options, read
from spark_streams.errors import OptionsError


@pytest.mark.parametrize(
    ("regex", "glob"),
    [
        ("sensors.*", "sensors*"),
        (r"^a\.b-.+$", r"a.b\-*"),
        ("t[0-9].", "t*"),
        ("[^x]y", "*"),
        (r"q\?", r"q\?*"),
        ("ab*", "a*"),
        ("ab+", "ab*"),
        ("ab{0}", "a*"),
        ("a|b", "*"),
        ("(?i)a", "*"),
        (r"\d", "*"),
    ],
)
def test_a_regular_expression_is_searched_by_its_first_characters(regex: str, glob: str) -> None:
    """The server searches by a glob that matches at least the names that the regular expression matches."""
    assert read.around(options.read_options({"subscribePattern": regex}).pattern or "") == glob


@given(st.from_regex(r"\A([a-c.*?+^$|()\[\]\\-]|[a-c]{1,3}){1,8}\Z"), st.text("abc.-*[]", max_size=6))
def test_the_glob_misses_no_name(regex: str, name: str) -> None:
    """Whatever the regular expression, the glob matches every name that it matches."""
    try:
        matches = re.fullmatch(regex, name) is not None
    except (re.error, FutureWarning):  # a nested set
        return
    if matches:
        assert glob_pattern(read.around(regex).encode()).fullmatch(name.encode())


@pytest.mark.parametrize("regex", ["[a", "(", "a{2,1}", "*"])
def test_a_text_that_is_no_regular_expression_is_refused(regex: str) -> None:
    with pytest.raises(OptionsError, match="it is not a regular expression"):
        options.read_options({"subscribePattern": regex})
