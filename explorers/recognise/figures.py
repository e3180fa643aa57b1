"""The figures of listening as plotly: frame entropies over the waveform."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from explorers.colours import BLUE, ORANGE, VERMILION
from explorers.recognise.actions import RecognisedSound, TranscriptPart
from explorers.shared.figures import GRID, HEIGHT, MARGIN, axis, layout

WAVE, FILL = "rgba(125, 130, 136, 0.35)", "rgba(0, 114, 178, 0.18)"
WAVE_BINS, MOST_FRAMES, MOST_NAMED_PARTS = 900, 3000, 8
TOP = 62
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
