"""All takes of a page for download: their figures as a record, and everything as one zip. Knows nothing of gradio."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from explorers.judging import NO_TAKE, JudgedTake, Verdicts
from explorers.session import Card, Session, ShownTake
from pcg.errors import PCGError
from pcg.files import replacing

FIGURES = "figures.json"
MEANS = ("tokens_per_second", "rtf", "acceptance_rate", "mean_acceptance_length", "audio_seconds", "speed_up")
GONE = "Some of these sounds are no longer stored. Generate them again."


def record(session: Session, verdicts: Verdicts) -> dict[str, object]:
    """Every take of the page with its figures, the means of each card, and the judges; ready for JSON."""
    cards = {key: _card(key, card, verdicts) for key, card in session.cards.items()}
    return {"cards": cards, "judges": dict(verdicts.judges)}


def save_takes(path: Path, session: Session, verdicts: Verdicts) -> Path:
    """Write every take as the WAV file that it is, and `record` as `FIGURES`, into a zip at `path`, whole or not at all."""
    files = dict(_files(session))
    if not session.cards:
        raise PCGError(NO_TAKE)
    if not all(sound.is_file() for sound in files.values()):
        raise PCGError(GONE)
    with replacing(path) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
        for name, sound in files.items():
            archive.write(sound, name)
        archive.writestr(FIGURES, json.dumps(record(session, verdicts), indent=2) + "\n")
    return path


def _files(session: Session) -> Iterator[tuple[str, Path]]:
    for key, card in session.cards.items():
        for number, shown in enumerate(card.takes, 1):
            if shown.sound:
                yield _name(key, number, shown), shown.sound


def _name(key: str, number: int, shown: ShownTake) -> str:
    return f"{key}-take-{number}-seed-{shown.reading.settings.seed}.wav"


def _card(key: str, card: Card, verdicts: Verdicts) -> dict[str, object]:
    takes = [_take(key, number, shown, verdicts.of(shown)) for number, shown in enumerate(card.takes, 1)]
    means = {figure: card.mean(figure) for figure in MEANS}
    return {"preset": card.name or None, "takes": takes, "means": means | {"n": len(takes)}}


def _take(key: str, number: int, shown: ShownTake, verdict: JudgedTake | None) -> dict[str, object]:
    reading = shown.reading
    return {
        "file": _name(key, number, shown) if shown.sound else None,
        **reading.as_dict(),
        "tokens": len(reading.tokens),
        "speed_up": shown.speed_up,
        "compared_with_ar_of": shown.baseline,
        "settings": reading.settings.as_dict(),
        "judged": None if verdict is None else _judged(verdict),
    }


def _judged(verdict: JudgedTake) -> dict[str, object]:
    return asdict(verdict) | {"wer": verdict.words.rate, "cer": verdict.characters.rate, "n": 1}
