"""The interface of recognisers for self-speculative decoding: an encoder drafts a text, a language model reads it.

Its language model's tokens are integers; `end` is the one that closes a text.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn


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
    """A speech-aware language model with a CTC encoder."""

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
