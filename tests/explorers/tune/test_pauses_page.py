"""Silence that is written into a text, on the time axis of the take in hand, in a real browser."""

from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import expect

from explorers.shared.scripts import packed
from explorers.theme import launch_options
from explorers.tune.layout import create_in_hand
from explorers.tune.strip import run_prop, sound_prop
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Take
from tests.explorers.chromium import NEEDS_CHROMIUM, SOFTWARE, patient_page
from tests.explorers.served import serve

pytestmark = NEEDS_CHROMIUM
PATIENCE_MS = 60_000
PAUSE = 2.0


@pytest.fixture(scope="module")
def take(judged: Synthesizer) -> Take:
    return judged.take(f"Hello. [pause:{PAUSE}] Yes.", Settings("pcg", temperature=0.6), "one")


@pytest.fixture(scope="module")
def address(judged: Synthesizer, take: Take) -> Iterator[str]:
    props = {"run": run_prop(1, take), "sound": sound_prop(1, [packed(take.audio)])}
    with gr.Blocks() as app:
        strip = create_in_hand(judged).strip
        gr.Button("Show", elem_id="show").click(lambda: gr.update(**props), None, strip)
    yield from serve(app, **launch_options())


def test_a_token_behind_a_pause_stands_behind_its_silence(address: str, take: Take, judged: Synthesizer) -> None:
    ((before, _),) = take.pauses
    hop = judged.voice.codec.hop / take.sample_rate
    with patient_page(1440, SOFTWARE, PATIENCE_MS) as page:
        page.goto(address)
        page.click("#show")
        marks, title = page.locator('.strip [data-part="marks"]'), page.locator('.strip [data-part="title"]')
        expect(marks).to_have_attribute("aria-valuemax", str(len(take.tokens) - 1))
        marks.focus()
        page.keyboard.press("End")
        expect(title).to_contain_text(f"{(len(take.tokens) - 1) * hop + PAUSE:.2f} s")
        width = marks.bounding_box()["width"]
        for seconds, number in (((before // 2 + 0.5) * hop, before // 2 + 1), (before * hop + PAUSE + hop / 2, before + 1)):
            marks.hover(position={"x": width * seconds / take.audio_seconds, "y": 30})
            expect(title).to_contain_text(f"number {number} of")
        marks.hover(position={"x": width * (before * hop + PAUSE / 2) / take.audio_seconds, "y": 30})
        expect(title).to_contain_text(f"number {len(take.tokens)} of")  # the chosen one: nothing is pointed at
