"""The swap test (PCG section 4, Table 2): one utterance, its tokens swapped within their groups, and swapped for any codes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.errors import page_error
from explorers.judging import JudgedTake, Judges
from explorers.session import Session, ShownTake
from explorers.shared.controls import (
    knob,
    pcm,
    player,
    queued_beside,
    seed_and_dice,
    similarity_choice,
)
from explorers.shared.readout import failure_html, message_html, percent, table_html
from explorers.shared.terms import explained, term_html
from explorers.zero_gpu import LONGEST_SECONDS, on_gpu
from pcg.analysis.audition import mel_distance
from pcg.analysis.swap import Swap, Swapped, swap, swap_coins
from pcg.errors import InputError, PCGError, counted
from pcg.metrics.intelligibility import comparable
from pcg.metrics.quality import Sample
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take

ORIGINAL, SWAPPED, CONTROL = "original", "swapped", "control"
NO_TAKE = "There is no take yet: generate one first."
CUT = "It ran to the length limit, before the end of the text."
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
    "cer": ("CER", percent),
    "similarity": ("speaker similarity", "{:.3f}".format),
    "dnsmos": ("DNSMOS", "{:.2f}".format),
    "mel_distance": ("mel distance", "{:.2f} dB".format),
}
"""The name and the form of each figure."""


@dataclass(frozen=True, eq=False)
class Version:
    """One version of the utterance: its tokens, and its sound `samples [N]`. verdict, mel_distance (to the original, in dB):
    None until judged."""

    name: str
    swapped: Swapped
    samples: np.ndarray = field(repr=False)
    verdict: JudgedTake | None = None
    mel_distance: float | None = None

    @property
    def figures(self) -> dict[str, float | None]:
        """A row of the paper's Table 2; None where a figure has no meaning, or is not judged yet."""
        verdict = self.verdict
        return {
            "swapped": self.swapped.share,
            "mean_group_size": self.swapped.mean_group_size if self.name == SWAPPED else None,
            "wer": verdict and verdict.words.rate,
            "cer": verdict and verdict.characters.rate,
            "similarity": verdict and verdict.similarity,
            "dnsmos": verdict and verdict.dnsmos,
            "mel_distance": self.mel_distance,
        }


@dataclass(frozen=True, eq=False)
class SwapTest:
    """A swap test, without verdicts first. judges: the name of the judge of each figure, once they are known."""

    original: Take
    versions: tuple[Version, ...]
    judges: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, object]:
        """Return the text and the figures of each version, ready for JSON."""
        versions = {v.name: {**v.figures, "heard": v.verdict and v.verdict.heard} for v in self.versions}
        return {"text": self.original.text, "voice": self.original.voice, "versions": versions, "judges": dict(self.judges)}


def take_to_swap(session: Session, key: str) -> ShownTake | None:
    """Return the chosen take, or AR's of the same request where there is one: the paper's test starts there."""
    chosen, alone = session.in_hand(key), session.cards.get("ar")
    return alone.shown if chosen and alone and session.held is None and alone.shown.task == chosen.task else chosen


def swap_test(
    synthesizer: Synthesizer,
    load_judges: Callable[[], Judges],
    shown: ShownTake | None,
    theta: float,
    similarity: str,
    seed: int,
) -> Iterator[SwapTest]:
    """Swap one utterance, then judge it beside the original and the control.

    Args:
        load_judges: called when the sounds are there.
        shown: the take to swap.
        seed: of the swap.

    Raises:
        PCGError: if there is no take, or a value is out of range.
    """
    if shown is None or not shown.take.tokens:
        raise PCGError(NO_TAKE)
    Settings(theta=theta, similarity=similarity, seed=seed)
    take, speaker = shown.take, shown.speaker(synthesizer.voice.references)
    if not comparable(take.text):
        raise InputError("text", take.text, "a text with at least one word")
    groups, usable = synthesizer.groups(theta, similarity), synthesizer.voice.usage > 0

    def swapped_for(replacement: str) -> Swapped:
        # The same coins for the swap and its control: they differ in nothing but the codes.
        return swap(take.tokens, groups, Swap(theta, similarity, replacement), usable, swap_coins(seed))

    inside = swapped_for("group")
    made = {ORIGINAL: replace(inside, tokens=take.tokens, positions=()), SWAPPED: inside, CONTROL: swapped_for("random")}
    sounds = {name: synthesizer.decode(list(swapped.tokens), speaker) for name, swapped in made.items()}
    versions = tuple(Version(name, swapped, sounds[name]) for name, swapped in made.items())
    yield SwapTest(take, versions)
    judges, rate, first = load_judges(), take.sample_rate, sounds[ORIGINAL]
    names = {**judges.names("the original"), "Mel distance": "mean absolute difference of log-mels to the original"}
    verdicts = judges.verdicts([Sample(v.samples, rate, take.text, first) for v in versions])
    judged = tuple(
        replace(version, verdict=verdict, mel_distance=mel_distance(version.samples, first, rate))
        for version, verdict in zip(versions, verdicts, strict=True)
    )
    yield SwapTest(take, judged, names)


def create_swap(
    synthesizer: Synthesizer, load_judges: Callable[[], Judges], session: gr.State, in_hand: gr.Radio
) -> Mapping[str, object]:
    """Lay the panel out; return the controls that share their values with other panels.

    session: holds a Session; `in_hand`: which of its takes is chosen; `load_judges` is called at the first swap.
    """
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        with gr.Row(elem_classes="lab-seed"):
            theta = knob("theta", Settings(), "swap-", explained("theta", "Lower is a harder test."))
            similarity = similarity_choice("swap-")
            seed = seed_and_dice("swap-")
        with gr.Row(elem_classes="lab-seed"):
            run = gr.Button("Swap", variant="primary", elem_id="swap-run", size="md", scale=0, min_width=120)
            status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="swap-status")
        text = gr.HTML("", apply_default_css=False, elem_id="swap-said")
        with gr.Row(equal_height=True, elem_classes="lab-pair"):
            views = {name: _create_version(synthesizer, name) for name in VERSIONS}
        table = gr.HTML("", apply_default_css=False, elem_id="swap-table")
    record = gr.JSON(visible=False)
    lent = on_gpu(partial(swap_test, synthesizer, load_judges), lambda *_: LONGEST_SECONDS)

    def handle(theta: float, similarity: str, seed: int, key: str, session: Session) -> Iterator[dict[Component, object]]:
        try:
            with closing(lent(take_to_swap(session, key), theta, similarity, seed)) as steps:
                for test in steps:
                    updates: dict[Component, object] = {record: test.record(), text: original_html(test.original)}
                    for version in test.versions:
                        sound, words = views[version.name]
                        updates |= {words: heard_html(version)}
                        if not test.judges:
                            updates |= {sound: pcm(version.samples, test.original.sample_rate)}
                    told = "Swapped and judged." if test.judges else "Swapped. The judges listen."
                    yield updates | {table: figures_html(test), status: message_html(told)}
        except PCGError as error:
            yield {status: failure_html(error)}
            raise page_error(error) from error

    run.click(
        handle, [theta, similarity, seed, in_hand, session],
        [record, text, table, *(place for view in views.values() for place in view), status],
        **queued_beside(status), api_name="swap",
        api_description="Swap the tokens of a take within their groups, and judge the sound beside the original and a control; "
        "streams a record, then the same as HTML and sounds.",
    )  # fmt: skip
    return {"theta": theta, "similarity": similarity, "seed": seed}


def _create_version(synthesizer: Synthesizer, name: str) -> tuple[gr.Audio, gr.HTML]:
    with gr.Column(min_width=260, elem_id=f"swap-{name}"):
        gr.HTML(f"<h3>{name.capitalize()}</h3><p class='map-note'>{VERSIONS[name]}</p>", apply_default_css=False)
        sound = player(synthesizer, name.capitalize(), f"swap-sound-{name}")
        return sound, gr.HTML("", apply_default_css=False, elem_id=f"swap-heard-{name}")


def original_html(take: Take) -> str:
    """Write the method, the voice and the text of the utterance, escaped."""
    method = "AR" if take.settings.method == "ar" else f"{take.settings.method.upper()}, not by AR as in the paper"
    cut = f" {CUT}" if take.hit_limit else ""
    return f'<p class="swap-words">By {method}, voice {escape(take.voice)}: <q>{escape(take.text)}</q>{cut}</p>'


def heard_html(version: Version) -> str:
    """Write the number of replaced tokens and the recognised words, escaped."""
    replaced, alone = len(version.swapped.positions), len(version.swapped.tokens) - len(version.swapped.candidates)
    what = f"{replaced} of {counted(len(version.swapped.tokens), 'token')} replaced; {alone} stand alone in their group."
    if version.name == ORIGINAL:
        what = counted(len(version.swapped.tokens), "token") + "."
    if version.verdict is None:
        return f'<p class="map-note">{what}</p>'
    words = f"<q>{escape(version.verdict.heard)}</q>" if version.verdict.heard else "nothing"
    return f'<p class="map-note">{what}</p><p class="swap-words">Heard: {words}</p>'


def figures_html(test: SwapTest) -> str:
    """Write the figures of all versions as a table, and the judges, escaped."""
    rows = []
    for key, (name, form) in FIGURES.items():
        values = [version.figures[key] for version in test.versions]
        rows.append([name, *("–" if value is None else form(value) for value in values)])
    table = table_html("The swap beside the original", ("", *VERSIONS), rows)
    judges = "".join(f"<br>{escape(figure)}: {escape(judge)}." for figure, judge in test.judges.items())
    return f'{table}<p class="results-note"><strong>{NOTE}</strong>{judges}</p>'
