"""The listening test as a person takes it, in a real browser; and what its player does to the sound."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from explorers.listening.player import SCRIPTS
from explorers.shared.scripts import joined
from tests.explorers.chromium import ARGUMENTS, CHROMIUM, watch

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer"), pytest.mark.slow]
SOUND = [*ARGUMENTS, "--autoplay-policy=no-user-gesture-required"]
PATIENCE = 60_000
# Renders two sounds through a Deck, from 0.1 s on, with a switch at 0.5 s; gives what is heard, and what the deck says.
RENDER = """async ([source, first, second, loop]) => {
  const { Deck, FADE_SECONDS, RATE } = new Function(source + "; return { Deck, FADE_SECONDS, RATE };")();
  const context = new OfflineAudioContext(1, RATE, RATE);
  const buffers = [first, second].map((body) => {
    const buffer = context.createBuffer(1, RATE, RATE);
    const of = new Function("i", "rate", `return ${body}`);
    buffer.copyToChannel(Float32Array.from({ length: RATE }, (_, i) => of(i, RATE)), 0);
    return buffer;
  });
  const deck = new Deck(context, buffers, 0, loop ? loop[0] : 0, loop, 0.1);
  deck.hear(1, 0.5);
  const heard = (await context.startRendering()).getChannelData(0);
  const at = Array.from(heard, (_, i) => deck.at(i / RATE));
  return { heard: Array.from(heard), at, fade: FADE_SECONDS, rate: RATE };
}"""


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SOUND)
        yield browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
        browser.close()


def render(page: Page, first: str, second: str, loop: list[float] | None = None) -> dict:
    source = joined(SCRIPTS[:2])
    assert "class Deck" in source
    return page.evaluate(RENDER, [source, first, second, loop])


def test_a_switch_is_a_straight_cross_fade_of_eight_milliseconds(browser_page: Page) -> None:
    found = render(browser_page, "1", "0")
    heard, rate = found["heard"], found["rate"]
    assert heard[: int(0.1 * rate)] == [0] * int(0.1 * rate)
    assert {heard[int(0.12 * rate)], heard[int(0.499 * rate)]} == {1}
    falling = [i for i, value in enumerate(heard) if i > 0.4 * rate and 0 < value < 1]
    assert 0.005 <= len(falling) / rate <= 0.010
    assert len(falling) / rate == pytest.approx(found["fade"], abs=0.001)
    assert falling[0] / rate == pytest.approx(0.5, abs=0.0005)
    steps = [heard[i] - heard[i + 1] for i in falling]
    assert max(steps) < 1.1 / (found["fade"] * rate)
    assert min(steps[:-1]) > 0


def test_equal_sounds_stay_what_they_are_through_a_switch(browser_page: Page) -> None:
    """Each sample is the one of its moment, so the two sounds are aligned to the sample and X cannot be told by a bump."""
    ramp = "0.5 * i / rate"

    def deviation(second: str) -> float:
        found = render(browser_page, ramp, second)
        rate = found["rate"]
        return max(abs(found["heard"][i] - 0.5 * (i / rate - 0.1)) for i in range(int(0.12 * rate), rate))

    assert deviation(ramp) < 1e-6
    # One sample late would be found.
    assert deviation("0.5 * (i - 1) / rate") > 5e-6


def test_a_loop_goes_round_where_the_clock_says(browser_page: Page) -> None:
    found = render(browser_page, "0.5 * i / rate", "0.5 * i / rate", [0.2, 0.35])
    rate, edge = found["rate"], 0.006
    inside = [i for i, at in enumerate(found["at"]) if i > 0.12 * rate and 0.2 + edge < at < 0.35 - edge]
    assert len(inside) > 0.6 * rate
    assert max(abs(found["heard"][i] - 0.5 * found["at"][i]) for i in inside) < 1e-4
    # The seam is faded: nothing jumps.
    jumps = [abs(a - b) for a, b in zip(found["heard"], found["heard"][1:], strict=False)]
    assert max(jumps) < 0.175 / (0.003 * rate)


def part(page: Page, name: str) -> object:
    return page.locator(f'.player [data-part="{name}"]')


def test_a_person_takes_a_test_of_three_trials(browser_page: Page, address: str, complaints: list[str]) -> None:
    page = browser_page
    sent: list[str] = []
    watch(page, address, complaints)
    page.on("request", lambda request: sent.append(request.post_data or ""))
    page.goto(address)
    expect(page.locator(".player-empty")).to_be_visible()
    page.get_by_label("ABX").check()
    page.get_by_label("own lines").check()
    page.locator("#listening-lines textarea").fill("The quick brown fox, ${window.hacked = 1} jumps <b>over</b> the lazy dog.")
    page.locator("#listening-trials input[type=number]").fill("3")
    page.keyboard.press("Tab")
    page.click("#listening-run")
    expect(page.locator(".player")).to_have_attribute("data-state", "ready", timeout=PATIENCE)
    expect(part(page, "said")).to_contain_text("<b>over</b>")

    answers = page.locator(".player-answer")
    for trial in (1, 2, 3):
        expect(part(page, "number")).to_have_text(f"Trial {trial} of 3", timeout=PATIENCE)
        expect(page.locator(".player")).to_have_attribute("data-state", "ready")
        expect(answers.first).to_be_disabled()
        for key, letter in (("a", 0), ("2", 1), ("x", 2)):
            page.keyboard.press(key)
            expect(page.locator(f'[data-sound="{letter}"]')).to_have_attribute("aria-pressed", "true")
            expect(page.locator(f'[data-sound="{letter}"] small')).to_have_text("played once")
        if trial == 1:
            handle_the_transport(page)
        expect(answers.first).to_be_enabled()
        answers.nth(trial % 2).click()

    expect(page.locator("#listening-reveal")).to_contain_text("n too small: 3 votes count", timeout=PATIENCE)
    expect(page.locator("#listening-reveal")).to_contain_text("WER, CER: nobody", timeout=PATIENCE)
    page.click("#listening-export")
    expect(page.locator("#listening-files")).to_contain_text("csv", timeout=PATIENCE)
    votes = [body for body in sent if '"plays"' in body]
    assert len(votes) == 3
    assert '"answer":"B"' in votes[0]
    assert '"answer":"A"' in votes[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("window.hacked") is None
    assert complaints == []


def handle_the_transport(page: Page) -> None:
    """Loop by dragging, pause and play by the space bar, keys that are typed go into the text."""
    box = page.locator(".player-bar").bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 9)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 9, steps=4)
    page.mouse.up()
    expect(part(page, "round")).to_have_attribute("aria-pressed", "true")
    expect(part(page, "whole")).to_be_visible()
    page.keyboard.press("1")
    expect(part(page, "play")).to_have_text("Pause")
    page.keyboard.press(" ")
    expect(part(page, "play")).to_have_text("Play")
    page.keyboard.press("l")
    expect(part(page, "round")).to_have_attribute("aria-pressed", "false")
    lines = page.locator("#listening-lines textarea")
    lines.focus()
    page.keyboard.type("x b l")
    expect(page.locator('[data-sound="0"]')).to_have_attribute("aria-pressed", "true")
    expect(part(page, "play")).to_have_text("Play")
    page.get_by_label("restarts").check()
    page.locator('[data-sound="1"]').click()
    expect(part(page, "play")).to_have_text("Pause")
