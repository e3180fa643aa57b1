import re

import pytest

from explorers.shared.readout import failure_html
from pcg.errors import PCGError, counted
from pcg.places import PROJECT

# A count before a fixed plural: "{count} tokens" in Python, "${count} tokens" in a script.
PLURAL = re.compile(
    r"\{(?:len\([^{}]*\)|count|units|[\w.]+\.(?:tokens|utterances|files|words|settings|records))(?::,)?\} "
    r"(?:tokens|takes|files|words|units|settings|utterances|rounds|cycles|frames|groups)\b"
)


@pytest.mark.parametrize(("number", "words"), [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (1024, "1,024 tokens")])
def test_one_thing_has_no_plural(number: int, words: str) -> None:
    assert counted(number, "token") == words


@pytest.mark.parametrize("folder", ["explorers", "pcg/cli"])
def test_no_count_stands_before_a_fixed_plural(folder: str) -> None:
    sources = [path for path in (PROJECT / folder).rglob("*") if path.suffix in (".py", ".js")]
    assert len(sources) > 3
    found = [f"{path.name}: {each[0]}" for path in sources for each in PLURAL.finditer(path.read_text(encoding="utf-8"))]
    assert found == []


def test_a_failure_tells_its_reason_as_text() -> None:
    assert "&lt;b&gt; could not be read." in failure_html(PCGError("<b> could not be read."))


@pytest.mark.parametrize(
    "word",
    [
        "guesses",
        "yardstick",
        "alike by",
        "in company",
        "sampling law",
        "a change generates",
        "compare all four",
        "the run failed",
        "result is below",
    ],
)
def test_the_page_uses_the_words_of_the_field(word: str) -> None:
    sources = [path for path in (PROJECT / "explorers").rglob("*") if path.suffix in (".py", ".js")]
    sources.append(PROJECT / "docs" / "page.md")
    assert [path.name for path in sources if word in path.read_text(encoding="utf-8").lower()] == []
