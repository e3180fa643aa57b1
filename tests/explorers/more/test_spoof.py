"""The spoof detectors' panel on the tiny voice, with detectors that are trained on nothing."""

from collections.abc import Iterator
from dataclasses import replace

import gradio as gr
import pytest
from playwright.sync_api import Page, expect
from untrained_detectors import untrained

from explorers.more.spoof import (
    PLAN,
    SAMPLERS,
    SpoofTake,
    beams_figure,
    create_spoof,
    curves_figure,
    generate_all,
    sampler_html,
)
from explorers.shared.controls import setting, text_box
from explorers.shared.terms import create_terms
from explorers.theme import launch_options
from pcg.errors import PCGError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import NEEDS_CHROMIUM, axe_faults
from tests.explorers.served import serve

TEXT = "The quick brown fox jumps."
ASKED = (TEXT, "one", 1.0, 3)


@pytest.fixture(scope="module")
def judging(synthesizer: Synthesizer) -> Synthesizer:
    return Synthesizer(synthesizer.voice, detectors=untrained())


@pytest.fixture(scope="module")
def takes(judging: Synthesizer) -> dict[str, SpoofTake]:
    return {step.key: step for step in generate_all(judging, *ASKED) if isinstance(step, SpoofTake)}


def test_each_take_is_the_synthesizers_own(judging: Synthesizer, takes: dict[str, SpoofTake]) -> None:
    assert list(takes) == list(SAMPLERS)
    own = Settings("ar", temperature=1.0, seed=3, sampler="eas", top_k=50, top_p=0.8)
    for key, hierarchical in (("eas", False), ("hiereas", True)):
        assert takes[key].take.tokens == judging.take(TEXT, own.with_(hierarchical=hierarchical), "one").tokens
    plain, searched = (takes[key].take.computed_per_token for key in ("eas", "hiereas"))
    assert plain == pytest.approx(1, abs=0.05)
    assert searched > 2


def test_bad_input_is_one_sentence(judging: Synthesizer) -> None:
    for asked, told in (
        ((" ", "one", 1.0, 3), "text is"),
        ((TEXT, "nobody", 1.0, 3), "voice is"),
        ((TEXT, "one", 9.0, 3), "9.0"),
    ):
        with pytest.raises(PCGError, match=told):
            next(generate_all(judging, *asked))


def test_every_scored_beam_has_its_marks_and_each_pruned_one_a_cross(takes: dict[str, SpoofTake]) -> None:
    made = takes["hiereas"]
    searched = [cycle for cycle in made.take.cycles if len(cycle.branches) > 1]
    assert sum(len(c.branches[c.chosen].tokens) for c in made.take.cycles) == len(made.take.tokens)
    *_, marks = beams_figure(made).data
    assert len(marks.x) == len(searched) * (3 * 1 + 2 * 2 + 3 * 3)
    assert marks.marker.symbol.count("x") == len(searched) * (PLAN.beams[0] - 1)
    kept = searched[0].branches[searched[0].chosen]
    ours = [i for i, text in enumerate(marks.text) if text.startswith(f"cycle 1, beam {kept.number + 1}: chosen")]
    assert [marks.marker.color[i] for i in ours] == pytest.approx([1 - kept.scores[name] for name in ("M10", "M25", "M50")])
    assert all("<-" not in text for text in marks.text)


def test_a_short_take_has_no_beams_and_no_long_curve(judging: Synthesizer, takes: dict[str, SpoofTake]) -> None:
    made = takes["hiereas"]
    warm_up = made._replace(take=replace(made.take, cycles=made.take.cycles[:1]))
    assert "before any beams" in beams_figure(warm_up).layout.title.text
    short = replace(made.take, rounds=made.take.rounds[:12])
    curves = {name: curve.numpy() for name, curve in judging.decoder.detectors.curves(short.tokens).items()}
    assert any("too short" in curve.name for curve in curves_figure(SpoofTake("eas", short, curves)).data)
    assert f"<b>{short.computed_per_token:.1f}</b> tokens computed" in sampler_html("eas", short)


@pytest.fixture(scope="module")
def address(judging: Synthesizer) -> Iterator[str]:
    with gr.Blocks(fill_width=True) as app:
        gr.HTML("<h1>A page</h1>")
        asked = {
            "text": text_box(),
            "voice": gr.Dropdown(["one"]),
            "temperature": setting("temperature"),
            "seed": setting("seed"),
        }
        create_spoof(judging, asked)
        create_terms()
    yield from serve(app, **launch_options())


@NEEDS_CHROMIUM
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440], indirect=True)
def test_a_person_compares_six_samplers_and_reads_a_beam(page: Page, complaints: list[str]) -> None:
    page.fill("#text textarea", "Hello, yes ${window.hacked = 1} <b>one</b>.")
    page.click("#spoof-run")
    expect(page.locator("#spoof-status")).to_contain_text("All six takes are ready.")
    for key in SAMPLERS:
        expect(page.locator(f"#spoof-{key}")).to_contain_text("tokens computed for each token")
        expect(page.locator(f"#spoof-curves-{key} .main-svg").first).to_be_visible()
    expect(page.locator("#spoof-tree-hierras")).to_contain_text("Beams of HierRAS")
    for theme in ("light", "dark"):
        page.evaluate("theme => document.body.classList.toggle('dark', theme === 'dark')", theme)
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        assert axe_faults(page) == []
    assert page.evaluate("window.hacked") is None
    assert complaints == []
