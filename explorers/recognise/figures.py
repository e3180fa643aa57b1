"""The figures of listening as plotly: frame entropies over the waveform, and errors against speed."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from explorers.colours import BLUE, GREEN, INK, ORANGE, VERMILION
from explorers.recognise.actions import RecognisedSound, TranscriptPart, name_of, preset_of
from explorers.recognise.sweep import Point, Sweep
from explorers.shared.figures import GRID, HEIGHT, MARGIN, axis, layout
from pcg.errors import counted

WAVE, FILL = "rgba(125, 130, 136, 0.35)", "rgba(0, 114, 178, 0.18)"
CURVES = ((BLUE, "solid", "circle"), (GREEN, "6px,3px", "square"), (VERMILION, "2px,3px", "triangle-up"))
WAVE_BINS, MOST_FRAMES, MOST_NAMED_PARTS = 900, 3000, 8
SWEEP_HEIGHT, TOP = 400, 62
LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0, 0, 0, 0)"}


def entropy_figure(hearing: RecognisedSound) -> go.Figure:
    """Entropy in nats of every CTC frame over the sound's envelope; the gate as a line, and what lies not below it marked."""
    times, nats = _curve(hearing.parts)
    gate = hearing.thresholds.ctc
    top = 1.12 * max(float(np.nanmax(nats, initial=0.1)), gate or 0.0)
    hover = "%{x:.2f}: %{y:.3f} nats<extra></extra>"
    traces = [
        _envelope(hearing.speech, hearing.sample_rate),
        go.Scatter(
            x=times, y=nats, yaxis="y2", mode="lines", name="entropy", fill="tozeroy", fillcolor=FILL,
            line={"color": BLUE, "width": 1.5}, hovertemplate=hover,
        ),
    ]  # fmt: skip
    if gate is not None:
        traces.append(_gate(gate, hearing.seconds))
        above = np.flatnonzero(nats >= gate)
        traces.append(
            go.Scatter(
                x=times[above], y=nats[above], yaxis="y2", mode="markers", name="uncertain", hovertemplate=hover,
                marker={"color": VERMILION, "size": 7, "symbol": "x-thin", "line": {"color": VERMILION, "width": 1.5}},
            )
        )  # fmt: skip
    loudest = 1.05 * max(float(np.abs(hearing.speech).max(initial=0.0)), 1e-3)
    axes = {
        "xaxis": axis(None, showgrid=False, nticks=8, tickangle=0, ticksuffix=" s", range=[0, hearing.seconds]),
        "yaxis": axis(None, showgrid=False, showticklabels=False, ticks="", side="right", range=[-loudest, loudest]),
        "yaxis2": axis("nats", overlaying="y", side="left", range=[0, top]),
    }
    marks = {"shapes": _borders(hearing.parts), "annotations": _names(hearing.parts)}
    room = {"height": HEIGHT, "margin": MARGIN | {"t": TOP}, "legend": LEGEND, "showlegend": True}
    return go.Figure(traces, layout(None) | axes | marks | room)


def sweep_figure(sweep: Sweep) -> go.Figure:
    """Errors against speed, one point a setting (arXiv:2603.11243, Figure 3): a curve for each tau of the language model.

    The judge and the number of files stand in words above the figure.
    """
    drawn = [point for point in sweep.points if point.rate is not None]
    taus = sorted({point.thresholds.lm for point in drawn if point.thresholds.lm is not None})
    traces = []
    for place, tau in enumerate(taus):
        colour, dash, symbol = CURVES[place % len(CURVES)]
        points = [point for point in drawn if point.thresholds.lm == tau]
        traces.append(_points(points, f"τ LM {tau:g}", "lines+markers+text", colour, symbol, sweep.measure, dash))
    alone = [point for point in drawn if point.thresholds.lm is None]
    traces += [_points(alone, "AR", "markers+text", INK, "diamond", sweep.measure)] if alone else []
    highest = max([0.01, *(point.rate.value for point in drawn)])
    speeds = [point.rtfx for point in drawn] or [0.0]
    # Room for the names of the outermost points.
    side = 0.15 * (max(speeds) - min(speeds)) + 1
    axes = {
        "xaxis": axis("RTFx", range=[min(speeds) - side, max(speeds) + side]),
        "yaxis": axis(sweep.measure, tickformat=".1%", automargin=True, range=[-0.05 * highest, 1.12 * highest]),
    }
    room = {"height": SWEEP_HEIGHT, "margin": MARGIN | {"t": TOP}, "legend": LEGEND, "showlegend": True}
    return go.Figure(traces, layout(None) | axes | room)


def _points(
    points: Sequence[Point], name: str, mode: str, colour: str, symbol: str, measure: str, dash: str = "solid"
) -> go.Scatter:
    return go.Scatter(
        x=[point.rtfx for point in points],
        y=[point.rate.value for point in points],
        name=name, mode=mode,
        text=[name_of(point.thresholds) if preset_of(point.thresholds) else "" for point in points],
        # The presets often lie close together.
        textposition=["bottom center" if preset_of(point.thresholds) == "fast" else "top center" for point in points],
        cliponaxis=False, textfont={"color": INK},
        customdata=[_hover(point) for point in points],
        marker={"color": colour, "size": 9, "symbol": symbol}, line={"color": colour, "width": 2, "dash": dash},
        hovertemplate=f"%{{customdata[0]}}<br>{measure} %{{y:.2%}} %{{customdata[1]}}<br>RTFx %{{x:.1f}}<br>"
        "%{customdata[2]}<extra></extra>",
    )  # fmt: skip


def _hover(point: Point) -> tuple[str, str, str]:
    shares = f"%C {point.share('ctc'):.0%}, %L {point.share('lm'):.0%}, of {counted(point.utterances, 'utterance')}"
    return name_of(point.thresholds), f"[{point.rate.low:.2%}, {point.rate.high:.2%}]", shares


def _curve(parts: Sequence[TranscriptPart]) -> tuple[np.ndarray, np.ndarray]:
    """Times `[T]` in seconds and entropies `[T]`, a gap after each part; of a long sound the highest of several frames."""
    frames = sum(len(part.transcript.entropies) for part in parts)
    merged = -(-frames // MOST_FRAMES) or 1
    times, nats = [np.zeros(0)], [np.zeros(0)]
    for part in parts:
        values = part.transcript.entropies.numpy()
        rows = np.pad(values, (0, -len(values) % merged), mode="edge").reshape(-1, merged).max(axis=1)
        width = (part.end - part.begin) / len(rows)
        times += [part.begin + width * (np.arange(len(rows)) + 0.5), np.full(1, part.end)]
        nats += [rows, np.full(1, np.nan)]
    return np.concatenate(times).round(3), np.concatenate(nats).round(4)


def _envelope(speech: np.ndarray, sample_rate: int) -> go.Scatter:
    """The lowest and highest samples as one closed shape."""
    size = max(1, -(-len(speech) // WAVE_BINS))
    bins = np.pad(speech, (0, -len(speech) % size)).reshape(-1, size)
    x = (np.arange(len(bins)) + 0.5) * size / sample_rate
    return go.Scatter(
        x=np.concatenate([x, x[::-1]]).round(3), y=np.concatenate([bins.max(1), bins.min(1)[::-1]]).round(4),
        mode="lines", fill="toself", fillcolor=WAVE, line={"color": WAVE, "width": 0.5}, name="sound", hoverinfo="skip",
    )  # fmt: skip


def _gate(gate: float, seconds: float) -> go.Scatter:
    return go.Scatter(
        x=[0, seconds], y=[gate, gate], yaxis="y2", mode="lines", name=f"gate {gate:g} nats", hoverinfo="skip",
        line={"color": ORANGE, "width": 2, "dash": "8px,4px"},
    )  # fmt: skip


def _borders(parts: Sequence[TranscriptPart]) -> list[dict[str, object]]:
    line = {"color": GRID, "width": 1, "dash": "dot"}
    return [
        {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": part.begin, "x1": part.begin, "line": line}
        for part in parts[1:]
    ]


def _names(parts: Sequence[TranscriptPart]) -> list[dict[str, object]]:
    if not 1 < len(parts) <= MOST_NAMED_PARTS:
        return []
    place = {"yref": "paper", "y": 0, "yanchor": "bottom", "showarrow": False}
    return [{"x": (part.begin + part.end) / 2, "text": part.transcript.stage.upper()} | place for part in parts]
