"""The target's own speech, in batches: what the draft is distilled on."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pcg.decode.autoregressive import autoregressive
from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import begin
from pcg.models.llama import DecodingLlama
from pcg.sampling import Plain
from pcg.text.prompt import Prompt, PromptReader
from pcg.training.data.prepare import read_shards, tokens_path, write_shard
from pcg.training.data.sequences import lay_out
from pcg.training.data.tokens import TokenizedUtterance
from pcg.training.workers import Workers

SHARD = 256
SHORTEST = 6


@dataclass(frozen=True)
class Sampling:
    """How much the target says for its draft, and how: `texts` of them, `batch` at a time."""

    texts: int
    temperature: float = 0.8
    seed: int = 0
    batch: int = 64


def own_samples(
    folder: Path,
    target: DecodingLlama,
    spoken: Sequence[TokenizedUtterance],
    reader: PromptReader,
    sampling: Sampling,
    workers: Workers,
) -> list[TokenizedUtterance]:
    """Let the target say texts of `spoken`, each after a reference of the same voice; what never ends is left out.

    Shards of what it said lie in `folder`, and those that are there are not made again; several processes share the work.
    """
    shards = -(-sampling.texts // SHARD)
    for number in range(workers.rank, shards, workers.count):
        if not tokens_path(folder, number).exists():
            texts = min(SHARD, sampling.texts - number * SHARD)
            write_shard(tokens_path(folder, number), _shard(number, texts, target, spoken, reader, sampling))
            print(f"samples: shard {number + 1} of {shards}", flush=True)
    workers.wait()
    return read_shards(folder, reader)


def voices(spoken: Sequence[TokenizedUtterance]) -> dict[str, list[TokenizedUtterance]]:
    """What each voice says, of those voices that say at least two things."""
    by_voice: dict[str, list[TokenizedUtterance]] = {}
    for utterance in spoken:
        by_voice.setdefault(utterance.voice, []).append(utterance)
    return {voice: said for voice, said in sorted(by_voice.items()) if len(said) > 1}


def _shard(
    number: int,
    texts: int,
    target: DecodingLlama,
    spoken: Sequence[TokenizedUtterance],
    reader: PromptReader,
    sampling: Sampling,
) -> list[TokenizedUtterance]:
    """Shard `number`, from coins of its own, so that it matters neither when nor where it is made."""
    rng = random.Random(sampling.seed * 7919 + number)
    generator = torch.Generator().manual_seed(sampling.seed * 1_000_003 + number)
    by_voice = voices(spoken)
    pairs = [rng.sample(by_voice[rng.choice(list(by_voice))], 2) for _ in range(texts)]
    pairs.sort(key=lambda pair: sum(len(u.codes) for u in pair))
    said = []
    for first in range(0, len(pairs), sampling.batch):
        group = pairs[first : first + sampling.batch]
        prompts = [lay_out(a, [b], reader) for a, b in group]
        limit = int(1.5 * max(len(b.codes) for _, b in group)) + 20
        for (_, b), codes in zip(group, sample(target, prompts, limit, sampling.temperature, generator), strict=True):
            if codes is not None and len(codes) >= SHORTEST:
                said.append(TokenizedUtterance(b.voice, b.text, b.symbols, codes))
    return said


def sample(
    model: DecodingLlama, prompts: Sequence[Prompt], limit: int, temperature: float, generator: torch.Generator
) -> list[Tensor | None]:
    """Speak all `prompts` at once; return the codes of each `[T]`, or None where no end of speech came within `limit`."""
    target = ModelRunner(model, prompts, limit + 1)
    target.prefill()
    seeds = torch.randint(2**62, (len(prompts),), generator=generator).tolist()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    spoken: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    for step in autoregressive(target, begin(Plain(temperature), [limit] * len(prompts), generators)):
        for row, round_ in step.items():
            spoken[row] += round_.tokens
            ended[row] |= round_.ended
    return [torch.tensor(codes) if done else None for codes, done in zip(spoken, ended, strict=True)]
