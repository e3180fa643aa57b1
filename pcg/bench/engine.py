"""`python -m pcg bench`: the engine against its ceiling, against transformers, against its own bound."""

import torch

from pcg.bench.generate import TOKENS, against_generate
from pcg.bench.methods import MethodSpeed, as_json, method_speeds
from pcg.bench.parts.rules import CODES, MEAN_SIZE, rule_costs
from pcg.bench.pays import rounded
from pcg.bench.rounds import LOOKAHEADS, RoundCosts, round_costs
from pcg.bench.takes import BATCH, adaptive_speedup, batch_speedup, first_sound_seconds
from pcg.bench.timing import copy_bandwidth
from pcg.errors import InputError
from pcg.settings import Settings
from pcg.synthesis.drafts import AUTO
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import EMBEDDED
from pcg.takes.told import accepted_in_words

TURNS = 20
TEXT = "The old boat moved slowly along the river, and the morning sun was warm and bright."


def bench_engine(synthesizer: Synthesizer, settings: Settings, repeats: int, draft: str = AUTO) -> dict[str, object]:
    """Print each figure as it is measured; return them all under their contract's names. draft: how the voice's was chosen."""
    voice = synthesizer.voice
    if voice.draft is None:
        raise InputError("draft", draft, "one that drafts, as it is drafting that the bench measures")
    name = next(iter(voice.references))
    device = voice.target.device.type
    bandwidth = copy_bandwidth(device)
    size = voice.target.bytes_per_step
    ceiling = bandwidth / size
    print(f"{device}, {torch.get_num_threads()} threads; copying {bandwidth / 1e9:.1f} GB/s (read + written)")
    print(f"ceiling of AR: {size / 1e6:.1f} MB of weights a token: {ceiling:.0f} tokens/s", flush=True)

    prompt = voice.reader.prompt(TEXT, voice.reference(name))
    costs = round_costs(voice, prompt, settings.temperature, sorted({*LOOKAHEADS, settings.lookahead}), TURNS * repeats)
    steps, fraction = costs.steps(settings.lookahead), 1e3 / costs.ar / ceiling
    print(f"AR step {costs.ar:.2f} ms: {1e3 / costs.ar:.0f} tokens/s, {fraction:.0%} of the ceiling")
    print(f"in turns with it, draft step {steps.draft:.2f} ms, pass of {settings.lookahead + 1} tokens {steps.verify:.2f} ms")
    for what, row in (("pass of v tokens", costs.pass_cost), ("round of L drafts", costs.round_cost)):
        print(f"{what} in AR steps: " + ", ".join(f"{n} {cost:.2f}" for n, cost in row.items()), flush=True)

    theirs = against_generate(voice, EMBEDDED, TEXT, name, settings, repeats, draft)
    rates = ", ".join(f"{what} {1e3 * TOKENS / ms:.0f}" for what, ms in theirs.items())
    print(f"tokens/s for {TOKENS} tokens, prompt included: {rates}", flush=True)

    speeds = method_speeds(synthesizer, [TEXT], name, settings, repeats)
    expected = {method: _expected(speed, costs, settings.lookahead) for method, speed in speeds.items()}
    for method, speed in speeds.items():
        print(f"{method}: {_told(speed, expected[method])}", flush=True)

    batched = {m: batch_speedup(synthesizer, TEXT, name, settings.with_(method=m), repeats) for m in ("ar", "pcg")}
    sound = first_sound_seconds(synthesizer, TEXT, name, settings, repeats)
    exact = settings.with_(method="sd")
    adaptive = {n: adaptive_speedup(synthesizer, TEXT, name, exact.with_(lookahead=n), repeats) for n in (3, 6)}
    print(f"{BATCH} takes side by side over one by one: AR {batched['ar']:.2f}x, PCG {batched['pcg']:.2f}x")
    print(f"first sound of a stream after {sound:.3f} s")
    print(
        "SD with adaptive over fixed lookahead: " + ", ".join(f"{n} {ratio:.2f}x" for n, ratio in adaptive.items()), flush=True
    )

    rules = rule_costs(settings.lookahead)
    for rule, cost in rules.items():
        at = f"at {CODES} tokens, mean group {MEAN_SIZE}"
        print(f"rule of {rule} {at}: {cost.rule_ms:.3f} ms, {cost.share:.1%} of a round of {cost.round_ms:.1f} ms", flush=True)
    return {
        "ar_vs_generate": round(min(theirs["generate"], theirs["generate_static"]) / theirs["ar"], 3),
        "sd_vs_assisted": round(theirs["assisted"] / theirs["sd"], 3),
        "ar_roofline_fraction": round(fraction, 4),
        "pcg_rule_share": round(rules["pcg"].share, 4),
        "pcg_vs_sd_rule_ms": {rule: round(cost.rule_ms, 4) for rule, cost in rules.items()},
        "bound_fraction": as_json(speeds, "bound_fraction"),
        "bound": as_json(speeds, "bound"),
        "expected_speedup": {method: None if each is None else round(each, 4) for method, each in expected.items()},
        "speedup_vs_ar": as_json(speeds, "speedup_vs_ar"),
        "acceptance_rate": as_json(speeds, "acceptance_rate"),
        "acceptance_of_tested": as_json(speeds, "acceptance_of_tested"),
        "acceptance_by_position": as_json(speeds, "acceptance_by_position"),
        "pass_cost": rounded(costs.pass_cost, "v"),
        "draft_cost": round(costs.draft_cost(settings.lookahead), 4),
        "round_cost": rounded(costs.round_cost),
        "lookahead_cost": round(costs.line[0], 4),
        "mean_acceptance_length": as_json(speeds, "mean_acceptance_length"),
        "tokens_per_second": as_json(speeds, "tokens_per_second"),
        "batch_speedup": {method: round(ratio, 3) for method, ratio in batched.items()},
        "first_sound_seconds": round(sound, 4),
        "adaptive_vs_fixed_lookahead": {str(n): round(ratio, 3) for n, ratio in adaptive.items()},
        "generate_ms": {what: round(ms, 2) for what, ms in theirs.items()},
        "step_ms": {name: round(getattr(steps, name), 4) for name in ("ar", "draft", "verify")},
        "draft_in_turns_ms": round(steps.draft, 4),
        "copy_gigabytes_per_second": round(bandwidth / 1e9, 2),
        "megabytes_per_step": round(size / 1e6, 2),
        "repeats": repeats,
        "lookahead": settings.lookahead,
        "draft": voice.draft_kind,
        "device": device,
        "threads": torch.get_num_threads(),
    }


def _expected(speed: MethodSpeed, costs: RoundCosts, lookahead: int) -> float | None:
    """E / R; None where rounds differ in cost, and for AR."""
    return None if speed.bound is None else costs.speed_up(speed.mean_acceptance_length, lookahead)


def _told(speed: MethodSpeed, expected: float | None) -> str:
    told = f"{speed.tokens_per_second:.0f} tokens/s, {speed.speedup_vs_ar:.2f}x AR"
    if speed.bound is not None:
        told += f", E/R {expected:.2f}x, bound {speed.bound:.2f}x, reached {speed.bound_fraction:.0%}"
    accepted = accepted_in_words(speed.acceptance_rate, speed.acceptance_of_tested, speed.acceptance_by_position)
    return told + (f"; {accepted}" if accepted else "")
