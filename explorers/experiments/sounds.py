"""To be heard: a point of the experiments' figures, said again beside AR, on the same utterances."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import unescape

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.compare.layout import DECODING
from explorers.errors import told
from explorers.experiments.actions import HEARD, Archive, Heard, Pair, Speaker, hear, pairs
from explorers.experiments.findings import CLICK, create_clicks, heard_html, said_html
from explorers.shared.readout import message_html
from explorers.theme import SOUND_COLOUR, WAVE_COLOUR
from pcg.errors import PCGError
from pcg.synthesis.synthesizer import Synthesizer

HEARING, ALL_HEARD = "Saying {at} of {all} again.", "From settings and seed, as they were said in the experiment."


@dataclass(frozen=True)
class PairView:
    """An utterance twice: in the condition that was asked for, and by AR."""

    row: gr.Column
    said: gr.HTML
    told: gr.HTML
    sound: gr.Audio
    beside: gr.Column
    told_alone: gr.HTML
    alone: gr.Audio

    @property
    def all(self) -> list[Component | gr.Column]:
        return [self.row, self.said, self.told, self.sound, self.beside, self.told_alone, self.alone]


@dataclass(frozen=True)
class Hearing:
    """Where a condition is chosen and heard. first: of its utterances."""

    card: gr.Column
    clicks: gr.HTML
    condition: gr.Dropdown
    run: gr.Button
    others: gr.Button
    status: gr.HTML
    first: gr.State
    views: list[PairView]

    @property
    def places(self) -> list[Component | gr.Column]:
        return [self.status, *(place for view in self.views for place in view.all)]


def create_hearing(synthesizer: Synthesizer, figures: Sequence[str]) -> Hearing:
    """Lay it out within the Blocks that is being built. figures: the ids of those whose points can be clicked."""
    with gr.Column(visible=False, elem_classes="lab-card", elem_id="experiments-hearing") as card:
        gr.HTML('<header class="findings-head"><h2>To be heard</h2></header>', apply_default_css=False)
        clicks = create_clicks(figures)
        with gr.Row(elem_classes="lab-seed"):
            condition = gr.Dropdown(
                [], value=None, label="Condition", allow_custom_value=True, elem_id="experiments-condition", scale=3,
                min_width=200,
            )  # fmt: skip
            run = gr.Button("Hear it beside AR", elem_id="experiments-hear", size="md", scale=1, min_width=140)
            others = gr.Button("Other utterances", elem_id="experiments-others", size="md", scale=1, min_width=140)
        status = gr.HTML("", apply_default_css=False, elem_id="experiments-hearing-status")
        views = [_pair_view(synthesizer, at) for at in range(HEARD)]
    return Hearing(card, clicks, condition, run, others, status, gr.State(0), views)


def _pair_view(synthesizer: Synthesizer, at: int) -> PairView:
    with gr.Column(visible=False) as row:
        said = gr.HTML("", apply_default_css=False)
        with gr.Row(equal_height=False):
            with gr.Column(min_width=280):
                told_chosen, sound = _sound_view(synthesizer, f"experiments-sound-{at}", "Condition")
            with gr.Column(min_width=280) as beside:
                told_alone, alone = _sound_view(synthesizer, f"experiments-alone-{at}", "AR")
    return PairView(row, said, told_chosen, sound, beside, told_alone, alone)


def _sound_view(synthesizer: Synthesizer, elem_id: str, label: str) -> tuple[gr.HTML, gr.Audio]:
    words = gr.HTML("", apply_default_css=False)
    sound = gr.Audio(
        label=label, show_label=False, interactive=False, editable=False, buttons=["download"], container=False,
        elem_id=elem_id,
        waveform_options=gr.WaveformOptions(WAVE_COLOUR, SOUND_COLOUR, sample_rate=synthesizer.voice.codec.sample_rate),
    )  # fmt: skip
    return words, sound


def wire_hearing(archive: Archive, speaker: Callable[[], Speaker], hearing: Hearing) -> None:
    """Let buttons and clicks say utterances of `archive`; `speaker` is called when there is something to say."""
    private = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    saying = {
        "fn": _hearer(archive, speaker, hearing),
        "inputs": [hearing.condition, hearing.first],
        "outputs": hearing.places,
        "show_progress": "hidden",
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }
    hearing.run.click(
        **saying, trigger_mode="always_last", api_name="hear_condition",
        api_description="Say a few utterances of a condition again, each beside AR; streams words, WER and sounds.",
    )  # fmt: skip
    hearing.condition.input(lambda: 0, None, hearing.first, **private)
    clicked = getattr(hearing.clicks, CLICK)(_clicked, None, [hearing.condition, hearing.first], **private)
    clicked.then(**saying, api_visibility="private")
    others = hearing.others.click(lambda first: first + 1, hearing.first, hearing.first, **private)
    others.then(**saying, api_visibility="private")


def _hearer(archive: Archive, speaker: Callable[[], Speaker], hearing: Hearing) -> Callable[..., Iterator[list[object]]]:
    def say(condition: str | None, first: int) -> Iterator[list[object]]:
        try:
            chosen = pairs(archive.shelf(), condition or "", int(first))
            views: list[object] = [update for _ in hearing.views for update in _pair_updates(None)]
            yield [message_html(HEARING.format(at=1, all=len(chosen))), *views]
            with closing(hear(speaker(), chosen)) as said:
                for at, pair in enumerate(said):
                    width = len(hearing.views[at].all)
                    news: list[object] = [gr.skip()] * len(views)
                    news[width * at : width * (at + 1)] = _pair_updates(pair)
                    words = HEARING.format(at=at + 2, all=len(chosen)) if at + 1 < len(chosen) else ALL_HEARD
                    yield [message_html(words), *news]
        except PCGError as error:
            yield ["", *[gr.skip()] * (len(hearing.places) - 1)]
            raise told(error) from error

    return say


def _pair_updates(pair: Pair | None) -> list[object]:
    if pair is None:
        return [gr.update(visible=False), "", "", None, gr.update(visible=False), "", None]
    alone = pair.alone
    beside = [gr.update(visible=True), heard_html(alone), _sound(alone)] if alone else [gr.update(visible=False), "", None]
    return [gr.update(visible=True), said_html(pair.chosen), heard_html(pair.chosen), _sound(pair.chosen), *beside]


def _sound(heard: Heard) -> tuple[int, np.ndarray]:
    # int16, because the player scales floats to their own peak, and loudness would no longer compare.
    return heard.sample_rate, (heard.samples.clip(-1, 1) * 32767).astype(np.int16)


def _clicked(event: gr.EventData) -> list[object]:
    chosen = event._data if isinstance(event._data, Mapping) else {}
    # Plotly keeps names escaped, as it would read them as markup.
    return [unescape(str(chosen.get("condition", ""))), 0]
