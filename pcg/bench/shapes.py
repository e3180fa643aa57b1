"""Timing in turns, and models of a real shape with random weights: their speed is real, and the acceptance is forced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.device_rules import CoinBlock, DeviceRule, DeviceVerdicts, TokenRule, at_first_failure, draw_each
from pcg.decode.runners import AnyDraft
from pcg.decode.speculative import Request
from pcg.errors import InputError
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Vocabulary, check_device, layer_subset
from pcg.rules import Coins, Rule, Test, Verdict, all_accepted
from pcg.sampling import Plain, as_array, draw
from pcg.text.prompt import Prompt


def milliseconds(work: Callable[[], object]) -> float:
    """Time one run of `work`, until the device is done."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    begun = perf_counter()
    work()
    wait()
    return 1e3 * (perf_counter() - begun)


def medians(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median milliseconds of each of `works` over `repeats` rounds in turns, after one that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            spent = milliseconds(work)
            if turn:
                times[name].append(spent)
    return {name: median(spent) for name, spent in times.items()}


def read_bandwidth(device: str, size: int, repeats: int = 15) -> float:
    """Measure bytes a second of reading `size` bytes on `device` again and again, as decoding reads its weights."""
    source = torch.ones(size // 4, device=device)
    return source.nbytes / (1e-3 * medians({"read": lambda: source.sum()}, repeats)["read"])


PROMPT, TOKENS = 200, 96
LOOKAHEADS = tuple(range(1, 9))
RATES = (0.2, 0.4, 0.6, 0.8, 1.0)
STEADY = 0.05
"""A ratio is refused where the AR before and the AR after differ by more than this share."""


@dataclass(frozen=True)
class ModelShape:
    """The size of a target, the layers of its draft, and how many speech codes and other ids it knows."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    draft_layers: tuple[int, ...]
    codes: int = 65_536
    others: int = 128_264
    tied: bool = False


SHAPES = {
    "small": ModelShape(4, 128, 4, 2, 256, (0, 3), codes=4096, others=100),
    "llasa-1b": ModelShape(16, 2048, 32, 8, 8192, (0, 7, 15), tied=True),
    "llasa-3b": ModelShape(28, 3072, 24, 8, 8192, (0, 13, 27), tied=True),
    "llasa-8b": ModelShape(32, 4096, 32, 8, 14_336, (0, 15, 31)),
}


def random_pair(name: str, device: str, int8: bool = False) -> tuple[DecodingLlama, DecodingLlama]:
    """Return target and draft of one of SHAPES, in bfloat16 on a GPU; raise InputError for another name or device. int8: with
    weights of 8 bits."""
    if name not in SHAPES:
        raise InputError("shape", name, "one of " + ", ".join(SHAPES))
    check_device(device)
    shape = SHAPES[name]
    vocabulary = Vocabulary(shape.codes, shape.others, 0)
    config = LlamaConfig(
        vocab_size=shape.others + shape.codes,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.tied,
        dtype=torch.bfloat16 if device == "cuda" else torch.float32,
    )
    torch.manual_seed(0)
    with torch.device(device):
        target = LlamaForCausalLM(config).to(config.dtype).eval()
        draft = layer_subset(target, shape.draft_layers).to(config.dtype).eval()
    return DecodingLlama(target, vocabulary, int8=int8), DecodingLlama(draft, vocabulary, int8=int8)


@dataclass(frozen=True)
class Forced:
    """A rule that accepts every drafted token with the same probability, whatever p and q are: for timing only."""

    rate: float

    def __call__(self, drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        probs, coin = as_array(q), coins.accept.tolist()
        tests = [Test(x, 0.0, 0.0, 0.0, 0.0, self.rate, c, c < self.rate) for x, c in zip(drafted.tolist(), coin, strict=False)]
        accepted = next((i for i, test in enumerate(tests) if not test.accepted), len(tests))
        if accepted == len(tests):
            return all_accepted(tests, probs, coins)
        return Verdict(accepted, draw(probs[accepted], float(coins.residual[0])), "resampled", tuple(tests[: accepted + 1]))

    def program(self) -> DeviceRule:
        """Do all the work of SD on the device, and then accept by the rate."""

        def decide(drafted: Tensor, p: Tensor, q: Tensor, coins: CoinBlock) -> DeviceVerdicts:
            verdicts = TokenRule()(drafted, p, q, coins)
            ratio = torch.full_like(verdicts.ratio, self.rate)
            accepted, _, q_next = at_first_failure(coins.accept < ratio, p, q)
            coin = torch.where(accepted == drafted.shape[1], coins.bonus, coins.residual[:, 0])
            return verdicts._replace(accepted=accepted, ratio=ratio, next_token=draw_each(q_next, coin[:, None])[:, 0])

        return decide


def over(speed: float, before: float, after: float) -> float | None:
    """Return a speed over AR's, which is measured before and after it; None where the machine changed its speed meanwhile."""
    return round(2 * speed / (before + after), 3) if abs(after / before - 1) <= STEADY else None


def shape_figures(
    name: str,
    pair: tuple[DecodingLlama, DecodingLlama],
    device: str,
    repeats: int,
    lookaheads: Sequence[int] = LOOKAHEADS,
    rates: Sequence[float] = RATES,
) -> dict[str, object]:
    """Time AR and rounds of each lookahead with forced acceptance, on the `pair` of a shape, behind `PROMPT` ids.

    Returns:
        ceiling: tokens/s at which the weights can be read; ar: tokens/s before and after; over_ar: by lookahead and rate, None
        where AR was not steady; round_in_ar_steps: by lookahead, what a round costs.
    """
    target, draft = pair
    ceiling = read_bandwidth(device, target.bytes_per_step) / target.bytes_per_step
    pool = DevicePool() if device == "cuda" else None
    before = tokens_per_second(pool, target, None, None, 0, repeats)
    speeds = {n: {rate: tokens_per_second(pool, target, draft, Forced(rate), n, repeats) for rate in rates} for n in lookaheads}
    after = tokens_per_second(pool, target, None, None, 0, repeats)
    # A round at the first rate yields the sum of its powers, from 0 to the lookahead.
    rounds = {n: sum(rates[0] ** i for i in range(n + 1)) * before / row[rates[0]] for n, row in speeds.items()}
    return {
        "shape": name,
        "forced_tokens": TOKENS,
        "device": torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads",
        "ceiling": round(ceiling, 1),
        "ar": [round(before, 1), round(after, 1)],
        "ar_of_ceiling": round(before / ceiling, 3),
        "over_ar": {str(n): {str(rate): over(s, before, after) for rate, s in row.items()} for n, row in speeds.items()},
        "round_in_ar_steps": {str(n): round(cost, 3) for n, cost in rounds.items()},
    }


def tokens_per_second(
    pool: DevicePool | None,
    target: DecodingLlama,
    draft: AnyDraft | None,
    rule: Rule | None,
    lookahead: int,
    repeats: int,
    rows: int = 1,
) -> float:
    """Return the median tokens/s of the decoding loop, of all `rows`, behind `PROMPT` ids; AR without a rule."""
    prompt = Prompt.counted(torch.arange(PROMPT) % target.vocabulary.first_code)
    generators = [torch.Generator().manual_seed(row) for row in range(rows)]
    speeds = []
    for _ in range(repeats + 1):
        requests = [Request(prompt, TOKENS, generator, Plain(1.0), rule, lookahead) for generator in generators]
        steps, rounds = decode(target, draft, requests, pool), []
        spent = milliseconds(lambda steps=steps, rounds=rounds: rounds.extend(steps))
        speeds.append(1e3 * sum(len(r.tokens) for step in rounds for r in step.values()) / spent)
    return median(speeds[1:])
