"""What experiments say: the project's own sentences, or the papers' protocol over a local copy of LibriTTS."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import soundfile

from pcg.errors import AssetError, InputError
from pcg.experiments.unit import Utterance
from pcg.metrics.intelligibility import read_sentences
from pcg.text.reading import check_text

# The sections of an utterance, each with those of the file that it is made of.
SECTIONS = {
    "everyday": ("everyday",),
    "balanced": ("balanced", "more-balanced"),
    "rare": ("rare",),
    "twisters": ("twisters",),
}
SUBSET = "test-clean"
PROMPT_SECONDS = 3.0
PROMPT_RANGE = (2.0, 4.0)


def offline_utterances(count: int, voices: Sequence[str]) -> list[Utterance]:
    """The first `count` utterances of the project's own test set, always the same: a smaller set is the beginning of a larger.

    Sections take turns as long as they last; voices are spread evenly over all utterances, then over each section. Both do so
    in an order that changes, so that no stride over the utterances meets some only. Raises InputError for more utterances than
    there are sentences, and for no voice.
    """
    generator = np.random.default_rng(0)
    sections = [[(section, text) for text in read_sentences(*parts)] for section, parts in SECTIONS.items()]
    rounds = ([pair for pair in pairs if pair] for pairs in zip_longest(*sections))
    sentences = [pairs[i] for pairs in rounds for i in generator.permutation(len(pairs))]
    if not 1 <= count <= len(sentences):
        raise InputError("count", count, f"a whole number from 1 to {len(sentences)}, the sentences that there are")
    if not voices:
        raise InputError("voices", "empty", "the name of at least one voice")
    spoken: Counter[tuple[str, ...]] = Counter()
    utterances = []
    for section, text in sentences[:count]:
        order = [voices[i] for i in generator.permutation(len(voices))]
        voice = min(order, key=lambda name: (spoken[(name,)], spoken[(name, section)]))
        spoken.update([(voice,), (voice, section)])
        utterances.append(Utterance(text, voice, section))
    return utterances


@dataclass(frozen=True)
class _Recording:
    path: Path
    speaker: str
    seconds: float
    text: str


def libritts_utterances(folder: Path, count: int = 500, seed: int = 0) -> list[Utterance]:
    """Utterances of LibriTTS test-clean, each to be said in the voice of another recording of its speaker.

    folder: LibriTTS, or test-clean itself: SPEAKER/CHAPTER/SPEAKER_CHAPTER_X_Y.wav beside .normalized.txt. PCG (section 3.2)
    takes 500 at random in "a cross-sentence zero-shot speech-cloning setup", after SSD (section 3.2), whose 500 are of 37
    speakers, with "a short voice prompt lasting approximately 3 seconds" for each. Neither says which ones. Here a speaker's
    prompt is the recording nearest to 3 s, which is never a text to be said; a speaker without one of 2 to 4 s is left out, as
    are texts that cannot be spoken. The others are drawn by `seed`, none twice; fewer are the beginning of more.

    Raises InputError if the folder is no LibriTTS or has fewer than `count` such utterances, AssetError for a damaged file.
    """
    recordings = _recordings(folder / SUBSET if (folder / SUBSET).is_dir() else folder)
    prompts = _prompts(recordings)
    sayable = [r for r in recordings if r.speaker in prompts and r != prompts[r.speaker] and _is_sayable(r.text)]
    if not 1 <= count <= len(sayable):
        raise InputError("count", count, f"a whole number from 1 to {len(sayable)}, the utterances that {folder.name} has")
    chosen = np.random.default_rng(seed).permutation(len(sayable))[:count]
    return [_cloned(sayable[i], prompts[sayable[i].speaker]) for i in chosen]


def _recordings(folder: Path) -> list[_Recording]:
    paths = sorted(folder.glob("*/*/*.wav"))
    if not paths:
        raise InputError("folder", folder.name, f"a folder of LibriTTS: {SUBSET}/SPEAKER/CHAPTER/NAME.wav")
    return [_recording(path) for path in paths]


def _recording(path: Path) -> _Recording:
    try:
        text = path.with_suffix(".normalized.txt").read_text(encoding="utf-8").strip()
        return _Recording(path, path.parts[-3], soundfile.info(path).duration, text)
    except (OSError, ValueError, soundfile.LibsndfileError) as error:
        raise AssetError(f"The recording {path.name} or its .normalized.txt is missing or damaged ({error}).") from error


def _prompts(recordings: Sequence[_Recording]) -> dict[str, _Recording]:
    """Each speaker's recording nearest to `PROMPT_SECONDS`, of those in `PROMPT_RANGE`."""
    short: dict[str, list[_Recording]] = defaultdict(list)
    for recording in recordings:
        if PROMPT_RANGE[0] <= recording.seconds <= PROMPT_RANGE[1]:
            short[recording.speaker].append(recording)
    return {speaker: min(of_one, key=lambda r: abs(r.seconds - PROMPT_SECONDS)) for speaker, of_one in short.items()}


def _is_sayable(text: str) -> bool:
    try:
        check_text(text)
    except InputError:
        return False
    return True


def _cloned(said: _Recording, prompt: _Recording) -> Utterance:
    return Utterance(
        said.text, prompt.speaker, SUBSET, reference=str(prompt.path), reference_text=prompt.text, recording=str(said.path)
    )
