"""The target's own speech, in batches: what the draft is distilled on."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pcg.decoding.autoregressive import autoregressive
from pcg.decoding.llama import DecodingLlama
from pcg.decoding.state import Readers
from pcg.prompt import Prompt


def sample(
    model: DecodingLlama, prompts: Sequence[Prompt], limit: int, temperature: float, generator: torch.Generator
) -> list[Tensor | None]:
    """Speak all `prompts` at once; return the codes of each `[T]`, or None where no end of speech came within `limit`."""
    target = Readers(model, prompts, limit + 1)
    target.prefill()
    seeds = torch.randint(2**62, (len(prompts),), generator=generator).tolist()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    spoken: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    for step in autoregressive(target, temperature, [limit] * len(prompts), generators):
        for row, round_ in step.items():
            spoken[row] += round_.tokens
            ended[row] |= round_.ended
    return [torch.tensor(codes) if done else None for codes, done in zip(spoken, ended, strict=True)]
