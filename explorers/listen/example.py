"""The example that is ready when the page opens: `python -m explorers.listen.example` records it into assets/example.

Four takes of one text, the same text with its tokens swapped, and pairs of takes for "Can you tell?".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from explorers.how_it_works.swap import versions_of
from explorers.judging import Judges
from explorers.session import Session, ShownTake
from pcg.audio import load_audio, write_wav
from pcg.errors import AssetError
from pcg.files import check_checksums, write_checksums, write_json
from pcg.metrics.intelligibility import read_sentences, word_errors
from pcg.places import ASSETS
from pcg.saved_take import Origin, Stored
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take, read_take, write_take

EXAMPLE = ASSETS / "example"
TEXT = "The children were playing in the garden when the rain began."
PAIRS = ("Could you tell me the way to the station?", "She bought fresh bread and a little cheese.")
SENTENCES = 20
FORMAT = 4
TURNS = 7
IDEA_THETA = 0.4
NAMES = {"decoded": "as decoded", "group": "every token swapped for a sound-alike", "random": "swapped for anything"}
"""The versions of a sentence, in the order of `versions_of`."""


@dataclass(frozen=True)
class Example:
    """Recorded takes with what the judges found.

    idea: "versions" of one sentence, each with its name, the words that were "heard" and the "share" of swapped tokens; "over":
    the number of sentences and the share of words misheard in each version. None where it was not recorded. sounds: of the
    versions, then of AR and PCG of each pair."""

    session: Session
    idea: Mapping[str, object] | None
    sounds: tuple[Path, ...]

    @property
    def pairs(self) -> int:
        return (len(self.sounds) - len(self.idea["versions"] if self.idea else ())) // 2


def write_example(
    folder: Path,
    synthesizer: Synthesizer,
    text: str = TEXT,
    voice: str | None = None,
    settings: Settings | None = None,
    turns: int = TURNS,
    judges: Judges | None = None,
    sentences: Sequence[str] = (),
    pairs: Sequence[str] = (),
) -> None:
    """Say `text` four ways and write `example.json` and WAV files into `folder`; with `judges`, also what they hear.

    The methods take `turns`, and the take of the median time is kept: its tokens never change, but its time does. With
    `sentences`, the words misheard after a swap are measured over all of them."""
    speaker = voice or next(iter(synthesizer.voice.references))
    asked = settings or Settings()
    synthesizer.warm_up()
    said: dict[str, list[Take]] = {method: [] for method in METHODS}
    for _ in range(turns):
        for method in METHODS:
            said[method].append(synthesizer.take(text, asked.for_method(method), speaker))
    takes = {method: sorted(those, key=lambda take: take.decoding_ms)[turns // 2] for method, those in said.items()}
    origin = Origin.of(synthesizer.voice)
    for method, take in takes.items():
        write_wav(folder / f"{method}.wav", take.audio, take.sample_rate, Stored.of(take, origin).to_json())
    for i, sentence in enumerate(pairs):
        for method in ("ar", "pcg"):
            take = synthesizer.take(sentence, asked.for_method(method), speaker)
            write_wav(folder / f"pair-{i}-{method}.wav", take.audio, take.sample_rate)
    content: dict[str, object] = {"format": FORMAT, "pairs": len(pairs), "verdicts": {}, "idea": None}
    content["takes"] = {method: write_take(take) for method, take in takes.items()}
    if judges:
        heard = {method: judges.transcribe(take.audio, take.sample_rate) for method, take in takes.items()}
        content["verdicts"] = {method: {"heard": words} for method, words in heard.items()}
        content["idea"] = _write_idea(folder, synthesizer, takes["ar"], judges, sentences)
    write_json(folder / "example.json", content, indent=None)
    write_checksums(folder)


def _write_idea(
    folder: Path, synthesizer: Synthesizer, take: Take, judges: Judges, sentences: Sequence[str]
) -> dict[str, object]:
    """Swap the tokens of `take` and decode them again; measure the same over `sentences`."""
    speaker, described = synthesizer.voice.reference(take.voice), []
    similarity, seed, counts = take.settings.similarity, take.settings.seed, {key: [0, 0] for key in NAMES}
    for number, text in enumerate((take.text, *sentences)):
        spoken = synthesizer.take(text, take.settings, take.voice) if number else take
        versions = versions_of(synthesizer, spoken, speaker, IDEA_THETA, similarity, seed).values()
        for key, version in zip(NAMES, versions, strict=True):
            heard = judges.transcribe(version.samples, take.sample_rate)
            wrong = word_errors(text, heard)
            if number:
                counts[key] = [counts[key][0] + wrong.errors, counts[key][1] + wrong.length]
                continue
            file, share = f"idea-{key}.wav", round(version.swapped.share, 4)
            write_wav(folder / file, version.samples, take.sample_rate)
            words = {"heard": heard, "errors": wrong.errors, "length": wrong.length}
            described.append({"name": NAMES[key], "file": file, "share": share, **words})
    over = {key: round(errors / length, 4) for key, (errors, length) in counts.items() if length}
    return {"theta": IDEA_THETA, "versions": described, "over": {"n": len(sentences), **over} if over else None}


def read_example(folder: Path) -> Example | None:
    """Read what `write_example` wrote: None where there is none, AssetError where it is damaged."""
    if not folder.is_dir():
        return None
    check_checksums(folder)
    content = json.loads((folder / "example.json").read_text(encoding="utf-8"))
    if content["format"] != FORMAT:
        raise AssetError(f"The example in {folder} has the format {content['format']!r}, not {FORMAT}.")
    session, heard, idea = Session(), {}, content["idea"]
    for method in METHODS:
        written, sound = content["takes"][method], folder / f"{method}.wav"
        take = read_take(written, load_audio(sound, int(written["sample_rate"])))
        session = session.with_take(replace(ShownTake.of(take, sound), recorded=True))
        if method in content["verdicts"]:
            heard[sound] = str(content["verdicts"][method]["heard"])
    sounds = [folder / version["file"] for version in idea["versions"]] if idea else []
    pairs = ["", *(f"pair-{i}-" for i in range(content["pairs"]))]
    sounds += [folder / f"{pair}{method}.wav" for pair in pairs for method in ("ar", "pcg")]
    return Example(replace(session, heard=heard), idea, tuple(sounds))


if __name__ == "__main__":
    from pcg.synthesis.voice import load_voice

    ears, sentences = Judges.load(), read_sentences()[:SENTENCES]
    write_example(EXAMPLE, Synthesizer(load_voice()), judges=ears, pairs=PAIRS, sentences=sentences)
