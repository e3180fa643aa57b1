"""The swap test (PCG section 4, Table 2): one utterance, its tokens swapped within their groups, and swapped for any codes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.errors import showing_errors
from explorers.judging import Judges
from explorers.session import NO_TAKE, Session, ShownTake
from explorers.shared import controls
from explorers.shared.readout import message_html, percent, table_html
from explorers.shared.terms import explained, term_html
from explorers.zero_gpu import LONGEST_SECONDS, on_gpu
from pcg.errors import PCGError, counted
from pcg.groups.swap import Swap, Swapped, swap, swap_coins
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from pcg.text.prompt import Reference

ORIGINAL, SWAPPED, CONTROL = "original", "swapped", "control"
NOTE = "One utterance proves nothing. Over many, with intervals: python -m pcg swap."
READY = "Choose theta, then swap."
HEADING = f"""<header class="title"><h2>Swap test<small>may similar tokens stand for each other?</small></h2>
<p>Tokens are {term_html("swapped")} for other members of their group, whatever the target thinks of them (PCG section 4,
Table 2). The control puts any other codes in the same places.</p></header>"""
VERSIONS = {
    ORIGINAL: "unchanged",
    SWAPPED: "other members of the token's group",
    CONTROL: "any other codes, in the same places",
}
FIGURES = {
    "swapped": ("swapped", percent),
    "mean_group_size": ("average |G|", "{:.1f}".format),
    "wer": ("WER", percent),
    "similarity": ("speaker similarity", "{:.3f}".format),
    "dnsmos": ("DNSMOS", "{:.2f}".format),
}
"""The name and the form of each figure."""


@dataclass(frozen=True, eq=False)
class Version:
    """One version of the utterance: its tokens, its sound `samples [N]`, and a row of the paper's Table 2, by FIGURES, with the
    words that were "heard"; None where a figure has no meaning, or is not judged yet."""

    swapped: Swapped
    samples: np.ndarray = field(repr=False)
    figures: Mapping[str, float | str | None]


def take_to_swap(session: Session, key: str) -> ShownTake | None:
    """Return the chosen take, or AR's of the same request where there is one: the paper's test starts there."""
    chosen, alone = session.in_hand(key), session.cards.get("ar")
    return alone if chosen and alone and session.held is None and alone.task == chosen.task else chosen


def versions_of(
    synthesizer: Synthesizer, take: Take, speaker: Reference, theta: float, similarity: str, seed: int
) -> dict[str, Version]:
    """Swap the tokens of a take within their groups, and for any codes in the same places, and decode all versions."""
    groups, usable = synthesizer.groups(theta, similarity), synthesizer.voice.usage > 0
    # The same coins for the swap and its control: they differ in nothing but the codes.
    inside, control = (
        swap(take.tokens, groups, Swap(theta, similarity, replacement), usable, swap_coins(seed))
        for replacement in ("group", "random")
    )
    made = {ORIGINAL: replace(inside, tokens=take.tokens, positions=()), SWAPPED: inside, CONTROL: control}
    versions = {}
    for name, swapped in made.items():
        size = inside.mean_group_size if name == SWAPPED else None
        figures = dict.fromkeys((*FIGURES, "heard")) | {"swapped": swapped.share, "mean_group_size": size}
        versions[name] = Version(swapped, synthesizer.decode(list(swapped.tokens), speaker), figures)
    return versions


def swap_test(
    synthesizer: Synthesizer,
    load_judges: Callable[[], Judges],
    shown: ShownTake | None,
    theta: float,
    similarity: str,
    seed: int,
) -> Iterator[tuple[dict[str, Version], dict[str, str]]]:
    """Swap one utterance, then judge it beside the original and the control.

    Yields the versions by name, first without verdicts, and the name of the judge of each figure once they are called. Raises
    PCGError if there is no take, or a value is out of range."""
    if shown is None or not shown.take.tokens:
        raise PCGError(NO_TAKE)
    Settings(theta=theta, similarity=similarity, seed=seed)
    take, speaker = shown.take, shown.speaker(synthesizer.voice.references)
    versions = versions_of(synthesizer, take, speaker, theta, similarity, seed)
    yield versions, {}
    judges, sounds = load_judges(), [version.samples for version in versions.values()]
    verdicts = zip(versions.items(), judges.verdicts(sounds, take.sample_rate, take.text), strict=True)
    yield (
        {name: replace(version, figures={**version.figures, **figures}) for (name, version), figures in verdicts},
        judges.names,
    )


def create_swap(synthesizer: Synthesizer, load_judges: Callable[[], Judges], session: gr.State, in_hand: gr.Radio) -> None:
    """Lay the panel out.

    session: holds a Session; `in_hand`: which of its takes is chosen; `load_judges` is called at the first swap."""
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        with gr.Row(elem_classes="lab-seed"):
            theta = controls.setting("theta", "swap-", info=explained("theta", "Lower is a harder test."))
            similarity = controls.setting("similarity", "swap-", info=None)
            seed = controls.setting("seed", "swap-", info=None)
        with gr.Row(elem_classes="lab-seed"):
            run = gr.Button("Swap", variant="primary", elem_id="swap-run", size="md", scale=0, min_width=120)
            status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="swap-status")
        places: dict[str, tuple[gr.Audio, gr.HTML]] = {}
        with gr.Row(equal_height=True, elem_classes="lab-pair"):
            for name, note in VERSIONS.items():
                with gr.Column(min_width=260, elem_id=f"swap-{name}"):
                    gr.HTML(f"<h3>{name.capitalize()}</h3><p class='map-note'>{note}</p>", apply_default_css=False)
                    sound = controls.player(synthesizer, name.capitalize(), f"swap-sound-{name}")
                    places[name] = sound, gr.HTML("", apply_default_css=False, elem_id=f"swap-heard-{name}")
        table = gr.HTML("", apply_default_css=False, elem_id="swap-table")
    record = gr.JSON(visible=False)
    lent = on_gpu(partial(swap_test, synthesizer, load_judges), lambda *_: LONGEST_SECONDS)

    def swap_take(theta: float, similarity: str, seed: int, key: str, session: Session) -> Iterator[dict[Component, object]]:
        shown = take_to_swap(session, key)
        with showing_errors(), closing(lent(shown, theta, similarity, seed)) as steps:
            for versions, judges in steps:
                take = shown.take
                rows = {name: version.figures for name, version in versions.items()}
                updates: dict[Component, object] = {
                    record: {"text": take.text, "voice": take.voice, "versions": rows, "judges": judges},
                    table: figures_html(versions, judges),
                    status: message_html("Swapped and judged." if judges else "Swapped. The judges listen."),
                }
                for name, (sound, words) in places.items():
                    updates[words] = heard_html(name, versions[name], take)
                    if not judges:
                        updates[sound] = controls.pcm(versions[name].samples, take.sample_rate)
                yield updates

    run.click(
        swap_take, [theta, similarity, seed, in_hand, session],
        [record, table, *(each for pair in places.values() for each in pair), status],
        **controls.queued_beside(status), api_name="swap",
        api_description="Swap the tokens of a take within their groups, and judge the sound beside the original and a control; "
        "streams a record, then the same as HTML and sounds.",
    )  # fmt: skip


def heard_html(name: str, version: Version, take: Take) -> str:
    """Write what was spoken, or the number of replaced tokens, and the recognised words, escaped."""
    swapped, what = version.swapped, f"By {take.settings.method.upper()}, voice {take.voice}: “{take.text}”"
    if name != ORIGINAL:
        alone, count = swapped.group_sizes.count(1), counted(len(swapped.tokens), "token")
        what = f"{len(swapped.positions)} of {count} replaced; {alone} stand alone in their group."
    heard = version.figures["heard"]
    said = "" if heard is None else f'<p class="swap-words">Heard: {f"<q>{escape(heard)}</q>" if heard else "nothing"}</p>'
    return f'<p class="map-note">{escape(what)}</p>{said}'


def figures_html(versions: Mapping[str, Version], judges: Mapping[str, str]) -> str:
    """Write the figures of all versions as a table, and the judges, escaped."""
    rows = []
    for key, (name, form) in FIGURES.items():
        values = [version.figures[key] for version in versions.values()]
        rows.append([name, *("–" if value is None else form(value) for value in values)])
    table = table_html("The swap beside the original", ("", *VERSIONS), rows)
    told = "".join(f"<br>{escape(figure)}: {escape(judge)}." for figure, judge in judges.items())
    return f'{table}<p class="results-note"><strong>{NOTE}</strong>{told}</p>'
