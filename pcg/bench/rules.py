"""What a rule costs at LLaSA's vocabulary: 65,536 codes, groups of 140 tokens in the mean, in the real loop."""

from dataclasses import dataclass
from statistics import median

import torch

from pcg.bench.shapes import ModelShape, random_pair
from pcg.decoding.speculative import Drafting, speculative
from pcg.decoding.state import Readers
from pcg.decoding.utterance import begin
from pcg.groups.groups import Groups
from pcg.prompt import Prompt
from pcg.rules.coarse import coarse
from pcg.rules.exact import exact
from pcg.rules.verdict import Rule
from pcg.sampling.plain import Plain

CODES, MEAN_SIZE = 65_536, 140
EMBEDDED_SHAPE = ModelShape(12, 256, 4, 4, 768, (0, 11), codes=CODES, others=100, tied=True)
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


def rule_costs(lookahead: int, tokens: int = 150, shape: ModelShape = EMBEDDED_SHAPE) -> dict[str, RuleCost]:
    """SD and PCG (thinning) on a random model of the embedded voice's shape with LLaSA's codes, in one run."""
    target, draft = random_pair(shape, "cpu")
    target.head.mul_(SHARPNESS)
    draft.head.mul_(SHARPNESS)
    groups = overlapping_groups(shape.codes, min(MEAN_SIZE, shape.codes // 4))
    rules = {"sd": exact, "pcg": coarse(groups, "thinning")}
    for rule in rules.values():
        _rounds(target, draft, rule, lookahead, 10)
    return {name: _cost(_rounds(target, draft, rule, lookahead, tokens)) for name, rule in rules.items()}


def _rounds(target, draft, rule: Rule, lookahead: int, tokens: int) -> list:
    prompt = Prompt(torch.arange(60), torch.arange(60, dtype=torch.float32), 60.0)
    readers = [Readers(model, [prompt], tokens + lookahead + 1) for model in (target, draft)]
    for each in readers:
        each.prefill()
    generator = torch.Generator().manual_seed(0)
    return [step[0] for step in speculative(*readers, rule, Drafting(lookahead), begin(Plain(1.0), [tokens], [generator]))]


def _cost(rounds: list) -> RuleCost:
    whole = [r.draft_ms + r.verify_ms + r.rule_ms for r in rounds]
    return RuleCost(median(r.rule_ms for r in rounds), median(whole), sum(r.rule_ms for r in rounds) / sum(whole))
