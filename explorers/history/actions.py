"""What the bar above the tabs shows: the take in hand, and the history of a visitor's takes. Knows nothing of gradio."""

import json
from collections.abc import Collection

from explorers.judging import Verdicts
from explorers.session import Kept, Session, ShownTake
from explorers.settings.actions import LINKED, values_of
from explorers.shared.readout import KNOBS
from pcg.takes.link import pack
from pcg.takes.stored import Origin, Stored

AGAIN = "Take {number} is selected. Its text, voice and settings are restored."
WITHOUT_BEAMS = "Take {number} is selected. Its text and voice are restored, but Listen has no beams: only Judges has them."
RECORDED = "Its voice was recorded here, and a link cannot hold it."
BEAMS = "It was made with beams, which only Judges can make again."


def bar_value(session: Session, key: str, verdicts: Verdicts, origin: Origin, voices: Collection[str]) -> dict[str, object]:
    """The history as the bar takes it, the newest take first, and the number of the one in hand, where `key` is the card that
    a visitor listens to; gradio copies and addresses the files. Each take is JSON text, which a page copies at once."""
    shown, newest = session.in_hand(key), list(reversed(session.history))
    files = [each.shown.sound for each in newest]
    return {
        "hand": next((each.number for each in newest if each.shown is shown), None),
        "takes": [json.dumps(_row(each, verdicts, origin, voices)) for each in newest],
        "sounds": [{"path": str(f), "meta": {"_type": "gradio.FileData"}} if f and f.is_file() else None for f in files],
    }


def controls_of(shown: ShownTake, origin: Origin, voices: Collection[str]) -> dict[str, object]:
    """The values of the controls of the form for a take: see `explorers.settings.actions.values_of`."""
    return values_of(_stored(shown, origin), voices)


def told(kept: Kept) -> str:
    again = WITHOUT_BEAMS if kept.shown.reading.settings.hierarchical else AGAIN
    return again.format(number=kept.number)


def _row(kept: Kept, verdicts: Verdicts, origin: Origin, voices: Collection[str]) -> dict[str, object]:
    shown, reading = kept.shown, kept.shown.reading
    settings, verdict = reading.settings, verdicts.of(shown)
    knobs = [*KNOBS[settings.method], "temperature", "seed"]
    why = BEAMS if settings.hierarchical else "" if reading.voice in voices else RECORDED
    return {
        "number": kept.number,
        "key": kept.key,
        "name": kept.name,
        "title": kept.title,
        "pinned": kept.pinned,
        "method": settings.method,
        "text": reading.text,
        "voice": reading.voice,
        "knobs": ", ".join(f"{name} {getattr(settings, name):g}" for name in knobs),
        "seconds": reading.audio_seconds,
        "ratio": shown.speed_up if settings.method != "ar" else None,
        "earlier": shown.baseline == "last run",
        "cut": reading.hit_limit,
        "wrong": None if verdict is None else verdict.words.errors,
        "words": None if verdict is None else verdict.words.length,
        "link": None if why else f"#{LINKED}={pack(_stored(shown, origin))}",
        "unlinked": why,
    }


def _stored(shown: ShownTake, origin: Origin) -> Stored:
    reading = shown.reading
    return Stored(reading.text, reading.voice, reading.settings, origin, streamed=shown.streamed)
