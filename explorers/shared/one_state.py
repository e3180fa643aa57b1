"""One text, one voice and one position of every knob for the whole page, though each tab has controls of its own for them."""

from collections.abc import Mapping, Sequence

import gradio as gr
from gradio.components import Component

NAMES = ("text", "voice", "similarity", "theta", "lookahead", "beta", "temperature", "seed")
BEFORE = "similarity before"
"""The name of a panel's hidden component that holds the similarity of its theta."""
MOVES = "moves of theta"
"""The name of a panel's events that move its theta."""
# A slider refuses what lies beyond its ends, and those of the map may be narrower.
TAKE_OVER = """(...values) => values.map((value, i) => {
  const [low, high] = ENDS[i];
  return low === null || typeof value !== "number" ? value : Math.min(high, Math.max(low, value));
})"""
# What a panel took over, within the ends of its own slider, is no news.
GIVE_BACK = "(mine, its) => ((SCRIPT)(its)[0] === mine ? its : mine)"


def share_controls(tabs: Sequence[gr.Tab], form: Mapping[str, Component], own: Mapping[str, object]) -> None:
    """Let the controls `own` of a panel take over the values of the same names in `form` when a visitor opens one of `tabs`,
    in which it lies, and give back what a visitor changes there. The browser does it, as far as it may."""
    names = [name for name in NAMES if name in form and name in own]
    quiet = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    here, there = [own[name] for name in names], [form[name] for name in names]
    sources, taken = ([*there, form["similarity"]], [*here, own[BEFORE]]) if BEFORE in own else (there, here)
    gr.on([tab.select for tab in tabs], None, sources, taken, js=_script(taken), **quiet)
    for mine, its in zip(here, there, strict=True):
        # What replaces a whole text at once, as tools do, is no input to gradio.
        changes = [mine.input, *([mine.blur] if isinstance(mine, gr.Textbox) else [])]
        gr.on(changes, None, mine, its, js="value => value", **quiet)
    # Not `change` of the slider: gradio sends it without a change, too, and what a closed tab still holds would come back.
    for event in own.get(MOVES, ()):
        mine, its = own["theta"], form["theta"]
        event.then(None, [mine, its], its, js=GIVE_BACK.replace("SCRIPT", _script([mine])), **quiet)


def _script(places: list[Component]) -> str:
    ends = [(place.minimum, place.maximum) if isinstance(place, gr.Slider) else (None, None) for place in places]
    written = ", ".join("[null, null]" if low is None else f"[{low}, {high}]" for low, high in ends)
    return TAKE_OVER.replace("ENDS", f"[{written}]")
