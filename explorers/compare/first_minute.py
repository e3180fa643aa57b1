"""Three hints for a first visit; one click hides them for good, which the browser remembers."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import gradio as gr

STYLES = Path(__file__).with_name("first_minute.css")
SCRIPT = Path(__file__).with_name("first_minute.js")


@dataclass(frozen=True)
class Hint:
    """A thing to try: the `control` to use, the name of the `tab` that holds it, the selector of its `place`, and the
    `effect`."""

    control: str
    tab: str
    place: str
    effect: str


HINTS = (
    Hint(
        "Play under AR, then under PCG", "Compare", "#sound-ar button[aria-label='Play']",
        "One sentence, one voice: hear the effect of the drafts, and see which were accepted.",
    ),
    Hint(
        "Move Theta to 0.3", "Compare", "#theta input[type=range]",
        "PCG generates the sentence again with larger groups: more drafts pass, and words become less clear.",
    ),
    Hint(
        "Generate a take in Tune", "Tune", "#tune-run",
        "The sentence plays while it is generated. Then click a bar to play from that token.",
    ),
)  # fmt: skip


def first_minute_html() -> str:
    """The three hints, hidden until the script has checked that the visitor did not close them before."""
    hints = "".join(
        f'<li><button type="button" data-tab="{hint.tab}" data-place="{escape(hint.place)}">{hint.control}</button>'
        f"<span>{hint.effect}</span></li>"
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
