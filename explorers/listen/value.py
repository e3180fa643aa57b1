"""The one JSON value that the Listen tab draws: lanes, the take in hand, history, verdict. Knows nothing of gradio."""

import json
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from math import isnan
from pathlib import Path

import numpy as np
from PIL import Image

from explorers.judging import JudgedTake
from explorers.listen.example import Example
from explorers.listen.share import link_of, texts_of
from explorers.session import CARDS, Session, ShownTake
from explorers.shared.readout import KNOBS, TITLES
from explorers.shared.verdict import Measured, winner_lines
from pcg.analysis.audition import FRAME_SECONDS, log_mel_db
from pcg.analysis.whatif import what_if
from pcg.errors import InputError
from pcg.metrics.intelligibility import comparable, misheard_words
from pcg.rules import Test
from pcg.saved_take import Origin
from pcg.spoof.detectors import RESOLUTIONS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Round
from pcg.text.reading import at_pauses, without_pauses

DIGITS = 4
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
    """The value of the stage. Takes travel as JSON text, which a page copies at once, and sounds as files.

    Args:
        key: the card that a visitor listens to.
        study: what `study_of` found out about the take in hand.
        note: a sentence about a take that came by a link, escaped.
    """
    voices, hand = synthesizer.voice.references, session.in_hand(key)
    lanes = [(name, session.cards[name].shown, session.cards[name].outdated) for name in CARDS if name in session.cards]
    held = [kept.shown for kept in session.history if kept.number == session.held]
    lanes += [("kept", shown, False) for shown in held if all(shown is not card.shown for card in session.cards.values())]
    newest = [kept.shown for kept in reversed(session.history)]
    state = {
        "lanes": [_lane(name, shown, outdated, session, origin, voices) for name, shown, outdated in lanes],
        "hand": session.number_of(hand),
        "history": [_row(shown, session, origin, voices) for shown in newest],
        "share": texts_of(hand, origin, synthesizer.voice) if hand else {},
        "verdict": verdict_lines(session, results),
        "status": status,
        "note": note,
        "study": study,
    }
    sounds = [shown.sound for _, shown, _ in lanes] + [shown.sound for shown in newest]
    return {"state": json.dumps(state), "sounds": [_file(sound) for sound in sounds], **example_value(example)}


def example_value(example: Example | None) -> dict[str, object]:
    """Return the recorded sounds beside the takes: the swapped sentence, and the pairs of "Can you tell?"."""
    if example is None:
        return {"idea": "null", "pairs": 0, "recorded": []}
    sounds = [Path(version["sound"]) for version in (example.idea or {}).get("versions", ())]
    pairs = [[str(example.sounds["ar"]), str(example.sounds["pcg"])], *example.pairs]
    return {
        "idea": json.dumps(example.idea),
        "pairs": len(pairs),
        "recorded": [_file(sound) for sound in (*sounds, *(Path(path) for pair in pairs for path in pair))],
    }


def verdict_lines(session: Session, results: Mapping[str, Measured]) -> list[str]:
    """The verdict: which rule won and at what price, over all sentences and in the takes on the page.

    Returns:
        The first line, of at most two numbers, and the others.
    """
    lines = winner_lines(results)
    ratios = {name: card.shown.speed_up for name, card in session.cards.items()}
    here = {name: ratio for name, ratio in ratios.items() if name != "ar" and ratio is not None}
    if here:
        best = max(here, key=lambda name: here[name])
        wins = f"{TITLES[best][0]} is {here[best]:.2f} times as fast as AR" if here[best] > 1 else "no rule is faster than AR"
        lines.append(f"On this sentence {wins}.")
    return lines


def study_of(synthesizer: Synthesizer, session: Session, key: str) -> dict[str, object] | None:
    """Find out what takes a second: the curves of the detectors, estimates for other settings, the mel picture.

    Returns:
        Ready for JSON; None without a take in hand.
    """
    shown = session.in_hand(key)
    if shown is None:
        return None
    take, curves = shown.with_sound(), []
    if detectors := synthesizer.decoder.detectors:
        for r in RESOLUTIONS:
            values = [None if isnan(v) else round(v, 3) for v in detectors.curve(take.tokens, r).tolist()]
            curves.append({"name": r.name, "values": values})
    try:
        rows = what_if(synthesizer, take, shown.reference).rows
    except InputError:  # a long text that was cut somewhere
        rows = {}
    names = {"theta": "PCG, theta", "beta": "SSD, beta", "lookahead": f"{take.settings.method.upper()}, lookahead"}
    estimates = {names[knob]: [[value, *figures] for value, figures in row] for knob, row in rows.items() if row}
    return {
        "number": session.number_of(shown),
        "curves": curves,
        "estimates": estimates,
        "mel": _mel(take.audio, take.sample_rate),
        "times": {name: round(ms, 2) for name, ms in take.ms_per_round.items()},
    }


def _mel(samples: np.ndarray, rate: int) -> dict[str, object] | None:
    """The log-mel picture of a sound as WebP in base64, dark where it is loud, and its seconds."""
    mel = log_mel_db(samples, rate)
    if not len(mel):
        return None
    every = -(-len(mel) // WIDEST)
    loudness = np.clip((mel[::every] - QUIETEST_DB) / (LOUDEST_DB - QUIETEST_DB), 0, 1)
    written = BytesIO()
    Image.fromarray((255 * (1 - loudness)).astype(np.uint8).T[::-1]).save(written, "WEBP", quality=80)
    picture = "data:image/webp;base64," + b64encode(written.getvalue()).decode()
    return {"picture": picture, "seconds": round(len(mel) * FRAME_SECONDS, 2), "kilohertz": rate / 2000}


def _file(sound: Path | None) -> dict[str, object] | None:
    """A file as gradio copies and addresses it."""
    return {"path": str(sound), "meta": {"_type": "gradio.FileData"}} if sound and sound.is_file() else None


def _row(shown: ShownTake, session: Session, origin: Origin, voices: Collection[str]) -> dict[str, object]:
    take, verdict = shown.take, session.verdict(shown)
    settings = take.settings
    knobs = [*KNOBS[settings.method], "temperature", "seed"]
    return {
        "number": session.number_of(shown),
        "recorded": shown.recorded,
        "title": f"{TITLES[settings.method][0]}, seed {settings.seed}",
        "method": settings.method,
        "text": take.text,
        "voice": take.voice,
        "knobs": ", ".join(f"{name} {getattr(settings, name):g}" for name in knobs),
        "seconds": round(take.audio_seconds, 2),
        "calls": len(take.rounds),
        "ratio": None if shown.speed_up is None else round(shown.speed_up, 2),
        "errors": None if verdict is None else verdict.words.errors,
        "length": None if verdict is None else verdict.words.length,
        "heard": None if verdict is None else verdict.heard,
        **link_of(shown, origin, voices),
    }


def _lane(
    key: str, shown: ShownTake, outdated: bool, session: Session, origin: Origin, voices: Collection[str]
) -> dict[str, object]:
    take, verdict = shown.take, session.verdict(shown)
    words = without_pauses(take.text).split()
    return {
        **_row(shown, session, origin, voices),
        "key": key,
        "name": TITLES[key][0] if key in TITLES else f"#{session.number_of(shown)}",
        "outdated": outdated,
        "cut": take.hit_limit,
        "speed": round(take.tokens_per_second),
        "accepted": take.acceptance_rate,
        "tested": take.acceptance_of_tested,
        "words": words,
        "starts": _starts(take.text, take.audio_seconds),
        "wrong": None if verdict is None else _wrong(words, take.text, verdict),
        "pauses": take.pauses,
        "verification": take.settings.verification,
        "rounds": [[round(r.milliseconds, 3), r.drafted, _tokens(r)] for r in take.rounds],
    }


def _tokens(round_: Round) -> list[tuple[object, ...]]:
    """Each token of a round: [token, kind, size of its group, its test]."""
    tests = [*map(_test, round_.tests), *[None] * len(round_.tokens)]
    return list(zip(round_.tokens, round_.kinds, round_.group_sizes, tests, strict=False))


def _test(test: Test) -> list[object]:
    """[drafted, accepted, group, size of the group, p, q, P_c, Q_c, ratio, coin]; group -1: none."""
    numbers = [float(f"{getattr(test, name):.{DIGITS}g}") for name in ("p", "q", "mass_p", "mass_q", "ratio", "coin")]
    return [test.token, test.accepted, test.group, test.group_size, *numbers]


def _wrong(words: Sequence[str], text: str, verdict: JudgedTake) -> list[bool] | None:
    """Mark the words that the judge did not hear; None where a word alone is read in another way than within the text."""
    counts = [len(comparable(word).split()) for word in words]
    flags = misheard_words(text, verdict.heard)
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
