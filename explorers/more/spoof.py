"""Spoof detectors (MSpoofTTS, arXiv 2603.05373): one text by six samplers, and which parts the detectors find synthetic."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from html import escape
from math import isnan
from typing import NamedTuple

import gradio as gr
import numpy as np
import plotly.graph_objects as go
from gradio.components import Component

from explorers.colours import DETECTORS, INK, MARGIN, SOUND_COLOUR, axis, layout
from explorers.errors import showing_errors
from explorers.listen.actions import while_waiting
from explorers.shared import controls
from explorers.shared.readout import message_html
from explorers.shared.terms import TERMS, term_html
from explorers.zero_gpu import gpu_seconds, on_gpu
from pcg.decode.beam_search import Hierarchy
from pcg.errors import counted
from pcg.settings import Settings
from pcg.spoof import M10, M25, M50, RESOLUTIONS, STEP
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Speak, Take, last_take
from pcg.text.reading import check_text

NOTE = "One text and one seed (n = 1): nothing follows for the samplers in general."
HEADING = f"""<header class="title"><h2>Spoof detectors<small>which parts sound synthetic to them?</small></h2>
<p>Six samplers say the text of Listen, with its voice, temperature and seed. The curves are the
{term_html("spoof", "spoof probability")} of stretches of 50, 25 or 10 tokens: lower is more like speech. The beams are chosen
by these same detectors, so their lower curves prove nothing. {NOTE}</p>
</header>"""
PLAN = Hierarchy()
BEAMS = f"""<h3>Beams</h3><p class="beams-note">After {PLAN.warmup} tokens, {PLAN.beams[0]} {term_html("beam", "beams")}
continue from one position; {PLAN.beams[1]} are left after {PLAN.stages[0]} tokens, {PLAN.beams[2]} after {PLAN.stages[1]}, and
after {PLAN.stages[2]} the one with the best sum of ranks is chosen.</p>"""
READY = "Six takes, one after the other. The two with beams take longer."
# The two searches cost about eleven plain takes.
TAKES = 15
SPREAD_TOKENS = 5
# Gradio may lose the first figure of a plot that appears with it.
BLANK = go.Figure(layout=layout(None) | {"height": 200, "xaxis": {"visible": False}, "yaxis": {"visible": False}})
JUDGES = (M10.name, M25.name, M50.name)
"""The detector that scores the beams at the end of each stage."""


class Sampler(NamedTuple):
    """A sampling scheme with the settings of MSpoofTTS, section 3.2."""

    name: str
    note: str
    settings: Settings


PLAIN = Settings("ar", temperature=1.0, top_k=50)
NUCLEUS, RAS, EAS = (PLAIN.with_(sampler=sampler, top_p=0.8) for sampler in ("plain", "ras", "eas"))
SAMPLERS = {
    "original": Sampler("Original", "Plain sampling, the 50 likeliest tokens.", PLAIN),
    "top_p": Sampler("top-p", "A control: Original with the top-p of RAS and EAS, and nothing else of theirs.", NUCLEUS),
    "ras": Sampler("RAS", TERMS["ras"].meaning, RAS),
    "eas": Sampler("EAS", TERMS["eas"].meaning, EAS),
    "hierras": Sampler("HierRAS", "RAS in beams, pruned by the detectors.", RAS.with_(hierarchical=True)),
    "hiereas": Sampler("HierEAS", "EAS in beams: the paper's MSpoofTTS.", EAS.with_(hierarchical=True)),
}


class SpoofTake(NamedTuple):
    """The take of one sampler. curves: each token's spoof probability by resolution, `[T]`, NaN where it is too short."""

    key: str
    take: Take
    curves: Mapping[str, np.ndarray]


def generate_all(
    synthesizer: Synthesizer, text: str, voice: str, temperature: float, seed: int, speak: Speak | None = None
) -> Iterator[SpoofTake | str]:
    """Generate the text with all samplers at one seed; yield progress as a sentence, and each take once it is finished.

    Closing the generator stops it. speak: that of the synthesizer, or of a service that serves several visitors."""
    text = check_text(text)
    synthesizer.voice.reference(voice)
    # Wrong values are refused before anything is generated.
    asked = {key: sampler.settings.with_(temperature=temperature, seed=seed) for key, sampler in SAMPLERS.items()}
    for number, (key, settings) in enumerate(asked.items(), start=1):
        yield f"{SAMPLERS[key].name}: take {number} of {len(SAMPLERS)}."
        with closing((speak or synthesizer.speak)(text, settings, voice)) as events:
            yield from while_waiting(events, synthesizer)
            take = last_take(events)
        curves = {name: curve.numpy() for name, curve in synthesizer.decoder.detectors.curves(take.tokens).items()}
        yield SpoofTake(key, take, curves)


def create_spoof(synthesizer: Synthesizer, asked: Mapping[str, Component], speak: Speak | None = None) -> None:
    """Lay the panel out. asked: the controls of Listen: text, voice, temperature and seed; speak: as in `generate_all`."""
    heads, sounds, plots, trees = {}, {}, {}, {}
    with gr.Column(elem_classes="lab-takes"):
        with gr.Column(elem_classes="lab-card"):
            gr.HTML(HEADING, apply_default_css=False)
            run, stop = controls.run_and_stop("spoof-", "Compare all six")
            status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="spoof-status")
        keys = tuple(SAMPLERS)
        for row in zip(keys[::2], keys[1::2], strict=True):
            with gr.Row(equal_height=True, elem_classes="lab-pair"):
                for key in row:
                    with gr.Column(min_width=300, elem_classes="lab-card", elem_id=f"spoof-{key}"):
                        heads[key] = gr.HTML(sampler_html(key), apply_default_css=False)
                        sounds[key] = controls.player(synthesizer, SAMPLERS[key].name, f"spoof-sound-{key}")
                        plots[key] = gr.Plot(BLANK, show_label=False, elem_id=f"spoof-curves-{key}")
        with gr.Column(elem_classes="lab-card"):
            gr.HTML(BEAMS, apply_default_css=False)
            for key in ("hierras", "hiereas"):
                trees[key] = gr.Plot(BLANK, show_label=False, elem_id=f"spoof-tree-{key}")
    lent = on_gpu(partial(generate_all, synthesizer, speak=speak), lambda text, *_: gpu_seconds(text, TAKES))

    def compare_samplers(text: str, voice: str, temperature: float, seed: int) -> Iterator[dict[Component, object]]:
        emptied = {heads[key]: sampler_html(key) for key in SAMPLERS} | dict.fromkeys(sounds.values())
        emptied |= dict.fromkeys((*plots.values(), *trees.values()), BLANK)
        with showing_errors(), closing(lent(text, voice, temperature, seed)) as steps:
            yield emptied | {status: message_html(next(steps), busy=True)}
            for step in steps:
                if isinstance(step, str):
                    yield {status: message_html(step, busy=True)}
                    continue
                tree = {trees[step.key]: beams_figure(step)} if step.key in trees else {}
                yield tree | {
                    heads[step.key]: sampler_html(step.key, step.take),
                    sounds[step.key]: controls.pcm(step.take.audio, step.take.sample_rate),
                    plots[step.key]: curves_figure(step),
                }
        yield {status: message_html("All six takes are ready.")}

    places = [*heads.values(), *sounds.values(), *plots.values(), *trees.values(), status]
    wanted = [asked[name] for name in ("text", "voice", "temperature", "seed")]
    running = run.click(compare_samplers, wanted, places, **controls.queued_beside(status), api_visibility="private")
    controls.wire_stop(stop, running, status, "Stopped. Finished takes stay.")


def sampler_html(key: str, take: Take | None = None) -> str:
    """Return the heading of a sampler, and what its take cost."""
    sampler, cost = SAMPLERS[key], ""
    if take is not None:
        length = f"{counted(len(take.tokens), 'token')}, {take.audio_seconds:.1f} s"
        cost = f'<p class="beams-note"><b>{take.computed_per_token:.1f}</b> tokens computed for each token; {length}.</p>'
    return f'<header class="title"><h2>{sampler.name}</h2><p>{sampler.note}</p></header>{cost}'


def curves_figure(made: SpoofTake) -> go.Figure:
    """Draw the curve of each detector along the sound; the legend has their means."""
    lines = []
    for resolution in RESOLUTIONS:
        curve, (colour, _, dashes) = made.curves[resolution.name], DETECTORS[resolution.name]
        known = len(curve) > 0 and not isnan(curve[0])
        # A curve changes at every `STEP`-th token at most.
        places = sorted({*range(0, len(curve), STEP), len(curve) - 1}) if known else []
        at = [(place + 0.5) / len(curve) * made.take.audio_seconds for place in places]
        name = f"{escape(resolution.name)} {f'{curve.mean():.2f}' if known else 'too short'}"
        line = {"color": colour, "width": 1.75, "dash": dashes or "solid"}
        hover = "%{x:.2f} s: %{y:.2f}"
        values = [float(curve[place]) for place in places]
        lines.append(go.Scatter(x=at, y=values, name=name, mode="lines", line=line, hovertemplate=hover))
    axes = {"xaxis": axis(None, ticksuffix=" s"), "yaxis": axis("spoof probability", range=[0, 1], dtick=0.5)}
    legend = {"orientation": "h", "y": -0.25, "font": {"size": 11}}
    room = {"height": 200, "margin": MARGIN | {"t": 12}, "showlegend": True, "legend": legend}
    return go.Figure(lines, layout(None) | axes | room)


def beams_figure(made: SpoofTake) -> go.Figure:
    """Draw the beams of a search (MSpoofTTS, Algorithm 2) as a tree over time.

    A line is a beam, a broad one was chosen. A mark stands where a detector scored it, redder for a higher spoof probability;
    a cross where it was pruned."""
    seconds_each = made.take.audio_seconds / max(1, len(made.take.tokens))
    lines: dict[bool, list[tuple[float | None, float | None]]] = {False: [], True: []}
    marks: list[tuple[float, float, float, str, str]] = []
    start, root, number = 0, (PLAN.beams[0] - 1) / 2, 0
    for cycle in made.take.cycles:
        kept, warm_up = cycle.branches[cycle.chosen], len(cycle.branches) == 1
        number += not warm_up
        for beam in cycle.branches:
            lane, end = root if warm_up else beam.number, start + len(beam.tokens)
            turns = ((start, root), (min(start + SPREAD_TOKENS, end), lane), (end, lane))
            lines[beam is kept] += [*((token * seconds_each, y) for token, y in turns), (None, None)]
            fate = "chosen" if beam is kept else f"pruned after {PLAN.stages[beam.stages - 1]} tokens"
            scores = ", ".join(f"{escape(name)} {1 - score:.2f}" for name, score in beam.scores.items())
            rank = "" if beam.rank is None else f"; sum of ranks {beam.rank:g}"
            label = f"cycle {number}, beam {beam.number + 1}: {fate}<br>spoof probability {scores}{rank}"
            for stage, judge in enumerate(() if warm_up else JUDGES[: beam.stages], start=1):
                symbol = "x" if stage == beam.stages and beam is not kept else "circle"
                at = min(start + PLAN.stages[stage - 1], end) * seconds_each
                marks.append((at, lane, 1 - beam.scores[judge], symbol, label))
        start, root = start + len(kept.tokens), root if warm_up else kept.number
    figure = go.Figure()
    for chosen, points in lines.items():
        look = {"color": SOUND_COLOUR, "width": 5} if chosen else {"color": INK, "width": 1}
        figure.add_scatter(x=[x for x, _ in points], y=[y for _, y in points], mode="lines", line=look, hoverinfo="skip")
    if marks:
        x, y, spoof, symbols, labels = zip(*marks, strict=True)
        look = {"color": spoof, "symbol": symbols, "size": 8, "cmin": 0, "cmax": 1, "colorscale": "YlOrRd"}
        look |= {"line": {"color": INK, "width": 1}, "colorbar": {"title": {"text": "spoof"}, "thickness": 8}}
        figure.add_scatter(x=x, y=y, mode="markers", marker=look, text=labels, hovertemplate="%{text}<extra></extra>")
    title = f"Beams of {SAMPLERS[made.key].name}" + ("" if number else ": the take ended before any beams")
    axes = {"xaxis": axis(None, ticksuffix=" s"), "yaxis": axis(None, visible=False, autorange="reversed")}
    return figure.update_layout(layout(title) | axes | {"height": 260, "showlegend": False})
