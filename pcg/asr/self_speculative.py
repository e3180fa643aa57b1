"""Self-speculative decoding for speech recognition (Saon et al., arXiv:2603.11243): the encoder's CTC hypothesis is the draft.

1. If every CTC frame is certain (Eq. 3), the hypothesis is the text.
2. Else the language model reads it in one pass; if every token is likely enough (Eq. 5), it is the text.
3. Else the language model goes on from the longest verified prefix (Eq. 6), on the cache of the pass before, cropped.

Steps 1 and 2 run in batches by length; what both refuse is gathered from all of them and goes on in batches of its own.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

Stage = Literal["ctc", "lm", "ar", "words"]
BATCH_SECONDS = 60.0
_T = TypeVar("_T")


@dataclass(frozen=True)
class Heard:
    """One utterance after the encoder: `log_probs [T, C]` of the CTC classes; `draft`, the text of their best path
    (arXiv:2603.11243, Eq. 2); and `embeddings [T', D]`, what the adapter hands to the language model (g in Eq. 4)."""

    log_probs: Tensor
    draft: str
    embeddings: Tensor

    @property
    def most_tokens(self) -> int:
        """The limit of a continued text: it has no more tokens than CTC frames."""
        return len(self.log_probs) + 8


@dataclass(frozen=True)
class Reading:
    """The language model after one pass over a prompt of `prompt` positions and the U tokens of a hypothesis.

    log_likelihoods `[U]`: log p(y_i | y_<i, g) of each token. choices: the U + 1 likeliest tokens, after each prefix.
    keys, values `[layers, heads, prompt + U, dim]`: its cache.
    """

    log_likelihoods: Tensor
    choices: tuple[int, ...]
    prompt: int
    keys: Tensor
    values: Tensor

    def crop(self, count: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the prompt and the first `count` tokens; nothing is computed anew."""
        length = self.prompt + count
        return self.keys[:, :, :length], self.values[:, :, :length]


class Recogniser(Protocol):
    """A speech-aware language model with a CTC encoder. Its tokens are integers; `end` is the one that closes a text."""

    @property
    def name(self) -> str: ...

    @property
    def sample_rate(self) -> int: ...

    @property
    def end(self) -> int: ...

    def hear(self, samples: Sequence[Tensor]) -> list[Heard]:
        """Encode utterances `[N]`, float32 at `sample_rate`."""
        ...

    def tokens(self, text: str) -> list[int]:
        """`text` in tokens of the language model, which need not be those of the CTC head."""
        ...

    def text(self, tokens: Sequence[int]) -> str: ...

    def read(self, heard: Sequence[Heard], hypotheses: Sequence[Sequence[int]]) -> list[Reading]:
        """One pass over each utterance's prompt and hypothesis, which may be empty."""
        ...

    def go_on(self, heard: Sequence[Heard], readings: Sequence[Reading], prefixes: Sequence[Sequence[int]]) -> list[list[int]]:
        """The likeliest token, again and again until the end (which is left out), behind each `prefix` of the hypothesis that
        was read (arXiv:2603.11243, Eq. 6, searched greedily)."""
        ...


@dataclass(frozen=True)
class Thresholds:
    """ctc: the entropy in nats below which a frame is certain. lm: the likelihood above which a token is verified.

    None leaves the step out (the paper's ablation, section 3.3); without both, all is autoregressive.
    """

    ctc: float | None
    lm: float | None


PRESETS = {"accurate": Thresholds(0.7, 0.2), "fast": Thresholds(3.0, 0.1), "ar": Thresholds(None, None)}


@dataclass(frozen=True)
class Transcript:
    """The text of an utterance, and the step that decided it.

    stage: the step that accepted the text: "ctc" (step 1), "lm" (step 2) or "ar" (step 3); or "words", the search among listed
    words. entropies `[T]`, nats, of every CTC frame.
    tokens: the text's tokens (of step 1 none, it has characters). hypothesis: the CTC draft's tokens, and likelihoods `[U]` of
    each if the language model read them. accepted: how many of these stand at the front of the text; accepted_text: the same as
    text. milliseconds: wall time of each step ("encode", "gate", "verify", "go_on"; "search" among listed words), a share
    of its batch's.
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
    milliseconds: Mapping[str, float] = field(default_factory=dict)


def frame_entropies(log_probs: Tensor) -> Tensor:
    """Entropy in nats of each frame of `log_probs [..., T, C]`, `[..., T]` (left side of Eq. 3)."""
    return torch.special.entr(log_probs.exp()).sum(-1)


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


@torch.inference_mode()
def transcribe(
    recogniser: Recogniser, samples: Sequence[Tensor], thresholds: Thresholds, batch_seconds: float = BATCH_SECONDS
) -> list[Transcript]:
    """Transcribe utterances `[N]`, float32 at the recogniser's rate, none of them empty, in the order given.

    batch_seconds: the most padded speech in a batch.
    """
    utterances: dict[int, _Utterance] = {}
    for group in batches(range(len(samples)), lambda i: len(samples[i]), batch_seconds * recogniser.sample_rate):
        # Step 1: encode, and accept the drafts whose frames are all certain (Eq. 3).
        begun = time.perf_counter()
        heard = recogniser.hear([samples[i] for i in group])
        encoded = time.perf_counter()
        gated = [_Utterance(h, frame_entropies(h.log_probs).cpu(), {}) for h in heard]
        for utterance in gated:
            if thresholds.ctc is not None and bool((utterance.entropies < thresholds.ctc).all()):
                utterance.stage = "ctc"
            else:
                utterance.hypothesis = tuple(recogniser.tokens(utterance.heard.draft))
        spent = {"encode": share(begun, encoded, len(heard)), "gate": share(encoded, time.perf_counter(), len(heard))}
        for utterance in gated:
            utterance.milliseconds |= spent
        utterances |= dict(zip(group, gated, strict=True))

        # Step 2: read prompt and draft, and accept what is likely enough (Eq. 5). Without a threshold only the prompt is read.
        uncertain = [utterance for utterance in gated if not utterance.stage]
        if not uncertain:
            continue
        begun = time.perf_counter()
        hypotheses = [() if thresholds.lm is None else utterance.hypothesis for utterance in uncertain]
        readings = recogniser.read([utterance.heard for utterance in uncertain], hypotheses)
        verify = share(begun, time.perf_counter(), len(uncertain))
        for utterance, read in zip(uncertain, readings, strict=True):
            utterance.reading, utterance.milliseconds["verify"] = read, verify
            if thresholds.lm is not None:
                utterance.accepted = verified_prefix(read.log_likelihoods, thresholds.lm)
                if utterance.accepted == len(utterance.hypothesis):
                    utterance.stage, utterance.tokens = "lm", utterance.hypothesis

    # Step 3: continue from the accepted prefix (Eq. 6). The cache's length stands for the work of a step.
    rest = [utterance for utterance in utterances.values() if not utterance.stage]
    for refused in batches(rest, lambda utterance: utterance.reading.prompt + utterance.accepted, int(batch_seconds * 25)):
        begun = time.perf_counter()
        prefixes = [utterance.hypothesis[: utterance.accepted] for utterance in refused]
        written = recogniser.go_on([u.heard for u in refused], [u.reading for u in refused], prefixes)
        go_on = share(begun, time.perf_counter(), len(refused))
        for utterance, prefix, tokens in zip(refused, prefixes, written, strict=True):
            utterance.stage, utterance.tokens, utterance.milliseconds["go_on"] = "ar", (*prefix, *tokens), go_on
    return [_transcript(recogniser, utterances[i]) for i in range(len(samples))]


def _transcript(recogniser: Recogniser, utterance: _Utterance) -> Transcript:
    draft, reading, accepted = utterance.heard.draft, utterance.reading, utterance.hypothesis[: utterance.accepted]
    return Transcript(
        # A verified hypothesis is the CTC text itself (Eq. 7), which tokens might spell with other spaces.
        text=recogniser.text(utterance.tokens) if utterance.stage == "ar" else draft,
        stage=utterance.stage,
        draft=draft,
        entropies=utterance.entropies,
        tokens=utterance.tokens,
        hypothesis=utterance.hypothesis,
        likelihoods=reading.log_likelihoods.exp() if reading else torch.zeros(0),
        accepted=utterance.accepted,
        accepted_text=draft if utterance.stage == "ctc" else recogniser.text(accepted),
        milliseconds=utterance.milliseconds,
    )


def batches(items: Iterable[_T], length: Callable[[_T], int], budget: float) -> list[list[_T]]:
    """`items` by length, in groups whose padded length stays within `budget`; one that is longer stands alone."""
    groups: list[list[_T]] = []
    for item in sorted(items, key=length):
        if not groups or (len(groups[-1]) + 1) * length(item) > budget:
            groups.append([])
        groups[-1].append(item)
    return groups


def share(begun: float, ended: float, rows: int) -> float:
    """Milliseconds of each of `rows` that were worked on together."""
    return 1000 * (ended - begun) / rows


def continue_greedily(
    first: Sequence[int], end: int, limits: Sequence[int], step: Callable[[list[int], list[int]], list[int]]
) -> list[list[int]]:
    """Write the likeliest token of every row until `end`, which is left out, or until a row has as many as `limits` allows.

    Args:
        first: each row's first token.
        step: rows and their newest tokens -> the likeliest next token of each of these rows.
    """
    newest, written = list(first), [[] for _ in first]
    rows = [row for row, token in enumerate(first) if token != end]
    while rows:
        for row in rows:
            written[row].append(newest[row])
        rows = [row for row in rows if len(written[row]) < limits[row]]
        for row, token in zip(rows, step(rows, [newest[row] for row in rows]) if rows else (), strict=True):
            newest[row] = token
        rows = [row for row in rows if newest[row] != end]
    return written


def reading(logits: Tensor, hypothesis: Sequence[int], prompt: int, keys: Tensor, values: Tensor) -> Reading:
    """A Reading from the `logits [U + 1, V]` behind the prompt and behind each token."""
    log_probs = logits.float().log_softmax(-1)
    picked = log_probs[:-1].gather(1, torch.tensor(hypothesis, dtype=torch.int64, device=log_probs.device)[:, None])[:, 0]
    return Reading(picked.cpu(), tuple(logits.argmax(-1).tolist()), prompt, keys, values)


def weights_digest(model: nn.Module) -> str:
    """Return a short digest of the weights of `model`, for the name of a judge."""
    digest = hashlib.sha256()
    for _, weight in sorted(model.state_dict().items()):
        digest.update(weight.cpu().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:8]
