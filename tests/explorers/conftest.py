"""One babbling synthesizer, and one served page with an example, for all tests of the explorers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from untrained_detectors import untrained

from app import build_page
from explorers.listen.example import write_example
from explorers.theme import launch_options
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import CHROMIUM, SOFTWARE, watch
from tests.explorers.served import serve

PATIENCE_MS = 90_000
TEXT = "The quick brown fox, yes."


@pytest.fixture
def complaints() -> list[str]:
    """What went wrong on a page, if anything."""
    return []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a file."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE)
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()
        expect.set_options(timeout=5_000)


@pytest.fixture
def width(request: pytest.FixtureRequest) -> int:
    """The pixels of a laptop, or as many as the test asks for."""
    return getattr(request, "param", 1440)


@pytest.fixture
def page(browser: Browser, address: str, width: int, complaints: list[str]) -> Iterator[Page]:
    """What is served at `address`, in the light theme."""
    page = browser.new_page(viewport={"width": width, "height": 844 if width < 800 else 900}, reduced_motion="reduce")
    page.set_default_timeout(PATIENCE_MS)
    watch(page, address, complaints)
    page.goto(f"{address}?__theme=light")
    yield page
    page.close()


@pytest.fixture(scope="session")
def synthesizer(synthesizer: Synthesizer, with_flat_map: Callable[[Synthesizer], Synthesizer]) -> Synthesizer:
    return with_flat_map(synthesizer)


@pytest.fixture(scope="module")
def judged(synthesizer: Synthesizer) -> Synthesizer:
    """The same voice, with detectors that were trained on nothing."""
    judged = Synthesizer(synthesizer.voice, detectors=untrained(name="untrained <b>"))
    judged.library = synthesizer.library
    return judged


@pytest.fixture(scope="session")
def example_folder(synthesizer: Synthesizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    write_example(folder, synthesizer, TEXT, "two", Settings(theta=0.3, seed=7), turns=1)
    return folder


@pytest.fixture(scope="session")
def address(synthesizer: Synthesizer, example_folder: Path, recogniser_folder: Path) -> Iterator[str]:
    """Where the page is served."""
    app = build_page(synthesizer, example_folder, recogniser_folder)
    yield from serve(app, **launch_options())
