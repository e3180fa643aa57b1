"""The papers' figures from our records in plotly: one colour and one mark a method, 95 % intervals as bars.

Names of settings may come from a user's file, so they are escaped: plotly reads markup.
"""

from collections.abc import Iterable, Sequence
from html import escape

import plotly.graph_objects as go

from explorers.colours import BLUE, GREEN, GRID, INK, MARGIN, METHODS, ORANGE, SKY, axis, layout
from pcg.experiments.papers import PCG_TABLE_1, PCG_TABLE_2
from pcg.experiments.results import Results, Summary, alike, curve, is_usual, knob, most_heard, pareto
from pcg.experiments.tables import by_method
from pcg.metrics.estimate import Estimate

# Methods that share a colour differ in mark and dash.
STYLES = {
    "AR": (METHODS["ar"], "diamond", "solid"),
    "SD": (METHODS["sd"], "square", "solid"),
    "SSD": (METHODS["ssd"], "triangle-up", "6px,3px"),
    "PCG": (METHODS["pcg"], "circle", "solid"),
    "PCG block": (BLUE, "cross-open", "solid"),
    "SD block": (METHODS["sd"], "cross-open", "solid"),
    "membership": (SKY, "cross", "dot"),
    "relaxed": (SKY, "x", "dash"),
    "typical": (SKY, "star", "dot"),
    "ensemble": (GREEN, "circle", "solid"),
    "cascade": (GREEN, "square", "6px,3px"),
    "lantern": (ORANGE, "diamond", "solid"),
    "swap": (BLUE, "circle", "solid"),
    "random swap": (INK, "x", "dot"),
}
LABELS = {"membership": "target's top k"}
DRAFTING = ("SD", "SSD", "PCG")
CAPTIONS = {
    "main": "Word errors against speed. The broad line is the Pareto front: nothing else is as fast with fewer errors. Click "
    "“the paper” in the legend to show the paper's points.",
    "tradeoff": "Every rule and setting, on fewer utterances: above word errors, below how unlikely the text is under the "
    "target. The broad line is the Pareto front of speed and words.",
    "acceptance": "Share of rounds that accepted the token drafted at each position. Dotted: share of the tests there.",
    "swap": "Change of WER by the share of tokens swapped.",
}
LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "entrywidth": 72, "font": {"size": 11}}
NO_CHANGE = {
    "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0, "layer": "below",
    "line": {"color": GRID, "width": 2, "dash": "dash"},
}  # fmt: skip
ROOM = {"height": 400, "margin": MARGIN | {"t": 12}, "legend": LEGEND, "showlegend": True}


def figures(results: Results, summaries: Sequence[Summary]) -> dict[str, go.Figure]:
    """Return every figure that there are records for, by the name of its table."""
    made = {
        "main": tradeoff_figure(results, most_heard(summaries)),
        "tradeoff": tradeoff_figure(results, summaries, with_nll=True),
        "acceptance": acceptance_figure(results, summaries),
        "swap": swap_figure(results, summaries),
    }
    return {name: figure for name, figure in made.items() if figure.data}


def tradeoff_figure(results: Results, rows: Iterable[Summary], with_nll: bool = False) -> go.Figure:
    """WER against speed-up (PCG Fig. 3) on the utterances that all `rows` share: a curve a method, and the Pareto front. The
    draft alone is left out: it is so fast and so often wrong that all else would crowd in a corner. with_nll: draw the NLL of
    the texts under the target against speed-up below."""
    known = [s for s in rows if s.speedup and s.wer and s.method in STYLES and is_usual(s)]
    shared, usual = alike(results, known)
    traces = []
    for name in STYLES:
        points = sorted((s for s in usual if s.method == name), key=lambda s: knob(s.condition))
        if not points:
            continue
        order = curve(shared, name, points[0].condition)  # it begins with SD
        points = [s for condition in order for s in usual if s.condition == condition] or points
        hover = [(escape(s.name), s.utterances) for s in points]
        trace = _curve(
            name, [s.speedup.value for s in points], [percent(s.wer) for s in points], hover,
            "%{customdata[0]}<br>%{x:.2f}x, WER %{y:.1f} %, n = %{customdata[1]}",
        )  # fmt: skip
        own = [9 if s.method == name else 0 for s in points]  # SD has a mark of its own
        traces.append(trace.update(error_x=bars([s.speedup for s in points]), marker={"size": own}))
        if with_nll and all(s.nll for s in points):
            below = _curve(
                name, [s.speedup.value for s in points], [s.nll for s in points], hover,
                "%{customdata[0]}<br>%{x:.2f}x, NLL %{y:.2f} nats, n = %{customdata[1]}",
            )  # fmt: skip
            traces.append(below.update(yaxis="y2", showlegend=False, legendgroup=name, marker={"size": own}))
            trace.legendgroup = name
    if not traces:
        return go.Figure()
    front = [s for s, _ in pareto(usual)]
    broad = {"color": "rgba(230, 159, 0, 0.35)", "width": 9, "shape": "vh"}
    best = go.Scatter(
        x=[s.speedup.value for s in front], y=[100 * s.wer.value for s in front], name="Pareto front", mode="lines", line=broad,
        hoverinfo="skip",
    )  # fmt: skip
    names = ["SD", "SSD", "PCG"]
    quoted = [PCG_TABLE_1[name] for name in names]
    theirs = _paper([row["speedup"] for row in quoted], [row["wer"][0] for row in quoted])
    theirs.update(text=names, mode="markers+text", textposition="middle right", visible="legendonly")
    axes = {
        "xaxis": axis("speed-up over AR", ticksuffix="x", range=_range([s.speedup for s in usual])),
        "yaxis": axis("WER", ticksuffix=" %", range=_range([percent(s.wer) for s in usual], floor=0)),
    }
    if any(trace.yaxis == "y2" for trace in traces):
        axes["xaxis"] |= {"anchor": "y2"}
        axes["yaxis"] |= {"domain": [0.55, 1]}
        axes |= {"yaxis2": axis("NLL, nats", domain=[0, 0.45], range=_range([s.nll for s in usual])), "height": 640}
    return go.Figure([best, *traces, theirs], layout(None) | ROOM | axes)


def acceptance_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """Share of rounds that accepted each drafted token, at the strictest setting of each method; dotted: of the tests there."""
    drafting = [s for s in by_method(summaries, DRAFTING) if s.acceptance and is_usual(s)]
    strictest = {s.method: s for s in reversed(drafting)}
    _, rows = alike(results, [strictest[name] for name in DRAFTING if name in strictest])
    traces = []
    for row in rows:
        for shares, dotted in ((row.acceptance, False), (row.conditional, True)):
            positions = list(range(1, len(shares) + 1))
            values = [Estimate(100 * share, 100 * share, 100 * share) for share in shares]
            trace = _curve(row.method, positions, values, positions, "position %{x}: %{y:.0f} %")
            traces.append(
                trace.update(showlegend=not dotted, line=trace.line.to_plotly_json() | ({"dash": "dot"} if dotted else {}))
            )
    axes = {"xaxis": axis("position in the draft", dtick=1), "yaxis": axis("accepted", ticksuffix=" %", range=[0, 104])}
    return go.Figure(traces, layout(None) | axes | ROOM)


def swap_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """Change of WER by the share of tokens swapped (PCG Table 2), on the utterances that all points share."""
    results, rows = alike(results, [s for s in summaries if s.condition.swap is not None and s.swapped])
    traces = []
    for name in (name for name in STYLES if "swap" in name):
        points = sorted((s for s in rows if s.method == name), key=lambda s: s.swapped.value)
        pairs = [(s, percent(s.change.wer)) for s in points if s.change and s.change.wer]
        if pairs:
            traces.append(
                _curve(
                    name, [100 * s.swapped.value for s, _ in pairs], [lost for _, lost in pairs],
                    [escape(s.name) for s, _ in pairs], "%{customdata}<br>%{x:.0f} % swapped: %{y:+.1f} points of WER",
                )
            )  # fmt: skip
    if traces:
        traces.append(_paper(*zip(*PCG_TABLE_2.values(), strict=True)))
    axes = {"xaxis": axis("tokens swapped", ticksuffix=" %", rangemode="tozero"), "yaxis": axis("change of WER, points")}
    return go.Figure(traces, layout(None) | axes | ROOM | {"shapes": [NO_CHANGE]})


def _curve(name: str, x: Sequence[float], y: Sequence[Estimate], hover: Sequence[object], template: str) -> go.Scatter:
    colour, symbol, dash = STYLES[name]
    return go.Scatter(
        x=x, y=[e.value for e in y], error_y=bars(y), name=LABELS.get(name, name),
        mode="lines+markers" if len(x) > 1 else "markers",
        line={"color": colour, "width": 2, "dash": dash}, marker={"color": colour, "size": 9, "symbol": symbol},
        customdata=hover, hovertemplate=f"{template}<extra></extra>",
    )  # fmt: skip


def _paper(x: Sequence[float], y: Sequence[float]) -> go.Scatter:
    marker = {"color": INK, "size": 11, "symbol": "star-open"}
    return go.Scatter(x=x, y=y, name="the paper", mode="markers", marker=marker, textfont={"color": INK})


def bars(estimates: Sequence[Estimate]) -> dict[str, object]:
    """Return the intervals as error bars."""
    high, low = [e.high - e.value for e in estimates], [e.value - e.low for e in estimates]
    return {"type": "data", "symmetric": False, "thickness": 1, "width": 3, "array": high, "arrayminus": low}


def percent(rate: Estimate) -> Estimate:
    return Estimate(100 * rate.value, 100 * rate.low, 100 * rate.high)


def _range(estimates: Iterable[Estimate], floor: float | None = None) -> list[float]:
    """Return the range from the lowest to the highest end of the intervals, with a margin."""
    ends = [end for e in estimates for end in (e.low, e.high)]
    margin = 0.06 * (max(ends) - min(ends)) or 0.1
    low = min(ends) - margin
    return [low if floor is None else max(floor, low), max(ends) + margin]
