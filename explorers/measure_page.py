"""`python -m explorers.measure_page --times`: a page of its own, measured in Chromium; JSON on the last line.

Seconds are medians: from the start of the process to a player that can be pressed, from a press to the first sound. What axe
and the keyboard find is tested (`tests/explorers/listen/test_listen_page.py`). Chromium is on the path, or named by CHROMIUM.
Times are valid only on an otherwise idle computer.
"""

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser("python -m explorers.measure_page", description="Measure the page in Chromium.")
    parser.add_argument("--times", action="store_true", help="measure what a visitor waits for, too")
    print(json.dumps(measure(REPEATS if parser.parse_args().times else 0)))


def measure(repeats: int) -> dict[str, object]:
    """Measure the sizes and console messages of the page, and with `repeats` the times."""
    from playwright.sync_api import sync_playwright

    figures: dict[str, object] = {"console_messages": (console := [])}
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        if repeats:
            figures["up_seconds"] = median(_start(browser) for _ in range(repeats))
        with page_process() as address:
            page = opened(browser, address, LAPTOP, console)
            figures["listen_height_1440"] = page.evaluate("document.documentElement.scrollHeight")
            figures |= _times(page, repeats) if repeats else {}
            phone = opened(browser, address, PHONE, console)
            figures["phone_player_y"] = phone.locator(READY).first.bounding_box()["y"]
            for each in (page, phone):  # before the server is gone, which is no fault of the page
                each.close()
        browser.close()
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


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


if __name__ == "__main__":
    main()
