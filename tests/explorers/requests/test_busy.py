"""Past the queue's bound a visitor is told so, in the page and through the client, and whoever waits is served."""

from collections.abc import Iterator
from concurrent.futures import Future
from threading import Event

import gradio as gr
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import expect, sync_playwright

from explorers.requests.page import Page
from explorers.theme import launch_options
from tests.explorers.chromium import ARGUMENTS, CHROMIUM

pytestmark = pytest.mark.slow

BOUND = 2
FULL = f"The queue is full: {BOUND} are waiting. Try again in a moment."
PATIENCE_SECONDS = 60


class Counter:
    """A page that serves one visitor at a time, and only once it is allowed to."""

    def __init__(self) -> None:
        self.begun, self.allowed = Event(), Event()
        with Page() as self.page:
            number, answer = gr.Number(1, label="Number"), gr.Number(label="Answer", elem_id="answer")
            gr.Button("Double", elem_id="double").click(self.double, number, answer, api_name="double", show_progress="hidden")
        self.page.queue(max_size=BOUND)

    def double(self, number: float) -> float:
        self.begun.set()
        assert self.allowed.wait(PATIENCE_SECONDS)
        return 2 * number


@pytest.fixture
def counter() -> Iterator[tuple[Counter, str]]:
    served = Counter()
    _, url, _ = served.page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_options())
    yield served, url
    served.allowed.set()
    served.page.close(verbose=False)


def fill(counter: Counter, address: str) -> list[Future]:
    """One visitor is served, and as many wait as may."""
    jobs = [Client(address, verbose=False).submit(0, api_name="/double")]
    assert counter.begun.wait(PATIENCE_SECONDS)
    jobs += [Client(address, verbose=False).submit(number, api_name="/double") for number in range(1, BOUND + 1)]
    while len(counter.page._queue) < BOUND:
        assert not any(job.done() for job in jobs)
    return jobs


def test_a_client_too_many_is_told_and_the_others_are_served(
    counter: tuple[Counter, str], capfd: pytest.CaptureFixture[str]
) -> None:
    served, address = counter
    jobs = fill(served, address)
    late = Client(address, verbose=False)
    for _ in range(3):
        with pytest.raises(AppError, match=f"^{FULL}$"):
            late.submit(7, api_name="/double").result(PATIENCE_SECONDS)
    served.allowed.set()
    assert [job.result(PATIENCE_SECONDS) for job in jobs] == [0, 2, 4]
    assert late.submit(7, api_name="/double").result(PATIENCE_SECONDS) == 14
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")
def test_a_visitor_too_many_reads_it_on_the_page(counter: tuple[Counter, str]) -> None:
    served, address = counter
    jobs = fill(served, address)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE_SECONDS)
        page.goto(address)
        page.click("#double")
        expect(page.locator(".toast-body")).to_contain_text(FULL, timeout=1000 * PATIENCE_SECONDS)
        served.allowed.set()
        assert [job.result(PATIENCE_SECONDS) for job in jobs] == [0, 2, 4]
        page.click("#double")
        expect(page.locator("#answer input")).to_have_value("2", timeout=1000 * PATIENCE_SECONDS)
        browser.close()
