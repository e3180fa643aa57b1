"""The example that is ready when the page opens: four takes of one text, written beforehand and read back from a folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from explorers.judging import JudgedTake, Judges, Verdicts, judge_takes, usual_judge
from explorers.session import Session
from pcg.audio import load_audio, write_wav
from pcg.errors import AssetError, InputError
from pcg.files import write_json
from pcg.files.checksums import check_checksums, write_checksums
from pcg.metrics.intelligibility import Errors
from pcg.places import ASSETS
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored
from pcg.takes.take import KINDS, Take
from pcg.takes.written import read_take, write_take

EXAMPLE = ASSETS / "example"
TEXT = "The children were playing in the garden when the rain began."
"""Chosen because all four methods say it without an error; the table of results tells how often they do."""
FORMAT = 3
TURNS = 7


@dataclass(frozen=True)
class Example:
    """Four takes and their WAV files, by method, and what the judges found; no verdicts where they were not asked."""

    takes: Mapping[str, Take]
    sounds: Mapping[str, Path]
    verdicts: Verdicts

    @property
    def session(self) -> Session:
        return Session.of_recorded(self.takes, self.sounds)


def write_example(
    folder: Path,
    synthesizer: Synthesizer,
    text: str = TEXT,
    voice: str | None = None,
    settings: Settings | None = None,
    turns: int = TURNS,
    judges: Judges | None = None,
) -> None:
    """Say `text` four ways, after a warm-up, and write `example.json` and four WAV files into `folder`; with `judges`, also
    what they find.

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
    written = {method: write_take(take) for method, take in takes.items()}
    judged = _judge(synthesizer, folder, takes, judges) if judges else {"judges": {}, "verdicts": {}}
    write_json(folder / "example.json", {"format": FORMAT, "takes": written, **judged}, indent=None)
    write_checksums(folder)


def _judge(synthesizer: Synthesizer, folder: Path, takes: Mapping[str, Take], judges: Judges) -> dict[str, object]:
    sounds = {method: folder / f"{method}.wav" for method in takes}
    *_, found = judge_takes(synthesizer, lambda: judges, Session.of_recorded(takes, sounds), Verdicts())
    return {"judges": dict(found.judges), "verdicts": {method: asdict(found.by_sound[sounds[method]]) for method in takes}}


def read_example(folder: Path) -> Example | None:
    """Read what `write_example` wrote: None where there is none, AssetError where it is damaged."""
    if not folder.is_dir():
        return None
    check_checksums(folder)
    sounds = {method: folder / f"{method}.wav" for method in METHODS}
    for sound in sounds.values():
        if not sound.is_file():
            raise AssetError(f"The example's sound {sound} is missing.")
    path = folder / "example.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT}")
        takes = {method: _read(content["takes"][method], method, sounds[method]) for method in METHODS}
        judged = {sounds[method]: _read_verdict(values) for method, values in content["verdicts"].items()}
    except (OSError, ValueError, KeyError, TypeError, InputError) as error:
        raise AssetError(f"The example {path} is missing or damaged ({type(error).__name__}: {error}).") from error
    return Example(takes, sounds, Verdicts(judged, content["judges"]))


def _read_verdict(values: Mapping[str, object]) -> JudgedTake:
    counted = {name: Errors(**values[name]) for name in ("words", "characters")}
    return JudgedTake(str(values["heard"]), **counted, similarity=values["similarity"], dnsmos=float(values["dnsmos"]))


def _read(written: Mapping[str, object], method: str, sound: Path) -> Take:
    """Raise KeyError, TypeError, ValueError or InputError where it is not a take of that method."""
    take = read_take(written, load_audio(sound, int(written["sample_rate"])))
    if take.settings.method != method:
        raise ValueError("its takes are mixed up")
    if not set(take.kinds) <= set(KINDS) or min(take.group_sizes, default=1) < 1 or not take.decoding_ms > 0:
        raise ValueError("its rounds are none of a take")
    return take


if __name__ == "__main__":
    from pcg.synthesis.voice import load_voice

    write_example(EXAMPLE, Synthesizer(load_voice()), judges=Judges.load(usual_judge()))
