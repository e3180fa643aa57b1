"""The lines of the spoof detectors: one colour and one dash for each, wherever they are drawn."""

import re
from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorers.colours import DETECTORS, detector_styles
from explorers.shared.spoof_curves import curves_html
from explorers.theme import launch_options
from explorers.tune.layout import create_in_hand
from explorers.tune.strip import run_prop, spoof_prop
from pcg.settings import Settings
from pcg.spoof.detector import RESOLUTIONS
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import NEEDS_CHROMIUM, SOFTWARE, patient_page
from tests.explorers.served import serve

PATIENCE_MS = 120_000
GROUNDS = {"light": "#ffffff", "dark": "#15171a"}
LINE = """([place, theme]) => {
  document.body.classList.toggle("dark", theme === "dark");
  const style = getComputedStyle(document.querySelector(place));
  return [style.stroke, style.strokeDasharray.replaceAll("px", "").replaceAll(",", "")];
}"""


def luminance(colour: str) -> float:
    """Relative, as WCAG 2 defines it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, ground: str) -> float:
    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def test_every_detector_has_a_line_that_stands_out_on_both_grounds() -> None:
    assert list(DETECTORS) == [r.name for r in RESOLUTIONS]
    for theme, ground in GROUNDS.items():
        colours = [getattr(line, theme) for line in DETECTORS.values()]
        assert len(set(colours)) == len(RESOLUTIONS)
        assert min(contrast(colour, ground) for colour in colours) >= 3
    assert len({line.dashes for line in DETECTORS.values()}) == len(RESOLUTIONS)


def test_the_variables_are_declared_for_both_themes() -> None:
    light, dark = detector_styles().split(".dark")
    assert "--spoof-M50-dashes: none;" in light
    assert "--spoof-M50-25-dashes: 10 3 2 3;" in light
    for each in (light, dark):
        assert len(re.findall(r"--spoof-M[\d-]+: #[0-9a-f]{6};", each)) == len(RESOLUTIONS)


@pytest.fixture(scope="module")
def address(judged: Synthesizer) -> Iterator[str]:
    """Where a page is served that shows curves twice: as Spoof does, and below the tokens of a take."""
    take = judged.take("Hello, yes.", Settings("pcg"), "one")
    curves = {r.name: [0.5] * len(take.tokens) for r in RESOLUTIONS}
    props = {"run": run_prop(1, take), "spoof": spoof_prop(1, "untrained", curves)}
    with gr.Blocks() as app:
        gr.HTML(curves_html(curves, take.audio_seconds), apply_default_css=False)
        strip = create_in_hand(judged).strip
        gr.Button("Show", elem_id="show").click(lambda: gr.update(**props), None, strip)
    yield from serve(app, **launch_options())


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    with patient_page(1440, SOFTWARE, PATIENCE_MS) as page:
        page.goto(address)
        yield page


@NEEDS_CHROMIUM
@pytest.mark.slow
def test_a_detector_has_the_same_line_below_the_tokens_and_in_the_curves_of_a_take(page: Page) -> None:
    page.click("#show")
    expect(page.locator(".strip-curves [data-curve]")).to_have_count(len(RESOLUTIONS))
    for theme in GROUNDS:
        for r in RESOLUTIONS:
            red, green, blue = (int(getattr(DETECTORS[r.name], theme)[at : at + 2], 16) for at in (1, 3, 5))
            line = [f"rgb({red}, {green}, {blue})", " ".join(map(str, DETECTORS[r.name].dashes)) or "none"]
            assert page.evaluate(LINE, [f".spoof-means .{r.key}", theme]) == line
            assert page.evaluate(LINE, [f'.strip-curves [data-curve="{r.name}"] line', theme]) == line
