"""The spoof detectors' panel on the tiny voice, with detectors that are trained on nothing."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import gradio as gr
import numpy as np
import pytest
from playwright.sync_api import Page, expect
from untrained_detectors import untrained

from explorers.more.beams import FATES, PLAN, SECOND, Tree, tree_html
from explorers.more.spoof import SAMPLERS, SEARCHED, SpoofTake, create_spoof, curves_html, generate_all, sampler_html
from explorers.shared.terms import create_terms
from explorers.theme import launch_options
from pcg.errors import PCGError
from pcg.settings import Settings
from pcg.spoof.detectors import RESOLUTIONS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Branch
from tests.explorers.chromium import NEEDS_CHROMIUM, SOFTWARE, axe_faults, patient_page, watch
from tests.explorers.served import serve

TEXT = "The quick brown fox jumps."
ASKED = (TEXT, "one", 1.0, 3)
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def judging(synthesizer: Synthesizer) -> Synthesizer:
    return Synthesizer(synthesizer.voice, detectors=untrained())


@pytest.fixture(scope="module")
def takes(judging: Synthesizer) -> dict[str, SpoofTake]:
    return {step.key: step for step in generate_all(judging, *ASKED) if isinstance(step, SpoofTake)}


@pytest.fixture(scope="module")
def tree(takes: dict[str, SpoofTake]) -> Tree:
    return takes["hiereas"].tree


def test_the_samplers_are_the_papers() -> None:
    settings = {key: (s.settings.sampler, s.settings.top_k, s.settings.top_p) for key, s in SAMPLERS.items()}
    assert settings["original"] == ("plain", 50, 0.0)
    assert settings["top_p"] == ("plain", 50, 0.8)
    assert settings["ras"] == settings["hierras"] == ("ras", 50, 0.8)
    assert settings["eas"] == settings["hiereas"] == ("eas", 50, 0.8)
    assert all(s.settings.temperature == 1.0 for s in SAMPLERS.values())
    assert list(SEARCHED) == ["hierras", "hiereas"]
    assert (PLAN.warmup, PLAN.stages, PLAN.beams) == (20, (10, 25, 50), (8, 5, 3))


def test_each_take_is_the_synthesizers_own(judging: Synthesizer, takes: dict[str, SpoofTake]) -> None:
    assert list(takes) == list(SAMPLERS)
    own = Settings("ar", temperature=1.0, seed=3, sampler="eas", top_k=50, top_p=0.8)
    for key, hierarchical in (("eas", False), ("hiereas", True)):
        assert takes[key].take.tokens == judging.take(TEXT, own.with_(hierarchical=hierarchical), "one").tokens
    plain, searched = (takes[key].record()["computed_per_token"] for key in ("eas", "hiereas"))
    assert plain == pytest.approx(1, abs=0.05)
    assert searched > 2


def test_a_record_is_json_with_the_means_of_the_curves(judging: Synthesizer, takes: dict[str, SpoofTake]) -> None:
    for made in takes.values():
        record = json.loads(json.dumps(made.record(), allow_nan=False))
        for name, curve in judging.decoder.detectors.curves(made.take.tokens).items():
            mean = float(curve.mean())
            assert record["spoof"][name] is None if np.isnan(mean) else record["spoof"][name] == pytest.approx(mean, abs=1e-4)


def test_the_tree_is_the_engines_search(takes: dict[str, SpoofTake], tree: Tree) -> None:
    take = takes["hiereas"].take
    assert tuple(token for fan in tree.fans for token in fan.kept.tokens) == take.tokens
    assert len(tree.fans) == len(take.cycles)
    assert len(tree.cycles) > 0
    for fan in tree.cycles:
        assert [beam.number for beam in fan.beams] == list(range(8))
        assert sorted(beam.stages for beam in fan.beams) == [1, 1, 1, 2, 2, 3, 3, 3]
        assert take.tokens[fan.start : fan.start + len(fan.kept.tokens)] == fan.kept.tokens
        for beam in fan.beams:
            if beam.stages == 1:
                place, of = fan.place(beam, "M10")
                assert (place > 5 or tied(fan.beams, beam), of) == (True, 8)


def tied(beams: tuple[Branch, ...], beam: Branch) -> bool:
    return sum(each.scores["M10"] == beam.scores["M10"] for each in beams) > 1


REFUSED: list[tuple[Callable[[Synthesizer], object], str]] = [
    (lambda s: list(generate_all(s, " ", *ASKED[1:])), "text is missing"),
    (lambda s: list(generate_all(s, TEXT, "nobody", 1.0, 3)), "voice is 'nobody'"),
    (lambda s: list(generate_all(s, TEXT, "one", 9.0, 3)), "temperature is 9.0"),
    (lambda s: list(generate_all(Synthesizer(s.voice, detectors=untrained(codes=65)), *ASKED)), "the spoof detectors know"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_bad_input_is_one_sentence(call: Callable[[Synthesizer], object], sentence: str, judging: Synthesizer) -> None:
    with pytest.raises(PCGError, match=sentence):
        call(judging)


def test_every_beam_is_drawn_with_its_fate_and_the_same_quantity_as_the_curves(tree: Tree) -> None:
    html = tree_html(tree)
    assert html.count('<g class="beam') - 4 == sum(len(fan.beams) for fan in tree.cycles)
    assert html.count("tabindex=0") == 1
    for fate, count in (("chosen", 1), ("lost", 2), ("second", 2), ("first", 3)):
        drawn = [part for part in html.split("<g class=")[1:] if part.startswith(f'"beam {fate}" role="img"')]
        assert len(drawn) == count * len(tree.cycles)
        assert all(('class="mark"' in part.split("</g>")[0]) == (fate != "chosen") for part in drawn)
        assert all(FATES[fate] in part for part in drawn)
    fan = tree.cycles[0]
    assert f"spoof probability M10 {1 - fan.kept.scores['M10']:.2f} ({fan.place(fan.kept, 'M10')[0]} of 8)" in html
    assert "<-" not in html


def test_the_name_of_the_last_cycle_is_not_cut(tree: Tree) -> None:
    """Even where its beams say one token."""
    last = tree.cycles[-1]
    beams = tuple(replace(beam, rounds=beam.rounds[:1]) for beam in last.beams)
    short = replace(last, cycle=replace(last.cycle, branches=beams))
    html = tree_html(replace(tree, fans=(*(fan for fan in tree.fans if fan.start < last.start), short)))
    width = float(re.search(r'<svg width="(\d+)"', html)[1])
    begin = max(float(x) for x in re.findall(r'class="cycle" x="([\d.]+)"', html))
    assert begin > 0.5 * SECOND
    assert width - begin >= 6.2 * len("cycle 10")  # of a monospaced letter of 10 px


def test_a_short_take_has_no_beams_and_no_long_curve(judging: Synthesizer, takes: dict[str, SpoofTake], tree: Tree) -> None:
    assert "before any beams" in tree_html(replace(tree, fans=tree.fans[:1]))
    whole = takes["eas"].take
    for count, lines in ((5, 0), (12, 1), (30, 2)):
        short = replace(whole, rounds=whole.rounds[:count], audio=whole.audio[: count * judging.voice.codec.hop])
        curves = {name: curve.numpy() for name, curve in judging.decoder.detectors.curves(short.tokens).items()}
        html = curves_html(curves, short.audio_seconds)
        assert (html.count("<polyline"), html.count("<dd>too short</dd>")) == (lines, 5 - lines)
    assert "<polyline" not in curves_html({r.name: [] for r in RESOLUTIONS}, 0.0)
    assert f"<b>{whole.computed_per_token:.1f}</b> tokens computed" in sampler_html("eas", whole)


@pytest.fixture
def page(judging: Synthesizer, request: pytest.FixtureRequest, complaints: list[str]) -> Iterator[Page]:
    with gr.Blocks(fill_width=True) as app:
        gr.HTML("<h1>A page</h1>")
        create_spoof(judging)
        create_terms()
    for address in serve(app, **launch_options()):
        with patient_page(request.param, SOFTWARE, PATIENCE_MS) as page:
            watch(page, address, complaints)
            page.goto(f"{address}?__theme=light")
            yield page


@NEEDS_CHROMIUM
@pytest.mark.slow
@pytest.mark.parametrize("page", [390, 1440], indirect=True)
def test_a_person_compares_six_samplers_and_reads_a_beam(page: Page, complaints: list[str]) -> None:
    page.fill("#spoof-text textarea", "Hello, yes ${window.hacked = 1} <b>one</b>.")
    page.click("#spoof-run")
    expect(page.locator("#spoof-status")).to_contain_text("All six takes are ready.")
    for key in SAMPLERS:
        expect(page.locator(f"#spoof-{key}")).to_contain_text("tokens computed for each token")
        expect(page.locator(f"#spoof-curves-{key} .spoof-plane")).to_have_attribute("role", "img")
    page.locator("#spoof-tree-hiereas .beam[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator('#spoof-tree-hiereas [data-part="note"]')).to_contain_text("Cycle 1, beam 2,")
    expect(page.locator("#spoof-tree-hierras .beams-plane svg")).to_have_attribute(
        "aria-label", re.compile("^Beams of HierRAS")
    )
    for theme in ("light", "dark"):
        page.evaluate("theme => document.body.classList.toggle('dark', theme === 'dark')", theme)
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        assert axe_faults(page) == []
    assert page.evaluate("window.hacked") is None
    assert complaints == []
