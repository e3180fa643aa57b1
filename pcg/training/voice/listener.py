"""How well the target is understood while it learns: held-out sentences, said by it and written down by a judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.codec.embedded import EmbeddedCodec
from pcg.metrics.intelligibility import Judge, word_errors
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.text.prompt import PhonemeReader
from pcg.training.data.samples import sample
from pcg.training.data.sequences import lay_out
from pcg.training.data.tokens import TokenizedUtterance
from pcg.training.draft.acceptance import Pair

CONTEXT_TOKENS = 50


@dataclass(frozen=True, eq=False)
class Listener:
    """`judge` hears what a target makes of `pairs`: each second utterance, after the first as its reference."""

    pairs: Sequence[Pair]
    codec: EmbeddedCodec
    reader: PhonemeReader
    vocabulary: Vocabulary
    judge: Judge
    temperature: float

    def figures(self, model: LlamaForCausalLM) -> dict[str, float]:
        """`wer`: words wrong over all words, where a take without an end has all words wrong; `unended`: the share of these;
        `codec_wer`: of the same sentences' recordings, coded and decoded."""
        prompts = [lay_out(first, [second], self.reader) for first, second in self.pairs]
        limit = int(1.5 * max(len(second.codes) for _, second in self.pairs)) + 20
        coins = torch.Generator().manual_seed(0)
        said = sample(DecodingLlama(model, self.vocabulary), prompts, limit, self.temperature, coins)
        unended = sum(codes is None for codes in said) / len(said)
        return {"wer": self._wer(said), "unended": unended, "codec_wer": self._codec_wer}

    @cached_property
    def _codec_wer(self) -> float:
        return self._wer([second.codes for _, second in self.pairs])

    def _wer(self, said: Sequence[Tensor | None]) -> float:
        found = [word_errors(b.text, self._heard(a, codes)) for (a, b), codes in zip(self.pairs, said, strict=True)]
        return sum(each.errors for each in found) / sum(each.length for each in found)

    def _heard(self, reference: TokenizedUtterance, codes: Tensor | None) -> str:
        if codes is None or not len(codes):
            return ""
        context = reference.codes[-CONTEXT_TOKENS:]
        wave = self.codec.decode(torch.cat([context, codes]))[len(context) * self.codec.hop :]
        return self.judge.transcribe([wave.numpy()], self.codec.sample_rate)[0]
