"""How good a draft is: how much of it the engine accepts, and how much it could at best."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.decode.runners import AnyDraft, make_runners
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, speculative
from pcg.groups.pairs.neighbours import build_neighbours
from pcg.metrics.estimate import Estimate, bootstrap
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.rules import Rule, coarse, exact
from pcg.sampling import Plain, probabilities
from pcg.settings import Settings
from pcg.text.prompt import Prompt, PromptReader
from pcg.training.data.samples import voices
from pcg.training.data.sequences import collate, lay_out, make_row
from pcg.training.data.tokens import TokenizedUtterance
from pcg.training.voice.target import speech_logits

EXPECTED = "expected"


Pair = tuple[TokenizedUtterance, TokenizedUtterance]


def draw_pairs(spoken: Sequence[TokenizedUtterance], count: int, seed: int) -> list[Pair]:
    """`count` pairs of utterances of one voice, or as many as there are; voices take turns, and no utterance comes twice."""
    rng = random.Random(seed)
    by_voice = [rng.sample(said, len(said)) for said in voices(spoken).values()]
    turns = max((len(said) // 2 for said in by_voice), default=0)
    pairs = [(said[2 * i], said[2 * i + 1]) for i in range(turns) for said in by_voice if 2 * i + 1 < len(said)]
    return pairs[:count]


def sd_and_pcg(target: LlamaForCausalLM, vocabulary: Vocabulary, used: Tensor, theta: float) -> dict[str, Rule]:
    """The rules of SD, and of PCG with the target's groups at `theta`; codes that are not `used [codes]` stand alone."""
    first = vocabulary.first_code
    embedding = target.get_input_embeddings().weight.detach()[first : first + vocabulary.codes].float().cpu()
    groups = build_neighbours(embedding, theta, used, device=target.device.type).groups_at(theta)
    return {"sd": exact, "pcg": coarse(groups, "thinning")}


@dataclass(frozen=True)
class AcceptanceTrial:
    """What a draft is tried on: for each pair, the second's text is said with the first as reference."""

    pairs: Sequence[Pair]
    reader: PromptReader
    vocabulary: Vocabulary
    rules: Mapping[str, Rule]
    settings: Settings


class Examiner:
    """Tries drafts of one target on texts that none of them learned."""

    def __init__(self, target: LlamaForCausalLM, trial: AcceptanceTrial) -> None:
        self._target, self._trial = target, trial
        self._decoding = DecodingLlama(target, trial.vocabulary)

    def examine(self, draft: LlamaForCausalLM) -> dict[str, Estimate]:
        """For each rule the share of drafted tokens that the engine accepts, and, as "expected", the overlap of the
        probabilities.

        The overlap is the mean of sum min(p, q) over the positions of the second utterances: the chance that a token drawn from
        p there passes exact speculative decoding. Coins are the same at each call.
        """
        return self.accepted(DecodingLlama(draft, self._trial.vocabulary)) | {EXPECTED: self._overlap(draft)}

    def accepted(self, draft: AnyDraft) -> dict[str, Estimate]:
        """For each rule the share of the tokens drafted by any draft that the engine accepts."""
        trial = self._trial
        prompts = [lay_out(a, [b], trial.reader) for a, b in trial.pairs]
        limits = [int(1.6 * len(b.codes)) + 40 for _, b in trial.pairs]
        return {name: self._accepted(draft, rule, prompts, limits) for name, rule in trial.rules.items()}

    def figures(self, draft: LlamaForCausalLM) -> dict[str, float]:
        """`examine` without intervals, for a log."""
        return {name: estimate.value for name, estimate in self.examine(draft).items()}

    def _accepted(self, draft: AnyDraft, rule: Rule, prompts: Sequence[Prompt], limits: Sequence[int]) -> Estimate:
        settings = self._trial.settings
        runners = make_runners(self._decoding, draft, prompts, max(limits) + settings.lookahead + 1)
        for each in runners:
            each.prefill()
        coins = [torch.Generator().manual_seed(settings.seed + i) for i in range(len(prompts))]
        accepted, drafted = [0] * len(prompts), [0] * len(prompts)
        drafting = Drafting(settings.lookahead)
        for step in speculative(*runners, rule, drafting, begin(Plain(settings.temperature), limits, coins)):
            for row, round_ in step.items():
                accepted[row] += round_.accepted
                drafted[row] += len(round_.drafted)
        return bootstrap(accepted, drafted)

    @torch.inference_mode()
    def _overlap(self, draft: LlamaForCausalLM) -> Estimate:
        sums, counts = [], []
        for pair in self._trial.pairs:
            said = len(pair[1].codes) + 1
            p, q = (self._law(model, pair)[-said:] for model in (draft, self._target))
            sums.append(float(torch.minimum(p, q).sum()))
            counts.append(said)
        return bootstrap(sums, counts)

    def _law(self, model: LlamaForCausalLM, pair: Pair) -> Tensor:
        trial = self._trial
        batch = collate([make_row(pair, trial.reader, trial.vocabulary.codes)]).to(str(model.device))
        return probabilities(speech_logits(model, batch, trial.vocabulary)[0], trial.settings.temperature)
