"""`python -m explorers.measure_page`: memory and response times of a page of its own; JSON on the last line.

`--requests N` sends N mixed requests, a new visitor every few of them, and reports the memory of the page's process after the
first fifty and at the end (on Linux only), and the milliseconds of each kind. `--times` opens the page in Chromium (see
requirements-dev.txt; on the path, or named by CHROMIUM) and reports, as medians, the seconds from the start of the process
to a player that can be pressed (`up_seconds`), and to the first sound from a press on it, from "Generate" and from moving
theta; the speed-ups over AR that the page shows after "Generate"; the height of the first tab at 1440 pixels, where the player
begins on a phone, and what the console said. Times are valid only on an otherwise idle computer.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import httpx
import numpy as np
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from pcg.audio import write_wav
from pcg.places import PROJECT

if TYPE_CHECKING:
    from playwright.sync_api import Page

APP = PROJECT / "app.py"
PATIENCE_SECONDS = 300
REPEATS, EARLY = 5, 50
REQUESTS_OF_A_VISITOR = 5
LISTENING_MS = 2_000
THETA_STEPS = 2
LAPTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
TEXT = "The morning sun was warm."
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"]
HEARD = """(before) => {
  const stage = document.querySelector(".stage");
  return stage.dataset.first !== (before ?? undefined) && stage.dataset.first;
}"""
SPEEDS = """() => Object.fromEntries([...document.querySelectorAll(".stage-lane")].map((lane) =>
  [lane.dataset.key, parseFloat(lane.querySelector("[data-fact='speed']").textContent)]))"""
READY = ".stage-play:not([disabled])"
SHOWN = '.strip[data-state="done"]'

Ask = Callable[[Client, int], object]


@contextmanager
def page_process(model: str = "embedded") -> Iterator[tuple[int, str]]:
    """A page in a process of its own that has just begun: its number, and the address at which it will answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = [sys.executable, str(APP), "--model", model, "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, cwd=APP.parent) as running:
        try:
            yield running.pid, f"http://127.0.0.1:{port}/"
        finally:
            running.kill()


def wait_for(address: str) -> None:
    """Return when the page answers, or raise TimeoutError."""
    deadline = perf_counter() + PATIENCE_SECONDS
    while perf_counter() < deadline:
        with suppress(httpx.TransportError):
            httpx.get(f"{address}config", timeout=PATIENCE_SECONDS)
            return
        sleep(0.02)
    raise TimeoutError(f"{address} did not answer in {PATIENCE_SECONDS} seconds")


def resident_mib(process: int) -> float:
    """The memory that a process holds, in MiB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


def kinds_of_requests(sound: Path) -> Mapping[str, Ask]:
    """What visitors ask for, by name; the number makes each request differ from the others."""
    theta = [0.3, 0.37, 0.44, 0.5, 0.56, 0.63, 0.7]

    def refused(page: Client, number: int) -> None:
        with suppress(AppError):
            page.predict(text="x" * 10_000, seed=number, recording=None, api_name="/generate_pcg")

    def repeated(page: Client, number: int) -> None:
        page.predict(text=TEXT, seed=number, recording=None, api_name="/generate_ssd")
        _, stored, *_ = page.predict(which="ssd", address="", api_name="/take_settings")
        page.predict(stored, api_name="/repeat_take")

    return {
        "say": lambda page, n: page.predict(text=TEXT, seed=n, theta=theta[n % 7], recording=None, api_name="/generate_pcg"),
        "one": lambda page, n: page.predict(text=TEXT, seed=n, method="sd", recording=None, api_name="/generate_one"),
        "groups": lambda page, n: page.predict(0.3 + n % 60 / 100, api_name="/groups"),
        "repeat": repeated,
        "refused": refused,
        "transcribe": lambda page, n: page.predict(sound=handle_file(sound), reference="", api_name="/transcribe"),
        "swap": lambda page, n: page.predict(source="text", text=TEXT, seed=n, theta=theta[n % 7], api_name="/swap"),
    }


def measure_requests(model: str, count: int, early: int = EARLY, kinds: Collection[str] | None = None) -> dict[str, object]:
    """Memory in MiB after `early` of `count` requests of these kinds (None: of all) and after the last one, its growth between
    the two, and median milliseconds by kind."""
    took: dict[str, list[float]] = defaultdict(list)
    with TemporaryDirectory() as folder, page_process(model) as (process, address):
        sound = Path(folder) / "sound.wav"
        write_wav(sound, 0.2 * np.sin(np.arange(16_000) * 0.05), 16_000)
        wait_for(address)
        memory = [resident_mib(process)]
        asked = {kind: ask for kind, ask in kinds_of_requests(sound).items() if kinds is None or kind in kinds}
        for number, (kind, ask) in zip(range(count), cycle(asked.items()), strict=False):
            if number % REQUESTS_OF_A_VISITOR == 0:
                page = Client(address, verbose=False, download_files=False, httpx_kwargs={"timeout": PATIENCE_SECONDS})
            begun = perf_counter()
            ask(page, number)
            took[kind].append(1e3 * (perf_counter() - begun))
            if number + 1 in (early, count):
                memory.append(resident_mib(process))
    named = dict(zip(("opened", "early", "late"), (round(each, 1) for each in memory), strict=True))
    figures = {"requests": count, "memory_mib": named, "memory_growth": round(memory[2] / memory[1] - 1, 4)}
    return figures | {"ms": {kind: round(median(times), 1) for kind, times in took.items()}}


def measure_times(model: str, repeats: int) -> dict[str, object]:
    """The seconds that a visitor waits, as medians of `repeats`, and how the first tab looks."""
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
        browser.close()
    looks |= {"generate_speedups": ratios, "console_messages": said}
    return {name: round(median(values), 3) for name, values in waited.items()} | looks


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded", help="as for app.py")
    parser.add_argument("--requests", type=int, default=0, help=f"how many to send, more than {EARLY} (0: none)")
    parser.add_argument("--times", action="store_true", help="measure in Chromium what a visitor waits for")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"of each time (default {REPEATS})")
    options = parser.parse_args()
    figures = measure_requests(options.model, options.requests) if options.requests else {}
    print(json.dumps(figures | (measure_times(options.model, options.repeats) if options.times else {})))


if __name__ == "__main__":
    main()
