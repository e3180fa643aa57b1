"""The example that is ready when the page opens: four takes of one text, written beforehand and read back from a folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from explorers.session import TakeView, record
from pcg.audio import write_wav
from pcg.errors import AssetError, InputError
from pcg.files import ASSETS, write_json
from pcg.files.checksums import check_checksums, write_checksums
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import Take

EXAMPLE = ASSETS / "example"
TEXT = "The quick brown fox jumps over the lazy dog, and nobody is surprised."
FORMAT = 2
TURNS = 7


@dataclass(frozen=True)
class Example:
    """Readings and WAV files of four takes, by method."""

    readings: Mapping[str, TakeView]
    sounds: Mapping[str, Path]


def write_example(
    folder: Path,
    synthesizer: Synthesizer,
    text: str = TEXT,
    voice: str | None = None,
    settings: Settings | None = None,
    turns: int = TURNS,
) -> None:
    """Say `text` four ways, after a warm-up, and write `example.json` and four WAV files into `folder`.

    The methods take `turns`, and each one's take of the median time is kept: its tokens never change, but its time does.
    """
    speaker = voice or next(iter(synthesizer.voice.references))
    asked = settings or Settings()
    synthesizer.warm_up()
    said: dict[str, list[Take]] = {method: [] for method in METHODS}
    for _ in range(turns):
        for method in METHODS:
            said[method].append(synthesizer.take(text, asked.with_(method=method), speaker))
    takes = {method: sorted(those, key=lambda take: take.decoding_ms)[turns // 2] for method, those in said.items()}
    origin = Origin.of(synthesizer.voice)
    for method, take in takes.items():
        write_wav(folder / f"{method}.wav", take.audio, take.sample_rate, Stored.of(take, origin).to_json())
    content = {"format": FORMAT, "text": text, "voice": speaker, "settings": asked.as_dict()}
    write_json(folder / "example.json", {**content, "takes": {method: record(take) for method, take in takes.items()}})
    write_checksums(folder)


def read_example(folder: Path) -> Example | None:
    """Read what `write_example` wrote: None where there is none, AssetError where it is damaged."""
    if not folder.is_dir():
        return None
    check_checksums(folder)
    path = folder / "example.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT}")
        readings = {method: TakeView.from_record(content["takes"][method]) for method in METHODS}
        if any(reading.method != method for method, reading in readings.items()):
            raise ValueError("its takes are mixed up")
    except (OSError, ValueError, KeyError, TypeError, InputError) as error:
        raise AssetError(f"The example {path} is missing or damaged ({type(error).__name__}: {error}).") from error
    sounds = {method: folder / f"{method}.wav" for method in METHODS}
    for sound in sounds.values():
        if not sound.is_file():
            raise AssetError(f"The example's sound {sound} is missing.")
    return Example(readings, sounds)


if __name__ == "__main__":
    from pcg.synthesis.voice import load_voice

    write_example(EXAMPLE, Synthesizer(load_voice()))
