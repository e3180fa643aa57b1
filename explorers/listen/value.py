"""The one JSON value that the Listen tab draws: lanes, the take in hand, history, verdict. Knows nothing of gradio."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from math import isnan
from pathlib import Path

import numpy as np
from PIL import Image

from explorers.listen.example import Example
from explorers.listen.share import link_of, texts_of
from explorers.session import Session, ShownTake
from explorers.shared.verdict import Measured, winner_lines
from pcg.errors import InputError
from pcg.groups.audition import FRAME_SECONDS, log_mel_db
from pcg.metrics.intelligibility import comparable, misheard_words, word_errors
from pcg.saved_take import Origin
from pcg.settings import METHODS
from pcg.spoof import RESOLUTIONS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.whatif import what_if
from pcg.take import Round
from pcg.text.reading import at_pauses, without_pauses

DIGITS = 4
KNOBS = {"ar": (), "sd": ("lookahead",), "ssd": ("beta", "lookahead"), "pcg": ("theta", "lookahead")}
QUIETEST_DB, LOUDEST_DB = -75.0, -5.0
WIDEST = 16_000
"""Frames of a mel picture: WebP knows none that is wider than 16,383 pixels."""
# About how long a mouth pauses, in letters.
PAUSES = {",": 2, ";": 3, ":": 3, ".": 4, "?": 4, "!": 4}


def stage_value(
    synthesizer: Synthesizer,
    origin: Origin,
    session: Session,
    key: str,
    results: Mapping[str, Measured],
    example: Example | None = None,
    status: str = "",
    study: Mapping[str, object] | None = None,
    note: str = "",
) -> dict[str, object]:
    """Return the value of the stage. Takes travel as JSON text, which a page copies at once, and sounds as files.

    key: the card that a visitor listens to; study: of the take in hand, by `study_of`; note: on a take by a link, escaped."""
    hand, newest = session.in_hand(key), session.history[::-1]
    lanes = {name: session.cards[name] for name in METHODS if name in session.cards}
    held = [shown for shown in newest if shown.number == session.held]
    if held and held[0] not in lanes.values():
        lanes["kept"] = held[0]

    def row(shown: ShownTake) -> dict[str, object]:
        """Return what the history tells of a take."""
        take, settings, heard = shown.take, shown.take.settings, session.heard.get(shown.sound)
        errors = None if heard is None else word_errors(take.text, heard)
        knobs = [*KNOBS[settings.method], "temperature", "seed"]
        return {
            "number": shown.number,
            "recorded": shown.recorded,
            "title": f"{settings.method.upper()}, seed {settings.seed}",
            "method": settings.method,
            "text": take.text,
            "voice": take.voice,
            "knobs": ", ".join(f"{name} {getattr(settings, name):g}" for name in knobs),
            "seconds": round(take.audio_seconds, 2),
            "calls": len(take.rounds),
            "ratio": None if shown.speed_up is None else round(shown.speed_up, 2),
            "errors": errors and errors.errors,
            "length": errors and errors.length,
            "heard": heard,
            **link_of(shown, origin, synthesizer.voice.references),
        }

    def lane(name: str, shown: ShownTake) -> dict[str, object]:
        """Return what a lane draws: the row, and every round."""
        take, heard = shown.take, session.heard.get(shown.sound)
        words = without_pauses(take.text).split()
        return {
            **row(shown),
            "key": name,
            "name": name.upper() if name in METHODS else f"#{shown.number}",
            "outdated": name in session.outdated,
            "cut": take.hit_limit,
            "speed": round(take.tokens_per_second),
            "words": words,
            "starts": _starts(take.text, take.audio_seconds),
            "wrong": None if heard is None else _wrong(words, take.text, heard),
            "pauses": take.pauses,
            "verification": take.settings.verification,
            "rounds": [[round(r.milliseconds, 3), r.drafted, _tokens(r)] for r in take.rounds],
        }

    state = {
        "lanes": [lane(name, shown) for name, shown in lanes.items()],
        "hand": hand and hand.number,
        "history": [row(shown) for shown in newest],
        "share": texts_of(hand, origin, synthesizer.voice) if hand else {},
        "verdict": verdict_lines(session, results),
        "status": status,
        "note": note,
        "study": study,
    }
    sounds = [_file(shown.sound) for shown in (*lanes.values(), *newest)]
    return {"state": json.dumps(state), "sounds": sounds, **example_value(example)}


def example_value(example: Example | None) -> dict[str, object]:
    """Return the recorded sounds beside the takes: the swapped sentence, and the pairs of "Can you tell?"."""
    if example is None:
        return {"idea": "null", "pairs": 0, "recorded": []}
    recorded = [_file(sound) for sound in example.sounds]
    return {"idea": json.dumps(example.idea), "pairs": example.pairs, "recorded": recorded}


def verdict_lines(session: Session, results: Mapping[str, Measured]) -> list[str]:
    """Return which rule won and at what price, over all sentences, at first in a line of two numbers, and on this sentence."""
    lines = winner_lines(results)
    ratios = {name: shown.speed_up for name, shown in session.cards.items()}
    here = {name: ratio for name, ratio in ratios.items() if name != "ar" and ratio is not None}
    if here:
        best = max(here, key=lambda name: here[name])
        wins = f"{best.upper()} is {here[best]:.2f} times as fast as AR" if here[best] > 1 else "no rule is faster than AR"
        lines.append(f"On this sentence {wins}.")
    return lines


def study_of(synthesizer: Synthesizer, session: Session, key: str) -> dict[str, object] | None:
    """Find out what takes a second: curves of the detectors, estimates for other settings, the mel picture."""
    shown = session.in_hand(key)
    if shown is None:
        return None
    take, curves = shown.with_sound(), []
    if detectors := synthesizer.decoder.detectors:
        for r in RESOLUTIONS:
            values = [None if isnan(v) else round(v, 3) for v in detectors.curve(take.tokens, r).tolist()]
            curves.append({"name": r.name, "values": values})
    try:
        rows = what_if(synthesizer, take, shown.reference)
    except InputError:  # a long text that was cut somewhere
        rows = {}
    mel, picture = log_mel_db(take.audio, take.sample_rate), None
    if len(mel):  # as WebP in base64, dark where it is loud
        loudness = np.clip((mel[:: -(-len(mel) // WIDEST)] - QUIETEST_DB) / (LOUDEST_DB - QUIETEST_DB), 0, 1)
        written = BytesIO()
        Image.fromarray((255 * (1 - loudness)).astype(np.uint8).T[::-1]).save(written, "WEBP", quality=80)
        shape = {"seconds": round(len(mel) * FRAME_SECONDS, 2), "kilohertz": take.sample_rate / 2000}
        picture = {"picture": "data:image/webp;base64," + b64encode(written.getvalue()).decode(), **shape}
    names = {"theta": "PCG, theta", "beta": "SSD, beta", "lookahead": f"{take.settings.method.upper()}, lookahead"}
    estimates = {names[knob]: [[value, *figures] for value, figures in row] for knob, row in rows.items() if row}
    return {
        "number": shown.number,
        "curves": curves,
        "estimates": estimates,
        "mel": picture,
        "times": {name: round(ms, 2) for name, ms in take.ms_per_round.items()},
    }


def _file(sound: Path | None) -> dict[str, object] | None:
    """Return a file as gradio copies and addresses it."""
    return {"path": str(sound), "meta": {"_type": "gradio.FileData"}} if sound and sound.is_file() else None


def _tokens(round_: Round) -> list[tuple[object, ...]]:
    """List each token of a round: [token, kind, size of its group, its test].

    A test is [drafted, accepted, group, size of the group, p, q, P_c, Q_c, ratio, coin]; group -1: none."""
    tests: list[list[object] | None] = [None] * len(round_.tokens)
    for i, test in enumerate(round_.tests[: len(tests)]):
        numbers = [float(f"{getattr(test, name):.{DIGITS}g}") for name in ("p", "q", "mass_p", "mass_q", "ratio", "coin")]
        tests[i] = [test.token, test.accepted, test.group, test.group_size, *numbers]
    return list(zip(round_.tokens, round_.kinds, round_.group_sizes, tests, strict=False))


def _wrong(words: Sequence[str], text: str, heard: str) -> list[bool] | None:
    """Mark the words that the judge did not hear; None where a word alone is read in another way than within the text."""
    counts = [len(comparable(word).split()) for word in words]
    flags = misheard_words(text, heard)
    if sum(counts) != len(flags):
        return None
    places = iter(flags)
    return [any([next(places) for _ in range(count)]) for count in counts]


def _starts(text: str, seconds: float) -> list[float]:
    """Return the share of a sound of so many seconds before each word, by pauses, letters and stops."""
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
