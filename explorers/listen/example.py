"""The example that is ready when the page opens: `python -m explorers.listen.example` records it into assets/example.

Four takes of one text, the same text with its tokens swapped, and pairs of takes for "Can you tell?".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from explorers.judging import JudgedTake, Judges
from explorers.session import Session
from pcg.analysis.swap import REPLACEMENTS, Swap, swap, swap_coins
from pcg.audio import load_audio, write_wav
from pcg.errors import AssetError, InputError
from pcg.files import check_checksums, write_checksums, write_json
from pcg.metrics.intelligibility import Errors, read_sentences
from pcg.metrics.quality import Sample
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
VERSIONS = {"decoded": "as decoded", "group": "every token swapped for a sound-alike", "random": "swapped for anything"}


@dataclass(frozen=True)
class Example:
    """Recorded takes and their WAV files by method, and what the judges found.

    Attributes:
        idea: "versions", each with its name, "sound", the words that were "heard" and the "share" of swapped tokens; "over":
            the number of sentences and the share of words misheard in each version. None where it was not recorded.
        pairs: files of AR and PCG of other sentences.
    """

    takes: Mapping[str, Take]
    sounds: Mapping[str, Path]
    verdicts: Mapping[Path, JudgedTake]
    idea: Mapping[str, object] | None = None
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def session(self) -> Session:
        return Session.of_recorded(self.takes, self.sounds, self.verdicts)


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
    `sentences`, the words misheard after a swap are measured over all of them.
    """
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
        samples = [Sample(take.audio, take.sample_rate, text) for take in takes.values()]
        content["verdicts"] = {m: asdict(v) for m, v in zip(takes, judges.verdicts(samples), strict=True)}
        content["idea"] = _write_idea(folder, synthesizer, takes["ar"], judges, sentences)
    write_json(folder / "example.json", content, indent=None)
    write_checksums(folder)


def _write_idea(
    folder: Path, synthesizer: Synthesizer, take: Take, judges: Judges, sentences: Sequence[str]
) -> dict[str, object]:
    """Swap the tokens of `take` and decode them again; measure the same over `sentences`."""
    versions, rate = [], take.sample_rate
    sounds = _swapped(synthesizer, take)
    for key, (samples, share) in sounds.items():
        write_wav(folder / f"idea-{key}.wav", samples, rate)
        versions.append({"name": VERSIONS[key], "file": f"idea-{key}.wav", "share": round(share, 4)})
    heard = judges.verdicts([Sample(samples, rate, take.text) for samples, _ in sounds.values()])
    for version, verdict in zip(versions, heard, strict=True):
        version |= {"heard": verdict.heard, "errors": verdict.words.errors, "length": verdict.words.length}
    counts = {key: [0, 0] for key in VERSIONS}
    for sentence in sentences:
        sounds = _swapped(synthesizer, synthesizer.take(sentence, take.settings, take.voice))
        verdicts = judges.verdicts([Sample(samples, rate, sentence) for samples, _ in sounds.values()])
        for key, verdict in zip(sounds, verdicts, strict=True):
            counts[key][0] += verdict.words.errors
            counts[key][1] += verdict.words.length
    over = {key: round(errors / length, 4) for key, (errors, length) in counts.items() if length}
    return {"theta": IDEA_THETA, "versions": versions, "over": {"n": len(sentences), **over} if over else None}


def _swapped(synthesizer: Synthesizer, take: Take) -> dict[str, tuple[np.ndarray, float]]:
    """The sound of each of VERSIONS, and the share of its tokens that were swapped."""
    speaker, usable = synthesizer.voice.reference(take.voice), synthesizer.voice.usage > 0
    groups, sounds = synthesizer.groups(IDEA_THETA, take.settings.similarity), {"decoded": (take.audio, 0.0)}
    for replacement in REPLACEMENTS:
        how = Swap(IDEA_THETA, take.settings.similarity, replacement)
        swapped = swap(take.tokens, groups, how, usable, swap_coins(take.settings.seed))
        sounds[replacement] = synthesizer.decode(list(swapped.tokens), speaker), swapped.share
    return sounds


def read_example(folder: Path) -> Example | None:
    """Read what `write_example` wrote: None where there is none, AssetError where it is damaged."""
    if not folder.is_dir():
        return None
    check_checksums(folder)
    sounds = {method: folder / f"{method}.wav" for method in METHODS}
    try:
        content = json.loads((folder / "example.json").read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT}")
        written = content["takes"]
        takes = {m: read_take(written[m], load_audio(sounds[m], int(written[m]["sample_rate"]))) for m in METHODS}
        judged = {sounds[method]: _read_verdict(values) for method, values in content["verdicts"].items()}
    except (OSError, ValueError, KeyError, TypeError, InputError) as error:
        raise AssetError(f"The example in {folder} is missing or damaged ({type(error).__name__}: {error}).") from error
    for version in (content["idea"] or {}).get("versions", ()):
        version["sound"] = str(folder / Path(version["file"]).name)
    pairs = [tuple(str(folder / f"pair-{i}-{m}.wav") for m in ("ar", "pcg")) for i in range(content["pairs"])]
    return Example(takes, sounds, judged, content["idea"], tuple(pairs))


def _read_verdict(values: Mapping[str, object]) -> JudgedTake:
    counted = {name: Errors(**values[name]) for name in ("words", "characters")}
    return JudgedTake(str(values["heard"]), **counted, similarity=values["similarity"], dnsmos=float(values["dnsmos"]))


if __name__ == "__main__":
    from pcg.synthesis.voice import load_voice

    ears, sentences = Judges.load(), read_sentences()[:SENTENCES]
    write_example(EXAMPLE, Synthesizer(load_voice()), judges=ears, pairs=PAIRS, sentences=sentences)
