"""The token strip: one bar a token, its colour and pattern the kind, its height the size of the group behind it.

The HTML is built from numbers and fixed words only: a user's input never reaches it.
"""

from collections import Counter
from collections.abc import Sequence
from math import log2
from pathlib import Path

from explorers.shared.terms import term_html
from pcg.errors import counted
from pcg.take import KINDS

STYLES = Path(__file__).with_name("ribbon.css")
LOWEST, TALLEST_GROUP = 0.4, 256


def ribbon_html(method: str, kinds: Sequence[str], group_sizes: Sequence[int], tokens_per_second: float) -> str:
    """The strip of one take. Its bars wrap like text; the foot of every full second carries its number."""
    seconds = len(kinds) / tokens_per_second if kinds else 0.0  # a take can end before its first token
    marks = {round(second * tokens_per_second): second for second in range(1, int(seconds) + 1)}
    bars = [
        _bar(kind, size, position / tokens_per_second, marks.get(position))
        for position, (kind, size) in enumerate(zip(kinds, group_sizes, strict=True))
    ]
    flat = "" if method == "pcg" else " flat"
    return f'<div class="ribbon{flat}" role="img" aria-label="{_label(method, kinds, group_sizes)}">{"".join(bars)}</div>'


def tail_html(kinds: Sequence[str], group_sizes: Sequence[int], count: int) -> str:
    """The last `count` tokens of a take that is still being generated; hidden from screen readers."""
    bars = (_bar(kind, size) for kind, size in zip(kinds[-count:], group_sizes[-count:], strict=True))
    return f'<div class="ribbon tail" aria-hidden="true">{"".join(bars)}</div>'


def legend_html(shown: Sequence[str] = ("accepted", "resampled", "bonus", "target")) -> str:
    """What the patterns and heights mean, each beside a sample bar; `shown` are the kinds that the page's decoders produce."""
    kinds = "".join(
        f'<span class="entry"><span class="ribbon">{_bar(kind, 4)}</span>{term_html(kind, _name(kind))}</span>'
        for kind in shown
    )
    steps = "".join(_bar("accepted", size) for size in (1, 4, 16, 64, TALLEST_GROUP))
    heights = (
        f'<span class="entry"><span class="ribbon">{steps}</span>'
        f"{term_html('group-size', f'group of 1 to {TALLEST_GROUP}')}</span>"
    )
    return f'<div class="legend" role="group" aria-label="Legend of the token strips">{kinds}{heights}</div>'


def height(group_size: int) -> float:
    """Share of the strip's height: equal steps for every doubling of the group, the same scale in every strip."""
    return min(1.0, LOWEST + (1 - LOWEST) * log2(group_size) / log2(TALLEST_GROUP))


def _bar(kind: str, group_size: int, seconds: float | None = None, mark: int | None = None) -> str:
    if kind not in KINDS:
        raise ValueError(f"no such kind of token: {kind!r}")
    title = "" if seconds is None else f' title="{_name(kind)}, group of {group_size:d}, {seconds:.2f} s"'
    second = "" if mark is None else f' data-second="{mark:d}"'
    return f'<i class="{kind}" style="--height:{height(group_size):.0%}"{title}{second}></i>'


def _name(kind: str) -> str:
    return "no draft used" if kind == "target" else kind


def _label(method: str, kinds: Sequence[str], group_sizes: Sequence[int]) -> str:
    counts = Counter(kinds)
    parts = [f"{counts[kind]} {_name(kind)}" for kind in KINDS if counts[kind]]
    size = f"; mean group size {sum(group_sizes) / len(group_sizes):.1f}" if method == "pcg" and group_sizes else ""
    return f"{method.upper()} took {counted(len(kinds), 'token')}: {', '.join(parts) or 'none'}{size}"
