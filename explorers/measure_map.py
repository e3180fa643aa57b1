"""`python -m explorers.measure_map`: the map at a vocabulary's full size, in a real browser; JSON on the last line.

Needs the packages of requirements-dev.txt and Chromium (on the path, or named by CHROMIUM). The points are synthetic: random
groups, places by the first two of their dimensions. WebGL is drawn by the processor here, which holds the frames back and
nothing else.
"""

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, log
from statistics import median
from types import SimpleNamespace

import gradio as gr
import torch

from explorers.groups.layout import create_map
from explorers.session import Session
from explorers.theme import launch_options
from pcg.groups.atlas import Atlas
from pcg.groups.neighbours import CosineSample, Neighbours, build_neighbours

DIMENSIONS, MEAN_SIZE, NEAREST = 64, 140, 12
CLICKS, PAN_SECONDS = 7, 3
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WATCH = """() => {
  const title = document.querySelector(".atlas [data-part=title]");
  addEventListener("pointerup", () => { window.clicked = performance.now(); }, { once: true, capture: true });
  window.answered = new Promise((resolve) => {
    const answered = (_, watching) => { watching.disconnect(); resolve(performance.now()); };
    new MutationObserver(answered).observe(title, { childList: true });
  });
}"""
FRAMES = """async (seconds) => {
  const until = performance.now() + 1000 * seconds;
  let frames = 0;
  while (performance.now() < until) { await new Promise(requestAnimationFrame); frames += 1; }
  return frames / seconds;
}"""


LEVELS, HIDDEN = 4, 64


def clustered_embedding(tokens: int, dimensions: int, seed: int = 0) -> torch.Tensor:
    """Vectors `[tokens, dimensions]` as a codec's tokens have them, uneven and overlapping: a random smooth function of the
    code's base-4 digits, whose steps are unequally wide, plus noise that is louder for some codes than for others."""
    generator = torch.Generator().manual_seed(seed)
    places = ceil(log(tokens, LEVELS))
    digits = torch.arange(tokens)[:, None] // LEVELS ** torch.arange(places) % LEVELS
    steps = torch.rand(places, LEVELS, generator=generator).exp().cumsum(1)
    positions = steps[torch.arange(places), digits] - steps.mean(1)
    hidden = (positions @ torch.randn(places, HIDDEN, generator=generator) / places**0.5).tanh()
    smooth = hidden @ torch.randn(HIDDEN, dimensions, generator=generator) / HIDDEN**0.5
    loudness = 0.6 * (0.4 * torch.randn(tokens, 1, generator=generator)).exp()
    return smooth + loudness * torch.randn(tokens, dimensions, generator=generator)


class SyntheticVoice:
    """What the map panel needs of a Synthesizer, over `tokens` codes."""

    def __init__(self, tokens: int) -> None:
        embedding = clustered_embedding(tokens, DIMENSIONS)
        floor = CosineSample.of(embedding).theta_leaving((MEAN_SIZE - 1) * tokens / 2)
        lists = build_neighbours(embedding, floor)
        self.voice = SimpleNamespace(usage=torch.ones(tokens, dtype=torch.int32), codec=SimpleNamespace(codebook_size=tokens))
        self.library = SimpleNamespace(
            similarities=("cosine",),
            neighbours=lambda similarity: lists,
            groups=lambda theta, similarity: lists.groups_at(theta),
        )
        self._atlas = _atlas(embedding, lists)

    def atlas(self) -> Atlas:
        return self._atlas


def _atlas(embedding: torch.Tensor, lists: Neighbours) -> Atlas:
    """Places and nearest without UMAP, which would take minutes. A code of a short list is its own nearest beyond it."""
    codes = len(embedding)
    nearest, similarity = torch.arange(codes, dtype=torch.int32)[:, None].repeat(1, NEAREST), torch.zeros(codes, NEAREST)
    for code in range(codes):
        ids, values = (each[1 : NEAREST + 1] for each in lists.of(code))
        nearest[code, : len(ids)], similarity[code, : len(ids)] = ids, values.float()
    return Atlas(embedding[:, 0].clone(), embedding[:, 1].clone(), nearest, similarity)


@contextmanager
def served(tokens: int) -> Iterator[str]:
    with gr.Blocks() as app:
        create_map(SyntheticVoice(tokens), gr.State(Session()))
    _, url, _ = app.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_options())
    yield url
    app.close(verbose=False)


def measure(url: str) -> dict[str, float]:
    """Seconds to the first paint, bytes of the map's file, milliseconds from a click to the group in Python's answer, frames a
    second while the map is dragged."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"), args=ARGUMENTS
        )
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        received = []
        page.on("response", lambda response: received.append(response) if response.url.endswith("atlas.bin") else None)
        page.goto(url)
        page.wait_for_selector('.atlas[data-state="ready"]', timeout=60_000)
        painted = page.evaluate("performance.now()")
        box = page.locator("[data-part=marks]").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        answers = []
        for turn in range(CLICKS + 1):
            page.evaluate(WATCH)
            page.mouse.click(middle[0] - 60 + 20 * turn, middle[1] - 40 + 11 * turn)
            answers.append(page.evaluate("window.answered.then((at) => at - window.clicked)"))
            page.wait_for_timeout(300)
        page.mouse.move(*middle)
        page.mouse.down()
        page.evaluate("window.frames_ = null")
        page.evaluate(f"({FRAMES})({PAN_SECONDS}).then((rate) => {{ window.frames_ = rate; }}), 0")
        turn = 0
        while page.evaluate("window.frames_") is None:
            turn += 1
            page.mouse.move(middle[0] + 90 * ((turn % 20) / 10 - 1), middle[1] + 5 * (turn % 13))
        figures = {
            "first_paint_seconds": round(painted / 1000, 3),
            "map_bytes": sum(len(response.body()) for response in received),
            "click_ms": round(median(answers[1:]), 1),
            "first_click_ms": round(answers[0], 1),
            "frames_per_second": round(page.evaluate("window.frames_"), 1),
        }
        browser.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=65_536)
    tokens = parser.parse_args().tokens
    with served(tokens) as url:
        print(json.dumps({"tokens": tokens} | measure(url)))


if __name__ == "__main__":
    main()
