"""How long a visitor waits, how the first tab looks, and what keeps somebody out."""

import os
import shutil
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from explorers.measure_page.access import NARROWEST, faults, faults_of_axe, not_reached, not_used, too_wide
from explorers.measure_page.served import PATIENCE_SECONDS, page_process, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LISTENING_MS = 2_000
THETA_STEPS = 2
LAPTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
ARGUMENTS = [
    "--no-sandbox",
    "--autoplay-policy=no-user-gesture-required",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
HEARD = """(before) => {
  const stage = document.querySelector(".stage");
  return stage.dataset.first !== (before ?? undefined) && stage.dataset.first;
}"""
SPEEDS = """() => Object.fromEntries([...document.querySelectorAll(".stage-lane")].map((lane) =>
  [lane.dataset.key, parseFloat(lane.querySelector("[data-fact='speed']").textContent)]))"""
READY = ".stage-play:not([disabled])"
SHOWN = '.strip[data-state="done"]'


def measure_times(model: str, repeats: int) -> dict[str, object]:
    """The seconds that a visitor waits, as medians of `repeats`, how the first tab looks, and the faults of every tab."""
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        waited = {"up_seconds": [_start(browser.new_page(), model) for _ in range(repeats)]}
        with page_process(model) as (_, address):
            wait_for(address)
            page = _opened(browser.new_page(viewport=LAPTOP), address, said)
            looks: dict[str, object] = {"listen_height_1440": page.evaluate("document.documentElement.scrollHeight")}
            page.locator(READY).first.click()  # the first sound of a browser waits for its sound card
            page.locator(READY).first.click()
            acts = {
                "play_first_sound_seconds": lambda: page.click(READY),
                "generate_first_sound_seconds": lambda: page.click("#run"),
                "theta_new_sound_seconds": lambda: _move_theta(page),
            }
            speeds: list[dict[str, float]] = []
            for name, act in acts.items():
                waited[name] = []
                for _ in range(repeats):
                    waited[name].append(_until_heard(page, act))
                    speeds += [page.evaluate(SPEEDS)] if name.startswith("generate") else []
            ratios = {key: round(median(each[key] for each in speeds), 3) for key in speeds[0] if key != "ar"}
            phone = _opened(browser.new_page(viewport=PHONE), address, said)
            looks["phone_player_y"] = round(phone.locator(READY).first.bounding_box()["y"])
            for each in (page, phone):  # before their server ends
                each.close()
            looks |= _faults(browser, address, said)
        browser.close()
    looks |= {"generate_speedups": ratios, "console_messages": said}
    return {name: round(median(values), 3) for name, values in waited.items()} | looks


def _faults(browser: "Browser", address: str, said: list[str]) -> dict[str, list[str]]:
    """What keeps somebody out of any tab, by who finds it."""
    seen = {
        "axe_light": faults_of_axe,
        "axe_dark": faults_of_axe,
        "not_reached_by_keyboard": not_reached,
        "not_used_by_keyboard": not_used,
        f"too_wide_at_{NARROWEST}": too_wide,
    }
    found = {}
    for name, find in seen.items():
        width = NARROWEST if find is too_wide else LAPTOP["width"]
        viewport = {"width": width, "height": LAPTOP["height"]}
        page = _opened(browser.new_page(viewport=viewport, reduced_motion="reduce"), address, said)
        found[name] = faults(page, find, dark=name.endswith("dark"), unfold="keyboard" in name)
        page.close()
    return found


def _opened(page: "Page", address: str, said: list[str]) -> "Page":
    """The page once its take in hand is shown. said: where what the console says is written down."""
    page.set_default_timeout(1e3 * PATIENCE_SECONDS)
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_selector(SHOWN)
    page.wait_for_timeout(LISTENING_MS)
    return page


def _start(page: "Page", model: str) -> float:
    """Seconds from the start of the process to a button that plays."""
    begun = perf_counter()
    with page_process(model) as (_, address):
        wait_for(address)
        page.goto(address, timeout=1e3 * PATIENCE_SECONDS, wait_until="commit")
        page.locator(READY).first.wait_for(timeout=1e3 * PATIENCE_SECONDS)
        seconds = perf_counter() - begun
    page.close()
    return seconds


def _until_heard(page: "Page", act: Callable[[], None]) -> float:
    """Seconds from `act` to the first sound, as the page reports it. Nothing sounds and nothing is timed before and after."""
    page.evaluate("delete document.querySelector('.stage').dataset.first")
    act()
    seconds = float(page.wait_for_function(HEARD, arg=None).json_value())
    page.wait_for_function("document.querySelector('#status .busy') === null")
    page.wait_for_timeout(LISTENING_MS)
    page.evaluate("document.dispatchEvent(new CustomEvent('lab-sound'))")
    return seconds


def _move_theta(page: "Page") -> None:
    page.locator("#theta input[type=range]").focus()
    for _ in range(THETA_STEPS):
        page.keyboard.press("ArrowLeft")
