"""The colours of the page that mean something: Okabe and Ito's, and the one that each method has everywhere."""

BLUE, VERMILION, ORANGE, GREEN, SKY, PURPLE = "#0072B2", "#D55E00", "#E69F00", "#009E73", "#56B4E9", "#CC79A7"
INK = "#7d8288"
# Of waveforms: what was played, and the rest.
SOUND_COLOUR, WAVE_COLOUR = ORANGE, "#9aa0a6"
# All stand out from the light and from the dark ground, so that one colour does for both. Names and marks say the same.
METHODS = {"ar": INK, "sd": PURPLE, "ssd": VERMILION, "pcg": BLUE}


def method_styles() -> str:
    """The colours as variables of the style sheets: `--method-ar` and so on."""
    declared = "".join(f"--method-{method}: {colour}; " for method, colour in METHODS.items())
    return f":root {{ {declared}}}"


def swatch_html(name: str) -> str:
    """A patch of colour before the `name` of a condition or a system that begins with a method: "PCG, theta 0.5"; nothing for
    other names. Decoration, as the name says the same."""
    method = name.partition(",")[0].lower()
    return f'<i class="swatch" style="background: {METHODS[method]}" aria-hidden="true"></i>' if method in METHODS else ""
