"""The papers' figures from our records as plotly: one colour and one mark a method everywhere, 95 % intervals as bars.

Legible on light and on dark, and at the width of a phone. Names of settings may come from a user's file, so they are escaped:
plotly would read them as markup.
"""

from collections.abc import Iterable, Sequence
from html import escape

import plotly.graph_objects as go

from explorers.colours import BLUE, GREEN, INK, METHODS, ORANGE, SKY
from explorers.shared.figures import GRID, MARGIN, axis, layout
from pcg.experiments import papers
from pcg.experiments.results import (
    Results,
    Summary,
    alike,
    curve,
    difference,
    is_usual,
    knob,
    lookaheads,
    lookaheads_by_knob,
    pareto,
)
from pcg.metrics.estimate import Estimate

# Those that share a colour differ in mark and dash.
STYLES = {
    "AR": (METHODS["ar"], "diamond", "solid"),
    "draft": (INK, "x", "dot"),
    "SD": (METHODS["sd"], "square", "solid"),
    "SSD": (METHODS["ssd"], "triangle-up", "6px,3px"),
    "PCG cosine": (METHODS["pcg"], "circle", "solid"),
    "PCG Mel": (ORANGE, "triangle-down", "2px,3px"),
    "PCG FSQ": (GREEN, "hexagon", "8px,3px,2px,3px"),
    "PCG both": (SKY, "hexagon-open", "8px,3px,2px,3px"),
    "PCG weighted": (BLUE, "circle-open", "6px,3px"),
    "PCG partition": (BLUE, "square-open", "2px,3px"),
    "PCG adaptive": (BLUE, "triangle-up-open", "2px,3px"),
    "PCG block": (BLUE, "cross-open", "solid"),
    "SD adaptive": (METHODS["sd"], "triangle-up-open", "2px,3px"),
    "SD block": (METHODS["sd"], "cross-open", "solid"),
    "membership": (SKY, "cross", "dot"),
    "typical": (SKY, "star", "dot"),
    "swap cosine": (BLUE, "circle", "solid"),
    "swap Mel": (ORANGE, "triangle-down", "2px,3px"),
    "swap FSQ": (GREEN, "hexagon", "8px,3px,2px,3px"),
    "swap both": (SKY, "hexagon-open", "8px,3px,2px,3px"),
    "random swap": (INK, "x", "dot"),
}
OTHER = (INK, "circle-open", "dot")
DRAFTING = ("SD", "SSD", "PCG cosine")
DASHES = ("solid", "8px,3px", "3px,3px")
CAPTIONS = {
    "main": "Word errors against speed. The broad line is the Pareto front. The draft alone is only in the table. Click “the "
    "paper” in the legend to show the paper's points.",
    "tradeoff": "Every rule and setting, on fewer utterances. The broad line is the Pareto front: the best rule at each speed.",
    "lookahead": "Speed by lookahead.",
    "acceptance": "Share of rounds that accepted the token drafted at each position. Dotted: share of the tests there.",
    "swap": "Change of WER by the share of tokens swapped.",
}
LEGEND = {
    "orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0, 0, 0, 0)",
    "entrywidth": 80, "itemwidth": 30, "font": {"size": 11},
}  # fmt: skip
ROOM = {"height": 400, "margin": MARGIN | {"t": 12, "l": 52}, "legend": LEGEND, "showlegend": True}


def tradeoff_figure(results: Results, rows: Iterable[Summary]) -> go.Figure:
    """WER against speed-up (PCG Fig. 3) on the utterances that all `rows` share: a curve a method, and the front of what
    nothing else beats."""
    # The draft is so fast and so often wrong that all else would crowd in a corner.
    known = [s for s in rows if s.speedup and s.wer and s.method in STYLES and s.method != "draft" and is_usual(s)]
    shared, usual = alike(results, known)
    traces = []
    for name in STYLES:
        points = sorted((s for s in usual if s.method == name), key=lambda s: knob(s.condition))
        if points:
            traces.append(_curve_of(name, _with_beginning(shared, usual, name, points)))
    if not traces:
        return go.Figure()
    traces.insert(0, _front(pareto(usual)))
    traces.append(_papers_points())
    axes = {
        "xaxis": axis("speed-up over AR", ticksuffix="x", range=_room([s.speedup for s in usual])),
        "yaxis": axis("WER", ticksuffix=" %", range=_room([percent(s.wer) for s in usual], floor=0)),
    }
    # Its many names would take most of a telephone's screen.
    return go.Figure(traces, layout(None) | axes | ROOM | {"legend": LEGEND | {"entrywidth": 64}})


def lookahead_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """Speed-up by lookahead (PCG Fig. 4, SSD Fig. 3), on the utterances that all points share."""
    traces = []
    _, rows = alike(results, [s for _, found in _by_lookahead(summaries) for s in found.values()])
    for number, (name, found) in enumerate(_by_lookahead(rows)):
        colour, symbol, dash = STYLES[name]
        dash = DASHES[number % len(DASHES)] if name == "PCG cosine" else dash
        label = escape(next(iter(found.values())).name.partition(", lookahead")[0])
        traces.append(
            go.Scatter(
                x=list(found), y=[s.speedup.value for s in found.values()], error_y=bars([s.speedup for s in found.values()]),
                name=label, mode="lines+markers", line={"color": colour, "width": 2, "dash": dash},
                marker={"color": colour, "size": 9, "symbol": symbol}, customdata=[s.timed for s in found.values()],
                hovertemplate="%{y:.2f}x at lookahead %{x}, n = %{customdata}<extra></extra>",
            )
        )  # fmt: skip
    axes = {"xaxis": axis("lookahead, tokens", dtick=1), "yaxis": axis("speed-up over AR", ticksuffix="x", rangemode="tozero")}
    return go.Figure(traces, layout(None) | axes | ROOM | {"shapes": [level(1)]})


def _by_lookahead(summaries: Sequence[Summary]) -> list[tuple[str, dict[int, Summary]]]:
    """The rows of each setting that was said with several lookaheads, and the name of its method."""
    families = [(name, found) for name in DRAFTING for found in lookaheads_by_knob(summaries, name)]
    return [(name, found) for name, found in families if len(found) > 1]


def acceptance_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """Share of rounds that accepted each drafted token, at the longest lookahead measured; dotted: of the tests there. All on
    the same utterances."""
    traces = []
    drafted = [[s for s in lookaheads(summaries, name).values() if s.acceptance][-1:] for name in DRAFTING]
    _, rows = alike(results, [row for rows in drafted for row in rows])
    for row in rows:
        name, (colour, symbol, dash) = row.method, STYLES[row.method]
        positions = list(range(1, len(row.acceptance) + 1))
        for shares, stroke, mark in ((row.acceptance, dash, symbol), (row.conditional, "dot", f"{symbol}-open")):
            traces.append(
                go.Scatter(
                    x=positions, y=[100 * share for share in shares], name=name, mode="lines+markers",
                    showlegend=stroke == dash,
                    line={"color": colour, "width": 2, "dash": stroke}, marker={"color": colour, "size": 8, "symbol": mark},
                    hovertemplate="position %{x}: %{y:.0f} %<extra></extra>",
                )
            )  # fmt: skip
    axes = {"xaxis": axis("position in the draft", dtick=1), "yaxis": axis("accepted", ticksuffix=" %", range=[0, 104])}
    return go.Figure(traces, layout(None) | axes | ROOM)


def swap_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """What swapping tokens within their groups costs in WER, by the share swapped (PCG Table 2), on the utterances that all
    points share, and the paper's points."""
    traces = []
    results, summaries = alike(results, [s for s in summaries if s.condition.swap is not None and s.swapped])
    for name in ("swap cosine", "swap Mel", "swap FSQ", "swap both", "random swap"):
        rows = sorted((s for s in summaries if s.method == name and s.swapped), key=lambda s: s.swapped.value)
        pairs = [(s, difference(results, s.condition, base).wer) for s in rows if (base := results.baseline(s.condition))]
        pairs = [(s, percent(lost)) for s, lost in pairs if lost]
        if not pairs:
            continue
        colour, symbol, dash = STYLES[name]
        traces.append(
            go.Scatter(
                x=[100 * s.swapped.value for s, _ in pairs], y=[lost.value for _, lost in pairs],
                error_y=bars([lost for _, lost in pairs]), name=name, mode="lines+markers",
                line={"color": colour, "width": 2, "dash": dash}, marker={"color": colour, "size": 9, "symbol": symbol},
                text=[escape(s.name) for s, _ in pairs],
                hovertemplate="%{text}<br>%{x:.0f} % swapped: %{y:+.1f} points of WER<extra></extra>",
            )
        )  # fmt: skip
    if traces:
        rows = [quoted.values for quoted in papers.PCG_TABLE_2]
        traces.append(
            go.Scatter(
                x=[row["swapped"] for row in rows], y=[100 * row["wer"] for row in rows],
                name="the paper", mode="markers",
                marker={"color": INK, "size": 11, "symbol": "star-open"},
                hovertemplate="PCG Table 2: %{x:.0f} % swapped, %{y:+.1f} points<extra></extra>",
            )
        )  # fmt: skip
    axes = {"xaxis": axis("tokens swapped", ticksuffix=" %", rangemode="tozero"), "yaxis": axis("change of WER, points")}
    return go.Figure(traces, layout(None) | axes | ROOM | {"shapes": [level(0)]})


def _with_beginning(results: Results, usual: Sequence[Summary], name: str, rows: Sequence[Summary]) -> list[Summary]:
    """`rows` behind the SD that their curve begins with."""
    order = curve(results, name, rows[0].condition)
    return [s for condition in order for s in usual if s.condition == condition] or list(rows)


def _curve_of(name: str, rows: Sequence[Summary]) -> go.Scatter:
    colour, symbol, dash = STYLES.get(name, OTHER)
    own = [row.method == name for row in rows]
    return go.Scatter(
        x=[row.speedup.value for row in rows], y=[100 * row.wer.value for row in rows],
        error_x=bars([row.speedup for row in rows]), error_y=bars([percent(row.wer) for row in rows]),
        name=name, mode="lines+markers" if len(rows) > 1 else "markers",
        line={"color": colour, "width": 2, "dash": dash},
        # The SD that a curve begins with has its own mark already.
        marker={"color": colour, "symbol": symbol, "size": [9 if it else 0 for it in own]},
        customdata=[
            (escape(row.name), row.utterances, f", spoof {100 * row.spoof.value:.0f} %" if row.spoof else "") for row in rows
        ],
        hovertemplate="%{customdata[0]}<br>%{x:.2f}x, WER %{y:.1f} %%{customdata[2]}, n = %{customdata[1]}<extra></extra>",
    )  # fmt: skip


def _front(front: Sequence[Summary]) -> go.Scatter:
    return go.Scatter(
        x=[s.speedup.value for s in front], y=[100 * s.wer.value for s in front], name="Pareto front", mode="lines",
        line={"color": "rgba(230, 159, 0, 0.35)", "width": 9, "shape": "vh"}, hoverinfo="skip",
    )  # fmt: skip


def _papers_points() -> go.Scatter:
    rows = [papers.PCG_TABLE_1[name] for name in ("SD", "SSD", "PCG")]
    return go.Scatter(
        x=[row.values["speedup"] for row in rows], y=[row.values["wer"] for row in rows], text=[row.name for row in rows],
        name="the paper", mode="markers+text", textposition="middle right", visible="legendonly",
        marker={"color": INK, "size": 11, "symbol": "star-open"}, textfont={"color": INK},
        hovertemplate="PCG Table 1, %{text}: %{x:.2f}x, WER %{y:.1f} %<extra></extra>",
    )  # fmt: skip


def bars(estimates: Sequence[Estimate]) -> dict[str, object]:
    return {
        "type": "data", "symmetric": False, "thickness": 1, "width": 3,
        "array": [e.high - e.value for e in estimates], "arrayminus": [e.value - e.low for e in estimates],
    }  # fmt: skip


def percent(rate: Estimate) -> Estimate:
    return Estimate(100 * rate.value, 100 * rate.low, 100 * rate.high)


def _room(estimates: Iterable[Estimate], floor: float | None = None) -> list[float]:
    """From the lowest to the highest end of the intervals, and a little more."""
    ends = [end for e in estimates for end in (e.low, e.high)]
    margin = 0.06 * (max(ends) - min(ends)) or 0.1
    low = min(ends) - margin
    return [low if floor is None else max(floor, low), max(ends) + margin]


def level(y: float) -> dict[str, object]:
    line = {"color": GRID, "width": 2, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, "layer": "below"}
