"""The speculative loop as transformers' `custom_generate`: for a plain pair of LlamaForCausalLM, in existing code.

from pcg.decode.hf_generate import SpeculativeGenerate
from pcg.rules import exact
from pcg.models.weights import Vocabulary

speculate = SpeculativeGenerate(target, draft, Vocabulary(codes=65_536, first_code=128_264, end=128_261), exact)
target.generate(input_ids, custom_generate=speculate, do_sample=True, temperature=0.8, top_k=0, max_new_tokens=500)

`pcg/serving/hub/` builds a SpeculativeGenerate from settings; it is what a repository on the Hub serves.
"""

from copy import copy
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from transformers import GenerationConfig, LlamaForCausalLM, LogitsProcessorList, StoppingCriteriaList, TemperatureLogitsWarper

from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.speculative import Request
from pcg.errors import InputError
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Vocabulary
from pcg.rules import Rule
from pcg.sampling import Plain, SamplerState, Warped, probabilities
from pcg.settings import Settings, bounds
from pcg.take import Round
from pcg.text.prompt import Prompt

if TYPE_CHECKING:
    from transformers.generation.streamers import BaseStreamer

UNSUPPORTED = {
    "num_beams": (1, None),
    "return_dict_in_generate": (False, None),
    "guidance_scale": (1, None),
    "watermarking_config": (None,),
    "encoder_repetition_penalty": (1.0, None),
    "encoder_no_repeat_ngram_size": (0, None),
    "penalty_alpha": (0, None),
    "dola_layers": (None,),
    "prompt_lookup_num_tokens": (None,),
}
"""Settings that no draft can follow, or that ask for another way to decode, with the values under which they do nothing."""
SAMPLED = 64
"""Numbers of each weight by which a change in place is noticed."""


class SpeculativeGenerate:
    """Callable by `generate`. Its weights are fused at the first call, and again after they changed in place; keep it for many
    calls.

    The probabilities that it samples from, and that a rule's promises refer to, are the softmax of the logits over the speech
    codes and the end of speech of `vocabulary`, behind the processors that `generate` prepared; every other id has no
    probability. Without `do_sample` it decodes greedily. `rounds` holds the rounds of the last call, one list a row.
    """

    def __init__(
        self,
        target: LlamaForCausalLM,
        draft: LlamaForCausalLM,
        vocabulary: Vocabulary,
        rule: Rule,
        lookahead: int = 3,
        seed: int = 0,
    ) -> None:
        """seed: row i of a call has the coins of seed + i; the next call goes on behind them."""
        lookahead = Settings(lookahead=lookahead).lookahead
        for name, model in (("target", target), ("draft", draft)):
            if model.config.vocab_size <= max(vocabulary.end, vocabulary.first_code + vocabulary.codes - 1):
                allowed = f"a model that knows all {vocabulary.size} ids of the speech vocabulary"
                raise InputError(name, f"a model of {model.config.vocab_size} ids", allowed)
        known, wanted = draft.config.vocab_size, target.config.vocab_size
        if known != wanted:
            raise InputError("draft", f"a model of {known} ids", f"one of {wanted}, as the target")
        self.rounds: list[list[Round]] = []
        self._model, self._fused, self._vocabulary = target, _FusedPair(target, draft, vocabulary), vocabulary
        self._rule, self._lookahead, self.seed = rule, lookahead, seed
        self._streamer: BaseStreamer | None = None

    def bound(self, seed: int, streamer: "BaseStreamer | None" = None) -> "SpeculativeGenerate":
        """Return one for a single call, with coins and rounds of its own and the same fused weights; threads need one each.

        streamer: gets every token, since `generate` gives it to no callable.
        """
        mine = copy(self)
        mine.seed, mine._streamer, mine.rounds = seed, streamer, []
        return mine

    def __call__(
        self,
        model: LlamaForCausalLM,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **model_kwargs: object,
    ) -> Tensor:
        """Prompts `[B, P]`, padded on the left as `attention_mask` says -> prompts and what follows, `[B, P + T]`."""
        if model is not self._model:
            raise InputError("model", type(model).__name__, "the target that this was made for")
        for name, harmless in UNSUPPORTED.items():
            if (value := getattr(generation_config, name, None)) not in harmless:
                raise InputError(name, str(value), f"{harmless[0]} in speculative decoding")
        if self._streamer and len(input_ids) > 1:
            raise InputError("streamer", f"for {len(input_ids)} rows", "for one row")
        mask = model_kwargs.get("attention_mask")
        mask = torch.ones_like(input_ids) if mask is None else mask
        if short := [int(each) for each in mask.sum(1) if each < 2]:
            raise InputError("input_ids", f"a prompt of {short[0]} ids", "prompts of at least 2 ids")
        samplers = [self._sampler(ids, logits_processor, generation_config) for ids in input_ids]
        prompts = [Prompt.counted(ids[real.bool()].cpu()) for ids, real in zip(input_ids, mask, strict=True)]
        room = generation_config.max_length - input_ids.shape[1]
        rows = self._decode(prompts, samplers, room, input_ids, stopping_criteria)
        padding = self._vocabulary.end if generation_config.pad_token_id is None else generation_config.pad_token_id
        new = torch.full((len(rows), max(map(len, rows))), padding)
        for row, ids in zip(new, rows, strict=True):
            row[: len(ids)] = torch.tensor(ids, dtype=torch.int64)
        return torch.cat([input_ids, new.to(input_ids)], dim=1)

    def _sampler(self, ids: Tensor, processors: LogitsProcessorList, config: GenerationConfig) -> SamplerState:
        """Make the sampler of a row: a softmax where temperature is all that is asked."""
        temperature = float(config.temperature or 1.0) if config.do_sample else 0.0
        bounds("temperature").check("temperature", temperature)
        if all(isinstance(processor, TemperatureLogitsWarper) for processor in processors):
            return Plain(temperature)
        return Processed(
            processors, ids, self._vocabulary.model_ids().to(ids.device), self._model.config.vocab_size, temperature
        )

    def _decode(
        self,
        prompts: list[Prompt],
        samplers: list[SamplerState],
        room: int,
        input_ids: Tensor,
        stopping_criteria: StoppingCriteriaList,
    ) -> list[list[int]]:
        """Return the ids that each row says, up to its end of speech or to where a criterion stops it."""
        generators = [torch.Generator().manual_seed(self.seed + row) for row in range(len(prompts))]
        self.seed += len(prompts)
        pairs = zip(prompts, generators, samplers, strict=True)
        requests = [Request(prompt, room, own, sampler, self._rule, self._lookahead) for prompt, own, sampler in pairs]
        self.rounds = rounds = [[] for _ in prompts]
        target, draft, pool = self._fused.views()
        ids_of, spoken, done = self._vocabulary.model_ids().tolist(), [[] for _ in prompts], [room <= 0] * len(prompts)
        steps = decode(target, draft, requests, pool) if room > 0 else iter(())
        for step in steps:
            for row, round_ in step.items():
                if done[row]:
                    continue
                rounds[row].append(round_)
                said = [*round_.tokens, *([self._vocabulary.eos] if round_.ended else [])]
                for token in said:
                    spoken[row].append(ids_of[token])
                    if self._streamer:
                        self._streamer.put(torch.tensor(spoken[row][-1:]))
                    so_far = torch.cat([input_ids[row], torch.tensor(spoken[row]).to(input_ids)])[None]
                    if bool(stopping_criteria(so_far, None).any()):
                        done[row] = True
                        break
            if all(done):
                steps.close()
                break
        if self._streamer:
            self._streamer.end()
        return spoken


@dataclass(frozen=True)
class Processed:
    """Sampling behind transformers' logits processors, which see the ids so far; draft and target pass the same ones, so exact
    rules stay exact. temperature: 0 for greedy decoding; other values are among the processors."""

    processors: LogitsProcessorList
    ids: Tensor
    ids_of: Tensor
    vocab_size: int
    temperature: float
    remembers: ClassVar[bool] = True

    def warp(self, logits: Tensor) -> Warped:
        """Process `logits [V]` over the speech vocabulary, as part of the model's whole one."""
        scores = torch.full((1, self.vocab_size), -torch.inf, device=self.ids.device)
        scores[0, self.ids_of] = logits.to(scores)
        scores = self.processors(self.ids[None], scores)[0, self.ids_of]
        if not torch.isfinite(scores).any():
            raise InputError(
                "logits_processor", "without any speech code", "one that leaves a speech code or the end of speech"
            )
        return Warped(probabilities(scores, float(self.temperature > 0)).cpu())

    def after(self, token: int, warped: Warped) -> "Processed":
        return replace(self, ids=torch.cat([self.ids, self.ids_of[token : token + 1]]))


class _FusedPair:
    """Target and draft as they decode, made again where their weights were changed in place (a merged LoRA)."""

    def __init__(self, target: LlamaForCausalLM, draft: LlamaForCausalLM, vocabulary: Vocabulary) -> None:
        self._models, self._vocabulary = (target, draft), vocabulary
        self._lock, self._version, self._views = Lock(), None, None

    def views(self) -> tuple[DecodingLlama, DecodingLlama, DevicePool | None]:
        with self._lock:
            version = self._fingerprint()
            if self._version is None or not torch.equal(self._version, version):
                target, draft = (DecodingLlama(model, self._vocabulary) for model in self._models)
                pool = DevicePool() if target.device.type == "cuda" else None
                self._views, self._version = (target, draft, pool), version
            return self._views

    def _fingerprint(self) -> Tensor:
        """Return a sample of every weight, so that a change of a whole matrix is seen."""
        flat = [weight.detach().flatten() for model in self._models for weight in model.parameters()]
        return torch.cat([each[:: max(1, len(each) // SAMPLED)].float().cpu() for each in flat])
