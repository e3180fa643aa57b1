"""Where acceptance fails and how far relaxed texts drift, as plotly figures."""

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from explorers.experiments.figures.results import OTHER, ROOM, STYLES, bars, level, percent
from explorers.shared.figures import axis, layout
from pcg.experiments.results.acceptance_factors import FACTORS, acceptance_by
from pcg.experiments.results.analysis import Results, Summary, alike, is_usual
from pcg.experiments.results.condition_names import knob
from pcg.experiments.results.drift import drift
from pcg.experiments.results.tables.tokens import METHODS, chosen_by_method

CAPTIONS = {
    "factors": "Share of the tested tokens that were accepted, by what was spoken, how sure the target was, and where.",
    "drift": "Surprisal of the text under the target, above AR's, by the share of tokens that only the relaxation accepted.",
}
ROW, GAP = 150, 0.075


def factor_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """Acceptance by each factor, one panel below the other; nothing where no record has a trace."""
    shared, shown = alike(results, chosen_by_method(summaries))
    panels = [(factor, [(row, acceptance_by(shared, row.condition, factor)) for row in shown]) for factor in FACTORS]
    panels = [(factor, found) for factor, found in panels if any(of for _, of in found)]
    traces, axes, names, height = [], {}, [], 1 / max(1, len(panels))
    for number, (factor, found) in enumerate(panels, start=1):
        place, top = str(number) if number > 1 else "", 1 - (number - 1) * height
        levels = [each for each in factor.levels if any(each in of for _, of in found)]
        for row, of in found:
            colour, symbol, dash = STYLES[row.method]
            at = [percent(of[each].accepted) for each in levels if each in of]
            traces.append(
                go.Scatter(
                    x=[each for each in levels if each in of], y=[e.value for e in at], error_y=bars(at),
                    name=escape(row.name), legendgroup=row.method, showlegend=number == 1, mode="lines+markers",
                    xaxis=f"x{place}", yaxis=f"y{place}", line={"color": colour, "width": 2, "dash": dash},
                    marker={"color": colour, "size": 8, "symbol": symbol},
                    hovertemplate="%{x}: %{y:.0f} % accepted<extra></extra>",
                )
            )  # fmt: skip
        span = [top - height + GAP, top - 0.03]
        axes |= {
            f"xaxis{place}": axis(None, type="category", categoryarray=levels, anchor=f"y{place}", showgrid=False, tickangle=0),
            f"yaxis{place}": axis(None, ticksuffix=" %", range=[0, 104], domain=span, anchor=f"x{place}", dtick=50),
        }
        names.append(
            {"text": f"by {factor.name}", "x": 0, "xref": "paper", "xanchor": "left", "y": span[1], "yref": "paper",
             "yanchor": "bottom", "showarrow": False, "font": {"size": 12}}
        )  # fmt: skip
    return go.Figure(traces, layout(None) | axes | ROOM | {"height": 90 + ROW * len(panels), "annotations": names})


def drift_figure(results: Results, summaries: Sequence[Summary]) -> go.Figure:
    """Surprisal above AR by the share of relaxed tokens, a curve a method."""
    shared, shown = alike(results, (s for s in summaries if s.method in METHODS and is_usual(s)))
    traces = []
    for name in METHODS:
        rows = sorted((s for s in shown if s.method == name), key=lambda s: knob(s.condition))
        found = [(row, drift(shared, row.condition, base)) for row in rows if (base := shared.baseline(row.condition))]
        found = [(row, of) for row, of in found if of]
        if not found:
            continue
        colour, symbol, dash = STYLES.get(name, OTHER)
        traces.append(
            go.Scatter(
                x=[100 * of.relaxed.value for _, of in found], y=[of.surprisal.value for _, of in found],
                error_y=bars([of.surprisal for _, of in found]), name=name, mode="lines+markers",
                line={"color": colour, "width": 2, "dash": dash}, marker={"color": colour, "size": 9, "symbol": symbol},
                text=[escape(row.name) for row, _ in found],
                hovertemplate="%{text}<br>%{x:.0f} % relaxed: %{y:+.2f} nats<extra></extra>",
            )
        )  # fmt: skip
    axes = {"xaxis": axis("relaxed tokens", ticksuffix=" %", rangemode="tozero"), "yaxis": axis("surprisal above AR, nats")}
    return go.Figure(traces, layout(None) | axes | ROOM | {"shapes": [level(0)]})
