"""A swap as HTML and as a picture: which tokens were replaced, the log-mels, and the table beside the original.

Words come from a recogniser or a user, so all are escaped.
"""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from explorers.shared.figures import mel_figure
from explorers.shared.ribbon import height
from explorers.shared.terms import term_html, titled_html
from explorers.swap.actions import NOTE, ORIGINAL, StressTest, Version
from pcg.analysis.audition import FRAME_SECONDS, band_frequencies
from pcg.analysis.swap import Swap, log_mel_db
from pcg.errors import counted

STYLES = Path(__file__).with_name("swap.css")
MEANINGS = {
    "kept": "shares its group with others, and was not replaced",
    "single": "alone in its group, so there is nothing to swap it with",
    "replaced": "replaced by another code",
}
NAMES = {"kept": "kept", "single": "alone in its group", "replaced": "replaced"}
CUT = "It ran to the length limit, before the end of the text."
PICTURE_HEIGHT = 180
MISSING = "–"
# Key, name, factor, digits and unit; a difference of percentages is one in points.
FIGURES = (
    ("mean_group_size", "average |G|", 1, 1, ""),
    ("swapped", "swapped", 100, 1, "%"),
    ("wer", "WER", 100, 1, "%"),
    ("cer", "CER", 100, 1, "%"),
    ("similarity", "speaker similarity", 1, 3, ""),
    ("dnsmos", "DNSMOS", 1, 2, ""),
    ("mel_distance", "mel distance", 1, 2, " dB"),
)


def title_html(name: str, swap: Swap | None = None) -> str:
    """A card's name, and what was done in it."""
    return f'<header class="title"><h2>{name.capitalize()}</h2><p>{_note(name, swap)}</p></header>'


def strip_html(version: Version) -> str:
    """One bar a token: its height the size of its group, its colour and pattern whether it was replaced."""
    kinds = list(_kinds(version))
    rate = len(kinds) * version.sample_rate / max(1, len(version.samples))
    marks = {round(second * rate): second for second in range(1, int(len(kinds) / rate) + 1)}
    tokens, sizes = version.swapped.tokens, version.swapped.group_sizes
    bars = "".join(
        _bar(kind, size, f"token {token:d}, {NAMES[kind]}, group of {size:d}, {i / rate:.2f} s", marks.get(i))
        for i, (kind, size, token) in enumerate(zip(kinds, sizes, tokens, strict=True))
    )
    counts = ", ".join(f"{kinds.count(kind)} {name}" for kind, name in NAMES.items() if kind in kinds)
    label = f"{version.name.capitalize()}, {counted(len(kinds), 'token')}: {counts or 'none'}"
    return f'<div class="ribbon" role="img" aria-label="{label}">{bars}</div>'


def legend_html() -> str:
    """What the patterns and heights mean, each beside a sample bar."""
    kinds = "".join(
        f'<span class="entry" title="{MEANINGS[kind]}"><span class="ribbon">{_bar(kind, 4)}</span>{name}</span>'
        for kind, name in NAMES.items()
    )
    steps = "".join(_bar("kept", size) for size in (2, 8, 32, 256))
    heights = f'<span class="entry"><span class="ribbon">{steps}</span>{term_html("group-size", "group of 2 to 256")}</span>'
    return f'<div class="legend" role="group" aria-label="Legend of the token strips">{kinds}{heights}</div>'


def heard_html(version: Version) -> str:
    """The recognised words."""
    if version.verdict is None:
        return ""
    words = f"<q>{escape(version.verdict.heard)}</q>" if version.verdict.heard else "nothing"
    return f'<p class="swap-words">Recognised: {words}</p>'


def original_html(stress: StressTest) -> str:
    """The method, the voice and the text of the utterance."""
    said = stress.original
    if said is None:
        return ""
    spoken = "the target alone" if said.method == "ar" else f"{said.method.upper()}, not the target alone as in the paper"
    cut = f" {CUT}" if said.cut else ""
    return f'<p class="swap-words">By {spoken}, in the voice of {escape(said.voice)}: <q>{escape(said.text)}</q>{cut}</p>'


def table_html(stress: StressTest) -> str:
    """Original, swapped and control, the differences to the original, and the judges."""
    versions = stress.versions
    changes = {v.name: stress.differences(v) for v in versions[1:]}
    titles = ["", *(v.name for v in versions), *(f"{name} − original" for name in changes)]
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    rows = "".join(
        f'<tr><th scope="row">{titled_html(name)}</th>'
        + "".join(_cell(v.figures[key], factor, digits, unit) for v in versions)
        + "".join(_change(found[key], factor, digits, unit) for found in changes.values())
        + "</tr>"
        for key, name, factor, digits, unit in FIGURES
    )
    note = f'<p class="swap-words"><strong>{NOTE}</strong></p>'
    return _table("The swap beside the original", head, rows, note + judges_html(stress.judges))


def judges_html(judges: Mapping[str, str]) -> str:
    return "".join(f'<p class="swap-words">{escape(figure)}: {escape(judge)}.</p>' for figure, judge in judges.items())


def mels_figure(stress: StressTest) -> go.Figure:
    """The log-mels of all versions, one below the other, on one colour scale."""
    mels = [log_mel_db(v.samples, v.sample_rate) for v in stress.versions]
    frequencies = band_frequencies(stress.versions[0].sample_rate)
    figure = mel_figure(mels, [v.name for v in stress.versions], frequencies, FRAME_SECONDS, stacked=True)
    return figure.update_layout(height=PICTURE_HEIGHT * len(mels))


def _kinds(version: Version) -> Iterator[str]:
    replaced = set(version.swapped.positions)
    for position, size in enumerate(version.swapped.group_sizes):
        yield "replaced" if position in replaced else "kept" if size > 1 else "single"


def _bar(kind: str, size: int, title: str = "", second: int | None = None) -> str:
    tooltip = f' title="{title}"' if title else ""
    mark = "" if second is None else f' data-second="{second:d}"'
    return f'<i class="{kind}" style="--height:{height(size):.0%}"{tooltip}{mark}></i>'


def _table(label: str, head: str, rows: str, below: str) -> str:
    return (
        f'<div class="transcript swap"><div class="wide"><table aria-label="{escape(label)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{below}</div>"
    )


def _cell(value: float | None, factor: float, digits: int, unit: str) -> str:
    return f"<td>{MISSING if value is None else f'{factor * value:.{digits}f}{unit}'}</td>"


def _change(value: float | None, factor: float, digits: int, unit: str) -> str:
    suffix = unit.replace("%", " points")
    return f"<td>{MISSING if value is None else f'{factor * value:+.{digits}f}{suffix}'}</td>"


def _note(name: str, swap: Swap | None) -> str:
    if swap is None:
        return "unchanged" if name == ORIGINAL else "appears here after a swap"
    if swap.replacement == "random":
        return "any other codes at the same positions"
    return f"other members of the group, {swap.similarity} {swap.theta:g}"
