"""Links that hold a take: what is written is read again, links of before are, too, and anything else is one sentence."""

from urllib.parse import quote

import pytest

from explorers.settings.actions import ADDRESS, page_address, read_link, share_link
from pcg.errors import InputError
from pcg.settings import Settings
from pcg.takes.stored import Origin, Stored
from tests.explorers.settings.links import in_a_link

TEXT = 'It\'s the "quick" <b>fox</b> ${window.hacked = 1} $HOME \\ yes.'
SETTINGS = Settings("sd", theta=0.4, lookahead=5, beta=0.1, temperature=0.7, seed=12, adaptive=True)


@pytest.fixture
def stored() -> Stored:
    return Stored(TEXT, "two", SETTINGS, Origin("tiny", "0123456789abcdef" * 4, licence="Apache-2.0"))


def test_a_link_holds_the_take_itself_behind_the_hash(stored: Stored) -> None:
    link = share_link(stored, "https://lab.example/space")
    assert link.startswith("https://lab.example/space/#take=")
    assert link.isascii()
    assert not set(link) & set("\"'<>$\\ ")
    assert read_link(link) == in_a_link(stored)
    assert read_link(link.replace("/#", "/?__theme=dark#")) == in_a_link(stored)
    assert page_address(link) == "https://lab.example/space"
    assert read_link("http://127.0.0.1:7860/?__theme=dark#tune") is read_link("?take=") is read_link("#take=") is None


def test_links_of_before_are_opened(stored: Stored) -> None:
    assert read_link(f"https://lab.example/space/?take={quote(stored.to_json(), safe='')}") == stored


@pytest.mark.parametrize(
    "link",
    [
        "?take=%7B",
        "?take=null",
        "?take=" + "[" * 9000,
        "x" * 10**6,
        "?" + "a=1&" * 1000,
        "http://[?take=1",
        "#take=%7B",
        "#take=" + "A" * 40_000,
        "#" + "a=1&" * 1000,
        "#take=abcd#take=",
    ],
)
def test_a_bad_link_is_one_sentence(link: str) -> None:
    with pytest.raises(InputError) as caught:
        read_link(link)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("link", ["", "javascript:alert(1)", "file:///etc/passwd", "http://", "http://[", "http://ü.example/"])
def test_an_address_is_that_of_a_page(link: str) -> None:
    assert page_address(link) == ADDRESS
