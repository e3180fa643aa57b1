"""A job ends in time, sessions and requests are bounded, and a fault is one sentence with a reference."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event

import gradio as gr
import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.errors import plain
from explorers.requests import Page, app_options
from pcg.errors import InputError, PCGError
from pcg.serving.protection import LIMITS, Limits
from tests.explorers.raw import Raw
from tests.explorers.served import serve

SECONDS = 0.3


class Counters:
    """A page that counts for each session, counts slowly, fails, and waits."""

    def __init__(self, limits: Limits) -> None:
        self.allowed = Event()
        with Page(title="PCG Lab") as self.page:
            count, shown = gr.State(0), gr.Number(label="Count")
            gr.Button("Add").click(lambda n: (n + 1, n + 1), count, [count, shown], api_name="add")
            gr.Button("Keep").click(self.keep, None, shown, api_name="keep")
            gr.Button("Fail").click(self.fail, None, shown, api_name="fail")
            gr.Button("Wait").click(lambda: self.allowed.wait(20) or 0, None, shown, api_name="wait")
        self.page.limits = limits
        self.page.queue(max_size=3)

    def keep(self) -> Iterator[float]:
        """Count slowly, and yield the count at the end in hundreds."""
        step = 0
        try:
            for step in range(200):
                time.sleep(0.05)
                yield step
        except PCGError:
            yield 100 * step
            raise

    def fail(self) -> None:
        raise OverflowError("a secret of the program")


@pytest.fixture(scope="module")
def raw() -> Iterator[Callable[..., Raw]]:
    """A page with the limits that a test names, as a program meets it; one for all tests that name the same."""
    served: dict[tuple[tuple[str, float], ...], tuple[Iterator[str], Raw]] = {}

    def of(**changed: float) -> Raw:
        key = tuple(changed.items())
        if key not in served:
            limits = replace(LIMITS, **changed)
            counters = Counters(limits)
            page = serve(counters.page, app_kwargs=app_options(limits=limits), state_session_capacity=limits.sessions)
            served[key] = page, Raw(next(page))
            served[key][1].allowed = counters.allowed
        return served[key][1]

    yield of
    for page, _ in served.values():
        next(page, None)


def count(raw: Raw, session: str, visitor: str = "") -> object:
    answer = raw.ask("add", [None], session=session, visitor=visitor)
    return answer.told or answer.data[1]


def test_sessions_are_bounded_and_the_oldest_goes_first(raw: Callable[..., Raw]) -> None:
    page = raw(sessions=3)
    assert [count(page, name) for name in ("one", "two", "three")] == [1, 1, 1]
    assert count(page, "one") == 2
    assert count(page, "four") == 1
    assert count(page, "one") == 3
    assert count(page, "two") == 1


def test_an_address_has_so_many_requests_in_a_minute_and_others_are_served(raw: Callable[..., Raw]) -> None:
    page = raw(posts_each_minute=4)
    answers = [count(page, "mine", "10.0.0.1") for _ in range(5)]
    assert answers[:4] == [1, 2, 3, 4]
    assert "more than 4 requests in a minute" in answers[4]
    assert count(page, "other", "10.0.0.2") == 1


def test_a_full_queue_refuses(raw: Callable[..., Raw]) -> None:
    page = raw()
    answers = [page.join("wait", [], None, f"visitor{i}") for i in range(8)]
    page.allowed.set()
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 503


def test_a_link_to_the_page_is_previewed_by_name(raw: Callable[..., Raw]) -> None:
    answer = raw().http.get("/")
    assert answer.text.count('content="PCG Lab"') >= 2
    assert 'content="Gradio"' not in answer.text
    picture = re.search(r'property="og:image"\s+content="([^"]+)"', answer.text)[1]
    assert httpx.get(picture).headers["content-type"] == "image/png"


def test_a_job_is_stopped_in_time_and_tells_what_is_finished(raw: Callable[..., Raw]) -> None:
    page, begun = raw(job_seconds=SECONDS), time.monotonic()
    job = Client(str(page.http.base_url), verbose=False).submit(api_name="/keep")
    with pytest.raises(AppError, match=r"stopped at the limit of 0\.3 s, waiting included; what is finished is kept"):
        job.result(20)
    *counted, last = job.outputs()
    assert last == 100 * counted[-1] > 0
    assert time.monotonic() - begun < 5


def test_a_fault_is_one_sentence_with_a_reference(raw: Callable[..., Raw]) -> None:
    told = raw().ask("fail", []).told
    assert "OverflowError" in told
    assert "secret" not in told
    assert "reference" in told


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("mean_size", 100_000, "from 1 to 252.75"), "Mean size must be from 1 to 252.75."),
        (InputError("seed", None, "a whole number from 0 to 9"), "Seed must be a whole number from 0 to 9."),
        (InputError("text", "it is 'x', but must be y", "English: letters"), "I can only read English letters and digits."),
        (PCGError("The disk is full."), "The disk is full."),
    ],
)
def test_an_error_says_what_is_allowed_and_not_how_the_value_is_written(error: PCGError, sentence: str) -> None:
    assert plain(error) == sentence
