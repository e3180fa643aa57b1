"""`python -m explorers.measure_page --times`: a page of its own, measured in Chromium; JSON on the last line.

Seconds are medians: from the start of the process to a player that can be pressed, from a press to the first sound. The lists
(console, axe, keyboard, width) are empty where all is well. Chromium is on the path, or named by CHROMIUM. Times are valid
only on an otherwise idle computer.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import httpx

from pcg.places import PROJECT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REPEATS = 5
PATIENCE_SECONDS = 300
LISTENING_MS, DRAWN_MS = 2_000, 1_000
LAPTOP, PHONE, NARROWEST = (1440, 900), (390, 844), (360, 800)
MOST_STOPS = 400
ARGUMENTS = [
    "--no-sandbox", "--autoplay-policy=no-user-gesture-required", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]  # fmt: skip
READY = ".stage-play:not([disabled])"
STAGE = "document.querySelector('.stage').dataset"
# The tabs, and the tab that a part stands in.
TABS = {"Listen": "", "Map": "How it works", "Swap test": "How it works", "Measured": "Results", "Listening test": "Results",
        "Recognition": "More", "Spoof detectors": "More"}  # fmt: skip
OPEN = """name => {
  const all = [...document.querySelectorAll('[role="tab"], .overflow-dropdown button')];
  const tab = all.find((e) => e.textContent.trim() === name);
  tab?.click();
  return tab !== undefined;
}"""
# Gradio's own, which cannot be mended from outside.
GRADIOS_OWN = (("aria-prohibited-attr", 'aria-label="Empty value"'), ("image-redundant-alt", 'alt="Settings"'))
CONTROLS = """[...document.querySelectorAll('button, input:not([type="hidden"]), textarea, select, summary, a[href], audio, ' +
    '[role="slider"], [role="button"], [role="tab"], [tabindex="0"]')]
  .filter((e) => e.checkVisibility() && e.getClientRects().length && !e.disabled)
  .filter((e) => !e.closest('[inert], [aria-hidden="true"], .visually-hidden'))"""
ARRIVE = """() => {
  const { activeElement: e } = document;
  const before = e === document.body || e.dataset.reached === 'yes';
  if (e !== document.body) e.dataset.reached = 'yes';
  return before && e !== document.body;
}"""
# One of a group of radio buttons is reached, and arrows lead to the others.
SKIPPED = f"""() => {CONTROLS}
  .filter((e) => !e.dataset.reached && !(e.type === 'radio' && e.closest('fieldset')?.querySelector('[data-reached]')))
  .map((e) => e.outerHTML.slice(0, 200))"""


def main() -> None:
    parser = argparse.ArgumentParser("python -m explorers.measure_page", description="Measure the page in Chromium.")
    parser.add_argument("--times", action="store_true", help="measure what a visitor waits for, too")
    options = parser.parse_args()
    print(json.dumps(measure(REPEATS if options.times else 0)))


def measure(repeats: int) -> dict[str, object]:
    """Measure the looks and faults of the page, and with `repeats` the times."""
    from playwright.sync_api import sync_playwright

    console: list[str] = []
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        figures: dict[str, object] = {}
        if repeats:
            figures["up_seconds"] = median(_start(browser) for _ in range(repeats))
        with page_process() as address:
            page = opened(browser, address, LAPTOP, console)
            figures["listen_height_1440"] = page.evaluate("document.documentElement.scrollHeight")
            figures |= _times(page, repeats) if repeats else {}
            phone = opened(browser, address, PHONE, console)
            figures["phone_player_y"] = round(phone.locator(READY).first.bounding_box()["y"])
            narrow = opened(browser, address, NARROWEST, console)
            figures["axe_light"], figures["axe_dark"] = faults(page, axe_faults), faults(page, axe_faults, dark=True)
            figures["not_reached_by_keyboard"] = faults(page, not_reached)
            figures["too_wide_at_360"] = faults(narrow, too_wide)
            for view in (page, phone, narrow):
                view.close()
        browser.close()
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()} | {"console_messages": console}


@contextmanager
def page_process() -> Iterator[str]:
    """Start a page in a process of its own; yield its address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = [sys.executable, "app.py", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, cwd=PROJECT) as running:
        try:
            address, deadline = f"http://127.0.0.1:{port}/", perf_counter() + PATIENCE_SECONDS
            while perf_counter() < deadline:
                with suppress(httpx.TransportError):
                    httpx.get(f"{address}config", timeout=PATIENCE_SECONDS)
                    break
                sleep(0.02)
            yield address
        finally:
            running.kill()


def opened(browser: "Browser", address: str, size: tuple[int, int], console: list[str]) -> "Page":
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
    page.set_default_timeout(1e3 * PATIENCE_SECONDS)
    page.on("console", lambda message: console.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: console.append(str(error)))
    page.goto(address)
    page.wait_for_selector(READY)
    page.wait_for_timeout(LISTENING_MS)
    return page


def _start(browser: "Browser") -> float:
    begun, page = perf_counter(), browser.new_page()
    with page_process() as address:
        page.goto(address, timeout=1e3 * PATIENCE_SECONDS, wait_until="commit")
        page.locator(READY).first.wait_for(timeout=1e3 * PATIENCE_SECONDS)
        seconds = perf_counter() - begun
        page.close()
    return seconds


def _times(page: "Page", repeats: int) -> dict[str, float]:
    for _ in range(2):  # the first sound of a browser waits for its sound card
        page.click(READY)
    page.click("#knobs > button")
    acts: dict[str, Callable[[], None]] = {
        "play_first_sound_seconds": lambda: page.click(READY),
        "generate_first_sound_seconds": lambda: page.click("#run"),
        "theta_first_sound_seconds": lambda: page.locator("#theta input[type=range]").press("ArrowLeft"),
    }
    return {name: median(_until_heard(page, act) for _ in range(repeats)) for name, act in acts.items()}


def _until_heard(page: "Page", act: Callable[[], None]) -> float:
    """Seconds from `act` to the first sound, as the page reports it; nothing sounds and nothing is timed before and after."""
    page.evaluate(f"delete {STAGE}.first")
    act()
    seconds = float(page.wait_for_function(f"{STAGE}.first").json_value())
    page.wait_for_function(f"{STAGE}.running === 'false'")
    page.wait_for_timeout(LISTENING_MS)
    page.evaluate("document.dispatchEvent(new CustomEvent('lab-sound'))")
    return seconds


def open_tab(page: "Page", name: str) -> None:
    """Open one of TABS and wait until it is drawn; on a narrow screen it may be in a menu."""
    for tab in filter(None, (TABS.get(name), name)):
        page.wait_for_function(OPEN, arg=tab)
        page.locator(f'[role="tab"][aria-selected="true"]:has-text("{tab}")').first.wait_for(state="attached")
    page.wait_for_timeout(DRAWN_MS)


def faults(page: "Page", find: Callable[["Page"], list[str]], tabs: Sequence[str] = (), dark: bool = False) -> list[str]:
    """What `find` finds on each tab that the page has, with the tab's name."""
    page.evaluate("dark => document.body.classList.toggle('dark', dark)", dark)
    found = []
    for tab in tabs or [name for name in TABS if page.locator(f'[role="tab"]:has-text("{name}")').count()]:
        open_tab(page, tab)
        found += [f"{tab}: {fault}" for fault in find(page)]
    return found


def axe_faults(page: "Page") -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for violation in Axe().run(page).response["violations"]:
        for node in violation["nodes"]:
            place = " ".join(map(str, node["target"])) + node["html"]
            if not any(rule == violation["id"] and part in place for rule, part in GRADIOS_OWN):
                found.append(f"{violation['id']} ({violation['impact']}): {place[:200]} {node['failureSummary'][:200]}")
    return found


def not_reached(page: "Page") -> list[str]:
    """Controls that Tab passes by on its way round the page."""
    page.evaluate("document.querySelectorAll('[data-reached]').forEach((e) => delete e.dataset.reached)")
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate(ARRIVE):
            return page.evaluate(SKIPPED)
    return [f"the focus did not come round in {MOST_STOPS} steps"]


def too_wide(page: "Page") -> list[str]:
    width = page.evaluate("document.documentElement.scrollWidth")
    return [f"{width} px"] if width > page.viewport_size["width"] else []


if __name__ == "__main__":
    main()
