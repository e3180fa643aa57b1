"""Links to a step of a round: what they hold, and what a person sees who opens one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from explorers.listen.example import read_example
from explorers.session import Session, ShownTake
from explorers.settings.actions import read_link
from explorers.tune.strip.link import link_prop
from pcg.metrics.intelligibility import read_sentences
from pcg.takes.stored import RECORDING, Origin, Stored
from pcg.takes.take import Take
from tests.explorers.chromium import NEEDS_CHROMIUM, SOFTWARE, patient_page, watch
from tests.explorers.settings.links import in_a_link

ORIGIN = Origin("tiny", "0123456789abcdef" * 4)
VOICES = ("one", "two")
STEP = "&round=123&step=12"
PATIENCE_MS = 90_000
NUMBER, FORMULA, TOLD, LINK = (f'.strip [data-part="{part}"]' for part in ("number", "formula", "told", "link"))
CURRENT = '.round-steps [aria-current="step"]'


@pytest.fixture
def recorded(example_folder: Path) -> Session:
    return read_example(example_folder).session


def first(session: Session, method: str) -> ShownTake:
    return session.cards[method].first


def test_the_take_that_every_new_page_shows_needs_no_link_of_its_own(recorded: Session) -> None:
    assert link_prop(first(recorded, "pcg"), ORIGIN, VOICES) == {"link": "", "recorded": True}


def test_any_other_take_is_in_the_link_beside_the_round(recorded: Session) -> None:
    shown = first(recorded, "ssd")
    made = link_prop(replace(first(recorded, "pcg"), baseline="same run", streamed=True), ORIGIN, VOICES)
    assert not made["recorded"]
    for each, link in ((shown, link_prop(shown, ORIGIN, VOICES)["link"]), (first(recorded, "pcg"), made["link"])):
        reading = each.reading
        stored = Stored(reading.text, reading.voice, reading.settings, ORIGIN, streamed=each is not shown)
        assert read_link(f"https://lab.example/#{link}{STEP}") == in_a_link(stored)


def test_a_take_by_a_recording_has_no_link(recorded: Session) -> None:
    reading = replace(first(recorded, "pcg").reading, voice=RECORDING)
    shown = replace(first(recorded, "pcg"), reading=reading, baseline="none")
    assert link_prop(shown, ORIGIN, VOICES) == {"link": None, "recorded": False}


def test_a_link_to_a_step_of_two_hundred_letters_of_english_has_at_most_400_characters(recorded: Session) -> None:
    shown, sentences = first(recorded, "ssd"), read_sentences()
    lengths = []
    for start in range(0, len(sentences) - 8, 8):
        text = " ".join(sentences[start : start + 8])[:200].strip()
        spoken = replace(shown, reading=replace(shown.reading, text=text))
        lengths.append(len(f"https://owner-lab.hf.space/lab/#{link_prop(spoken, ORIGIN, VOICES)['link']}{STEP}"))
    assert len(lengths) > 5
    assert max(lengths) <= 400


@pytest.fixture(params=[390, pytest.param(1440, marks=pytest.mark.slow)])
def page(address: str, request: pytest.FixtureRequest, complaints: list[str]) -> Iterator[Page]:
    with patient_page(request.param, SOFTWARE, PATIENCE_MS) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        watch(page, address, complaints)
        yield page


@pytest.fixture
def take(example_folder: Path) -> Take:
    return read_example(example_folder).takes["pcg"]


def copied(page: Page) -> str:
    page.click(LINK)
    expect(page.locator(TOLD)).to_have_text("The link is copied.")
    return page.evaluate("navigator.clipboard.readText()")


@NEEDS_CHROMIUM
def test_a_link_opens_its_round_at_its_step_and_the_next_one_without_a_reload(
    page: Page, address: str, take: Take, complaints: list[str]
) -> None:
    number = next(i for i, round_ in enumerate(take.rounds) if round_.tests)
    coin = take.rounds[number].tests[0].coin
    page.goto(f"{address}#round={number + 1}&step=3")
    expect(page.locator(NUMBER)).to_have_text(f"{number + 1} of {len(take.rounds)}")
    expect(page.locator(CURRENT)).to_have_text("3 Test")
    expect(page.locator(CURRENT)).to_be_focused()
    expect(page.locator(FORMULA)).to_contain_text(f"coin {coin:.3f}" if coin >= 0.001 else "coin")
    expect(page.locator(FORMULA)).to_be_in_viewport()
    assert copied(page) == f"{address}#round={number + 1}&step=3"
    expect(page.locator(".round-steps a").nth(1)).to_have_attribute("href", f"#round={number + 1}&step=2")

    page.evaluate("window.same = true")
    page.evaluate("location.hash = '#round=2&step=1'")
    expect(page.locator(NUMBER)).to_have_text(f"2 of {len(take.rounds)}")
    expect(page.locator(CURRENT)).to_have_text("1 Draft")
    for round_ in ("9999", "0", "-1", "<b>1</b>"):
        page.evaluate("round => { location.hash = `#round=${round}&step=2`; }", round_)
        expect(page.locator(TOLD)).to_have_text(
            f"The link leads to no round of this take, which has {len(take.rounds)} rounds."
        )
        expect(page.locator(NUMBER)).to_have_text(f"2 of {len(take.rounds)}")
        page.evaluate("location.hash = '#round=2&step=99'")  # beyond the last one
        expect(page.locator(CURRENT)).to_contain_text("Outcome")
        expect(page.locator(TOLD)).to_have_text("")
    assert page.evaluate("window.same")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert complaints == []


@NEEDS_CHROMIUM
def test_without_a_clipboard_the_link_is_there_to_be_copied(page: Page, address: str) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(f"{address}#round=1&step=2")
    expect(page.locator(CURRENT)).to_have_text("2 Verify")
    page.click(LINK)
    expect(page.locator(TOLD)).to_have_text(f"Copy this link: {address}#round=1&step=2")


@pytest.mark.slow
@NEEDS_CHROMIUM
def test_a_link_with_a_take_generates_it_and_then_shows_the_round(page: Page, address: str, complaints: list[str]) -> None:
    page.goto(address)
    expect(page.locator(".strip")).to_have_attribute("data-state", "done")
    page.locator('.stage-switch [data-key="ssd"]').click()
    expect(page.locator("#in-hand-heading")).to_contain_text("SSD, seed 7")
    onwards = page.locator('.strip [data-part="next"]')
    for _ in range(3):
        onwards.click()
    number, formula = (page.locator(part).text_content() for part in (NUMBER, FORMULA))
    link = copied(page)
    assert link.startswith(f"{address}#take=")
    onwards.click()

    # To leave a page ends its requests, which gradio calls errors.
    other = page.context.browser.new_page(viewport=page.viewport_size, reduced_motion="reduce")
    other.set_default_timeout(PATIENCE_MS)
    watch(other, address, complaints)
    other.goto(link)
    expect(other.locator("#status")).to_contain_text("SSD in")
    expect(other.locator(NUMBER)).to_have_text(number)
    expect(other.locator(FORMULA)).to_have_text(formula)
    expect(other.locator("#in-hand-heading")).to_contain_text("SSD, seed 7")
    other.locator(".round-steps a").first.click()  # shows another step, and neither loads nor generates anything
    expect(other.locator(FORMULA)).to_contain_text("The draft proposes")
    assert other.url == link
    assert complaints == []
