"""The bar above the tabs: the take in hand on one line, and folded below it the history, of which two can be heard in turn.

The template is constant, as gradio would run its content: the script inserts words that change, as text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
from gradio.components import Component

from explorers.errors import showing_errors
from explorers.history.actions import bar_value, controls_of, told
from explorers.judging import Verdicts
from explorers.listen.all_takes import DOWNLOAD_FROM
from explorers.listen.archive import save_history
from explorers.session import LONGEST_NAME, Session
from explorers.shared.readout import message_html
from explorers.shared.scripts import DECK, ONE_SOUND, SHARED, joined
from explorers.turn import Turn
from pcg.synthesis.voice import Voice
from pcg.takes.stored import Origin

STYLES = Path(__file__).with_name("bar.css")
SCRIPTS = [SHARED, DECK, ONE_SOUND, *(Path(__file__).with_name(f"bar{part}.js") for part in ("_sound", ""))]
TAKE_UP, PIN, RENAME, SAVE = "take_up", "pin", "rename", "save_history"
ZIP = "pcg-lab-history.zip"
TEMPLATE = f"""
<section class="hand" aria-label="The take in hand" data-state="empty">
  <div class="hand-line">
    <button type="button" class="hand-play" data-part="play" aria-label="Play the take in hand" disabled>▶</button>
    <p class="hand-what" data-part="what">No take yet: press Generate.</p>
    <button type="button" data-part="link" disabled>Copy link</button>
    <small data-part="long"></small>
    <button type="button" data-part="open" aria-expanded="false" aria-controls="hand-history" disabled>History</button>
  </div>
  <p class="hand-told" data-part="told" role="status"></p>
  <div class="hand-history" id="hand-history" data-part="history" hidden>
    <div class="hand-foot">
      <button type="button" data-part="turns" disabled>▶ Compare A and B</button>
      <button type="button" data-part="swap" disabled>Switch to B</button>
      <button type="button" data-part="save">Save all as zip</button>
      <p data-part="notice" role="status">Choose A and B to hear two takes in turn, at one position and equally loud.</p>
    </div>
    <ol class="hand-takes" data-part="takes" data-longest="{LONGEST_NAME}"></ol>
  </div>
</section>
"""


@dataclass(frozen=True)
class Bar:
    """The bar, and the file that it saves."""

    bar: gr.HTML
    file: gr.File


def create_bar() -> Bar:
    """Lay the bar out within the Blocks that is being built. Its value is that of `bar_value`; its events TAKE_UP, PIN, RENAME
    and SAVE bring the `number` of a take, and what becomes of it."""
    bar = gr.HTML(
        {"hand": None, "takes": [], "sounds": []}, html_template=TEMPLATE, js_on_load=joined(SCRIPTS),
        apply_default_css=False, elem_id="hand",
    )  # fmt: skip
    return Bar(bar, gr.File(label="All takes of the history", visible="hidden", interactive=False, elem_id="hand-saved"))


def wire_bar(
    made: Bar,
    page: gr.Blocks,
    voice: Voice,
    origin: Origin,
    session: gr.State,
    verdicts: gr.State,
    controls: Mapping[str, Component],
    status: gr.HTML,
    turn: gr.State,
) -> None:
    """Let the bar show what `session` and `verdicts` hold, and change the session by what a visitor does there. controls: those
    of the form, by the names of CompareRequest, and under "method" the key of the card that is heard. turn: holds the Turn of
    what is generated."""
    key, voices = controls["method"], tuple(voice.references)
    private = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}

    def value(key: str, session: Session, verdicts: Verdicts) -> dict[str, object]:
        return bar_value(session, key, verdicts, origin, voices)

    shown = {"fn": value, "inputs": [key, session, verdicts], "outputs": made.bar, **private}
    gr.on([page.load, session.change, verdicts.change], trigger_mode="always_last", **shown)
    key.change(trigger_mode="multiple", **shown)  # as said of MapView.seen

    def take_up(session: Session, event: gr.EventData) -> dict[Component, object]:
        with showing_errors():
            new = session.holding(_sent(event, "number"))
        kept = new.kept(new.held)
        values = controls_of(kept.shown, origin, voices)
        moved = {place: values[name] for name, place in controls.items() if name in values}
        return {session_place: new, status: message_html(told(kept)), **moved}

    def change(session: Session, turn: Turn, number: object, **what: object) -> Session:
        with showing_errors():
            changed, shown = session.with_kept(number, **what), session.kept(number).shown
        turn.change(lambda of_run: of_run.with_kept(of_run.number_of(shown), **what))
        return changed

    def pin(session: Session, turn: Turn, event: gr.EventData) -> Session:
        return change(session, turn, _sent(event, "number"), pinned=_sent(event, "pinned") is True)

    def rename(session: Session, turn: Turn, event: gr.EventData) -> Session:
        return change(session, turn, _sent(event, "number"), name=str(_sent(event, "name") or ""))

    session_place = session
    # Through the queue: gradio tells the page that a state has changed nowhere else.
    queued = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private", "trigger_mode": "multiple"}
    getattr(made.bar, TAKE_UP)(take_up, session, [session, status, *controls.values()], **queued)
    getattr(made.bar, PIN)(pin, [session, turn], session, **queued)
    getattr(made.bar, RENAME)(rename, [session, turn], session, **queued)
    saved = getattr(made.bar, SAVE)(_saver, [session, verdicts], made.file, **queued)
    saved.then(js=DOWNLOAD_FROM.format(place=made.file.elem_id), api_visibility="private")


def _sent(event: gr.EventData, name: str) -> object:
    return event._data.get(name) if isinstance(event._data, dict) else None


def _saver(session: Session, verdicts: Verdicts) -> Iterator[object]:
    with showing_errors(), TemporaryDirectory() as folder:
        # When it is asked for the next step, gradio has copied the file to its cache, which it clears by itself.
        yield str(save_history(Path(folder) / ZIP, session, verdicts))
