"""The map as a person sees it, in a real browser; at the sizes of real vocabularies, too."""

from collections.abc import Iterator
from types import SimpleNamespace

import gradio as gr
import pytest
import torch
from playwright.sync_api import Browser, Page, expect

from explorers.how_it_works.map import create_map
from explorers.session import Session, ShownTake
from explorers.theme import launch_options
from pcg.groups.atlas import Atlas
from pcg.groups.neighbours import build_neighbours
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import NEEDS_CHROMIUM, watch
from tests.explorers.served import in_hand, serve

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
COLOURS = "document.querySelector('.map-plane').data[0].marker.color"
MEMBERS = "document.querySelector('.map-plane').data[1].x.length"


def two_tabs(synthesizer: object, session: Session) -> gr.Blocks:
    with gr.Blocks() as app:
        with gr.Tab("First"):
            gr.Markdown("The map is hidden at first.")
        with gr.Tab("Map"):
            create_map(synthesizer, gr.State(session), in_hand(), gr.HTML(js_on_load="trigger('locate')"))
    return app


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer) -> Iterator[str]:
    take = synthesizer.take("The quick brown fox.", Settings("pcg", theta=0.3, seed=7), "two")
    yield from serve(two_tabs(synthesizer, Session().with_take(ShownTake.of(take))), **launch_options())


@pytest.fixture(params=[390, 1440])
def width(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def page(page: Page) -> Page:
    page.get_by_role("tab", name="Map").click()
    expect(page.locator(".map")).to_have_attribute("data-state", "ready")
    return page


def choose(page: Page, token: int) -> None:
    """Click a token; of twins at one place the first may be chosen."""
    place = """token => {
      const { data: [{ x, y }], _fullLayout: { xaxis, yaxis } } = document.querySelector('.map-plane');
      return { x: xaxis.l2p(x[token]) + xaxis._offset, y: yaxis.l2p(y[token]) + yaxis._offset };
    }"""
    page.locator(".map-plane").click(position=page.evaluate(place, token))
    expect(page.locator('.map [data-part="title"]')).to_contain_text("Token ")


def chosen(page: Page) -> int:
    return int(page.locator('.map [data-part="title"]').inner_text().removeprefix("Token "))


def test_a_person_finds_hears_and_leaves_a_token(page: Page, synthesizer: Synthesizer, complaints: list[str]) -> None:
    choose(page, 3)
    groups, token = synthesizer.groups(0.3), chosen(page)
    size = groups.size(int(groups.group_of_centre[token]))
    expect(page.locator('.map [data-part="facts"]')).to_contain_text(f"{size} token")
    assert page.evaluate(MEMBERS) == size
    plane = page.locator(".map-plane")
    plane.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator('.map [data-part="title"]')).not_to_have_text(f"Token {token}")
    page.keyboard.press("Enter")
    expect(page.locator("#hear-words")).to_contain_text("times in a row")
    page.keyboard.press("Escape")
    expect(page.locator('.map [data-part="title"]')).to_have_text("No token chosen")
    page.fill("#map-token input", "5")
    page.keyboard.press("Enter")
    expect(page.locator('.map [data-part="title"]')).to_have_text("Token 5")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert complaints == []


def test_a_lasso_counts(page: Page, complaints: list[str]) -> None:
    page.locator('.map [data-part="lasso"]').click()
    box = page.locator(".map-plane").bounding_box()
    corners = [(0.02, 0.02), (0.95, 0.02), (0.95, 0.95), (0.02, 0.95), (0.02, 0.05)]
    places = [(box["x"] + right * box["width"], box["y"] + down * box["height"]) for right, down in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=6)
    page.mouse.up()
    expect(page.locator('.map [data-part="news"]')).to_contain_text("In the lasso: ")
    assert complaints == []


def test_theta_and_colours_redraw_the_points(page: Page, synthesizer: Synthesizer) -> None:
    before = page.evaluate(COLOURS)
    page.fill("#map-theta input[type=number]", "0.9")
    page.keyboard.press("Tab")
    page.wait_for_function(f"before => JSON.stringify({COLOURS}) !== before", arg=str(before))
    expect(page.locator(".map-plane")).to_be_visible()
    page.wait_for_function(f"Math.max(...{COLOURS}) <= {synthesizer.groups(0.9).sizes.max().item()}")
    page.select_option('.map [data-part="colour"]', "take")
    assert set(page.evaluate(COLOURS)) <= {0, 1, 2, 3}
    assert len(set(page.evaluate(COLOURS))) > 1


class WideVoice:
    """What the map needs of a Synthesizer, over `codes` codes in tight clusters."""

    def __init__(self, codes: int) -> None:
        coins = torch.Generator().manual_seed(0)
        features = torch.randn(codes // 64, 16, generator=coins).repeat_interleave(64, 0)
        features += 0.5 * torch.randn(codes, 16, generator=coins)
        lists = build_neighbours(features, 0.9)
        codec = SimpleNamespace(codebook_size=codes, sample_rate=16_000)
        self.voice = SimpleNamespace(usage=torch.ones(codes, dtype=torch.int32), codec=codec, name="wide")
        nearest = (torch.arange(codes, dtype=torch.int32)[:, None] + 1) % codes
        atlas = Atlas(features[:, 0].clone(), features[:, 1].clone(), nearest, torch.ones(codes, 1))
        self.library = SimpleNamespace(
            similarities=("cosine",),
            neighbours=lambda similarity: lists,
            groups=lambda theta, similarity: lists.groups_at(theta),
            atlas=lambda: atlas,
        )


@pytest.mark.parametrize("codes", [16_384, 65_536])
def test_a_real_vocabulary_is_drawn_and_answers(codes: int, browser: Browser, complaints: list[str]) -> None:
    for address in serve(two_tabs(WideVoice(codes), Session()), **launch_options()):
        page = browser.new_page()
        watch(page, address, complaints)
        page.goto(address)
        page.get_by_role("tab", name="Map").click()
        expect(page.locator(".map")).to_have_attribute("data-state", "ready")
        assert page.evaluate("document.querySelector('.map-plane').data[0].x.length") == codes
        choose(page, codes - 1)
        assert page.evaluate(MEMBERS) > 1
        page.close()
    assert complaints == []
