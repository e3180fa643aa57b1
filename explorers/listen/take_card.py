"""A card of the Compare panel: where the takes of one method, or of a preset, are shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from explorers.judging import Verdicts
from explorers.listen.take_figures import judged_html, longest_of, mel_html
from explorers.session import CARDS, PRESET, Session, TakeView
from explorers.shared.blocks import player, visible_when
from explorers.shared.readout import card_html, title_html
from explorers.shared.ribbon import ribbon_html
from pcg.settings import METHODS
from pcg.synthesis.synthesizer import Synthesizer

Curves = Callable[[TakeView], str]
"""The curves of the spoof detectors along a take, as HTML; empty without detectors."""


@dataclass(frozen=True)
class CardView:
    """The places of one card. `take` steps through its takes; `spoken` are the places that a take fills, in the order of the
    endpoints, `drawn` those that are drawn again whenever anything on the page changes."""

    column: gr.Column
    title: gr.HTML
    readout: gr.HTML
    take: gr.Radio
    sound: gr.Audio
    ribbon: gr.HTML
    curves: gr.HTML
    mel: gr.HTML
    judged: gr.HTML

    @property
    def spoken(self) -> list[Component]:
        return [self.sound, self.readout, self.ribbon]

    @property
    def studied(self) -> list[Component]:
        """What is found out of a take when its run has ended."""
        return [self.curves, self.mel, self.judged]

    @property
    def drawn(self) -> list[Component]:
        return [self.readout, *self.studied]


def create_pairs(synthesizer: Synthesizer, session: Session) -> dict[str, CardView]:
    """Lay out the cards of all methods, two by two, with what `session` holds."""
    views = {}
    for pair in (METHODS[:2], METHODS[2:]):
        with gr.Row(equal_height=True, elem_classes="lab-pair"):
            views |= {key: create_card(synthesizer, key, session) for key in pair}
    return views


def create_card(synthesizer: Synthesizer, key: str, session: Session) -> CardView:
    """Lay out one card; a preset's is hidden until there is one. Curves and mel picture, slow to draw at first, come with
    `draw`."""
    card = session.cards.get(key)
    there = visible_when(card is not None or key != PRESET)
    with gr.Column(min_width=320, elem_classes="lab-card", elem_id=f"card-{key}", visible=there) as column:
        title = gr.HTML(title_html(key) if key in METHODS else "", apply_default_css=False)
        figures = gr.HTML(card_html(card), apply_default_css=False, elem_id=f"readout-{key}")
        take = gr.Radio(
            [1], value=1, label=f"Take of {key.upper()}", show_label=False, container=False, visible=visible_when(False),
            elem_id=f"take-{key}", elem_classes="lab-picker",
        )  # fmt: skip
        sound = player(synthesizer, key.upper(), f"sound-{key}", str(card.first.sound) if card and card.first.sound else None)
        ribbon = gr.HTML(strip_html(card.reading) if card else "", apply_default_css=False, elem_id=f"ribbon-{key}")
        curves = gr.HTML("", apply_default_css=False, elem_id=f"curves-{key}")
        mel = gr.HTML("", apply_default_css=False, elem_id=f"mel-{key}")
        judged = judged_html(card, 1, Verdicts()) if card else ""
        verdict = gr.HTML(judged, apply_default_css=False, elem_id=f"judged-{key}")
    return CardView(column, title, figures, take, sound, ribbon, curves, mel, verdict)


def drawn_of(session: Session, verdicts: Verdicts, key: str, number: int, curves: Curves) -> list[str]:
    """What stands at `CardView.drawn` while a card shows its take `number`."""
    card = session.cards.get(key)
    if card is None:
        return [card_html(None), "", "", ""]
    shown = card.take(number)
    mel = mel_html(shown.sound, longest_of(session))
    return [card_html(card, number), curves(shown.reading), mel, judged_html(card, number, verdicts)]


def draw(session: Session, verdicts: Verdicts, numbers: Mapping[str, object], curves: Curves) -> list[str]:
    """The same for all cards. `numbers` come from the page, where a card may have lost the take that it shows."""
    chosen = {key: number if isinstance(number, int) else 1 for key, number in numbers.items()}
    return [html for key in CARDS for html in drawn_of(session, verdicts, key, chosen[key], curves)]


def strip_html(reading: TakeView) -> str:
    return ribbon_html(reading.method, reading.kinds, reading.group_sizes, len(reading.kinds) / (reading.audio_seconds or 1))
