"""Many requests of many visitors: how long each kind takes, and what memory they leave behind."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from explorers.measure_page.served import PATIENCE_SECONDS, page_process, wait_for
from pcg.audio import write_wav

EARLY = 50
REQUESTS_OF_A_VISITOR = 5
TEXT = "The morning sun was warm."

Ask = Callable[[Client, int], object]


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
