"""The swap test (PCG section 4, Table 2): one utterance, its tokens swapped within their groups, and swapped for any codes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from html import escape

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.errors import page_error
from explorers.how_it_works.map import EQUAL_SIZE_INFO, keep_mean_size
from explorers.judging import JudgedTake, Judges
from explorers.listen.actions import new_seed
from explorers.session import Session, ShownTake, TakeView
from explorers.shared.blocks import (
    DECODING,
    json_drawer,
    knob,
    pcm,
    player,
    queued_beside,
    seed_and_dice,
    similarity_choice,
)
from explorers.shared.one_state import BEFORE, MOVES
from explorers.shared.readout import failure_html, message_html
from explorers.shared.terms import explained, term_html, titled_html
from explorers.zero_gpu import LONGEST_SECONDS, on_gpu
from pcg.analysis.swap import Swap, Swapped, mel_distance, swap, swap_coins
from pcg.errors import InputError, PCGError, counted
from pcg.metrics.intelligibility import comparable
from pcg.metrics.recording import Recording, Sample
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer

ORIGINAL, SWAPPED, CONTROL = VERSIONS = ("original", "swapped", "control")
NO_TAKE = "There is no take yet: generate one first."
CUT = "It ran to the length limit, before the end of the text."
NOTE = "One utterance proves nothing. Over many, with intervals: python -m pcg swap."
READY = "Choose theta, then swap."
HEADING = f"""<header class="title"><h2>Swap test<small>may similar tokens stand for each other?</small></h2>
<p>Tokens are {term_html("swapped")} for other members of their group, whatever the target thinks of them (PCG section 4,
Table 2). The control puts any other codes in the same places.</p></header>"""
NOTES = {
    ORIGINAL: "unchanged",
    SWAPPED: "other members of the token's group",
    CONTROL: "any other codes, in the same places",
}
# Key, name, factor, digits and unit.
FIGURES = (
    ("swapped", "swapped", 100, 0, " %"), ("mean_group_size", "average |G|", 1, 1, ""), ("wer", "WER", 100, 1, " %"),
    ("cer", "CER", 100, 1, " %"), ("similarity", "speaker similarity", 1, 3, ""), ("dnsmos", "DNSMOS", 1, 2, ""),
    ("mel_distance", "mel distance", 1, 2, " dB"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Version:
    """One version of the utterance: its tokens, and its sound `samples [N]`. verdict, mel_distance (to the original, in dB):
    None until judged."""

    name: str
    swap: Swap | None
    swapped: Swapped
    samples: np.ndarray = field(repr=False)
    verdict: JudgedTake | None = None
    mel_distance: float | None = None

    @property
    def figures(self) -> dict[str, float | None]:
        """A row of the paper's Table 2; None where a figure has no meaning, or is not judged yet."""
        size = self.swapped.mean_group_size if self.name == SWAPPED else None
        row = {"swapped": self.swapped.share, "mean_group_size": size, "mel_distance": self.mel_distance}
        if (verdict := self.verdict) is None:
            return dict.fromkeys(("wer", "cer", "similarity", "dnsmos")) | row
        rates = {"wer": verdict.words.rate, "cer": verdict.characters.rate}
        return row | rates | {"similarity": verdict.similarity, "dnsmos": verdict.dnsmos}

    def record(self) -> dict[str, object]:
        figures = {name: None if value is None else round(value, 6) for name, value in self.figures.items()}
        tokens = {"tokens": list(self.swapped.tokens), "positions": list(self.swapped.positions)}
        return {"swap": self.swap and asdict(self.swap), **tokens, "heard": self.verdict and self.verdict.heard, **figures}


@dataclass(frozen=True, eq=False)
class SwapTest:
    """A swap test, without verdicts first. judges: the name of the judge of each figure, once they are known."""

    original: TakeView
    versions: tuple[Version, ...]
    sample_rate: int
    judges: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, object]:
        """Return everything, ready for JSON."""
        take = {name: getattr(self.original, name) for name in ("text", "method", "voice")}
        versions = {version.name: version.record() for version in self.versions}
        return {**take, "versions": versions, "judges": dict(self.judges), "note": NOTE}


def take_to_swap(session: Session, key: str) -> ShownTake | None:
    """Return the chosen take, or AR's of the same request where there is one: the paper's test starts there."""
    chosen, alone = session.in_hand(key), session.cards.get("ar")
    return alone.first if chosen and alone and session.held is None and alone.first.task == chosen.task else chosen


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
    if shown is None or not shown.reading.tokens:
        raise PCGError(NO_TAKE)
    Settings(theta=theta, similarity=similarity, seed=seed)
    reading, speaker = shown.reading, shown.speaker(synthesizer.voice.references)
    if not comparable(reading.text):
        raise InputError("text", reading.text, "a text with at least one word")
    groups, usable = synthesizer.groups(theta, similarity), synthesizer.voice.usage > 0
    inside = Swap(theta, similarity)
    plans = {SWAPPED: inside, CONTROL: replace(inside, replacement="random")}
    # The same coins for the swap and its control: they differ in nothing but the codes.
    made = {name: swap(reading.tokens, groups, plan, usable, swap_coins(seed)) for name, plan in plans.items()}
    made = {ORIGINAL: replace(made[SWAPPED], tokens=reading.tokens, positions=()), **made}
    rate = synthesizer.voice.codec.sample_rate
    versions = tuple(
        Version(name, plans.get(name), swapped, synthesizer.decode(list(swapped.tokens), speaker))
        for name, swapped in made.items()
    )
    yield (heard := SwapTest(reading, versions, rate))
    judges, first = load_judges(), versions[0].samples
    names = {**judges.names("the original"), "Mel distance": "mean absolute difference of log-mels to the original"}
    verdicts = judges.verdicts([Sample(v.samples, rate, reading.text, Recording(first, rate)) for v in versions])
    judged = tuple(
        replace(version, verdict=verdict, mel_distance=mel_distance(version.samples, first, rate))
        for version, verdict in zip(versions, verdicts, strict=True)
    )
    yield replace(heard, versions=judged, judges=names)


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
            similarity = similarity_choice(synthesizer, "swap-", info=EQUAL_SIZE_INFO)
            seed, dice = seed_and_dice("swap-", Settings().seed)
        with gr.Row(elem_classes="lab-seed"):
            run = gr.Button("Swap", variant="primary", elem_id="swap-run", size="md", scale=0, min_width=120)
            status = gr.HTML(message_html(READY), apply_default_css=False, elem_id="swap-status")
        text = gr.HTML("", apply_default_css=False, elem_id="swap-said")
        with gr.Row(equal_height=True, elem_classes="lab-pair"):
            views = {name: _create_version(synthesizer, name) for name in VERSIONS}
        table = gr.HTML("", apply_default_css=False, elem_id="swap-table")
        record = json_drawer("swap-record")
    load = lru_cache(maxsize=1)(load_judges)
    lent = on_gpu(partial(swap_test, synthesizer, load), lambda *_: LONGEST_SECONDS)

    def handle(theta: float, similarity: str, seed: int, key: str, session: Session) -> Iterator[dict[Component, object]]:
        try:
            with closing(lent(take_to_swap(session, key), theta, similarity, seed)) as steps:
                for test in steps:
                    yield _updates(test, views) | {
                        record: test.record(), text: original_html(test.original), table: table_html(test),
                        status: message_html("Swapped and judged." if test.judges else "Swapped. The judges listen."),
                    }  # fmt: skip
        except PCGError as error:
            yield {status: failure_html(error)}
            raise page_error(error) from error

    run.click(
        handle, [theta, similarity, seed, in_hand, session],
        [record, text, table, *(place for view in views.values() for place in view), status],
        **queued_beside(status), concurrency_id=DECODING, concurrency_limit=1, api_name="swap",
        api_description="Swap the tokens of a take within their groups, and judge the sound beside the original and a control; "
        "streams a record, then the same as HTML and sounds.",
    )  # fmt: skip
    dice.click(new_seed, None, seed, queue=False, show_progress="hidden", api_visibility="private")
    before, moves = keep_mean_size(synthesizer, theta, similarity)
    return {"theta": theta, "similarity": similarity, "seed": seed, BEFORE: before, MOVES: [moves]}


def _create_version(synthesizer: Synthesizer, name: str) -> tuple[gr.Audio, gr.HTML]:
    with gr.Column(min_width=260, elem_id=f"swap-{name}"):
        gr.HTML(f"<h3>{name.capitalize()}</h3><p class='map-note'>{NOTES[name]}</p>", apply_default_css=False)
        sound = player(synthesizer, name.capitalize(), f"swap-sound-{name}")
        return sound, gr.HTML("", apply_default_css=False, elem_id=f"swap-heard-{name}")


def _updates(test: SwapTest, views: Mapping[str, tuple[gr.Audio, gr.HTML]]) -> dict[Component, object]:
    updates: dict[Component, object] = {}
    for version in test.versions:
        sound, words = views[version.name]
        updates[words] = heard_html(version)
        if not test.judges:
            updates[sound] = pcm(version.samples, test.sample_rate)
    return updates


def original_html(take: TakeView) -> str:
    """The method, the voice and the text of the utterance, escaped."""
    method = "AR" if take.method == "ar" else f"{take.method.upper()}, not by AR as in the paper"
    cut = f" {CUT}" if take.hit_limit else ""
    return f'<p class="swap-words">By {method}, voice {escape(take.voice)}: <q>{escape(take.text)}</q>{cut}</p>'


def heard_html(version: Version) -> str:
    """How many tokens were replaced, and the recognised words, escaped."""
    replaced, alone = len(version.swapped.positions), len(version.swapped.tokens) - len(version.swapped.candidates)
    what = f"{replaced} of {counted(len(version.swapped.tokens), 'token')} replaced; {alone} stand alone in their group."
    if version.name == ORIGINAL:
        what = counted(len(version.swapped.tokens), "token") + "."
    if version.verdict is None:
        return f'<p class="map-note">{what}</p>'
    words = f"<q>{escape(version.verdict.heard)}</q>" if version.verdict.heard else "nothing"
    return f'<p class="map-note">{what}</p><p class="swap-words">Heard: {words}</p>'


def table_html(test: SwapTest) -> str:
    """The figures of all versions, and the judges, escaped."""
    head = "".join(f'<th scope="col">{title}</th>' for title in ("", *VERSIONS))
    rows = "".join(
        f'<tr><th scope="row">{titled_html(name)}</th>'
        + "".join(
            f"<td>{'–' if (value := version.figures[key]) is None else f'{factor * value:.{digits}f}{unit}'}</td>"
            for version in test.versions
        )
        + "</tr>"
        for key, name, factor, digits, unit in FIGURES
    )
    judges = "".join(f"<br>{escape(figure)}: {escape(judge)}." for figure, judge in test.judges.items())
    return (
        '<div class="results-wide"><table class="lab-table" aria-label="The swap beside the original">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="results-note"><strong>{NOTE}</strong>{judges}</p>'
    )
