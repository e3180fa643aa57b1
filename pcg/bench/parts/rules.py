"""What rules cost and what block verification gains.

The cost at LLaSA's vocabulary: 65,536 codes, groups of 140 tokens in the mean, in the real loop. The gain on a voice's own
texts: in every round of token verification, what either verification expects of the tokens that were drafted there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from statistics import mean, median

import torch
from torch import Tensor

from pcg.acceptance.block import block, coarse_block, prefix_shares
from pcg.acceptance.coarse_grained import coarse
from pcg.acceptance.rejection import exact
from pcg.acceptance.sampler import as_array
from pcg.acceptance.verdict import Coins, Rule, Verdict, capped_ratio
from pcg.bench.shapes import ModelShape, random_pair, shape_of
from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, speculative
from pcg.experiments.testset import offline_utterances
from pcg.experiments.unit import Utterance
from pcg.groups.groups import Groups
from pcg.sampling.plain import Plain
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.prompt import Prompt

CODES, MEAN_SIZE = 65_536, 140
EMBEDDED_SHAPE = replace(shape_of("12x256"), draft_layers=(0, 11), codes=CODES)
SHARPNESS = 6.0


@dataclass(frozen=True)
class RuleCost:
    """Median milliseconds of the rule and of the whole round, and the rule's share of all rounds' time."""

    rule_ms: float
    round_ms: float
    share: float


def overlapping_groups(codes: int = CODES, mean_size: int = MEAN_SIZE) -> Groups:
    """Groups of `mean_size` in the mean, each token in as many: windows of unequal widths on a shuffled ring; the end of speech
    stands alone."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(codes, generator=generator)
    reach = torch.randint(1, mean_size - 1, (codes,), generator=generator)
    sizes = 2 * reach + 1
    starts = torch.arange(codes) - reach
    offsets = torch.arange(int(sizes.sum())) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    places = (torch.repeat_interleave(starts, sizes) + offsets) % codes
    rows = torch.repeat_interleave(order, sizes)
    members = order[places]
    by_row = (rows * codes + members).argsort()
    row_sizes = torch.cat([sizes[order.argsort()], torch.ones(1, dtype=torch.int64)])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), row_sizes.cumsum(0)])
    return Groups.from_sets(0.5, indptr, torch.cat([members[by_row], torch.tensor([codes])]))


def rule_costs(
    lookahead: int, tokens: int = 150, shape: ModelShape = EMBEDDED_SHAPE, blocks: bool = False
) -> dict[str, RuleCost]:
    """SD and PCG (thinning) on a random model of the embedded voice's shape with LLaSA's codes, in one run; with `blocks` also
    by block verification."""
    target, draft = random_pair(shape, "cpu")
    target.head.mul_(SHARPNESS)
    draft.head.mul_(SHARPNESS)
    groups = overlapping_groups(shape.codes, min(MEAN_SIZE, shape.codes // 4))
    rules: dict[str, Rule] = {"sd": exact, "pcg": coarse(groups, "thinning")}
    rules |= {"sd block": block, "pcg block": coarse_block(groups, "thinning")} if blocks else {}
    for rule in rules.values():
        _rounds(target, draft, rule, lookahead, 10)
    return {name: _cost(_rounds(target, draft, rule, lookahead, tokens)) for name, rule in rules.items()}


@dataclass(frozen=True)
class Gain:
    """Expected tokens of a round by token and by block verification, over the same drafts; the standard error of their
    difference; how many rounds."""

    token: float
    block: float
    error: float
    rounds: int


def block_gain(synthesizer: Synthesizer, utterances: Sequence[Utterance], settings: Settings) -> Gain:
    """Speak by token verification, and expect tokens of both for what was drafted: 1 + the sum over prefixes of
    min(1, r_1) .. min(1, r_i), or of w_i (see `pcg.acceptance.block`)."""
    rule, groups = synthesizer.rule(settings), None
    if settings.method == "pcg":
        groups = synthesizer.groups(settings.theta, settings.similarity)
    expected: list[tuple[float, float]] = []

    def watching(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        tokens, of_draft, of_target = drafted.tolist(), as_array(p), as_array(q)
        if groups is None:
            at = [(float(of_draft[i, x]), float(of_target[i, x])) for i, x in enumerate(tokens)]
        else:
            labels = [groups.label(x, coin) for x, coin in zip(tokens, coins.group.tolist(), strict=False)]
            at = [(groups.mass(of_draft[i], k), groups.mass(of_target[i], k)) for i, k in enumerate(labels)]
        one_by_one = accumulate((capped_ratio(mass_q, mass_p) for mass_p, mass_q in at), mul)
        expected.append((1 + sum(one_by_one), sum(prefix_shares(at))))
        return rule(drafted, p, q, coins)

    for number, said in enumerate(utterances):
        synthesizer.take(said.text, settings.with_(seed=number), said.voice, rule=watching)
    gains = torch.tensor([by_block - by_token for by_token, by_block in expected], dtype=torch.float64)
    error = float(gains.std() / len(gains) ** 0.5)
    return Gain(mean(t for t, _ in expected), mean(b for _, b in expected), error, len(expected))


def bench_rules(synthesizer: Synthesizer, count: int) -> dict[str, object]:
    """Print and return what block verification gains on `count` utterances, and what all four rules cost."""
    utterances = offline_utterances(count, list(synthesizer.voice.references))
    found: dict[str, object] = {}
    for lookahead in (3, 6):
        for base in (Settings("sd"), Settings("pcg", theta=0.5), Settings("pcg")):
            gain = block_gain(synthesizer, utterances, base.with_(lookahead=lookahead))
            name = f"{base.method}{f' {base.theta:g}' if base.method == 'pcg' else ''}, lookahead {lookahead}"
            print(
                f"{name}: {gain.token:.3f} tokens a round, by block {gain.block:.3f} ({gain.block / gain.token - 1:+.1%}, "
                f"+-{gain.error / gain.token:.1%}, {gain.rounds} rounds)",
                flush=True,
            )
            found[name] = {key: round(value, 4) for key, value in vars(gain).items()}
    costs = rule_costs(3, blocks=True)
    for rule, cost in costs.items():
        print(f"rule of {rule} at {CODES} tokens, mean group {MEAN_SIZE}: {cost.rule_ms:.3f} ms")
    return {"gain": found, "rule_ms": {rule: round(cost.rule_ms, 4) for rule, cost in costs.items()}}


def _rounds(target, draft, rule: Rule, lookahead: int, tokens: int) -> list:
    prompt = Prompt(torch.arange(60), torch.arange(60, dtype=torch.float32), 60.0)
    runners = [ModelRunner(model, [prompt], tokens + lookahead + 1) for model in (target, draft)]
    for each in runners:
        each.prefill()
    generator = torch.Generator().manual_seed(0)
    return [step[0] for step in speculative(*runners, rule, Drafting(lookahead), begin(Plain(1.0), [tokens], [generator]))]


def _cost(rounds: list) -> RuleCost:
    whole = [r.milliseconds for r in rounds]
    return RuleCost(median(r.rule_ms for r in rounds), median(whole), sum(r.rule_ms for r in rounds) / sum(whole))
