"""The first minute: three things to try, each a step away; put aside for good by one click, which the browser remembers."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import gradio as gr

STYLES = Path(__file__).with_name("first_minute.css")
SCRIPT = Path(__file__).with_name("first_minute.js")


@dataclass(frozen=True)
class Hint:
    """A thing to try: the `control` to use, the name of the `tab` that holds it, the selector of its `place`, and what will be
    `heard`."""

    control: str
    tab: str
    place: str
    heard: str


HINTS = (
    Hint(
        "Play under AR, then under PCG", "Compare", "#sound-ar button[aria-label='Play']",
        "One sentence, one voice: hear what the guesses of the small model change, and see which were kept.",
    ),
    Hint(
        "Move Theta to 0.3", "Compare", "#theta input[type=range]",
        "PCG says it again from larger groups: more guesses pass, and words begin to blur.",
    ),
    Hint(
        "Say it, in Tune", "Tune", "#tune-run",
        "The sentence sounds while it is being made; then click a bar, and hear it from that token on.",
    ),
)  # fmt: skip


def first_minute_html() -> str:
    """The three hints, hidden until the script knows that they were not put aside before."""
    hints = "".join(
        f'<li><button type="button" data-tab="{hint.tab}" data-place="{escape(hint.place)}">{hint.control}</button>'
        f"<span>{hint.heard}</span></li>"
        for hint in HINTS
    )
    return (
        '<section class="first-minute" aria-label="Things to try first" hidden><ol>' + hints + "</ol>"
        '<button type="button" data-part="close" aria-label="Hide these hints for good" title="Hide these hints">×</button>'
        "</section>"
    )


def create_first_minute() -> gr.HTML:
    """Lay the hints out within the Blocks that is being built."""
    return gr.HTML(
        html_template=first_minute_html(),
        js_on_load=SCRIPT.read_text(encoding="utf-8"),
        apply_default_css=False,
        elem_id="first-minute",
    )
