"""All figures of the results, by the name of the table that each belongs to."""

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from explorers.colours import BLUE
from explorers.experiments.figures import results as drawn
from explorers.experiments.figures.results import ROOM, bars, percent
from explorers.shared.figures import axis, layout
from pcg.experiments.results import Results, Summary, alike, most_heard
from pcg.experiments.tables import VARIANTS

PATTERNS = {"PCG cosine": "", **dict(zip(VARIANTS, "/x.|", strict=True))}
CAPTIONS = drawn.CAPTIONS | {"ablations": "Speed-up over AR and WER of plain PCG (full bars) and its variants (hatched)."}


def figures(results: Results, summaries: Sequence[Summary]) -> dict[str, go.Figure]:
    """Every figure that there are records for."""
    made = {
        "main": drawn.tradeoff_figure(results, most_heard(s for s in summaries if s.method not in VARIANTS)),
        "tradeoff": drawn.tradeoff_figure(results, summaries),
        "lookahead": drawn.lookahead_figure(results, summaries),
        "acceptance": drawn.acceptance_figure(results, summaries),
        "swap": drawn.swap_figure(results, summaries),
        "ablations": ablation_figure(results, summaries),
    }
    return {name: figure for name, figure in made.items() if figure.data}


def ablation_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """Speed-up and WER of the variants beside plain PCG of the same theta, on the utterances that all of them share."""
    variants = [s for s in summaries if s.method in VARIANTS and s.speedup and s.wer]
    settings = {s.condition.settings.with_(adaptive=False, verification="token") for s in variants}
    plain = [s for s in summaries if s.method == "PCG cosine" and s.condition.settings in settings and s.speedup and s.wer]
    _, rows = alike(results, [*plain, *variants])
    rows = sorted(rows, key=lambda s: (s.condition.settings.theta, s.method), reverse=True)
    if not variants or not rows:
        return go.Figure()
    names = [escape(s.name).replace(", ", "<br>") for s in rows]
    pattern = {
        "shape": [PATTERNS[s.method] for s in rows],
        "fgcolor": "rgba(255, 255, 255, 0.8)",
        "size": 6,
        "fillmode": "overlay",
    }
    marker = {"color": BLUE, "pattern": pattern}
    panels = (("x", [s.speedup for s in rows], "%{x:.2f}x"), ("x2", [percent(s.wer) for s in rows], "%{x:.1f} %"))
    traces = [
        go.Bar(
            x=[e.value for e in values], y=names, orientation="h", xaxis=place, error_x=bars(values), marker=marker,
            hovertemplate=f"{label}<extra></extra>",
        )
        for place, values, label in panels
    ]  # fmt: skip
    axes = {
        "xaxis": axis("speed-up", ticksuffix="x", domain=[0, 0.47], nticks=4, tickangle=0),
        "xaxis2": axis("WER", ticksuffix=" %", domain=[0.53, 1], nticks=4, tickangle=0),
        "yaxis": axis(None, automargin=True, showgrid=False),
    }
    size = ROOM | {"height": 70 + 46 * len(rows), "showlegend": False}
    return go.Figure(traces, layout(None) | axes | size)
