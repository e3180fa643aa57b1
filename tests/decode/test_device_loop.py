"""Rounds of fixed shapes are the rounds of the loop on the host, coin for coin. Without a GPU nothing is recorded, but every
function that would be is run."""

from collections.abc import Sequence
from typing import ClassVar

import pytest
import torch
from test_running_batch import models
from torch.utils._python_dispatch import TorchDispatchMode

from pcg.decode.device_loop import BLOCK, DeviceLoop, DevicePool, Program, fits
from pcg.decode.device_rules import on_device
from pcg.decode.speculative import Request, decode_on_host
from pcg.groups.groups import Groups
from pcg.rules import Rule, block, coarse, exact, tolerant
from pcg.sampling import Plain, RepetitionAware, SamplerState
from pcg.take import Round
from pcg.text.prompt import Prompt

MEMBERS = torch.tensor([t ^ k for t in range(60) for k in (0, 1)] + [60])
PAIRS = Groups.from_sets(0.5, torch.tensor([*range(0, 122, 2), 121]), MEMBERS)
RULES = {"ar": None, "sd": exact, "ssd": tolerant(0.2), "pcg": coarse(PAIRS, "thinning")}


def requests_of(
    rule: Rule | None, sampler: SamplerState, lookahead: int = 3, seeds: Sequence[int] = (1, 2, 3)
) -> list[Request]:
    """Rows of unequal prompts and limits."""
    made = []
    for seed in seeds:
        ids = torch.randint(20, 80, (8 + 3 * seed,), generator=torch.Generator().manual_seed(seed))
        prompt = Prompt(ids, torch.arange(len(ids) + 0.0), len(ids) + 0.0)
        made.append(
            Request(prompt, 14 + 7 * seed, torch.Generator().manual_seed(seed), sampler, rule, lookahead if rule else 0)
        )
    return made


def by_host(pair: tuple, requests: Sequence[Request]) -> list[dict[int, Round]]:
    return list(decode_on_host(*pair, requests))


def by_device(pair: tuple, requests: Sequence[Request]) -> list[dict[int, Round]]:
    target, draft = pair
    return list(DevicePool().decode(target, draft if requests[0].rule else None, requests))


def known(steps: Sequence[dict[int, Round]]) -> list[dict[int, tuple]]:
    return [
        {
            row: (r.tokens, r.kinds, r.group_sizes, r.drafted, r.accepted, r.ended, r.trials, r.next_group)
            for row, r in s.items()
        }
        for s in steps
    ]


@pytest.mark.parametrize("kind", ["feature", "layers"])
@pytest.mark.parametrize("method", RULES)
def test_rounds_are_those_of_the_loop_on_the_host(kind: str, method: str) -> None:
    pair = models(kind, compiled=False)
    for sampler in (Plain(0.8), Plain(0.0), Plain(1.1, top_k=12, top_p=0.9)):
        host, device = (decode(pair, requests_of(RULES[method], sampler)) for decode in (by_host, by_device))
        assert known(device) == known(host)
        assert len(host) > BLOCK
        for ours, theirs in zip(device, host, strict=True):
            for row, round_ in ours.items():
                for test, wanted in zip(round_.tests, theirs[row].tests, strict=True):
                    assert (test.token, test.coin, test.accepted, test.group) == (
                        wanted.token,
                        wanted.coin,
                        wanted.accepted,
                        wanted.group,
                    )
                    assert (test.p, test.q, test.ratio) == pytest.approx((wanted.p, wanted.q, wanted.ratio), rel=1e-3, abs=1e-6)


def test_a_row_says_in_a_batch_what_it_says_alone() -> None:
    pair = models("feature", compiled=False)
    together = by_device(pair, requests_of(exact, Plain(0.8)))
    for row, seed in enumerate((1, 2, 3)):
        alone = by_device(pair, requests_of(exact, Plain(0.8), seeds=(seed,)))
        assert known(alone) == known([{0: step[row]} for step in together if row in step])


def test_the_next_text_has_the_coins_that_the_loop_on_the_host_would_have() -> None:
    """The coins of rounds that were played behind the end are drawn again."""
    pair = models("layers", compiled=False)
    for method in ("ar", "pcg"):
        states = []
        for decode in (by_host, by_device):
            requests = requests_of(RULES[method], Plain(0.8))
            decode(pair, requests)
            states.append([r.generator.get_state() for r in requests])
        assert all(torch.equal(*pair_) for pair_ in zip(*states, strict=True))


@pytest.mark.parametrize("method", RULES)
def test_a_round_asks_the_host_nothing(method: str) -> None:
    """No number of a tensor is read while a round is played: the host waits once a block, for the report."""

    class Called(TorchDispatchMode):
        names: ClassVar[list[str]] = []

        def __torch_dispatch__(self, func: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    target, draft = models("feature", compiled=False)
    requests = requests_of(RULES[method], Plain(0.8))
    loop = DeviceLoop(target, draft if RULES[method] else None, len(requests), 256)
    loop.prefill(requests)
    program = Program(on_device(RULES[method], torch.device("cpu")), 3 if RULES[method] else 0, 0, 1.0)
    play = loop.parts(program)["round"]
    with torch.inference_mode(), Called() as called:
        play()
    assert len(called.names) > 50
    assert not [name for name in called.names if "local_scalar" in name or "nonzero" in name or "item" in name]


def test_other_coins_are_noticed() -> None:
    """The negative control of the comparisons above."""
    pair = models("layers", compiled=False)
    other = requests_of(exact, Plain(0.8), seeds=(4, 5, 6))
    assert known(by_device(pair, other)) != known(by_host(pair, requests_of(exact, Plain(0.8))))


def test_what_has_no_program_is_left_to_the_loop_on_the_host() -> None:
    assert all(fits(requests_of(rule, Plain(0.8))) for rule in RULES.values())
    assert not fits(requests_of(block, Plain(0.8)))
    assert not fits(requests_of(exact, RepetitionAware(0.8)))
    assert not fits(requests_of(exact, Plain(0.8, penalty=1.2)))
    assert not fits([*requests_of(exact, Plain(0.8)), *requests_of(exact, Plain(0.8), lookahead=4)])
    assert not fits(requests_of(exact, Plain(0.8), lookahead=12))


def test_a_pool_lends_a_loop_to_one_borrower_at_a_time() -> None:
    pair, pool = models("layers", compiled=False), DevicePool()
    wanted = known(by_host(pair, requests_of(exact, Plain(0.8))))
    one, other = (pool.decode(*pair, requests_of(exact, Plain(0.8))) for _ in range(2))
    said = [known(steps) for steps in zip(*zip(one, other, strict=True), strict=True)]
    assert said == [wanted, wanted]
    assert known(list(pool.decode(*pair, requests_of(exact, Plain(0.8))))) == wanted
