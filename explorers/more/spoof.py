"""Spoof detectors (MSpoofTTS, arXiv 2603.05373): one text by six samplers, and which parts the detectors find synthetic."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from html import escape
from math import ceil, isnan

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.errors import page_error
from explorers.listen.actions import while_waiting
from explorers.more.beams import EMPTY, SCRIPT, Tree, spoken, tree_html
from explorers.more.beams import HEADING as BEAMS
from explorers.shared.controls import (
    knob,
    pcm,
    player,
    queued_beside,
    run_and_stop,
    seed_and_dice,
    text_box,
    voice_choice,
    wire_stop,
)
from explorers.shared.readout import busy_html, failure_html, message_html
from explorers.shared.terms import TERMS, explained, term_html
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.errors import InputError, PCGError, counted
from pcg.settings import Settings
from pcg.spoof.detectors import RESOLUTIONS, STEP
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Speak, Take, last_take
from pcg.text.reading import check_text

NOTE = "One text and one seed (n = 1): nothing follows for the samplers in general."
HEADING = f"""<header class="title"><h2>Spoof detectors<small>which parts sound synthetic to them?</small></h2>
<p>Six samplers say one text. The curves are the {term_html("spoof", "spoof probability")} of stretches of 50, 25 or 10 tokens:
lower is more like speech. The beams are chosen by these same detectors, so their lower curves prove nothing. {NOTE}</p>
</header>"""
EXAMPLE = "The train to the city leaves at nine in the morning."
READY = "Six takes, one after the other. The two with beams take longer."
STOPPED = "Stopped. Finished takes stay."
DONE = "All six takes are ready."
# The two searches cost about eleven plain takes.
TAKES = 15
HEIGHT, MOST_TICKS = 100, 6


@dataclass(frozen=True)
class Sampler:
    """A sampling scheme with the settings of MSpoofTTS, section 3.2."""

    name: str
    note: str
    settings: Settings


def _sampler(name: str, note: str, **sampling: object) -> Sampler:
    return Sampler(name, note, Settings("ar", temperature=1.0, top_k=50, **sampling))


SAMPLERS = {
    "original": _sampler("Original", "Plain sampling, the 50 likeliest tokens."),
    "top_p": _sampler("top-p", "A control: Original with the top-p of RAS and EAS, and nothing else of theirs.", top_p=0.8),
    "ras": _sampler("RAS", TERMS["ras"].meaning, sampler="ras", top_p=0.8),
    "eas": _sampler("EAS", TERMS["eas"].meaning, sampler="eas", top_p=0.8),
    "hierras": _sampler("HierRAS", "RAS in beams, pruned by the detectors.", sampler="ras", top_p=0.8, hierarchical=True),
    "hiereas": _sampler("HierEAS", "EAS in beams: the paper's MSpoofTTS.", sampler="eas", top_p=0.8, hierarchical=True),
}
SEARCHED = {key: sampler.name for key, sampler in SAMPLERS.items() if sampler.settings.hierarchical}
LAST = list(SAMPLERS)[-1]


@dataclass(frozen=True, eq=False)
class SpoofTake:
    """The take of one sampler. curves: the spoof probability of each token at each resolution, `[T]`, NaN where the take is
    too short for it; tree: None where nothing was searched."""

    key: str
    take: Take = field(repr=False)
    curves: Mapping[str, np.ndarray] = field(repr=False)
    tree: Tree | None = field(repr=False)

    def record(self) -> dict[str, object]:
        """Return the figures of the take and the means of its curves, ready for JSON."""
        means = {name: float(curve.mean()) if len(curve) else np.nan for name, curve in self.curves.items()}
        return self.take.summary() | {"spoof": {name: None if isnan(m) else round(m, 4) for name, m in means.items()}}


def can_judge(synthesizer: Synthesizer) -> bool:
    """Return whether there are spoof detectors for the codes of this voice."""
    return synthesizer.decoder.detectors is not None


def generate_all(
    synthesizer: Synthesizer, text: str, voice: str, temperature: float, seed: int, speak: Speak | None = None
) -> Iterator[SpoofTake | str]:
    """Generate the text with all samplers at one seed; yield progress as a sentence, and each take once it is finished.

    Closing the generator stops it. speak: that of the synthesizer, or of a service that serves several visitors.
    """
    text, codec = check_text(text), synthesizer.voice.codec
    synthesizer.voice.reference(voice)
    if not can_judge(synthesizer):
        raise InputError("voice", synthesizer.voice.name, "one whose codes the spoof detectors know")
    # Wrong values are refused before anything is generated.
    asked = {key: sampler.settings.with_(temperature=temperature, seed=seed) for key, sampler in SAMPLERS.items()}
    for number, (key, settings) in enumerate(asked.items(), start=1):
        yield f"{SAMPLERS[key].name}: take {number} of {len(SAMPLERS)}."
        with closing((speak or synthesizer.speak)(text, settings, voice)) as events:
            yield from while_waiting(events, synthesizer)
            take = last_take(events)
        curves = {name: curve.numpy() for name, curve in synthesizer.decoder.detectors.curves(take.tokens).items()}
        tree = Tree.of(SAMPLERS[key].name, take, codec.sample_rate / codec.hop) if key in SEARCHED else None
        yield SpoofTake(key, take, curves, tree)


def create_spoof(synthesizer: Synthesizer, speak: Speak | None = None) -> Mapping[str, Component]:
    """Lay the panel out; return the controls that share their values with other panels. speak: as in `generate_all`."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"), gr.Column(elem_classes="lab-form"):
            text, voice = text_box("spoof-", EXAMPLE), voice_choice(synthesizer, "spoof-")
            temperature = knob("temperature", Settings(), "spoof-", explained("temperature", "The paper uses 1.0."))
            seed = seed_and_dice("spoof-")
            run, stop = run_and_stop("spoof-", "Compare all six")
            status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="spoof-status")
        with gr.Column(scale=1, min_width=320, elem_classes="lab-takes"):
            with gr.Column(elem_classes="lab-card"):
                gr.HTML(HEADING, apply_default_css=False)
            keys, views = tuple(SAMPLERS), {}
            for row in zip(keys[::2], keys[1::2], strict=True):
                with gr.Row(equal_height=True, elem_classes="lab-pair"):
                    views |= {key: _create_take(synthesizer, key) for key in row}
            script = SCRIPT.read_text(encoding="utf-8")
            with gr.Column(elem_classes="lab-card"):
                gr.HTML(BEAMS, apply_default_css=False)
                trees = {key: gr.HTML(EMPTY, js_on_load=script, apply_default_css=False, elem_id=f"spoof-tree-{key}")
                         for key in SEARCHED}  # fmt: skip
            record = gr.JSON(visible=False)
    lent = on_gpu(partial(generate_all, synthesizer, speak=speak), lambda text, *_: gpu_seconds(text, TAKES))

    def compare_samplers(text: str, voice: str, temperature: float, seed: int) -> Iterator[dict[Component, object]]:
        takes: list[SpoofTake] = []
        asked = {"text": text, "voice": voice, "temperature": temperature, "seed": seed, "n": 1, "note": NOTE}
        try:
            with closing(lent(text, voice, temperature, seed)) as steps:
                for step in steps:
                    if isinstance(step, str):
                        empty = {} if takes else _emptied(views, trees) | {record: asked | {"ways": {}}}
                        yield empty | {status: busy_html(step)}
                        continue
                    takes.append(step)
                    updates = {record: asked | {"ways": {made.key: made.record() for made in takes}}}
                    done = {status: message_html(DONE)} if step.key == LAST else {}
                    tree = {trees[step.key]: tree_html(step.tree)} if step.tree else {}
                    yield updates | done | tree | _updates(step, views[step.key])
        except PCGError as error:
            yield {status: failure_html(error)}
            raise page_error(error) from error

    places = [place for view in views.values() for place in view]
    running = run.click(
        compare_samplers, [text, voice, temperature, seed],
        [record, *trees.values(), *places, status], **queued_beside(status), api_name="spoof",
        api_description="Takes of a text by six samplers at one seed; streams a record (cost and spoof probabilities), then "
        "beams, sounds and curves.",
    )  # fmt: skip
    wire_stop(stop, running, status, STOPPED)
    return {"text": text, "voice": voice, "temperature": temperature, "seed": seed}


View = tuple[gr.HTML, gr.Audio, gr.HTML]


def _create_take(synthesizer: Synthesizer, key: str) -> View:
    with gr.Column(min_width=300, elem_classes="lab-card", elem_id=f"spoof-{key}"):
        head = gr.HTML(sampler_html(key), apply_default_css=False)
        sound = player(synthesizer, SAMPLERS[key].name, f"spoof-sound-{key}")
        return head, sound, gr.HTML("", apply_default_css=False, elem_id=f"spoof-curves-{key}")


def _emptied(views: Mapping[str, View], trees: Mapping[str, gr.HTML]) -> dict[Component, object]:
    empty: dict[Component, object] = dict.fromkeys(trees.values(), EMPTY)
    for key, (head, sound, curves) in views.items():
        empty |= {head: sampler_html(key), sound: None, curves: ""}
    return empty


def _updates(made: SpoofTake, view: View) -> dict[Component, object]:
    (head, sound, curves), take = view, made.take
    drawn = curves_html(made.curves, take.audio_seconds)
    return {head: sampler_html(made.key, take), sound: pcm(take.audio, take.sample_rate), curves: drawn}


def sampler_html(key: str, take: Take | None = None) -> str:
    """The heading of a sampler, and what its take cost."""
    sampler = SAMPLERS[key]
    cost = ""
    if take is not None:
        rtf = f", {term_html('rtf')} {take.rtf:.2f}" if len(take.audio) else ""
        cut = "; cut at the length limit" if take.hit_limit else ""
        computed = f"<b>{take.computed_per_token:.1f}</b> tokens computed for each token"
        cost = (
            f'<p class="beams-note">{computed}; {counted(len(take.tokens), "token")}, {take.audio_seconds:.1f} s{rtf}{cut}.</p>'
        )
    return f'<header class="title"><h2>{sampler.name}</h2><p>{sampler.note}</p></header>{cost}'


def curves_html(curves: Mapping[str, Sequence[float]], seconds: float) -> str:
    """Draw the curves of an utterance of so many seconds, and their means.

    Args:
        curves: by resolution, the spoof probability of each token `[T]`, NaN where the utterance is too short for it.
    """
    count = max(map(len, curves.values()))
    means = {name: f"{sum(curve) / len(curve):.2f}" if _is_known(curve) else "too short" for name, curve in curves.items()}
    listed = ", ".join(f"{spoken(name)} {mean}" for name, mean in means.items())
    lines = "".join(
        f'<polyline class="{r.key}" points="{_points(curves[r.name])}"/>' for r in RESOLUTIONS if _is_known(curves[r.name])
    )
    apart = max(1, ceil(seconds / MOST_TICKS))
    ticks = "".join(f'<span style="--at:{s / seconds:.2%}">{s} s</span>' for s in range(apart, int(seconds) + 1, apart))
    levels = "".join(f'<span style="--at:{level:.0%}">{level:g}</span>' for level in (0, 0.5, 1))
    legend = "".join(
        '<div><dt><svg class="spoof-key" width="26" height="8" aria-hidden="true">'
        f'<line class="{r.key}" x2="26" y1="4" y2="4"/></svg>{escape(r.name)}</dt><dd>{means[r.name]}</dd></div>'
        for r in RESOLUTIONS
    )
    return (
        f'<div class="spoof-curves"><p>{term_html("spoof")}, 0 to 1, and its means</p><div class="spoof-plane" role="img" '
        f'aria-label="Spoof probability along {seconds:.1f} s; means: {listed}">'
        f'<div class="spoof-levels">{levels}</div>'
        f'<svg viewBox="0 0 {max(1, count)} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{lines}</svg>'
        f'<div class="spoof-seconds">{ticks}</div></div><dl class="spoof-means">{legend}</dl></div>'
    )


def _is_known(curve: Sequence[float]) -> bool:
    return len(curve) > 0 and not isnan(curve[0])


def _points(curve: Sequence[float]) -> str:
    """A curve changes at every `STEP`-th token at most."""
    places = sorted({*range(0, len(curve), STEP), len(curve) - 1})
    return " ".join(f"{place + 0.5:g},{HEIGHT * (1 - curve[place]):.1f}" for place in places)
