"""The stage: the takes of all methods on one time axis, one play button, a switch between them, the words as they come, and a
race in which every method decodes at the speed that was measured; and a tour of the tab.

Lanes travel as JSON text, which the page copies at once, and sounds as files; the sound of a take that is still being
generated travels in pieces. The template is constant, as gradio would run its content: the script inserts words as text.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import gradio as gr

from explorers.judging import JudgedTake, Verdicts
from explorers.session import CARDS, Card, Session, TakeView
from explorers.shared.readout import KNOBS, TITLES
from explorers.shared.scripts import BARS, DECK, ONE_SOUND, PIECES, SHARED, joined
from pcg.metrics.intelligibility import comparable, misheard_words
from pcg.settings import Settings
from pcg.text.pauses import at_pauses, without_pauses

STYLES, TOUR_STYLES = (Path(__file__).with_name(f"{name}.css") for name in ("stage", "tour"))
PARTS = ("_sound", "_lanes", "", "_tour")
SCRIPTS = [SHARED, DECK, PIECES, BARS, ONE_SOUND, *(Path(__file__).with_name(f"stage{part}.js") for part in PARTS)]
CHOOSE, HALT, SPEAK, IN_HAND = "choose", "halt", "speak_", "one"
# About how long a mouth pauses, in letters, for the words to keep pace with the sound.
PAUSES = {",": 2, ";": 3, ":": 3, ".": 4, "?": 4, "!": 4}
TEMPLATE = """
<section class="stage" data-state="empty" aria-label="Player of all methods">
  <div class="stage-bar">
    <button type="button" class="stage-play" data-part="play" aria-keyshortcuts="Space" disabled>▶ Play</button>
    <div class="stage-switch" data-part="switch" role="group" aria-label="Method that you hear"></div>
    <input class="stage-seek" data-part="seek" type="range" min="0" max="1" step="0.01" value="0"
      aria-label="Position in the sound">
    <span class="stage-clock" data-part="clock"></span>
    <button type="button" class="tour-start" data-part="tour">Take the tour</button>
  </div>
  <p class="stage-words" data-part="words"></p>
  <ol class="stage-lanes" data-part="lanes"></ol>
  <div class="stage-foot">
    <button type="button" data-part="race" disabled>Race</button>
    <label><input type="checkbox" data-part="slow"> five times slower</label>
    <p class="stage-notice" data-part="notice" role="status"></p>
  </div>
  <div class="tour" data-part="card" role="dialog" aria-label="Tour" hidden>
    <div aria-live="polite">
      <p class="tour-count" data-part="count"></p>
      <h2 data-part="heading"></h2>
      <p data-part="told"></p>
    </div>
    <div class="tour-bar">
      <button type="button" data-part="back">Back</button>
      <button type="button" class="tour-onwards" data-part="onwards">Next</button>
      <button type="button" class="tour-close" data-part="close" aria-keyshortcuts="Escape">Close</button>
    </div>
  </div>
</section>
"""


def create_stage(sample_rate: int, hop: int, session: Session, verdicts: Verdicts) -> gr.HTML:
    """Lay the stage out within the Blocks that is being built.

    Its value is that of `stage_value`; its prop `live` is that of `explorers.listen.live.Live`. Its events: CHOOSE brings the
    `key` of the card that a visitor listens to; SPEAK with a method, or IN_HAND, behind it: a moved knob rests (see `moved`);
    HALT: a knob moves, so that a take in flight is of no use.
    """
    return gr.HTML(
        stage_value(session, verdicts),
        html_template=TEMPLATE,
        js_on_load=joined(SCRIPTS),
        apply_default_css=False,
        elem_id="stage",
        sample_rate=sample_rate,
        hop=hop,
        live=None,
    )


def moved(method: str) -> str:
    """What a knob runs when a person moves it: the stage waits until it rests, and asks for a take by that method."""
    return f"() => {{ document.dispatchEvent(new CustomEvent('knob-moved', {{ detail: '{method}' }})); }}"


def stage_value(session: Session, verdicts: Verdicts) -> dict[str, object]:
    """A lane for each card, with the first of its takes and the mean speed-up of all; gradio copies and addresses the files."""
    cards = [(key, session.cards[key]) for key in CARDS if key in session.cards]
    files = [card.first.sound for _, card in cards]
    sounds = [{"path": str(f), "meta": {"_type": "gradio.FileData"}} if f and f.is_file() else None for f in files]
    return {"lanes": [json.dumps(_lane(key, card, verdicts)) for key, card in cards], "sounds": sounds}


def _lane(key: str, card: Card, verdicts: Verdicts) -> dict[str, object]:
    shown, reading = card.first, card.reading
    verdict, ratio = verdicts.of(shown), card.mean("speed_up")
    return {
        "key": key,
        "name": TITLES[key][0] if key in TITLES else card.name,
        "long": TITLES[key][1] if key in TITLES else "preset",
        "method": reading.method,
        "kinds": reading.kinds,
        "sizes": reading.group_sizes,
        "steps": [(tokens, round(ms, 3)) for tokens, ms in reading.steps],
        "pauses": reading.pauses,
        "seconds": reading.audio_seconds,
        "speed": round(reading.tokens_per_second),
        "ratio": None if ratio is None else round(ratio, 2),
        "takes": len(card.takes),
        "baseline": shown.baseline,
        "accepted": reading.acceptance_rate,
        "tested": reading.acceptance_of_tested,
        "positions": reading.acceptance_by_position,
        "knobs": _knobs(reading.settings),
        "outdated": card.outdated,
        "cut": reading.hit_limit,
        "text": reading.text,
        **_heard(reading, verdict),
    }


def _heard(reading: TakeView, verdict: JudgedTake | None) -> dict[str, object]:
    """The words as written, about when each begins (as a share of the sound), and which of them the judge did not hear."""
    text, words = reading.text, without_pauses(reading.text).split()
    starts = _starts(text, reading.audio_seconds)
    if verdict is None:
        return {"words": words, "starts": starts, "wrong": None, "errors": None, "length": None, "heard": None}
    counted = {"errors": verdict.words.errors, "length": verdict.words.length, "heard": verdict.heard}
    return {"words": words, "starts": starts, "wrong": _wrong(words, text, verdict.heard), **counted}


def _wrong(words: Sequence[str], text: str, heard: str) -> list[bool] | None:
    """None where a word alone is read in another way than within the text, as the parts of a price are."""
    counts = [len(comparable(word).split()) for word in words]
    flags = misheard_words(text, heard)
    if sum(counts) != len(flags):
        return None
    places = iter(flags)
    return [any([next(places) for _ in range(count)]) for count in counts]


def _starts(text: str, seconds: float) -> list[float]:
    """The share of a sound of so many seconds before each word: its pauses, and of the rest as many as letters and stops."""
    spoken, paused, places = 0, 0.0, []
    for part in at_pauses(text):
        if isinstance(part, float):
            paused += part
            continue
        for word in part.split():
            places.append((spoken, paused))
            spoken += len(word) + PAUSES.get(word[-1], 0)
    whole = max(seconds, paused) or 1.0
    pace = (1 - paused / whole) / (spoken or 1)
    return [round(before * pace + pauses / whole, 4) for before, pauses in places]


def _knobs(settings: Settings) -> str:
    return ", ".join(f"{name} {getattr(settings, name):g}" for name in KNOBS[settings.method])
