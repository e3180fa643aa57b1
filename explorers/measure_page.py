"""`python -m explorers.measure_page`: a page of its own, measured in Chromium; JSON on the last line.

Seconds are medians from a press to the first sound. What axe and the keyboard find is tested
(`tests/explorers/listen/test_listen_page.py`). Chromium is on the path, or named by CHROMIUM. Times are valid only on an
otherwise idle computer.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
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
LISTENING_MS = 2_000
LAPTOP, PHONE = (1440, 900), (390, 844)
ARGUMENTS = ["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
READY = ".stage-play:not([disabled])"
STAGE = "document.querySelector('.stage').dataset"


def measure() -> dict[str, object]:
    """Measure the sizes and console messages of the page, and what a visitor waits for."""
    from playwright.sync_api import sync_playwright

    console: list[str] = []
    figures: dict[str, object] = {"console_messages": console}
    acts: dict[str, Callable[[Page], None]] = {
        "play_first_sound_seconds": lambda page: page.click(READY),
        "generate_first_sound_seconds": lambda page: page.click("#run"),
        "theta_first_sound_seconds": lambda page: page.locator("#theta input[type=range]").press("ArrowLeft"),
    }
    with sync_playwright() as playwright, page_process() as address:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        page = opened(browser, address, LAPTOP, console)
        figures["listen_height_1440"] = page.evaluate("document.documentElement.scrollHeight")
        for _ in range(2):  # the first sound of a browser waits for its sound card
            page.click(READY)
        page.click("#knobs > button")
        for name, act in acts.items():
            figures[name] = round(median(_seconds_until_heard(page, act) for _ in range(REPEATS)), 3)
        phone = opened(browser, address, PHONE, console)
        figures["phone_player_y"] = phone.locator(READY).first.bounding_box()["y"]
        browser.close()
    return figures


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


def _seconds_until_heard(page: "Page", act: Callable[["Page"], None]) -> float:
    """Seconds from `act` to the first sound, as the page reports it; nothing sounds and nothing is timed before and after."""
    page.evaluate(f"delete {STAGE}.first")
    act(page)
    seconds = float(page.wait_for_function(f"{STAGE}.first").json_value())
    page.wait_for_function(f"{STAGE}.running === 'false'")
    page.wait_for_timeout(LISTENING_MS)
    page.evaluate("document.dispatchEvent(new CustomEvent('lab-sound'))")
    return seconds


if __name__ == "__main__":
    print(json.dumps(measure()))
