"""Self-speculative decoding for speech recognition (Saon et al., arXiv:2603.11243): the encoder's CTC hypothesis is the draft.

1. If every CTC frame is certain (Eq. 3), the hypothesis is the text.
2. Else the language model reads it in one pass; if every token is likely enough (Eq. 5), it is the text.
3. Else the language model goes on from the longest verified prefix (Eq. 6), on the cache of the pass before, cropped.

Steps 1 and 2 run in batches by length; what both refuse is gathered from all of them and goes on in batches of its own.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import torch
from torch import Tensor

from pcg.asr.recogniser import Heard, Reading, Recogniser

Stage = Literal["ctc", "lm", "ar", "words"]
BATCH_SECONDS = 60.0
_T = TypeVar("_T")


@dataclass(frozen=True)
class Thresholds:
    """ctc: the entropy in nats below which a frame is certain. lm: the likelihood above which a token is verified.

    None leaves the step out (the paper's ablation, section 3.3); without both, all is autoregressive.
    """

    ctc: float | None
    lm: float | None


PRESETS = {"accurate": Thresholds(0.7, 0.2), "fast": Thresholds(3.0, 0.1), "ar": Thresholds(None, None)}


@dataclass(frozen=True)
class Times:
    """Milliseconds of wall time that each step took, an equal share of its batch's. search: among listed words
    (`word_search`), which has no gate and reads no draft."""

    encode: float = 0.0
    gate: float = 0.0
    verify: float = 0.0
    go_on: float = 0.0
    search: float = 0.0

    @property
    def total(self) -> float:
        return self.encode + self.gate + self.verify + self.go_on + self.search


@dataclass(frozen=True)
class Transcript:
    """The text of an utterance, and the step that decided it.

    stage: the step that accepted the text: "ctc" (step 1), "lm" (step 2) or "ar" (step 3); or "words", the search among listed
    words. entropies `[T]`, nats, of every CTC frame.
    tokens: the text's tokens (of step 1 none, it has characters). hypothesis: the CTC draft's tokens, and likelihoods `[U]` of
    each if the language model read them. accepted: how many of these stand at the front of the text; accepted_text: the same as
    text.
    """

    text: str
    stage: Stage
    draft: str
    entropies: Tensor
    tokens: tuple[int, ...] = ()
    hypothesis: tuple[int, ...] = ()
    likelihoods: Tensor = field(default_factory=lambda: torch.zeros(0))
    accepted: int = 0
    accepted_text: str = ""
    times: Times = Times()


def frame_entropies(log_probs: Tensor) -> Tensor:
    """Entropy in nats of each frame of `log_probs [..., T, C]`, `[..., T]` (left side of Eq. 3)."""
    return torch.special.entr(log_probs.exp()).sum(-1)


def certain(entropies: Tensor, threshold: float) -> bool:
    """Whether every frame's entropy lies below `threshold` (Eq. 3)."""
    return bool((entropies < threshold).all())


def verified_prefix(log_likelihoods: Tensor, threshold: float) -> int:
    """How many tokens stand before the first whose likelihood is at most `threshold`; all of them, if Eq. 5 holds.

    Compared as logarithms, where even a hopeless token stays above a threshold of 0 and none is above 1. An empty hypothesis
    holds whatever the threshold is.
    """
    limit = torch.tensor(threshold, dtype=torch.float64).log()
    refused = (log_likelihoods.double() <= limit).nonzero()
    return int(refused[0]) if len(refused) else len(log_likelihoods)


@dataclass
class _Utterance:
    """An utterance on its way through the steps; the step that accepts its text sets `stage`."""

    heard: Heard
    entropies: Tensor
    milliseconds: dict[str, float]
    hypothesis: tuple[int, ...] = ()
    stage: Stage | None = None
    reading: Reading | None = None
    accepted: int = 0
    tokens: tuple[int, ...] = ()

    def transcript(self, recogniser: Recogniser) -> Transcript:
        draft, likelihoods = self.heard.draft, self.reading.log_likelihoods.exp() if self.reading else torch.zeros(0)
        return Transcript(
            # A verified hypothesis is the CTC text itself (Eq. 7), which tokens might spell with other spaces.
            text=recogniser.text(self.tokens) if self.stage == "ar" else draft,
            stage=self.stage,
            draft=draft,
            entropies=self.entropies,
            tokens=self.tokens,
            hypothesis=self.hypothesis,
            likelihoods=likelihoods,
            accepted=self.accepted,
            accepted_text=draft if self.stage == "ctc" else recogniser.text(self.hypothesis[: self.accepted]),
            times=Times(**self.milliseconds),
        )


@torch.inference_mode()
def transcribe(
    recogniser: Recogniser, samples: Sequence[Tensor], thresholds: Thresholds, batch_seconds: float = BATCH_SECONDS
) -> list[Transcript]:
    """Transcribe utterances `[N]`, float32 at the recogniser's rate, none of them empty, in the order given.

    batch_seconds: the most padded speech in a batch.
    """
    utterances: dict[int, _Utterance] = {}
    for group in batches(range(len(samples)), lambda i: len(samples[i]), batch_seconds * recogniser.sample_rate):
        gated = _gate(recogniser, [samples[i] for i in group], thresholds.ctc)
        _verify(recogniser, [utterance for utterance in gated if not utterance.stage], thresholds.lm)
        utterances |= dict(zip(group, gated, strict=True))
    rest = [utterance for utterance in utterances.values() if not utterance.stage]
    # The cache's length stands for the work of a step, whatever a second of speech is in tokens.
    for group in batches(rest, lambda utterance: utterance.reading.prompt + utterance.accepted, int(batch_seconds * 25)):
        _go_on(recogniser, group)
    return [utterances[i].transcript(recogniser) for i in range(len(samples))]


def batches(items: Iterable[_T], length: Callable[[_T], int], budget: float) -> list[list[_T]]:
    """`items` by length, in groups whose padded length stays within `budget`; one that is longer stands alone."""
    groups: list[list[_T]] = []
    for item in sorted(items, key=length):
        if not groups or (len(groups[-1]) + 1) * length(item) > budget:
            groups.append([])
        groups[-1].append(item)
    return groups


def _gate(recogniser: Recogniser, samples: Sequence[Tensor], threshold: float | None) -> list[_Utterance]:
    """Step 1: encode, and accept the drafts whose frames are all certain."""
    begun = time.perf_counter()
    heard = recogniser.hear(samples)
    encoded = time.perf_counter()
    utterances = [_Utterance(h, frame_entropies(h.log_probs).cpu(), {}) for h in heard]
    for utterance in utterances:
        if threshold is not None and certain(utterance.entropies, threshold):
            utterance.stage = "ctc"
        else:
            utterance.hypothesis = tuple(recogniser.tokens(utterance.heard.draft))
    gate = share(encoded, time.perf_counter(), len(heard))
    for utterance in utterances:
        utterance.milliseconds |= {"encode": share(begun, encoded, len(heard)), "gate": gate}
    return utterances


def _verify(recogniser: Recogniser, utterances: Sequence[_Utterance], threshold: float | None) -> None:
    """Step 2: read prompt and draft, and accept what is likely enough. Without a threshold only the prompt is read."""
    if not utterances:
        return
    begun = time.perf_counter()
    hypotheses = [() if threshold is None else utterance.hypothesis for utterance in utterances]
    readings = recogniser.read([utterance.heard for utterance in utterances], hypotheses)
    spent = share(begun, time.perf_counter(), len(utterances))
    for utterance, read in zip(utterances, readings, strict=True):
        utterance.reading, utterance.milliseconds["verify"] = read, spent
        if threshold is not None:
            utterance.accepted = verified_prefix(read.log_likelihoods, threshold)
            if utterance.accepted == len(utterance.hypothesis):
                utterance.stage, utterance.tokens = "lm", utterance.hypothesis


def _go_on(recogniser: Recogniser, utterances: Sequence[_Utterance]) -> None:
    """Step 3: continue from the accepted prefix."""
    begun = time.perf_counter()
    prefixes = [utterance.hypothesis[: utterance.accepted] for utterance in utterances]
    heard, readings = [utterance.heard for utterance in utterances], [utterance.reading for utterance in utterances]
    written = recogniser.go_on(heard, readings, prefixes)
    spent = share(begun, time.perf_counter(), len(utterances))
    for utterance, prefix, tokens in zip(utterances, prefixes, written, strict=True):
        utterance.stage, utterance.tokens, utterance.milliseconds["go_on"] = "ar", (*prefix, *tokens), spent


def share(begun: float, ended: float, rows: int) -> float:
    """Milliseconds of each of `rows` that were worked on together."""
    return 1000 * (ended - begun) / rows
