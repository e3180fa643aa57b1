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


@dataclass(frozen=True)
class _Pending:
    """An utterance between the steps."""

    index: int
    heard: Heard
    entropies: Tensor
    hypothesis: tuple[int, ...]
    times: Times
    reading: Reading | None = None
    accepted: int = 0


@torch.inference_mode()
def transcribe(
    recogniser: Recogniser, samples: Sequence[Tensor], thresholds: Thresholds, batch_seconds: float = BATCH_SECONDS
) -> list[Transcript]:
    """Transcribe utterances `[N]`, float32 at the recogniser's rate, none of them empty, in the order given.

    batch_seconds: the most padded speech in a batch.
    """
    budget = batch_seconds * recogniser.sample_rate
    done: dict[int, Transcript] = {}
    waiting: list[_Pending] = []
    for group in batches(range(len(samples)), lambda i: len(samples[i]), budget):
        refused = _gate(recogniser, group, [samples[i] for i in group], thresholds.ctc, done)
        waiting += _verify(recogniser, refused, thresholds.lm, done)
    # The cache's length stands for the work of a step, whatever a second of speech is in tokens.
    by_length = {p.index: p for p in waiting}
    longest = int(batch_seconds * 25)
    for group in batches(by_length, lambda i: by_length[i].reading.prompt + by_length[i].accepted, longest):
        _go_on(recogniser, [by_length[i] for i in group], done)
    return [done[i] for i in range(len(samples))]


def batches(items: Iterable[_T], length: Callable[[_T], int], budget: float) -> list[list[_T]]:
    """`items` by length, in groups whose padded length stays within `budget`; one that is longer stands alone."""
    groups: list[list[_T]] = []
    for item in sorted(items, key=length):
        if not groups or (len(groups[-1]) + 1) * length(item) > budget:
            groups.append([])
        groups[-1].append(item)
    return groups


def _gate(
    recogniser: Recogniser,
    indices: Sequence[int],
    samples: Sequence[Tensor],
    threshold: float | None,
    done: dict[int, Transcript],
) -> list[_Pending]:
    """Step 1: write what is certain to `done`, return the rest."""
    begun = time.perf_counter()
    heard = recogniser.hear(samples)
    encoded = time.perf_counter()
    entropies = [frame_entropies(h.log_probs).cpu() for h in heard]
    accepted = [threshold is not None and certain(e, threshold) for e in entropies]
    times = Times(encode=share(begun, encoded, len(indices)), gate=share(encoded, time.perf_counter(), len(indices)))
    rest = []
    for index, h, frames, is_certain in zip(indices, heard, entropies, accepted, strict=True):
        if is_certain:
            done[index] = Transcript(h.draft, "ctc", h.draft, frames, accepted_text=h.draft, times=times)
        else:
            rest.append(_Pending(index, h, frames, tuple(recogniser.tokens(h.draft)), times))
    return rest


def _verify(
    recogniser: Recogniser, pending: Sequence[_Pending], threshold: float | None, done: dict[int, Transcript]
) -> list[_Pending]:
    """Step 2: write what is verified to `done`, return the rest with its cache. Without a threshold only the prompt is read."""
    if not pending:
        return []
    begun = time.perf_counter()
    hypotheses = [p.hypothesis if threshold is not None else () for p in pending]
    readings = recogniser.read([p.heard for p in pending], hypotheses)
    spent = share(begun, time.perf_counter(), len(pending))
    rest = []
    for p, r, hypothesis in zip(pending, readings, hypotheses, strict=True):
        count = verified_prefix(r.log_likelihoods, threshold) if threshold is not None else 0
        times = Times(p.times.encode, p.times.gate, spent)
        checked = _Pending(p.index, p.heard, p.entropies, p.hypothesis, times, r, count)
        if threshold is not None and count == len(hypothesis):
            done[p.index] = _finished(recogniser, checked, "lm", hypothesis, times)
        else:
            rest.append(checked)
    return rest


def _go_on(recogniser: Recogniser, pending: Sequence[_Pending], done: dict[int, Transcript]) -> None:
    """Step 3."""
    begun = time.perf_counter()
    prefixes = [p.hypothesis[: p.accepted] for p in pending]
    written = recogniser.go_on([p.heard for p in pending], [p.reading for p in pending], prefixes)
    spent = share(begun, time.perf_counter(), len(pending))
    for p, prefix, tokens in zip(pending, prefixes, written, strict=True):
        times = Times(p.times.encode, p.times.gate, p.times.verify, spent)
        done[p.index] = _finished(recogniser, p, "ar", (*prefix, *tokens), times)


def _finished(recogniser: Recogniser, p: _Pending, stage: Stage, tokens: tuple[int, ...], times: Times) -> Transcript:
    return Transcript(
        # A verified hypothesis is the CTC text itself (Eq. 7), which tokens might spell with other spaces.
        text=p.heard.draft if stage == "lm" else recogniser.text(tokens),
        stage=stage,
        draft=p.heard.draft,
        entropies=p.entropies,
        tokens=tokens,
        hypothesis=p.hypothesis,
        likelihoods=p.reading.log_likelihoods.exp() if p.reading else torch.zeros(0),
        accepted=p.accepted,
        accepted_text=recogniser.text(p.hypothesis[: p.accepted]),
        times=times,
    )


def share(begun: float, ended: float, rows: int) -> float:
    """Milliseconds of each of `rows` that were worked on together."""
    return 1000 * (ended - begun) / rows
