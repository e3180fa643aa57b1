"""Jobs that wait for one another, and jobs that fail: a visitor reads the place in the queue, and the reason."""

import json
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import Page, expect

from explorers.measure_page.access import open_tab
from tests.explorers.chromium import NEEDS_CHROMIUM, READY, SOFTWARE, patient_page, watch

PATIENCE_MS = 120_000
RUNS = (
    "swap", "run_experiments", "experiment_report", "hear_condition", "listening_prepare", "transcribe",
    "repeat_take",
)  # fmt: skip


def test_every_long_run_tells_its_place_and_queues_a_further_press(address: str) -> None:
    with urlopen(f"{address}config") as answer:
        events = {each["api_name"]: each for each in json.load(answer)["dependencies"]}
    for name in RUNS:
        assert events[name]["show_progress_on"], name
        assert events[name]["show_progress"] == "minimal", name
        assert events[name]["trigger_mode"] == "always_last", name
    for name in ("measure_bound", "will_it_pay", "judge_takes"):
        assert events[name]["trigger_mode"] == "always_last", name


@pytest.mark.parametrize(
    ("endpoint", "values", "reason"),
    [
        ("/run_experiments", ([], "quick", None), "but must be at least one of main"),
        ("/hear_condition", (None,), "but must be one that was measured"),
    ],
)
def test_the_reason_of_a_failure_stands_in_the_status(
    endpoint: str, values: tuple[object, ...], reason: str, address: str
) -> None:
    job = Client(address, verbose=False).submit(*values, api_name=endpoint)
    with pytest.raises(AppError):
        job.result()
    assert reason in str(job.outputs()[-1])


@pytest.fixture
def visitors(address: str, complaints: list[str]) -> Iterator[list[Page]]:
    """Two, each with a browser of their own."""
    with patient_page(1440, SOFTWARE, PATIENCE_MS) as first:
        second = first.context.browser.new_page(viewport={"width": 390, "height": 900})
        for page in (first, second):
            page.set_default_timeout(PATIENCE_MS)
            watch(page, address, complaints)
            page.goto(address)
            expect(page.locator(READY)).to_be_visible()
        yield [first, second]


@NEEDS_CHROMIUM
@pytest.mark.slow
def test_who_waits_for_another_visitor_reads_the_place_and_is_served(visitors: list[Page], complaints: list[str]) -> None:
    first, second = visitors
    open_tab(first, "Listening test")
    first.locator("#listening-trials input[type=number]").fill("30")
    first.click("#listening-run")
    expect(first.locator("#listening-status")).to_contain_text("Decoding take")
    open_tab(second, "Swap")
    second.click("#swap-run")
    place = second.locator("#swap-status .progress-text")
    expect(place).to_contain_text("queue: 1/1")
    box, status = place.bounding_box(), second.locator("#swap-status").bounding_box()
    assert abs(box["y"] - status["y"]) < 10
    assert box["x"] + box["width"] <= 390
    first.click("#listening-stop")
    expect(second.locator("#swap-status")).to_contain_text("Swapped.")
    expect(place).to_be_hidden()
    assert complaints == []
