"""All takes of a page for download: their figures as a record, and everything as one zip. Knows nothing of gradio."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from explorers.judging import NO_TAKE, JudgedTake, Verdicts
from explorers.session import Card, Kept, Session, ShownTake
from pcg.errors import PCGError
from pcg.files import replacing

FIGURES = "figures.json"
MEANS = (
    "tokens_per_second", "rtf", "acceptance_rate", "acceptance_of_tested", "mean_acceptance_length", "audio_seconds",
    "speed_up",
)  # fmt: skip
GONE = "Some of these sounds are no longer stored. Generate them again."


def record(session: Session, verdicts: Verdicts) -> dict[str, object]:
    """Every take of the page with its figures, the means of each card, and the judges; ready for JSON."""
    cards = {key: _card(key, card, verdicts) for key, card in session.cards.items()}
    return {"cards": cards, "judges": dict(verdicts.judges)}


def save_takes(path: Path, session: Session, verdicts: Verdicts) -> Path:
    """Write every take as the WAV file that it is, and `record` as `FIGURES`, into a zip at `path`, whole or not at all."""
    return write_zip(path, dict(_files(session)), record(session, verdicts))


def save_history(path: Path, session: Session, verdicts: Verdicts) -> Path:
    """As `save_takes`, with the takes of the history, by their numbers."""
    files = {_kept_name(kept): kept.shown.sound for kept in session.history if kept.shown.sound}
    return write_zip(
        path, files, {"takes": [_kept(kept, verdicts) for kept in session.history], "judges": dict(verdicts.judges)}
    )


def write_zip(path: Path, files: Mapping[str, Path], figures: Mapping[str, object]) -> Path:
    """Write `files`, by their names, and `figures` as `FIGURES` into a zip at `path`, whole or not at all."""
    if not files:
        raise PCGError(NO_TAKE)
    if not all(sound.is_file() for sound in files.values()):
        raise PCGError(GONE)
    with replacing(path) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
        for name, sound in files.items():
            archive.write(sound, name)
        archive.writestr(FIGURES, json.dumps(figures, indent=2) + "\n")
    return path


def _files(session: Session) -> Iterator[tuple[str, Path]]:
    for key, card in session.cards.items():
        for number, shown in enumerate(card.takes, 1):
            if shown.sound:
                yield _name(key, number, shown), shown.sound


def _name(key: str, number: int, shown: ShownTake) -> str:
    return f"{key}-take-{number}-seed-{shown.reading.settings.seed}.wav"


def _card(key: str, card: Card, verdicts: Verdicts) -> dict[str, object]:
    takes = [_take(_name(key, number, shown), shown, verdicts.of(shown)) for number, shown in enumerate(card.takes, 1)]
    means = {figure: card.mean(figure) for figure in MEANS}
    return {"preset": card.name or None, "takes": takes, "means": means | {"n": len(takes)}}


def _kept_name(kept: Kept) -> str:
    return f"{kept.number:03d}-{kept.key}-seed-{kept.shown.reading.settings.seed}.wav"


def _kept(kept: Kept, verdicts: Verdicts) -> dict[str, object]:
    own = {"number": kept.number, "name": kept.name or None, "pinned": kept.pinned}
    return own | _take(_kept_name(kept), kept.shown, verdicts.of(kept.shown))


def _take(file: str, shown: ShownTake, verdict: JudgedTake | None) -> dict[str, object]:
    reading = shown.reading
    return {
        "file": file if shown.sound else None,
        **reading.as_dict(),
        "tokens": len(reading.tokens),
        "speed_up": shown.speed_up,
        "compared_with_ar_of": shown.baseline,
        "settings": reading.settings.as_dict(),
        "judged": None if verdict is None else _judged(verdict),
    }


def _judged(verdict: JudgedTake) -> dict[str, object]:
    return asdict(verdict) | {"wer": verdict.words.rate, "cer": verdict.characters.rate, "n": 1}
