"""How the page draws: Okabe and Ito's colours, the one of each method, and what all plotly figures share."""

from pcg.spoof import M10, M25, M50, M50_10, M50_25

BLUE, VERMILION, ORANGE, GREEN, SKY, PURPLE = "#0072B2", "#D55E00", "#E69F00", "#009E73", "#56B4E9", "#CC79A7"
INK = "#7d8288"
# Of waveforms: what was played, and the rest.
SOUND_COLOUR, WAVE_COLOUR = ORANGE, "#9aa0a6"
# All stand out from the light and from the dark ground, so that one colour does for both. Names and marks say the same.
METHODS = {"ar": INK, "sd": PURPLE, "ssd": VERMILION, "pcg": BLUE}


# Of the spoof detectors on the light and on the dark ground, and their dashes in pixels: no colour and no dash stands twice.
DETECTORS = {
    M50.name: ("#0072b2", "#56b4e9", ""),
    M25.name: ("#c24e00", "#ff8a3d", "7px,3px"),
    M10.name: ("#6f757d", "#a5abb3", "2px,2px"),
    M50_25.name: ("#007a59", "#2cc79a", "10px,3px,2px,3px"),
    M50_10.name: ("#a8548a", "#dd9cc2", "4px,5px"),
}


def css_variables() -> str:
    """Return the colours as variables of the style sheets, such as `--method-ar` and `--spoof-M50-25-dashes`."""
    light = "".join(f"--method-{method}: {colour}; " for method, colour in METHODS.items())
    dark = ""
    for name, (on_light, on_dark, dashes) in DETECTORS.items():
        variable = f"--spoof-{name.replace('<-', '-')}"
        light += f"{variable}: {on_light}; {variable}-dashes: {dashes or 'none'}; "
        dark += f"{variable}: {on_dark}; "
    return f":root {{ {light}}} .dark {{ {dark}}}"


GRID = "rgba(125, 130, 136, 0.25)"
MARGIN = {"l": 52, "r": 12, "t": 34, "b": 44}


def axis(title: str | None, **own: object) -> dict[str, object]:
    """Return a plotly axis that does not zoom, so that a finger on it scrolls the page."""
    lines = {"gridcolor": GRID, "linecolor": INK, "zeroline": False, "ticks": "outside", "ticklen": 3, "tickcolor": INK}
    return lines | {"title": {"text": title, "font": {"size": 12}, "standoff": 4}, "automargin": True, "fixedrange": True} | own


def layout(title: str | None) -> dict[str, object]:
    """Return the layout of a plotly figure, legible on light and dark, and on a phone."""
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
