"""A take that came by a link: its label at the player, and one press to hear it."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from explorers.listen.example import read_example
from explorers.session import Session, TakeView
from explorers.settings.actions import share_link, shared_label
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from tests.explorers.chromium import ARGUMENTS, NEEDS_CHROMIUM, READY, patient_page, watch

PATIENCE_MS = 60_000
VOICES = ("one", "two")
STORED = Stored("Hello, is this one sentence? Yes, this is.", "two", Settings("ssd", seed=12), Origin("tiny", "0" * 64))


def said(stored: Stored) -> TakeView:
    return TakeView(stored.settings, stored.text, stored.voice, 1.0, 100.0, 0.3, 0.5, 2.0, False, (), (), (), ())


def label(session: Session, key: str = "ssd", stored: Stored = STORED) -> str:
    return shared_label(stored, session, key, STORED.origin, VOICES)


def test_a_shared_take_is_named_while_it_is_to_come_and_as_long_as_it_is_in_hand(example_folder: Path) -> None:
    recorded = read_example(example_folder).session
    for before in (Session(), recorded):
        assert label(before) == label(before, "ar") == "<b>Shared take</b>: SSD, seed 12. Press play to hear it."
    there = recorded.with_take(said(STORED), False)
    assert label(there) == label(Session())
    assert label(there, "ar") == ""
    assert label(there.with_take(said(STORED), False, key="pcg"), "ar") == ""
    for change in ({"text": "Bye."}, {"voice": "one"}, {"settings": Settings("ssd", seed=13)}):
        assert label(there.with_take(said(replace(STORED, **change)), False)) == ""
    again = there.with_take(said(replace(STORED, text="Bye.")), False)
    assert label(again.holding(5)) == label(Session())


def test_the_label_says_what_differs_here() -> None:
    elsewhere = replace(STORED, voice="<b>bob", origin=Origin("other", "1" * 64))
    told = label(Session(), stored=elsewhere)
    assert "The voice &lt;b&gt;bob is not available, so another one is used." in told
    assert "other weights" in told
    assert label(Session().with_take(said(replace(elsewhere, voice="one")), False), stored=elsewhere) == told


@pytest.fixture
def link(address: str, synthesizer: Synthesizer) -> str:
    return share_link(replace(STORED, origin=Origin.of(synthesizer.voice)), address.rstrip("/"))


# A test that looks into a page acts on it, as its browser takes it: before, the page tells of itself.
TELLING = """() => {
  addEventListener("knob-moved", () => console.info("asked"), { capture: true });
  new MutationObserver(() => {
    if (window.ended || !document.querySelector("#status")?.textContent.includes("SSD in")) return;
    window.ended = true;
    console.info("ended", navigator.userActivation.hasBeenActive, document.querySelector(".stage-play").textContent);
  }).observe(document, { subtree: true, childList: true, characterData: true });
}"""
# Whatever comes of a run meets a page that was busy all the while, and so is drawn once.
BUSY = """() => {
  const { fetch } = window;
  window.fetch = async (...what) => {
    const answer = await fetch(...what);
    const ends = performance.now() + 1500;
    while (String(what[0]?.url ?? what[0]).includes("queue/join") && performance.now() < ends);
    return answer;
  };
}"""
CLOCKS = "seek => { window.clocks = []; setInterval(() => clocks.push(Number(seek.value)), 20); }"
# A page that stands still on a busy computer may see no time between the beginning of so short a sound and its end.
HEARD = "rates.length && (Math.max(...clocks) > 0.1 || document.querySelector('.stage-play').textContent.includes('Play'))"
RATES = """() => {
  window.rates = [];
  const { start } = AudioBufferSourceNode.prototype;
  AudioBufferSourceNode.prototype.start = function (...when) {
    rates.push(this.buffer.sampleRate);
    return start.apply(this, when);
  };
}"""


@NEEDS_CHROMIUM
def test_one_press_plays_a_shared_take_and_its_label_stays(address: str, link: str, complaints: list[str]) -> None:
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        watch(page, address, complaints)
        page.add_init_script(f"({TELLING})()")
        with page.expect_console_message(lambda message: message.text.startswith("ended")) as ended:
            page.goto(link)
        assert ended.value.text == "ended false ▶ Play"
        told, play = page.locator("#shared"), page.locator(".stage-play")
        expect(told).to_have_text("Shared take: SSD, seed 12. Press play to hear it.")
        expect(page.locator(".stage-words")).to_contain_text("Hello, is this one sentence?")
        page.locator(".stage-seek").evaluate(CLOCKS)
        page.evaluate(RATES)
        play.click()
        page.wait_for_function(HEARD)
        page.locator('.stage-switch [data-key="ar"]').click()
        expect(told).to_be_hidden()
        page.locator('.stage-switch [data-key="ssd"]').click()
        expect(told).to_contain_text("Shared take")
        assert complaints == []


@NEEDS_CHROMIUM
def test_a_shared_take_that_was_over_before_the_page_drew_it_is_in_hand_and_plays(address: str, link: str) -> None:
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        page.add_init_script(f"({BUSY})()")
        page.add_init_script(f"({TELLING})()")
        with page.expect_console_message(lambda message: message.text.startswith("ended")):
            page.goto(link)
        expect(page.locator(".stage-words")).to_contain_text("Hello, is this one sentence?", timeout=10_000)
        page.locator(".stage-seek").evaluate(CLOCKS)
        page.evaluate(RATES)
        page.locator(".stage-play").click()
        page.wait_for_function(HEARD, timeout=10_000)


@NEEDS_CHROMIUM
def test_a_press_before_a_shared_take_has_begun_plays_it_as_it_comes(link: str, synthesizer: Synthesizer) -> None:
    held: list[Route] = []
    going: list[bool] = []
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        page.add_init_script(f"({TELLING})()")
        page.route("**/queue/join*", lambda route: route.continue_() if going else held.append(route))
        with page.expect_console_message(lambda message: message.text == "asked"):
            page.goto(link)
        page.evaluate(RATES)
        page.locator(".stage-play").click()
        expect(page.locator(".stage-play")).to_have_text("Loading …")
        going.append(True)
        for route in held:
            route.continue_()
        # In pieces, at the voice's own rate; the example would be at another.
        page.wait_for_function("rate => rates[0] === rate", arg=synthesizer.voice.codec.sample_rate)
        expect(page.locator("#status")).to_contain_text("SSD in")


@NEEDS_CHROMIUM
def test_a_link_without_a_take_is_told_at_the_player(address: str) -> None:
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        page.goto(f"{address}#take=abc<b>")
        expect(page.locator("#shared")).to_contain_text("The link contains no take: link is 'abc")
        expect(page.locator(READY)).to_be_visible()
        page.wait_for_timeout(2_000)  # in which a take would begin
        expect(page.locator("#status")).to_contain_text("A recorded example.")
