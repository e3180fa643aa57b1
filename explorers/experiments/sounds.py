"""The takes behind a point of the experiments' figures, generated again beside AR on the same utterances."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import unescape

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component

from explorers.errors import page_error
from explorers.experiments.actions import HEARD, HeardPair, SpeakingWorker, hear, pairs
from explorers.experiments.archive import Archive
from explorers.experiments.findings import CLICK, create_clicks, heard_html, said_html
from explorers.shared.blocks import DECODING, pcm, player, queued_beside, visible_when
from explorers.shared.readout import failure_html, message_html
from pcg.errors import PCGError
from pcg.synthesis.synthesizer import Synthesizer

# A click on a point leads here, and so does the focus.
TITLE = '<header class="findings-head"><h2 id="experiments-hearing-title" tabindex="-1">Listen to a condition</h2></header>'
CHOOSE = "Choose a condition, then press “Play beside AR”."
SEARCH = "Type a part of its name to search, such as Mel or 0.4."
HEARING, ALL_HEARD = "Generating {at} of {all} again.", "Generated again from settings and seed of the experiment."


@dataclass(frozen=True)
class PairView:
    """An utterance twice: in the condition that was asked for, and by AR."""

    row: gr.Column
    said: gr.HTML
    heard: gr.HTML
    sound: gr.Audio
    beside: gr.Column
    heard_alone: gr.HTML
    alone: gr.Audio

    @property
    def all(self) -> list[Component | gr.Column]:
        return [self.row, self.said, self.heard, self.sound, self.beside, self.heard_alone, self.alone]


@dataclass(frozen=True)
class HearingControls:
    """Where a condition is chosen and played. first: the first of its utterances."""

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


def create_hearing(synthesizer: Synthesizer, figures: Sequence[str]) -> HearingControls:
    """Lay it out within the Blocks that is being built. figures: the ids of those whose points can be clicked."""
    with gr.Column(visible=False, elem_classes="lab-card", elem_id="experiments-hearing") as card:
        gr.HTML(TITLE, apply_default_css=False)
        clicks = create_clicks(figures)
        with gr.Row(elem_classes="lab-seed"):
            condition = gr.Dropdown(
                [], value=None, label="Condition", info=SEARCH, allow_custom_value=True, scale=3, min_width=200,
                elem_id="experiments-condition",
            )  # fmt: skip
            run = gr.Button("Play beside AR", elem_id="experiments-hear", size="md", scale=1, min_width=140)
            others = gr.Button("Other utterances", elem_id="experiments-others", size="md", scale=1, min_width=140)
        status = gr.HTML(message_html(CHOOSE), apply_default_css=False, elem_id="experiments-hearing-status")
        views = [_pair_view(synthesizer, at) for at in range(HEARD)]
    return HearingControls(card, clicks, condition, run, others, status, gr.State(0), views)


def _pair_view(synthesizer: Synthesizer, at: int) -> PairView:
    with gr.Column(visible=visible_when(False)) as row:
        said = gr.HTML("", apply_default_css=False)
        with gr.Row(equal_height=False):
            with gr.Column(min_width=280):
                heard_chosen, sound = _sound_view(synthesizer, f"experiments-sound-{at}", "Condition")
            with gr.Column(min_width=280) as beside:
                heard_alone, alone = _sound_view(synthesizer, f"experiments-alone-{at}", "AR")
    return PairView(row, said, heard_chosen, sound, beside, heard_alone, alone)


def _sound_view(synthesizer: Synthesizer, elem_id: str, label: str) -> tuple[gr.HTML, gr.Audio]:
    return gr.HTML("", apply_default_css=False), player(synthesizer, label, elem_id)


def wire_hearing(archive: Archive, speaker: Callable[[], SpeakingWorker], hearing: HearingControls, source: gr.Radio) -> None:
    """Let buttons and clicks generate utterances of the `source` that is shown; `speaker` is called when it is needed."""
    private = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    saying = {
        "fn": _hearer(archive, speaker, hearing),
        "inputs": [hearing.condition, hearing.first, source],
        "outputs": hearing.places,
        **queued_beside(hearing.status),
        "concurrency_id": DECODING,
        "concurrency_limit": 1,
    }
    hearing.run.click(
        **saying, api_name="hear_condition",
        api_description="Generate a few utterances of a condition again, each beside AR; streams words, WER and sounds.",
    )  # fmt: skip
    hearing.condition.input(lambda: 0, None, hearing.first, **private)
    clicked = getattr(hearing.clicks, CLICK)(_clicked, None, [hearing.condition, hearing.first], **private)
    clicked.then(**saying, api_visibility="private")
    others = hearing.others.click(lambda first: first + 1, hearing.first, hearing.first, **private)
    others.then(**saying, api_visibility="private")


Updates = dict[Block, object]


def _hearer(
    archive: Archive, speaker: Callable[[], SpeakingWorker], hearing: HearingControls
) -> Callable[..., Iterator[Updates]]:
    def say(condition: str | None, first: int, source: str) -> Iterator[Updates]:
        try:
            chosen = pairs(archive.result_set(source), condition or "", int(first))
            updates = {hearing.status: message_html(HEARING.format(at=1, all=len(chosen)))}
            for view in hearing.views:
                updates |= _pair_updates(view, None)
            yield updates
            with closing(hear(speaker(), chosen)) as said:
                for at, pair in enumerate(said):
                    words = HEARING.format(at=at + 2, all=len(chosen)) if at + 1 < len(chosen) else ALL_HEARD
                    yield {hearing.status: message_html(words)} | _pair_updates(hearing.views[at], pair)
        except PCGError as error:
            yield {hearing.status: failure_html(error)}
            raise page_error(error) from error

    return say


def _pair_updates(view: PairView, pair: HeardPair | None) -> Updates:
    chosen, alone = (pair.chosen, pair.alone) if pair else (None, None)
    return {
        view.row: gr.update(visible=visible_when(chosen is not None)),
        view.said: said_html(chosen) if chosen else "",
        view.heard: heard_html(chosen) if chosen else "",
        view.sound: pcm(chosen.samples, chosen.sample_rate) if chosen else None,
        view.beside: gr.update(visible=visible_when(alone is not None)),
        view.heard_alone: heard_html(alone) if alone else "",
        view.alone: pcm(alone.samples, alone.sample_rate) if alone else None,
    }


def _clicked(event: gr.EventData) -> list[object]:
    chosen = event._data if isinstance(event._data, Mapping) else {}
    # Plotly keeps names escaped, as it would read them as markup.
    return [unescape(str(chosen.get("condition", ""))), 0]
