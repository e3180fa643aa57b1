"""`python -m explorers.measure.page`: memory and response times of a page of its own; JSON on the last line.

`--requests N` sends N mixed requests, a new visitor every few of them, and reports the memory of the page's process after the
first fifty and at the end (on Linux only), and the milliseconds of each kind. `--times` opens the page in Chromium (see
requirements-dev.txt; on the path, or named by CHROMIUM) and reports, as medians, the seconds from the start of the process to a
take that can be played, from the button to the first sound of a streamed take, and from moving theta to the first sound, and
to the end, of the new take. Times are valid only on an otherwise idle computer.
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
from pcg.files import PROJECT

if TYPE_CHECKING:
    from playwright.sync_api import Page

APP = PROJECT / "app.py"
PATIENCE_SECONDS = 300
REPEATS, EARLY = 5, 50
REQUESTS_OF_A_VISITOR = 5
LISTENING_MS = 2_000
THETA_STEPS = 2
TEXT = "The morning sun was warm."
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"]
HEARD = """(before) => {
  const strip = document.querySelector(".strip");
  return strip.dataset.first !== before && strip.dataset.first;
}"""

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
        "tune": lambda page, n: page.predict(text=TEXT, seed=n, theta=theta[n % 7], recording=None, api_name="/tune"),
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


def measure_times(model: str, repeats: int) -> dict[str, float]:
    """The seconds that a visitor waits, as medians of `repeats`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        starts = [_start(browser.new_page(), model) for _ in range(repeats)]
        with page_process(model) as (_, address):
            wait_for(address)
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            page.set_default_timeout(1e3 * PATIENCE_SECONDS)
            page.goto(address)
            page.get_by_role("tab", name="Tune").click()
            # The first take of a process is slower, and a visitor who has heard the example waits for it.
            at_once = [_until_heard(page, lambda: page.click("#tune-run")) for _ in range(repeats)]
            first = [_until_heard(page, lambda: page.click("#tune-run"), LISTENING_MS) for _ in range(repeats)]
            moved = [_until_heard(page, lambda: _move_theta(page)) for _ in range(repeats)]
        browser.close()
    measured = {
        "start_seconds": starts,
        "first_sound_seconds": [sound for sound, _ in first],
        "first_sound_after_a_take_seconds": [sound for sound, _ in at_once],
        "theta_sound_seconds": [sound for sound, _ in moved],
        "theta_take_seconds": [take for _, take in moved],
    }
    return {name: round(median(values), 3) for name, values in measured.items()}


def _start(page: "Page", model: str) -> float:
    """Seconds from the start of the process to a take with a button that plays it."""
    begun = perf_counter()
    with page_process(model) as (_, address):
        wait_for(address)
        page.goto(address, timeout=1e3 * PATIENCE_SECONDS, wait_until="commit")
        play = page.locator("#sound-pcg").get_by_role("button", name="Play", exact=True)
        play.wait_for(timeout=1e3 * PATIENCE_SECONDS)
        seconds = perf_counter() - begun
    page.close()
    return seconds


def _until_heard(page: "Page", act: Callable[[], None], pause_ms: int = 0) -> tuple[float, float]:
    """Seconds from `act` to the first sound, as the page reports it, and to the end of the take. pause_ms: before `act`;
    without one, the page is still at its figures of the previous take."""
    page.wait_for_timeout(pause_ms)
    before = page.evaluate("document.querySelector('.strip').dataset.first")
    begun = perf_counter()
    act()
    sound = float(page.wait_for_function(HEARD, arg=before).json_value())
    page.wait_for_selector('.strip[data-state="done"]')
    return sound, perf_counter() - begun


def _move_theta(page: "Page") -> None:
    page.locator("#tune-theta input[type=range]").focus()
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
