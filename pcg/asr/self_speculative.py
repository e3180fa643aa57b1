"""Self-speculative decoding for speech recognition (Saon et al., arXiv:2603.11243): the encoder's CTC hypothesis is the draft.

1. If every CTC frame is certain (Eq. 3), the hypothesis is the text.
2. Else the language model reads it in one pass; if every token is likely enough (Eq. 5), it is the text.
3. Else the language model goes on from the longest verified prefix (Eq. 6), on the cache of the pass before, cropped.

Recordings are cut into utterances first. Steps 1 and 2 run in batches by length; what both refuse is gathered from all of them
and goes on in batches of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from pcg.asr.embedded import Heard, Reading, Recogniser
from pcg.asr.word_search import Lexicon
from pcg.audio import load_audio, raised, speech_span
from pcg.metrics.quality import for_judges

Stage = Literal["", "ctc", "lm", "ar", "words"]
BATCH_SECONDS = 60.0
_T = TypeVar("_T")


@dataclass(frozen=True)
class Thresholds:
    """ctc: the entropy in nats below which a frame is certain. lm: the likelihood above which a token is verified.

    None leaves the step out (the paper's ablation, section 3.3); without both, all is autoregressive."""

    ctc: float | None
    lm: float | None


PRESETS = {"accurate": Thresholds(0.7, 0.2), "fast": Thresholds(3.0, 0.1), "ar": Thresholds(None, None)}
Way = Thresholds | Lexicon
"""Self-speculative decoding by thresholds, or a search among listed words."""


@dataclass(eq=False)
class Transcript:
    """The text of an utterance, and the step that decided it.

    stage: the step that accepted the text: "ctc" (step 1), "lm" (step 2) or "ar" (step 3); or "words", the search among listed
    words. entropies `[T]`, nats, of every CTC frame.
    tokens: the text's tokens (of step 1 none, it has characters). hypothesis: the CTC draft's tokens, and likelihoods `[U]` of
    each if the language model read them. accepted: how many of these stand at the front of the text; accepted_text: the same as
    text. milliseconds: wall time of each step ("encode", "gate", "verify", "go_on"; "search" among listed words), a share
    of its batch's."""

    text: str
    draft: str
    entropies: Tensor
    stage: Stage = ""
    tokens: tuple[int, ...] = ()
    hypothesis: tuple[int, ...] = ()
    likelihoods: Tensor = field(default_factory=lambda: torch.zeros(0))
    accepted: int = 0
    accepted_text: str = ""
    milliseconds: dict[str, float] = field(default_factory=dict)


def frame_entropies(log_probs: Tensor) -> Tensor:
    """Entropy in nats of each frame of `log_probs [..., T, C]`, `[..., T]` (left side of Eq. 3)."""
    return torch.special.entr(log_probs.exp()).sum(-1)


def verified_prefix(log_likelihoods: Tensor, threshold: float) -> int:
    """Return how many tokens stand before the first whose likelihood is at most `threshold`; all of them, if Eq. 5 holds.

    Compared as logarithms, where even a hopeless token stays above a threshold of 0 and none is above 1."""
    limit = torch.tensor(threshold, dtype=torch.float64).log()
    refused = (log_likelihoods.double() <= limit).nonzero()
    return int(refused[0]) if len(refused) else len(log_likelihoods)


@dataclass(eq=False)
class _Utterance:
    """An utterance `[N]` on its way through the steps; the step that accepts its text names itself in the transcript."""

    samples: Tensor
    transcript: Transcript | None = None
    heard: Heard | None = None
    reading: Reading | None = None


@torch.inference_mode()
def transcribe(
    recogniser: Recogniser, samples: Sequence[Tensor], way: Way, batch_seconds: float = BATCH_SECONDS
) -> list[Transcript]:
    """Transcribe utterances `[N]`, float32 at the recogniser's rate, none of them empty, in the order given.

    batch_seconds: the most padded speech in a batch."""
    utterances = [_Utterance(each) for each in samples]
    for group in batches(utterances, lambda u: len(u.samples), batch_seconds * recogniser.sample_rate):
        _encode(recogniser, group, way)
        uncertain = [u for u in group if not u.transcript.stage]
        if uncertain:
            _verify(recogniser, uncertain, way.lm)
    # The cache's length stands for the work of a step.
    refused = [u for u in utterances if not u.transcript.stage]
    for group in batches(refused, lambda u: u.reading.prompt + u.transcript.accepted, int(batch_seconds * 25)):
        _go_on(recogniser, group)
    return [u.transcript for u in utterances]


def _encode(recogniser: Recogniser, group: Sequence[_Utterance], way: Way) -> None:
    """Step 1: accept the drafts whose frames are all certain (Eq. 3), or search for words where `way` lists them."""
    begun, searches = perf_counter(), isinstance(way, Lexicon)
    heard = recogniser.hear([u.samples for u in group])
    encoded = perf_counter()
    for utterance, h in zip(group, heard, strict=True):
        transcript = Transcript(h.draft, h.draft, frame_entropies(h.log_probs))
        utterance.heard, utterance.transcript = h, transcript
        if searches:
            transcript.stage, transcript.text = "words", next(iter(way.search(h.log_probs)), h.draft)
        elif way.ctc is not None and bool((transcript.entropies < way.ctc).all()):
            transcript.stage, transcript.accepted_text = "ctc", h.draft
        else:
            transcript.hypothesis = tuple(recogniser.tokens(h.draft))
    _note(group, "encode", encoded - begun)
    _note(group, "search" if searches else "gate", perf_counter() - encoded)


def _verify(recogniser: Recogniser, group: Sequence[_Utterance], threshold: float | None) -> None:
    """Step 2: accept the draft whose tokens are all likely enough (Eq. 5). Without a threshold only the prompt is read."""
    begun = perf_counter()
    hypotheses = [() if threshold is None else u.transcript.hypothesis for u in group]
    readings = recogniser.read([u.heard for u in group], hypotheses)
    _note(group, "verify", perf_counter() - begun)
    for utterance, reading in zip(group, readings, strict=True):
        transcript, utterance.reading = utterance.transcript, reading
        transcript.likelihoods = reading.log_likelihoods.exp()
        if threshold is not None:
            transcript.accepted = verified_prefix(reading.log_likelihoods, threshold)
            transcript.accepted_text = recogniser.text(transcript.hypothesis[: transcript.accepted])
            if transcript.accepted == len(transcript.hypothesis):
                # The text is the draft itself (Eq. 7), which tokens might spell with other spaces.
                transcript.stage, transcript.tokens = "lm", transcript.hypothesis


def _go_on(recogniser: Recogniser, group: Sequence[_Utterance]) -> None:
    """Step 3: continue from the accepted prefix (Eq. 6)."""
    begun = perf_counter()
    prefixes = [u.transcript.hypothesis[: u.transcript.accepted] for u in group]
    written = recogniser.go_on([u.heard for u in group], [u.reading for u in group], prefixes)
    _note(group, "go_on", perf_counter() - begun)
    for utterance, prefix, tokens in zip(group, prefixes, written, strict=True):
        transcript = utterance.transcript
        transcript.stage, transcript.tokens = "ar", (*prefix, *tokens)
        transcript.text = recogniser.text(transcript.tokens)


def _note(group: Sequence[_Utterance], step: str, seconds: float) -> None:
    for utterance in group:
        utterance.transcript.milliseconds[step] = 1000 * seconds / len(group)


def batches(items: Iterable[_T], length: Callable[[_T], int], budget: float) -> list[list[_T]]:
    """`items` by length, in groups whose padded length stays within `budget`; one that is longer stands alone."""
    groups: list[list[_T]] = []
    for item in sorted(items, key=length):
        if not groups or (len(groups[-1]) + 1) * length(item) > budget:
            groups.append([])
        groups[-1].append(item)
    return groups


LONGEST_SECONDS = 2 * 3600.0
# The longest utterance that training has seen is two sentences; cuts look for a pause in this span.
CUT_SECONDS = (6.0, 12.0)
_FRAME_SECONDS, _PAUSE_FRAMES = 0.02, 10
_SILENCE, _SHORTEST_SECONDS = 10.0 ** (-60 / 20), 0.1


@dataclass(frozen=True)
class Recognition:
    """The whole `text`, the transcript of each part, the second at which it begins, and the seconds of sound."""

    text: str
    parts: tuple[Transcript, ...]
    starts: tuple[float, ...]
    seconds: float


def cut(speech: np.ndarray, sample_rate: int) -> list[slice]:
    """Parts of `speech [N]` of at most 12 s, each cut amid the quietest fifth of a second between 6 and 12 s. Left out are
    the ends without speech, and parts that are silent or shorter than 0.1 s."""
    span = speech_span(speech, sample_rate)
    speech = speech[: span.stop]
    frame = int(_FRAME_SECONDS * sample_rate)
    low, high = (int(seconds * sample_rate) for seconds in CUT_SECONDS)
    ends, start = [span.start], span.start
    while len(speech) - start > high:
        energy = speech[start + low : start + high]
        energy = np.square(energy[: len(energy) // frame * frame], dtype=np.float64).reshape(-1, frame).mean(axis=1)
        smooth = np.convolve(energy, np.ones(_PAUSE_FRAMES), mode="valid")
        start += low + (int(np.argmin(smooth)) + _PAUSE_FRAMES // 2) * frame
        ends.append(start)
    parts = [slice(begin, end) for begin, end in zip(ends, [*ends[1:], len(speech)], strict=True)]
    return [p for p in parts if p.stop - p.start >= _SHORTEST_SECONDS * sample_rate and np.abs(speech[p]).max() > _SILENCE]


def listen(recogniser: Recogniser, samples: np.ndarray, sample_rate: int, way: Way) -> Recognition:
    """Transcribe one recording of any length; raise InputError if it is no audio."""
    return listen_to_all(recogniser, [samples], sample_rate, way)[0]


def listen_to_all(recogniser: Recogniser, recordings: Sequence[np.ndarray], sample_rate: int, way: Way) -> list[Recognition]:
    """`listen` to many recordings, whose parts share batches."""
    rate = recogniser.sample_rate
    speech = [raised(for_judges(samples, sample_rate, rate), rate) for samples in recordings]
    parts = [cut(heard, rate) for heard in speech]
    utterances = [torch.from_numpy(heard[p]) for heard, cuts in zip(speech, parts, strict=True) for p in cuts]
    transcripts = iter(transcribe(recogniser, utterances, way))
    recognitions = []
    for heard, cuts in zip(speech, parts, strict=True):
        own = tuple(next(transcripts) for _ in cuts)
        text = " ".join(t.text for t in own if t.text)
        recognitions.append(Recognition(text, own, tuple(p.start / rate for p in cuts), len(heard) / rate))
    return recognitions


def listen_to_file(recogniser: Recogniser, path: Path, way: Way) -> Recognition:
    """`listen` to the first two hours of a file that `load_audio` can read; raise InputError if it cannot."""
    samples = load_audio(path, recogniser.sample_rate, LONGEST_SECONDS)
    return listen(recogniser, samples, recogniser.sample_rate, way)
