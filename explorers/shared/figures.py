"""The axis and the layout that all plotly figures of the page share: legible on light and dark, and on a phone."""

from explorers.colours import INK

GRID = "rgba(125, 130, 136, 0.25)"
MARGIN = {"l": 52, "r": 12, "t": 34, "b": 44}


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
