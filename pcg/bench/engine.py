"""The engine against its ceiling, against transformers, and against its own bound."""

import random
from collections.abc import Sequence

import torch

from pcg.bench.generate import TOKENS, against_generate
from pcg.bench.timing import copy_bandwidth, medians
from pcg.errors import InputError
from pcg.settings import Settings
from pcg.synthesis.costs import LOOKAHEADS, TEXTS, StepCosts, method_figures, pooled, round_costs, rounded
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import AUTO, EMBEDDED
from pcg.take import Sound, Take, accepted_in_words
from pcg.text.prompt import Reference

TURNS = 20
TEXT = TEXTS[0]
PER_METHOD = (
    *("tokens_per_second", "speedup", "bound", "bound_fraction", "acceptance_rate", "acceptance_of_tested"),
    *("acceptance_by_position", "mean_acceptance_length"),
)


def bench_engine(synthesizer: Synthesizer, settings: Settings, repeats: int, draft: str = AUTO) -> dict[str, object]:
    """Print each figure as it is measured, and return them all. draft: how the voice's draft was chosen."""
    voice = synthesizer.voice
    if voice.draft is None:
        raise InputError("draft", draft, "one that drafts, as the bench measures drafting")
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

    turns = said_in_turns(synthesizer, [TEXT], settings, name, repeats, reseed=True)
    every = {method: pooled(takes) for method, takes in turns.items()}
    speeds = method_figures(every, steps, settings.lookahead)
    for method, row in speeds.items():
        row["expected"] = row["bound"] and round(costs.speed_up(row["mean_acceptance_length"], settings.lookahead), 4)
        print(f"{method}: {_in_words(row)}", flush=True)
    share = {
        m: sum(r.rule_ms for t in takes for r in t.rounds) / sum(t.decoding_ms for t in takes) for m, takes in turns.items()
    }

    sound = first_sound_seconds(synthesizer, TEXT, name, settings, repeats)
    print(f"first sound of a stream after {sound:.3f} s; PCG's rule takes {share['pcg']:.1%} of a round", flush=True)
    return {
        "ar_vs_generate": round(min(theirs["generate"], theirs["generate_static"]) / theirs["ar"], 3),
        "sd_vs_assisted": round(theirs["assisted"] / theirs["sd"], 3),
        "ar_roofline_fraction": round(fraction, 4),
        "rule_share": {method: round(value, 4) for method, value in share.items()},
        **{name: {method: row[name] for method, row in speeds.items()} for name in (*PER_METHOD, "expected")},
        "pass_cost": rounded(costs.pass_cost, "v"),
        "draft_cost": round(costs.draft_cost(settings.lookahead), 4),
        "round_cost": rounded(costs.round_cost),
        "lookahead_cost": round(costs.line[0], 4),
        "first_sound_seconds": round(sound, 4),
        "generate_ms": {what: round(ms, 2) for what, ms in theirs.items()},
        "step_ms": {name: round(getattr(steps, name), 4) for name in ("ar", "draft", "verify")},
        "copy_gigabytes_per_second": round(bandwidth / 1e9, 2),
        "megabytes_per_step": round(size / 1e6, 2),
        "repeats": repeats,
        "lookahead": settings.lookahead,
        "draft": voice.draft_kind,
        "device": device,
        "threads": torch.get_num_threads(),
    }


def compare_methods(
    synthesizer: Synthesizer,
    texts: Sequence[str],
    settings: Settings,
    voice: str,
    repeats: int,
    steps: StepCosts,
    reference: Reference | None = None,
) -> tuple[dict[str, list[Take]], dict[str, dict[str, object]]]:
    """Say `texts` by every method `repeats` times; return of each method the takes of its turn of median speed, and their
    figures (`method_figures`)."""
    turns = [said_in_turns(synthesizer, texts, settings, voice, 1, reference, shuffle=turn) for turn in range(repeats)]
    takes = {
        method: sorted((turn[method] for turn in turns), key=lambda takes: pooled(takes).tokens_per_second)[repeats // 2]
        for method in synthesizer.methods
    }
    return takes, method_figures({method: pooled(of) for method, of in takes.items()}, steps, settings.lookahead)


def said_in_turns(
    synthesizer: Synthesizer,
    texts: Sequence[str],
    settings: Settings,
    voice: str,
    repeats: int,
    reference: Reference | None = None,
    reseed: bool = False,
    shuffle: int = 0,
) -> dict[str, list[Take]]:
    """Say each of `texts` by every method, `repeats` times (`reseed`: with another seed each time).

    Methods take turns in an order that is drawn anew for each text, as the last in a fixed order would be flattered.
    """
    order, takes = random.Random(shuffle), {method: [] for method in synthesizer.methods}
    for turn in range(repeats):
        for text in texts:
            for method in order.sample(synthesizer.methods, len(synthesizer.methods)):
                chosen = settings.for_method(method).with_(seed=(settings.seed + reseed * turn) % 2**32)
                takes[method].append(synthesizer.take(text, chosen, voice, reference))
    return takes


def first_sound_seconds(synthesizer: Synthesizer, text: str, voice: str, settings: Settings, repeats: int) -> float:
    """Return the median time from the call to the first samples of a streamed take."""

    def first() -> None:
        steps = synthesizer.speak(text, settings, voice, stream=True)
        next(step for step in steps if isinstance(step, Sound))
        steps.close()

    return 1e-3 * medians({"first": first}, repeats)["first"]


def _in_words(row: dict[str, object]) -> str:
    words = f"{row['tokens_per_second']:.0f} tokens/s, {row['speedup']:.2f}x AR"
    if row["bound"] is not None:
        words += f", E/R {row['expected']:.2f}x, bound {row['bound']:.2f}x, reached {row['bound_fraction']:.0%}"
    accepted = accepted_in_words(row["acceptance_rate"], row["acceptance_of_tested"], row["acceptance_by_position"])
    return words + (f"; {accepted}" if accepted else "")
