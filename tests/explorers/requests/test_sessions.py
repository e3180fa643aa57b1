"""A visitor's takes go by their own doing only; a job ends in time; a fault is one sentence with a reference."""

import gc
import json
import mmap
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import gradio as gr
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.requests import server
from explorers.requests.page import Page
from explorers.requests.server import app_options
from explorers.requests.sessions import LOST
from pcg.errors import PCGError
from pcg.serving.limits import LIMITS, Limits
from tests.explorers.raw import Raw
from tests.explorers.served import serve

SECONDS = 0.3
TEXTS, STEPS = 30, 40
MOST_EACH = 500


class Counters:
    """A page that counts for each session, counts slowly, fails, and waits."""

    def __init__(self, limits: Limits) -> None:
        self.allowed = Event()
        with Page() as self.page:
            count, shown = gr.State(0), gr.Number(label="Count")
            gr.Button("Add").click(lambda n: (n + 1, n + 1), count, [count, shown], api_name="add")
            gr.Button("Slowly").click(self.slowly, None, shown, api_name="slowly")
            gr.Button("Keep").click(self.keep, None, shown, api_name="keep")
            gr.Button("Fail").click(self.fail, None, shown, api_name="fail")
            offered, texts = gr.Radio(["one"], label="Offered"), [gr.HTML() for _ in range(TEXTS)]
            gr.Button("Offer").click(self.offer, None, [offered, *texts], api_name="offer")
            gr.Button("Often").click(self.often, None, texts, api_name="often")
            gr.Button("Choose").click(lambda choice: 1, offered, shown, api_name="choose")
            gr.Button("Wait").click(lambda: self.allowed.wait(20) or 0, None, shown, api_name="wait")
        self.page.limits = limits
        self.page.queue()

    def slowly(self) -> Iterator[float]:
        for step in range(200):
            time.sleep(0.05)
            yield step

    def keep(self) -> Iterator[float]:
        """Count slowly, and tell at the end how far it came, in hundreds."""
        try:
            for step in self.slowly():
                yield step
        except PCGError:
            yield 100 * step
            raise

    def offer(self) -> list[object]:
        """Another choice, and texts that are shown."""
        return [gr.Radio(choices=["one", "two"]), *(gr.HTML("text", visible=True) for _ in range(TEXTS))]

    def often(self) -> Iterator[list[object]]:
        for step in range(STEPS):
            yield [f"Step {step}", *[gr.skip()] * (TEXTS - 1)]

    def fail(self) -> float:
        raise OverflowError("a secret of the program")


@pytest.fixture
def raw() -> Iterator[Callable[..., Raw]]:
    """A page with the limits that a test names, as a program meets it."""
    served = []

    def of(**changed: float) -> Raw:
        limits = replace(LIMITS, **changed)
        counters = Counters(limits)
        page = serve(counters.page, app_kwargs=app_options(limits=limits))
        client = Raw(next(page))
        client.allowed = counters.allowed
        served.append(page)
        return client

    yield of
    for page in served:
        next(page, None)


def count(raw: Raw, session: str, visitor: str = "") -> object:
    answer = raw.ask("add", [None], session=session, visitor=visitor)
    return answer.told or answer.data[1]


def test_two_hundred_visitors_do_not_displace_one(raw: Callable[..., Raw]) -> None:
    page = raw()
    assert count(page, "mine") == 1
    for other in range(200):
        assert page.join("add", [None], None, f"other{other}").status_code == 200
    assert count(page, "mine") == 2


def test_only_whoever_begins_more_sessions_loses_one_and_is_told(raw: Callable[..., Raw]) -> None:
    page = raw(sessions_each=2)
    assert count(page, "mine", "10.0.0.1") == 1
    for flood in range(5):
        assert count(page, f"flood{flood}", "10.0.0.2") == 1
    assert count(page, "mine", "10.0.0.1") == 2
    assert count(page, "flood4", "10.0.0.2") == 2
    assert LOST in count(page, "flood0", "10.0.0.2")


def test_in_all_whoever_has_most_sessions_loses_one(raw: Callable[..., Raw]) -> None:
    page = raw(sessions=4)
    assert count(page, "mine", "10.0.0.1") == 1
    for flood in range(3):
        assert count(page, f"flood{flood}", "10.0.0.2") == 1
    assert count(page, "late", "10.0.0.3") == 1
    assert LOST in count(page, "flood0", "10.0.0.2")
    assert count(page, "mine", "10.0.0.1") == 2


def test_a_session_has_its_own_choices(raw: Callable[..., Raw]) -> None:
    page = raw()
    choices, *texts = page.ask("offer", [], session="mine").data
    assert choices["choices"] == [["one", "one"], ["two", "two"]]
    assert [(text["value"], text["visible"]) for text in texts] == [("text", True)] * TEXTS
    assert page.ask("choose", ["two"], session="mine").told is None
    assert "two" in page.ask("choose", ["two"], session="other").told


def objects_kept_of_each(page: Raw, ask: Callable[[str], object]) -> float:
    """How many objects each of 10 sessions leaves behind, once as many before them had their turn."""

    def after(visitors: Iterable[int]) -> int:
        for visitor in visitors:
            ask(f"visitor{visitor}")
        page.ask("often", [])  # whose turn comes after theirs
        gc.collect()
        return sys.getallocatedblocks()

    early = after(range(10))
    late = after(range(10, 20))
    return (late - early) / 10


def test_a_session_keeps_nothing_of_what_is_only_shown(raw: Callable[..., Raw]) -> None:
    page = raw()
    assert objects_kept_of_each(page, lambda session: page.ask("offer", [], session=session)) < MOST_EACH


def test_what_nobody_collects_takes_little_room(raw: Callable[..., Raw]) -> None:
    page = raw()
    assert objects_kept_of_each(page, lambda session: page.join("often", [], None, session)) < MOST_EACH


def test_whoever_listens_late_hears_the_same(raw: Callable[..., Raw]) -> None:
    def heard(session: str, late_seconds: float) -> list[object]:
        page.join("often", [], None, session)
        time.sleep(late_seconds)
        with page.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as lines:
            messages = [json.loads(line[5:]) for line in lines.iter_lines() if line.startswith("data:")]
        return [message["output"]["data"] for message in messages if "output" in message]

    page = raw()
    at_once, late = heard("prompt", 0.0), heard("late", 1.0)
    assert len(late) > STEPS
    assert late == at_once


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell a process's memory")
def test_what_was_used_and_freed_goes_back_to_the_system_while_no_job_runs(
    raw: Callable[..., Raw], monkeypatch: pytest.MonkeyPatch
) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    monkeypatch.setattr(server, "TRIM_SECONDS", 0.1)
    page = raw()
    page.join("wait", [], None, "busy")
    blocks = [b"x" * 50_000 for _ in range(4_000)]
    some = blocks[::100]  # lie between what is freed, so that the heap cannot just end earlier
    before = resident()
    del blocks
    time.sleep(0.5)
    assert resident() > before - 50_000_000
    page.allowed.set()
    time.sleep(0.5)
    assert resident() < before - 150_000_000
    assert len(some) == 40


def test_a_job_is_stopped_in_time(raw: Callable[..., Raw]) -> None:
    begun = time.monotonic()
    told = raw(job_seconds=SECONDS).ask("slowly", []).told
    assert told == "This job was stopped at the limit of 0.3 s, waiting included; what is finished is kept."
    assert time.monotonic() - begun < 5


def test_a_job_that_is_stopped_in_time_tells_what_is_finished(raw: Callable[..., Raw]) -> None:
    page = raw(job_seconds=SECONDS)
    job = Client(str(page.http.base_url), verbose=False).submit(api_name="/keep")
    with pytest.raises(AppError, match="stopped at the limit"):
        job.result(20)
    *counted, last = job.outputs()
    assert last == 100 * counted[-1] > 0


def test_a_session_may_have_a_few_jobs_waiting(raw: Callable[..., Raw]) -> None:
    page = raw(waiting_each=2)
    for _ in range(3):  # one runs, two wait
        assert page.join("wait", [], None, "mine").status_code == 200
        time.sleep(0.2)
    told = page.ask("wait", [], session="mine").told
    page.allowed.set()
    assert told == "You have 2 jobs waiting: wait for them, or stop one."
    assert page.ask("wait", [], session="other").told is None


def test_a_fault_is_one_sentence_with_a_reference(raw: Callable[..., Raw]) -> None:
    told = raw().ask("fail", []).told
    assert "OverflowError" in told
    assert "secret" not in told
    assert "reference" in told
