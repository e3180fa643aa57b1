"""The take in hand: its tokens above the waveform, the test of each, the curves of the spoof detectors, and a player.

The template is constant, as gradio would run its content: the script inserts words that change, as text.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path

import gradio as gr
import torch
from torch import Tensor

from explorers.shared.scripts import BARS, PIECES, SHARED, joined
from pcg.spoof.detector import RESOLUTIONS
from pcg.takes.take import Round, Take

STYLES, ROUND_STYLES = (Path(__file__).with_name(f"{name}.css") for name in ("strip", "round"))
SCRIPTS = [
    SHARED,
    PIECES,
    BARS,
    *(Path(__file__).with_name(f"strip{part}.js") for part in ("_words", "_picture", "_round", "_link", "")),
]
LOCATE, GROUP = "locate", "group"
DIGITS = 5
TEMPLATE = """
<div class="strip" data-state="empty">
  <div class="strip-bar">
    <button type="button" class="strip-play" data-part="play" disabled>▶ Play</button>
    <span class="strip-clock" data-part="clock">0.00 s</span>
    <button type="button" data-part="detectors" aria-expanded="false" hidden>Detectors</button>
  </div>
  <div class="strip-scroll" data-part="scroll">
    <div class="strip-stage" data-part="stage">
      <canvas data-part="picture" aria-hidden="true"></canvas>
      <canvas data-part="marks" tabindex="-1" role="slider" aria-label="Tokens of the take" aria-valuemin="0" aria-valuemax="0"
        aria-valuenow="0" aria-valuetext="No take yet"></canvas>
      <p class="strip-empty" data-part="empty">Each bar is a token above its sound.</p>
    </div>
  </div>
  <div class="strip-spoof" data-part="spoof" hidden>
    <p data-part="judge"></p>
    <div class="strip-curves" data-part="curves" role="group" aria-label="Curves of the spoof detectors"></div>
  </div>
  <div class="strip-detail">
    <div class="strip-head">
      <h2 data-part="title">No token chosen</h2>
      <span class="strip-actions">
        <button type="button" data-part="from" disabled>▶ From here</button>
        <button type="button" data-part="locate" disabled>Show on the map</button>
      </span>
    </div>
    <p class="strip-story" data-part="story">Point at a bar, or use the arrow keys, to see its acceptance test. A click or
    Enter plays from there.</p>
    <dl class="strip-facts" data-part="facts"></dl>
  </div>
  <section class="round" data-part="round" aria-label="One round, step by step">
    <div class="strip-head">
      <h2>One round, step by step <small data-part="number"></small></h2>
      <span class="strip-actions">
        <button type="button" data-part="before" aria-label="Round before">◀</button>
        <button type="button" data-part="next">Start</button>
        <button type="button" data-part="slowly">▶ Slowly</button>
        <button type="button" data-part="after" aria-label="Round after">▶</button>
        <button type="button" data-part="link" disabled>Copy link</button>
        <small data-part="long"></small>
      </span>
    </div>
    <ol class="round-steps" data-part="steps"></ol>
    <p class="round-told" data-part="told" role="status"></p>
    <div class="round-scene">
      <div class="round-board" data-part="board"></div>
      <canvas class="round-map" data-part="cluster" role="img" aria-label="The group on the map of all tokens" hidden></canvas>
    </div>
    <p class="round-formula" data-part="formula" role="status"></p>
  </section>
</div>
"""


def create_strip(sample_rate: int, hop: int) -> gr.HTML:
    """Lay the strip out within the Blocks that is being built.

    Its props `run` (`run_prop`), `sound` (`sound_prop`), `spoof` (`spoof_prop`) and `cluster` (`cluster_prop`) may be updated.
    Its events: LOCATE brings `token`, to be shown on the map; GROUP brings `group`, whose tokens are asked for.
    """
    return gr.HTML(
        html_template=TEMPLATE,
        js_on_load=joined(SCRIPTS),
        apply_default_css=False,
        elem_id="tune-strip",
        sample_rate=sample_rate,
        hop=hop,
        run=None,
        sound=None,
        spoof=None,
        cluster=None,
    )


def run_prop(number: int, take: Take) -> dict[str, object]:
    """The tokens of `take`, which is the run `number`, runs being numbered upwards.

    Each token is JSON text: the page copies a prop whenever it changes, and text is copied at once, an object field by field.
    """
    tokens = [json.dumps(token) for count, round_ in enumerate(take.rounds) for token in _tokens(count, round_)]
    drafted = json.dumps([round_.drafted for round_ in take.rounds])
    kept = {"tokens": tokens, "drafted": drafted, "pauses": json.dumps(take.pauses)}
    return {"number": number, "method": take.settings.method, "verification": take.settings.verification, **kept}


def sound_prop(number: int, pieces: Sequence[str]) -> dict[str, object]:
    """The sound of the run `number`, each piece as `explorers.shared.scripts.packed` made it."""
    return {"number": number, "pieces": list(pieces)}


def spoof_prop(number: int, judge: str, curves: Mapping[str, Sequence[float]]) -> dict[str, object]:
    """How synthetic each token of the run `number` sounds to the detectors `judge`, 0 to 1, by resolution; a curve of NaN is
    that of an utterance which is too short for its detector."""
    listed = [
        {
            "name": r.name,
            "span": r.span,
            "stride": r.stride,
            "values": [None if isnan(v) else round(v, 3) for v in curves[r.name]],
        }
        for r in RESOLUTIONS
    ]
    return {"number": number, "judge": judge, "curves": listed}


def cluster_prop(group: int, members: Sequence[int], x: Tensor, y: Tensor) -> dict[str, object]:
    """The tokens of a group among all V on a small map; x, y `[V]`: their places, of any scale, which become 0 to 1000."""
    both = torch.stack([x, y], 1)
    low = both.amin(0)
    scaled = (both - low) / (both.amax(0) - low).clamp(min=1e-9)
    places = base64.b64encode((1000 * scaled).round().numpy().astype("<i2").tobytes()).decode("ascii")
    return {"group": group, "members": list(members), "places": places}


def _tokens(number: int, round_: Round) -> list[dict[str, object]]:
    return [
        {
            "token": token,
            "kind": kind,
            "size": size,
            "round": number,
            "test": _test(round_, place) if place < len(round_.tests) else None,
        }
        for place, (token, kind, size) in enumerate(zip(round_.tokens, round_.kinds, round_.group_sizes, strict=True))
    ]


def _test(round_: Round, place: int) -> dict[str, object]:
    """The test at that place of the round, ready for JSON."""
    test = round_.tests[place]
    numbers = {name: float(f"{getattr(test, name):.{DIGITS}g}") for name in ("p", "q", "mass_p", "mass_q", "ratio", "coin")}
    return numbers | {
        "drafted": test.token,
        "accepted": test.accepted,
        "size": test.group_size,
        "grouped": test.group >= 0,
        "group": test.group,
    }
