"""The speculative loop as transformers' `custom_generate`: for a plain pair of LlamaForCausalLM, in existing code.

from pcg.decode.hf_generate import SpeculativeGenerate
from pcg.rules import exact
from pcg.models.vocabulary import Vocabulary

speculate = SpeculativeGenerate(target, draft, Vocabulary(codes=65_536, first_code=128_264, end=128_261), exact)
target.generate(input_ids, custom_generate=speculate, do_sample=True, temperature=0.8, top_k=0, max_new_tokens=500)

`pcg/serving/hub/` builds a SpeculativeGenerate from settings; it is what a repository on the Hub serves.
"""

import torch
from torch import Tensor
from transformers import GenerationConfig, LlamaForCausalLM, LogitsProcessorList, StoppingCriteriaList

from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.speculative import Drafting, Request
from pcg.errors import InputError
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.rules import Rule
from pcg.sampling import Plain
from pcg.settings import Settings, bounds
from pcg.take import Round
from pcg.text.prompt import Prompt

UNSUPPORTED = {
    "top_k": (0, None),
    "top_p": (1.0, None),
    "min_p": (None,),
    "typical_p": (1.0, None),
    "epsilon_cutoff": (0.0, None),
    "eta_cutoff": (0.0, None),
    "repetition_penalty": (1.0, None),
    "no_repeat_ngram_size": (0, None),
    "min_length": (0, None),
    "min_new_tokens": (None, 0),
    "num_beams": (1, None),
    "num_return_sequences": (1, None),
    "return_dict_in_generate": (False, None),
}
"""Settings that would change the probabilities or the shape of the answer, with the values under which they do nothing."""


class SpeculativeGenerate:
    """Callable by `generate`. Its weights are fused once, here, so keep it for many calls.

    The probabilities that it samples from, and that a rule's promises refer to, are the softmax of the logits over the
    speech codes and the end of speech of `vocabulary`, at `temperature`; every other id has no probability. `rounds` holds
    the rounds of the last call, one list a row; `seed` is that of the next call's first row, and moves on with every row."""

    def __init__(
        self,
        target: LlamaForCausalLM,
        draft: LlamaForCausalLM,
        vocabulary: Vocabulary,
        rule: Rule,
        lookahead: int = 3,
        confidence: float | None = None,
        seed: int = 0,
    ) -> None:
        """confidence: as in `Drafting`, None for a fixed lookahead. seed: row i of the first call has the coins of seed + i."""
        lookahead = Settings(lookahead=lookahead).lookahead
        for name, model in (("target", target), ("draft", draft)):
            if model.config.vocab_size <= max(vocabulary.end, vocabulary.first_code + vocabulary.codes - 1):
                allowed = f"a model that knows all {vocabulary.size} ids of the speech vocabulary"
                raise InputError(name, f"a model of {model.config.vocab_size} ids", allowed)
        if target.config.vocab_size != draft.config.vocab_size:
            raise InputError(
                "draft", f"a model of {draft.config.vocab_size} ids", f"one of {target.config.vocab_size}, as the target"
            )
        self.rounds: list[list[Round]] = []
        self._model = target
        self._views = [DecodingLlama(model, vocabulary) for model in (target, draft)]
        self._pool = DevicePool() if self._views[0].device.type == "cuda" else None
        self._rule, self._drafting, self.seed = rule, Drafting(lookahead, confidence), seed

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
        _check(generation_config)
        temperature = float(generation_config.temperature or 1.0) if generation_config.do_sample else 0.0
        bounds("temperature").check("temperature", temperature)
        mask = model_kwargs.get("attention_mask")
        mask = torch.ones_like(input_ids) if mask is None else mask
        if short := [int(each) for each in mask.sum(1) if each < 2]:
            raise InputError("input_ids", f"a prompt of {short[0]} ids", "prompts of at least 2 ids")
        prompts = [_prompt(ids[real.bool()].cpu()) for ids, real in zip(input_ids, mask, strict=True)]
        room = generation_config.max_length - input_ids.shape[1]
        self.rounds = self._decode(prompts, room, temperature)
        spoken = [self._ids(rounds, room) for rounds in self.rounds]
        longest = max(map(len, spoken))
        end = self._views[0].vocabulary.end
        padding = end if generation_config.pad_token_id is None else generation_config.pad_token_id
        new = torch.full((len(spoken), longest), padding)
        for row, ids in zip(new, spoken, strict=True):
            row[: len(ids)] = ids
        return torch.cat([input_ids, new.to(input_ids)], dim=1)

    def _decode(self, prompts: list[Prompt], room: int, temperature: float) -> list[list[Round]]:
        generators = [torch.Generator().manual_seed(self.seed + row) for row in range(len(prompts))]
        self.seed += len(prompts)
        asked = (Plain(temperature), self._rule, self._drafting)
        requests = [Request(prompt, room, generator, *asked) for prompt, generator in zip(prompts, generators, strict=True)]
        rounds: list[list[Round]] = [[] for _ in prompts]
        for step in decode(*self._views, requests, self._pool):
            for row, round_ in step.items():
                rounds[row].append(round_)
        return rounds

    def _ids(self, rounds: list[Round], room: int) -> Tensor:
        """The model's ids of what was said, and the end of speech if it was."""
        vocabulary = self._views[0].vocabulary
        spoken = [token for each in rounds for token in each.tokens]
        ended = [vocabulary.eos] if rounds and rounds[-1].ended and len(spoken) < room else []
        return vocabulary.model_ids()[torch.tensor([*spoken, *ended], dtype=torch.int64)]


def _prompt(ids: Tensor) -> Prompt:
    return Prompt(ids, torch.arange(len(ids), dtype=torch.float32), float(len(ids)))


def _check(config: GenerationConfig) -> None:
    for name, harmless in UNSUPPORTED.items():
        value = getattr(config, name, None)
        if value not in harmless:
            raise InputError(name, value, f"{harmless[0]} (speculative decoding here knows nothing but a temperature)")
