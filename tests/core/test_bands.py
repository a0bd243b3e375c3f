"""The one-line band rule: what it means, and what it refuses with which words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.core.bands import Bands, parse_bands

THREE = "accept < 0.2 <= review <= 0.8 < reject"


def test_three_bands():
    assert parse_bands(THREE) == Bands(
        names=("accept", "review", "reject"), edges=(0.2, 0.8), tie_up=(True, False), text=THREE
    )


def test_two_bands_with_either_tie():
    assert parse_bands("no < 0.5 <= yes").tie_up == (True,)
    assert parse_bands("no <= 0.5 < yes").tie_up == (False,)


@pytest.mark.parametrize(
    "text", ["accept<0.2<=review<=0.8<reject", "  accept  <0.2 <=\treview<= 0.8 <reject \n"]
)
def test_spaces_do_not_matter(text):
    assert parse_bands(text) == parse_bands(THREE)


@pytest.mark.parametrize(
    ("literal", "edge"), [("-1.5", -1.5), ("1e-3", 0.001), ("+2", 2.0), (".5", 0.5), ("-0", 0.0)]
)
def test_edge_literals(literal, edge):
    assert parse_bands(f"a < {literal} <= b").edges == (edge,)


@pytest.mark.parametrize("name", ["ok", "über", "a-b", "klass:1", "x2", "2x", "NaNs"])
def test_names_are_any_word(name):
    assert parse_bands(f"{name} < 1 <= other").names == (name, "other")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a band rule"),
        ("   ", "not a band rule"),
        ("accept", "not a band rule"),
        ("accept < 0.2", "not a band rule"),
        ("accept < 0.2 <= review <=", "not a band rule"),
        ("needs review < 0.2 <= ok", "without spaces"),
        ("a < 0.2 < b", "neither side"),
        ("a <= 0.2 <= b", "both sides"),
        ("a < 0.2 <= b < 0.8 < c", "0.8 belongs to neither side"),
        ("a > 0.2 >= b", "unexpected '>'"),
        ("a = 0.2 < b", "unexpected '='"),
        ("a == 0.2 < b", "unexpected '='"),
        ("a < = 0.2 < b", "unexpected '='"),
        ("a < b <= 0.2", "'b' stands where an edge"),
        ("0.2 < a <= 0.8", "'a' stands where an edge"),
        ("a 0.2 < <= b", "expected '<' or '<=' on both sides of '<'"),
        ("a < < <= b", "'<' stands where an edge"),
        ("< < 0.2 <= b", "'<' stands where a band's name"),
        ("a < 0.2 <= <=", "'<=' stands where a band's name"),
        ("0.1 < 0.2 <= b", "'0.1' stands where a band's name"),
        ("a < 0.2 <= nan", "'nan' stands where a band's name"),
        ("a < nan <= b", "must be finite"),
        ("a < inf <= b", "must be finite"),
        ("a < 1e999 <= b", "must be finite"),
        ("a < 0.8 <= b < 0.2 <= c", "must ascend, but 0.2 follows 0.8"),
        ("a < 0.2 <= b < 0.2 <= c", "must ascend"),
        ("a < 0.0 <= b < -0.0 <= c", "must ascend"),
        ("a < 0.2 <= a", "a name of its own"),
        ("undefined < 0.2 <= b", "rename the band"),
    ],
)
def test_refusals_say_what_to_change(text, words):
    with pytest.raises(ValueError, match=re.escape(words)) as refusal:
        parse_bands(text)
    assert repr(text) in str(refusal.value)


edges = st.lists(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    min_size=1,
    max_size=5,
    unique=True,
).map(sorted)


@given(edges=edges, data=st.data())
def test_a_written_rule_reads_back(edges, data):
    ties = data.draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    names = [f"band{i}" for i in range(len(edges) + 1)]
    text = names[0]
    for edge, tie_up, name in zip(edges, ties, names[1:], strict=True):
        text += f" < {edge!r} <= {name}" if tie_up else f" <= {edge!r} < {name}"
    rule = Bands(tuple(names), tuple(edges), tuple(ties), text)
    assert parse_bands(text) == rule
    assert parse_bands(parse_bands(text.replace(" ", "")).text) == rule


@given(st.text(alphabet="ab019.<>= -e", max_size=30))
def test_any_text_is_a_rule_or_a_sentence(text):
    try:
        rule = parse_bands(text)
    except ValueError:
        return
    assert len(rule.names) == len(rule.edges) + 1 == len(rule.tie_up) + 1 > 1
    assert parse_bands(rule.text) == rule
