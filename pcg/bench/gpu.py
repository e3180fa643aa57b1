"""What only a GPU can tell, in four minutes and one JSON: is it exact there, what does a round cost, what do batches give?

It needs torch, transformers, numpy, numba and safetensors and nothing else: `python -m pcg.bench.gpu` starts on a bare machine.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from pcg.bench.shapes import PROMPT, Forced, over, random_pair, shape_figures, tokens_per_second
from pcg.decode.device_loop import DeviceLoop, DevicePool, Program
from pcg.decode.device_rules import CoinBlock, TokenRule, on_device
from pcg.decode.model_runner import ModelRunner
from pcg.decode.runners import AnyDraft
from pcg.decode.speculative import Request, decode_on_host
from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.neighbours import build_neighbours
from pcg.models.feature_draft import read_feature_draft
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary, read_checkpoint, read_tensors
from pcg.places import ASSETS
from pcg.rules import Coins, Rule, coarse, exact, tolerant
from pcg.sampling import Plain
from pcg.text.prompt import PhonemeReader, Prompt

SECONDS = 230
"""After these no further section begins."""
DRAWS = 200_000
SHAPES, ROWS = ("llasa-1b", "llasa-8b"), (1, 8, 32)
LOOKAHEADS, RATES = (1, 3, 5), (0.4, 0.6, 0.8)
REFERENCE = "ð_i_ _ˈO_l_d_ _b_ˈO_t_ _m_ˈu_v_d_ _s_l_ˈO_l_i_ _ə_l_ˈɔ_ŋ_ _ð_ə_ _ɹ_ˈɪ_v_ə_ɹ_."
SENTENCE = "p_l_ˈi_z_ _k_ˈɔ_l_ _ð_ə_ _d_ˈɑ_k_t_ə_ɹ_ _b_ə_f_ˈɔ_ɹ_ _n_ˈI_n_,_ _æ_n_d_ _b_ɹ_ˈɪ_ŋ_ _ð_ə_ _b_l_ˈu_ _b_ˈɑ_k_s_."
"""What the embedded voice reads here, as its G2P would give it: a bare machine has none."""
VOICE, LIMIT = "heart", 400
"""Who says it, and more tokens than it needs."""


def gpu_check(device: str = "cuda", shapes: tuple[str, ...] = SHAPES, draws: int = DRAWS) -> dict[str, object]:
    """Measure everything; return it ready for JSON. Raises InputError without CUDA."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device", "without CUDA", "a machine with an NVIDIA GPU and a torch that was built for it")
    torch.set_num_threads(1)
    end = perf_counter() + SECONDS
    sections: dict[str, Callable[[], object]] = {"exactness": lambda: exactness(torch.device(device), draws)}
    for name in shapes:
        sections[name] = lambda name=name: _shape_figures(name, device)
    sections["embedded"] = lambda: embedded_figures(device)
    sections["batches"] = lambda: batch_figures(shapes[0], device)
    sections["int8"] = lambda: int8_figures(shapes[0], device)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    found: dict[str, object] = {"device": name, "torch": torch.__version__, "cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    for name, measure in sections.items():
        if perf_counter() > end:
            found[name] = "not measured: the time was up"
            continue
        begun = perf_counter()
        with torch.inference_mode():
            found[name] = measure()
        print(f"{name}: {perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        if device == "cuda":
            torch.cuda.empty_cache()
    return found


def exactness(device: torch.device, draws: int) -> dict[str, object]:
    """Compare the rules on the device with those of the host, coin for coin, and by many draws with the distribution that each
    promises.

    Returns:
        differing: rounds of 500 that were decided otherwise, by rule; deviation: the largest deviation of a share, in standard
        errors (SD's first token from q; PCG's accepted groups from min(P_c, Q_c)), and that of SSD, which has to be large.
    """
    # Overlapping groups: points on a sphere, those near each; the end of speech is alone.
    points = np.random.default_rng(0).normal(size=(119, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    sets = [np.flatnonzero(row >= 0.9) for row in points @ points.T] + [np.array([119])]
    groups = Groups.from_sets(0.9, torch.tensor(np.cumsum([0, *map(len, sets)])), torch.tensor(np.concatenate(sets)))
    rules = {"sd": exact, "ssd": tolerant(0.3), "pcg": coarse(groups, "thinning")}
    found = {name: _differing(rule, device, 500) for name, rule in rules.items()}
    p, q = (torch.tensor(np.random.default_rng(seed).dirichlet(np.ones(120), 1)) for seed in (2, 3))
    generator = torch.Generator().manual_seed(5)
    drafted = torch.multinomial(p[0], draws, replacement=True, generator=generator)[:, None]
    shapes = ((1,), (1,), (1,), (2,), (1, 3), ())
    coins = CoinBlock(*(torch.rand(draws, *s, generator=generator, dtype=torch.float64).to(device) for s in shapes))
    inputs = drafted.to(device), p.expand(draws, 1, 120).to(device), q.expand(draws, 2, 120).to(device), coins
    deviation = {}
    for name in ("sd", "ssd"):
        verdicts = on_device(rules[name], device)(*inputs)
        first = torch.where(verdicts.accepted > 0, inputs[0][:, 0], verdicts.next_token)
        deviation[name] = _deviation(first.cpu(), q[0])
    verdicts = on_device(coarse(groups, "dense"), device)(*inputs)
    accepted = verdicts.group[:, 0][verdicts.accepted > 0].cpu()
    deviation["pcg"] = _deviation(accepted, torch.minimum(groups.masses(p[0]), groups.masses(q[0])), draws)
    return {"differing": found, "deviation": deviation}


def _differing(rule: Rule, device: torch.device, rounds: int, lookahead: int = 3, vocabulary: int = 120) -> int:
    generator = torch.Generator().manual_seed(0)
    p, q = ((2 * torch.randn(rounds, lookahead + n, vocabulary, generator=generator)).softmax(-1) for n in (0, 1))
    q[:, :lookahead] = 0.6 * p + 0.4 * q[:, :lookahead]
    drafted = torch.stack([torch.multinomial(p[:, i], 1, generator=generator)[:, 0] for i in range(lookahead)], 1)
    coins = [Coins.draw(lookahead, generator) for _ in range(rounds)]
    block = CoinBlock(*(table[0].to(device) for table in CoinBlock.of([coins])))
    verdicts = on_device(rule, device)(drafted.to(device), p.to(device), q.to(device), block)
    decided = torch.stack(verdicts[:2], 1).tolist()
    expected = [rule(drafted[i], p[i], q[i], own) for i, own in enumerate(coins)]
    return sum([v.accepted, v.next_token] != mine for v, mine in zip(expected, decided, strict=True))


def _deviation(drawn: Tensor, promised: Tensor, draws: int | None = None) -> float:
    """Return the largest deviation of a share from what is `promised`, in standard errors."""
    count = draws or len(drawn)
    shares = drawn.bincount(minlength=len(promised)) / count
    spread = (promised * (1 - promised) / count).sqrt().clamp(min=1e-9)
    return round(float(((shares - promised).abs() / spread).max()), 2)


def _shape_figures(name: str, device: str) -> dict[str, object]:
    """Return `shape_figures` with the milliseconds of a round's parts by lookahead."""
    pair = random_pair(name, device)
    parts = {str(n): round_parts(*pair, n, device) for n in LOOKAHEADS}
    return shape_figures(name, pair, device, 2, LOOKAHEADS, RATES) | {"parts_ms": parts}


def round_parts(target: DecodingLlama, draft: AnyDraft, lookahead: int, device: str, repeats: int = 30) -> dict[str, float]:
    """Return the milliseconds of a round and of its parts, each a graph of its own; `host`: what the host's clock adds."""
    prompt = Prompt.counted(torch.arange(PROMPT) % target.vocabulary.first_code)
    request = Request(prompt, 64, torch.Generator().manual_seed(0), Plain(1.0), exact, lookahead)
    loop = DeviceLoop(target, draft, 1, 512)
    loop.prefill([request])
    program = Program(TokenRule(), lookahead, 0, 1.0)
    found = {name: _graph_ms(work, device, repeats) for name, work in loop.parts(program).items()}
    begun = perf_counter()
    rounds = sum(1 for _ in loop.rounds([request], len(request.prompt.ids)))
    wall = 1e3 * (perf_counter() - begun) / max(1, rounds)
    return {name: round(ms, 4) for name, ms in (found | {"host": max(0.0, wall - found["round"])}).items()}


def _graph_ms(work: Callable[[], object], device: str, repeats: int) -> float:
    """Return the mean milliseconds of `work`, on a GPU replayed as a graph and timed by events."""
    work()
    if device != "cuda":
        begun = perf_counter()
        work()
        return 1e3 * (perf_counter() - begun)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats


def embedded_voice(device: str, folder: Path = ASSETS / "voice") -> tuple[Checkpoint, Vocabulary, Prompt, Tensor]:
    """Return the embedded voice's target, its vocabulary, a prompt, and how often the corpus used each code."""
    card = json.loads((folder / "voice.json").read_text(encoding="utf-8"))
    reader = PhonemeReader(tuple(card["symbols"]), tuple(card["durations"]))
    codes = torch.tensor(card["voices"][VOICE]["codes"])
    usage = read_tensors(folder / "usage.safetensors")["usage"]
    vocabulary = Vocabulary(len(usage), reader.first_code, reader.end)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    checkpoint = read_checkpoint(folder / "target", vocabulary, dtype).to(device)
    number = {symbol: i for i, symbol in enumerate(reader.symbols)}
    spoken, wanted = ([number[symbol] for symbol in words.split("_")] for words in (REFERENCE, SENTENCE))
    return checkpoint, vocabulary, reader.assemble(spoken, codes, wanted), usage


def embedded_figures(device: str, folder: Path = ASSETS / "voice") -> dict[str, object]:
    """Measure AR, SD, SSD (.3) and PCG (.3) of the embedded voice on a sentence: tokens/s, tokens a call, speed over AR."""
    checkpoint, vocabulary, prompt, usage = embedded_voice(device, folder)
    target, draft = DecodingLlama(checkpoint, vocabulary), read_feature_draft(folder / "draft", checkpoint, vocabulary)
    embedding = checkpoint.embedding[vocabulary.first_code : vocabulary.first_code + vocabulary.codes].float().cpu()
    groups = build_neighbours(embedding, 0.3, usage > 0, device).groups_at(0.3)
    rules = {"ar": None, "sd": exact, "ssd": tolerant(0.3), "pcg": coarse(groups, "thinning"), "ar again": None}
    pool, speeds, calls = DevicePool(), {}, {}
    for name, rule in rules.items():
        for seed in (-1, *range(4)):  # the first one warms up
            if seed == 0:
                begun, tokens, rounds = perf_counter(), 0, 0
            request = Request(prompt, LIMIT, torch.Generator().manual_seed(max(0, seed)), Plain(0.8), rule, 3 if rule else 0)
            steps = [step[0] for step in pool.decode(target, draft if rule else None, [request])]
            if seed >= 0:
                tokens, rounds = tokens + sum(len(r.tokens) for r in steps), rounds + len(steps)
        speeds[name], calls[name] = tokens / (perf_counter() - begun), tokens / max(1, rounds)
    before, after = speeds["ar"], speeds["ar again"]
    figures = {}
    for name, speed in speeds.items():
        figures[name] = {"tokens_per_second": round(speed, 1), "tokens_per_call": round(calls[name], 3)}
        figures[name]["over_ar"] = over(speed, before, after)
    return figures


def batch_figures(name: str, device: str) -> dict[str, object]:
    """Time rows side by side on random weights: tokens/s of all rows by AR, and by rounds of 3 with forced acceptance .6."""
    target, draft = random_pair(name, device)
    pool, found = DevicePool(), {}
    for rows in ROWS:
        before = tokens_per_second(pool, target, None, None, 0, 1, rows)
        speed = tokens_per_second(pool, target, draft, Forced(0.6), 3, 1, rows)
        after = tokens_per_second(pool, target, None, None, 0, 1, rows)
        found[str(rows)] = {"ar": round(before, 1), "sd": round(speed, 1), "over_ar": over(speed, before, after)}
    return found


def int8_figures(name: str, device: str, samples: int = 8) -> dict[str, object]:
    """Tell what weights of 8 bits give and cost.

    Returns:
        speedup: tokens/s over those with 16 bits, on random weights of a shape, by AR and by rounds of 3 with forced acceptance
        .6; None where AR was not steady. nats: -log of a token's probability in the embedded voice's own samples, by its
        weights as they are and by those of 8 bits.
    """
    pool, pair, rounded = DevicePool(), random_pair(name, device), random_pair(name, device, int8=True)
    before = tokens_per_second(pool, pair[0], None, None, 0, 1)
    ar = tokens_per_second(pool, rounded[0], None, None, 0, 1)
    drafted = [tokens_per_second(pool, *each, Forced(0.6), 3, 1) for each in (pair, rounded)]
    after = tokens_per_second(pool, pair[0], None, None, 0, 1)
    steady = over(ar, before, after)
    checkpoint, vocabulary, prompt, _ = embedded_voice(device)
    models = {name: DecodingLlama(checkpoint, vocabulary, int8=name == "int8") for name in ("as they are", "int8")}
    nats, count = dict.fromkeys(models, 0.0), 0
    for seed in range(samples):
        request = Request(prompt, LIMIT, torch.Generator().manual_seed(seed), Plain(0.8))
        tokens = [token for step in decode_on_host(models["as they are"], None, [request]) for token in step[0].tokens]
        count += len(tokens)
        for name, model in models.items():
            runner = ModelRunner(model, [prompt], len(tokens) + 1)
            runner.prefill()
            log_probs = (runner.feed([0], [tokens], len(tokens) + 1)[0].float() / 0.8).log_softmax(-1)
            nats[name] -= float(log_probs[range(len(tokens)), tokens].sum())
    speedup = {"ar": steady, "rounds": steady and round(drafted[1] / drafted[0], 3)}
    return {"speedup": speedup, "nats": {name: round(total / count, 4) for name, total in nats.items()}}


if __name__ == "__main__":
    print(json.dumps(gpu_check(*sys.argv[1:2])))
