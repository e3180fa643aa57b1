"""The figures of the page as plotly: numbers in, a figure out. Legible on light and on dark, and at the width of a phone.

A figure is built from its whole layout at once, because every later update of a plotly figure costs milliseconds.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from explorers.colours import INK, VERMILION

GRID = "rgba(125, 130, 136, 0.25)"
MARGIN = {"l": 52, "r": 12, "t": 34, "b": 44}
HEIGHT, MEL_HEIGHT = 290, {"beside": 310, "stacked": 400}
KILOHERTZ = (0.5, 1, 2, 4, 8)
PICTURE_DB, LOUDEST_SILENCE_DB = 70, -30
GAP, TITLE_GAP = 0.04, 0.16
CAPTION = {"xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "bottom", "showarrow": False, "font": {"size": 13}}
COLOUR_BAR = {
    "orientation": "h", "x": 0.5, "y": 0, "yref": "container", "yanchor": "bottom", "len": 0.8, "thickness": 8,
    "outlinewidth": 0, "ticksuffix": " dB", "nticks": 4, "tickangle": 0,
}  # fmt: skip


def mel_figure(
    mels: Sequence[np.ndarray],
    titles: Sequence[str],
    frequencies: np.ndarray,
    frame_seconds: float,
    stacked: bool = False,
    marks: Sequence[tuple[float, float]] = (),
) -> go.Figure:
    """Log-mel pictures, each `[F, bands]` in dB, on one colour scale, side by side or `stacked` from the top.

    frequencies: the middle of every band, `[bands]` in Hz. marks: stretches in seconds, stroked above every picture.
    """
    gap, count = (TITLE_GAP if stacked else GAP), len(mels)
    size = (1 - gap * (count - 1)) / count
    spans = [(i * (size + gap), i * (size + gap) + size) for i in range(count)]
    if stacked:
        spans = spans[::-1]
    traces, captions, axes = [], [], {}
    for i, (mel, title, span) in enumerate(zip(mels, titles, spans, strict=True)):
        number = str(i + 1) if i else ""
        place = {"yaxis": f"y{number}"} if stacked else {"xaxis": f"x{number}"}
        traces += [_picture(mel, frame_seconds, place), _strokes(marks, len(frequencies), place)]
        left, top = (0.5, span[1]) if stacked else (sum(span) / 2, 1)
        captions.append({"x": left, "y": top, "text": title} | CAPTION)
        axes |= {f"yaxis{number}": _band_axis(frequencies, span)} if stacked else {f"xaxis{number}": _time_axis(4, span)}
    axes |= (
        {"xaxis": _time_axis(8, (0, 1)) | {"anchor": place["yaxis"]}} if stacked else {"yaxis": _band_axis(frequencies, (0, 1))}
    )
    loudest = max(LOUDEST_SILENCE_DB, *(float(mel.max(initial=LOUDEST_SILENCE_DB)) for mel in mels))
    colours = {"colorscale": "cividis", "cmin": loudest - PICTURE_DB, "cmax": loudest, "colorbar": COLOUR_BAR}
    room = {"height": MEL_HEIGHT["stacked" if stacked else "beside"], "margin": MARGIN | {"t": 28, "b": 72}}
    return go.Figure(traces, layout(None) | axes | room | {"annotations": captions, "coloraxis": colours})


def _picture(mel: np.ndarray, frame_seconds: float, place: Mapping[str, str]) -> go.Heatmap:
    # Whole decibels in one byte each: a picture of some seconds is sent whenever someone listens.
    decibels = np.rint(mel.T).astype(np.int8)
    return go.Heatmap(
        z=decibels, x0=frame_seconds / 2, dx=frame_seconds, coloraxis="coloraxis",
        hovertemplate="%{x:.2f}: %{z} dB<extra></extra>", **place,
    )  # fmt: skip


def _strokes(marks: Sequence[tuple[float, float]], bands: int, place: Mapping[str, str]) -> go.Scatter:
    """One trace, broken by gaps: a shape for each of hundreds of tokens would be slow."""
    x = np.array([(begin, end, np.nan) for begin, end in marks]).ravel()
    return go.Scatter(
        x=x, y=np.full(len(x), bands + 1.0), mode="lines", line={"color": VERMILION, "width": 4}, showlegend=False,
        hoverinfo="skip", **place,
    )  # fmt: skip


def _time_axis(ticks: int, span: tuple[float, float]) -> dict[str, object]:
    return axis(None, showgrid=False, nticks=ticks, tickangle=0, ticksuffix=" s", domain=span)


def _band_axis(frequencies: np.ndarray, span: tuple[float, float]) -> dict[str, object]:
    shown = [k for k in KILOHERTZ if 1000 * k <= frequencies[-1]]
    places = np.interp([1000 * k for k in shown], frequencies, np.arange(len(frequencies)))
    labels = {"tickvals": places, "ticktext": [f"{k:g}" for k in shown]}
    return axis("kHz", showgrid=False, range=[-0.5, len(frequencies) + 2.5], domain=span, **labels)


def axis(title: str | None, **own: object) -> dict[str, object]:
    """An axis that does not zoom, so that a finger on it scrolls the page."""
    lines = {"gridcolor": GRID, "linecolor": INK, "zeroline": False, "ticks": "outside", "ticklen": 3, "tickcolor": INK}
    return lines | {"title": {"text": title, "font": {"size": 12}, "standoff": 4}, "fixedrange": True} | own


def layout(title: str | None) -> dict[str, object]:
    """What all figures share."""
    return {
        "template": "none",
        "title": {"text": title, "x": 0, "xref": "paper", "y": 1, "yanchor": "top", "pad": {"t": 8}, "font": {"size": 14}},
        "autosize": True,
        "margin": MARGIN,
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "dragmode": False,
        "modebar": {"remove": ["zoom", "pan", "zoomin", "zoomout", "autoscale", "resetscale", "toimage", "select", "lasso"]},
        "hoverlabel": {"bgcolor": "#24282d", "font": {"color": "#f6f5f2"}},
    }
