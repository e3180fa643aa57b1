"""The engine against its ceiling, against transformers (with a forced length, as it counts positions otherwise than the voice
learned), and against its own bound, in sentences that are spoken to the end."""

import random
from dataclasses import replace

import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.utils import logging

from pcg.bench.costs import LOOKAHEADS, TEXTS, method_figures, pooled, round_costs, rounded
from pcg.bench.shapes import medians, read_bandwidth
from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.speculative import Request
from pcg.errors import InputError
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Vocabulary, load_llama
from pcg.sampling import Plain
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import Voice
from pcg.take import Sound, Take, accepted_in_words
from pcg.text.prompt import Prompt, Reference

TURNS, COMPARED_TURNS = 20, 84
TEXT = TEXTS[0]


def bench_engine(synthesizer: Synthesizer, settings: Settings, repeats: int) -> dict[str, object]:
    """Print each figure as it is measured, and return them all."""
    voice = synthesizer.voice
    if voice.draft is None:
        raise InputError("draft", "none", "one that drafts, as the bench measures drafting")
    name, device, size = next(iter(voice.references)), voice.target.device.type, voice.target.bytes_per_step
    synthesizer.warm_up()
    bandwidth = read_bandwidth(device, size)
    ceiling = bandwidth / size
    print(f"{device}, {torch.get_num_threads()} threads; reading so many bytes again and again: {bandwidth / 1e9:.1f} GB/s")
    print(f"ceiling of AR: {size / 1e6:.1f} MB of weights a token: {ceiling:.0f} tokens/s", flush=True)

    prompt = voice.reader.prompt(TEXT, voice.reference(name))
    costs = round_costs(voice, prompt, settings.temperature, sorted({*LOOKAHEADS, settings.lookahead}), TURNS * repeats)
    lookahead, fraction = settings.lookahead, 1e3 / costs.ar / ceiling
    drafting, verify = costs.draft[lookahead] / lookahead, costs.verify[lookahead]
    print(f"AR step {costs.ar:.2f} ms: {1e3 / costs.ar:.0f} tokens/s, {fraction:.0%} of the ceiling")
    print(f"in turns with it, draft step {drafting:.2f} ms, pass of {lookahead + 1} tokens {verify:.2f} ms")
    for what, row in (("pass of v tokens", costs.pass_cost), ("round of L drafts", costs.round_cost)):
        print(f"{what} in AR steps: " + ", ".join(f"{n} {cost:.2f}" for n, cost in row.items()), flush=True)

    theirs = against_generate(voice, TEXT, name, settings, repeats)
    rates = ", ".join(f"{what} {1e3 * TOKENS / ms:.0f}" for what, ms in theirs.items())
    print(f"tokens/s for a forced length of {TOKENS} tokens, prompt included: {rates}", flush=True)

    takes = said_in_turns(synthesizer, TEXT, settings, name, repeats, reseed=True)
    speeds = method_figures({method: pooled(of) for method, of in takes.items()}, costs, settings.lookahead)
    for method, row in speeds.items():
        row["expected"] = row["bound"] and round(costs.speed_up(row["mean_acceptance_length"], settings.lookahead), 4)
        words = f"{method}: {row['tokens_per_second']:.0f} tokens/s, {row['speedup']:.2f}x AR"
        if row["bound"] is not None:
            words += f", E/R {row['expected']:.2f}x, bound {row['bound']:.2f}x, reached {row['bound_fraction']:.0%}"
        accepted = accepted_in_words(row["acceptance_rate"], row["acceptance_of_tested"], row["acceptance_by_position"])
        print(words + (f"; {accepted}" if accepted else ""), flush=True)

    def first_sound() -> None:
        steps = synthesizer.speak(TEXT, settings, name, stream=True)
        next(step for step in steps if isinstance(step, Sound))
        steps.close()

    sound = 1e-3 * medians({"first": first_sound}, repeats)["first"]
    print(f"first sound of a stream after {sound:.3f} s", flush=True)
    return {
        "ar_vs_generate": round(min(theirs["generate"], theirs["generate_static"]) / theirs["ar"], 3),
        "ar_roofline_fraction": round(fraction, 4),
        "methods": speeds,
        "pass_cost": rounded(costs.pass_cost, "v"),
        "draft_cost": round(drafting / costs.ar, 4),
        "round_cost": rounded(costs.round_cost),
        "first_sound_seconds": round(sound, 4),
        "forced_tokens": TOKENS,
        "forced_ms": {what: round(ms, 2) for what, ms in theirs.items()},
        "repeats": repeats,
        "lookahead": settings.lookahead,
        "draft": voice.draft_kind,
        "device": device,
        "threads": torch.get_num_threads(),
    }


def compare_methods(
    synthesizer: Synthesizer, text: str, settings: Settings, voice: str, repeats: int, reference: Reference | None = None
) -> dict[str, dict[str, object]]:
    """Say `text` by every method `repeats` times; return `method_figures` of each method's take of median speed."""
    chosen = reference or synthesizer.voice.reference(voice)
    prompt = synthesizer.voice.reader.prompt(synthesizer.chunks(text)[0], chosen)
    costs = round_costs(synthesizer.voice, prompt, settings.temperature, (settings.lookahead,), COMPARED_TURNS)
    takes = said_in_turns(synthesizer, text, settings, voice, repeats, reference)
    middle = {method: sorted(of, key=lambda take: take.tokens_per_second)[repeats // 2] for method, of in takes.items()}
    return method_figures(middle, costs, settings.lookahead)


def said_in_turns(
    synthesizer: Synthesizer,
    text: str,
    settings: Settings,
    voice: str,
    repeats: int,
    reference: Reference | None = None,
    reseed: bool = False,
) -> dict[str, list[Take]]:
    """Say `text` by every method, `repeats` times (`reseed`: with another seed each time).

    Methods take turns in an order that is drawn anew each time, as the last in a fixed order would be flattered.
    """
    order, takes = random.Random(0), {method: [] for method in synthesizer.methods}
    for turn in range(repeats):
        for method in order.sample(synthesizer.methods, len(synthesizer.methods)):
            chosen = settings.for_method(method).with_(seed=(settings.seed + reseed * turn) % 2**32)
            takes[method].append(synthesizer.take(text, chosen, voice, reference))
    return takes


TOKENS = 96


class SpeechOnly(LogitsProcessor):
    """Mask everything but speech codes, the end of speech included, so that lengths are equal."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._codes = slice(vocabulary.first_code, vocabulary.first_code + vocabulary.codes)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        allowed = torch.full_like(scores, -torch.inf)
        allowed[:, self._codes] = scores[:, self._codes]
        return allowed


def against_generate(voice: Voice, text: str, name: str, settings: Settings, repeats: int) -> dict[str, float]:
    """Return milliseconds for `TOKENS` tokens of AR behind one prompt, prompt included, medians of runs in turns: "ar", ours;
    transformers' "generate" with a dynamic cache, and "generate_static" with a static one."""
    logging.set_verbosity_error()
    target = load_llama(voice.target_folder, voice.vocabulary).to(voice.target.device)
    # Neither may end: an id that no speech has stands for the end of ours.
    endless = DecodingLlama(target, replace(voice.vocabulary, end=0), rounded=voice.target.rounded)
    # transformers gives ids the positions 0, 1, 2, ...
    prompt = Prompt.counted(voice.reader.prompt(text, voice.reference(name)).ids)
    ids = prompt.ids[None].to(voice.target.device)
    pool = DevicePool() if voice.device == "cuda" else None  # takes on a GPU use it, too
    request = Request(prompt, TOKENS, torch.Generator().manual_seed(settings.seed), Plain(settings.temperature))
    common = {
        "attention_mask": torch.ones_like(ids),
        "do_sample": True,
        "temperature": settings.temperature,
        "top_k": 0,
        "max_new_tokens": TOKENS,
        "min_new_tokens": TOKENS,
        "pad_token_id": 0,
        "logits_processor": LogitsProcessorList([SpeechOnly(voice.vocabulary)]),
    }
    works = {
        "ar": lambda: list(decode(endless, None, [request], pool)),
        "generate": lambda: target.generate(ids, **common),
        "generate_static": lambda: target.generate(ids, cache_implementation="static", **common),
    }
    with torch.inference_mode():
        return medians(works, repeats)
