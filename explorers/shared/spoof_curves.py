"""The probabilities of the spoof detectors along an utterance, as HTML built from numbers alone."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, isnan
from pathlib import Path

from explorers.shared.terms import term_html
from pcg.spoof.detectors import RESOLUTIONS, STEP

STYLES = Path(__file__).with_name("spoof_curves.css")
HEIGHT, MOST_TICKS = 100, 6


def curves_html(curves: Mapping[str, Sequence[float]], seconds: float) -> str:
    """curves: 1 - P(real) of each token at each resolution, `[T]`, NaN where the utterance is too short for it; seconds: how
    long it is. Beside the curves stand their means."""
    count = max(map(len, curves.values()))
    means = {name: _mean(curve) for name, curve in curves.items()}
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


def spoken(resolution: str) -> str:
    """A resolution's name without the sign of markup in it."""
    return resolution.replace("<-", " from ")


def _is_known(curve: Sequence[float]) -> bool:
    return len(curve) > 0 and not isnan(curve[0])


def _mean(curve: Sequence[float]) -> str:
    return f"{sum(curve) / len(curve):.2f}" if _is_known(curve) else "too short"


def _points(curve: Sequence[float]) -> str:
    """A curve changes at every `STEP`-th token at most."""
    places = sorted({*range(0, len(curve), STEP), len(curve) - 1})
    return " ".join(f"{place + 0.5:g},{HEIGHT * (1 - curve[place]):.1f}" for place in places)
