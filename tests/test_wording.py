"""The words of code, page and documents are those of the field, and no riddles."""

import re

import pytest

from pcg.places import PROJECT

RIDDLES = re.compile(
    r"\b(whoever|nobody|somebody|regrets|insists|says no to|of those that|the one whose|what (?:is|was) said|"
    r"in company|alike by|sampling law|yardstick|guesses)\b",
    re.IGNORECASE,
)
# A count before a fixed plural: "{count} tokens" in Python, "${count} tokens" in a script.
PLURAL = re.compile(
    r"\{(?:len\([^{}]*\)|count|units|[\w.]+\.(?:tokens|utterances|files|words|settings|records))(?::,)?\} "
    r"(?:tokens|takes|files|words|units|settings|utterances|rounds|cycles|frames|groups)\b"
)


def found(pattern: re.Pattern[str], folder: str) -> list[str]:
    sources = [path for path in (PROJECT / folder).rglob("*") if path.suffix in (".py", ".js", ".md")]
    assert len(sources) > 3
    return [f"{path.name}: {hit[0]}" for path in sources for hit in pattern.finditer(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("folder", ["pcg", "explorers", "docs"])
def test_words_are_those_of_the_field(folder: str) -> None:
    assert found(RIDDLES, folder) == []


@pytest.mark.parametrize("folder", ["pcg/cli", "explorers"])
def test_no_count_stands_before_a_fixed_plural(folder: str) -> None:
    assert found(PLURAL, folder) == []


def test_a_riddle_is_noticed() -> None:
    """The negative control."""
    assert RIDDLES.search("Whoever waits is told.")
    assert PLURAL.search("{len(takes)} takes")
