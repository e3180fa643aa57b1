"""The figures of the page as plotly: numbers in, a figure out. Legible on light and on dark, and at the width of a phone.

A figure is built from its whole layout at once, because every later update of a plotly figure costs milliseconds.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from explorers.colours import BLUE, INK, ORANGE, VERMILION
from pcg.errors import counted

GRID, BAND = "rgba(125, 130, 136, 0.25)", "rgba(0, 158, 115, 0.25)"
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


def distribution_figure(values: np.ndarray, title: str, unit: str) -> go.Figure:
    """How many tokens have which of the whole numbers `values [V]`, all at least 1: one bar from 2^i to 2^(i+1) - 1."""
    counts = np.bincount(np.frexp(values)[1] - 1)
    edges = np.arange(len(counts) + 1)
    lows = (2 ** edges[:-1]).tolist()
    bars = go.Bar(
        x=edges[:-1], y=counts, offset=0, width=1, textposition="none",
        text=[f"{low:,} to {2 * low - 1:,}" if low > 1 else "1" for low in lows],
        customdata=[f"{counted(count, 'token')}, {count / len(values):.1%}" for count in counts.tolist()],
        marker={"color": BLUE, "line": {"color": "rgba(255, 255, 255, 0.5)", "width": 1}},
        hovertemplate=f"%{{text}} {unit}<br>%{{customdata}}<extra></extra>",
    )  # fmt: skip
    ticks = {"tickvals": edges, "ticktext": [_short(2**i) for i in edges.tolist()], "range": [-0.1, len(counts) + 0.1]}
    return go.Figure(
        bars,
        layout(title)
        | {"xaxis": axis(unit, **ticks), "yaxis": axis("tokens", rangemode="tozero", tickformat="~s"), "height": HEIGHT},
    )


def mean_size_figure(
    thetas: np.ndarray, plain: np.ndarray, weighted: np.ndarray, theta: float, band: tuple[float, float] | None
) -> go.Figure:
    """Mean |G| against theta, `plain` and `weighted` by use, each `[T]`; the chosen `theta` as a line.

    band: thetas to mark as the range of the PCG paper; None where its similarity is not the one on the axis.
    """
    curves = (("over all tokens", plain, BLUE, "solid"), ("weighted by use", weighted, VERMILION, "6px,3px"))
    lines = [
        go.Scatter(
            x=thetas, y=values, name=name, mode="lines", line={"color": colour, "width": 2.5, "dash": dash},
            hovertemplate=f"theta %{{x:.2f}}<br>mean |G| %{{y:,.2f}} {name}<extra></extra>",
        )
        for name, values, colour, dash in curves
    ]  # fmt: skip
    ends, top = (float(thetas[0]), float(thetas[-1])), float(np.log10(max(plain.max(), weighted.max())))
    here = {"x0": theta, "x1": theta, "line": {"color": ORANGE, "width": 2}}
    paper = {"fillcolor": BAND, "line": {"width": 0}, "layer": "below", "name": "the paper's range (LLaSA)", "showlegend": True}
    shapes = [here] + ([{"x0": band[0], "x1": band[1]} | paper] if band else [])
    # The curves fall, so there is room for words to the right of the line; at the right end of the axis there is none.
    right = theta < sum(ends) / 2
    words = {"xanchor": "left" if right else "right", "xshift": 4 if right else -4, "yanchor": "top", "showarrow": False}
    return go.Figure(
        lines,
        layout("Mean group size against theta")
        | {
            "xaxis": axis("theta", range=[ends[0] - 0.01, ends[1] + 0.01], dtick=0.1),
            "yaxis": axis("mean |G|, tokens", type="log", dtick=1, tickformat="~s", range=[-0.05, top + 0.4]),
            "shapes": [{"type": "rect" if "name" in s else "line", "yref": "paper", "y0": 0, "y1": 1} | s for s in shapes],
            "annotations": [{"x": theta, "y": 1, "yref": "paper", "text": f"theta {theta:.4g}"} | words],
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0, 0, 0, 0)"},
            "margin": MARGIN | {"t": 92},
            "height": HEIGHT,
        },
    )


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


def _short(number: int) -> str:
    return str(number) if number < 1024 else f"{number // 1024}k"
