"""The map of the tokens: a WebGL picture that pans and zooms, with tables of the same content beside it.

The points travel once, as a file; what changes travels as props, short or packed. The template is constant, as gradio would run
its content: the script inserts words that change, as text.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr

from explorers.shared.scripts import SHARED, joined
from explorers.shared.terms import term_html

STYLES = Path(__file__).with_name("atlas.css")
SIDE_STYLES = Path(__file__).with_name("atlas_side.css")
PARTS = ("_places", "_colours", "_painting", "_tables", "_picture", "_words", "_choice", "_hand", "")
SCRIPTS = [SHARED, *(Path(__file__).with_name(f"atlas{part}.js") for part in PARTS)]
PICK = "pick"
TEMPLATE = (
    """
<div class="atlas" data-state="loading">
  <div class="atlas-bar" role="group" aria-label="How the map is drawn and clicked">
    <label>Colour <select data-part="colouring">
      <option value="size">group size</option>
      <option value="count">groups that hold it</option>
      <option value="digit">FSQ digit</option>
      <option value="phone">phone</option>
      <option value="uses">uses in the take</option>
      <option value="fate">drafted tokens of the take</option>
    </select></label>
    <label data-part="digit-choice" hidden>Digit <select data-part="digit"></select></label>
    <label data-part="take-choice" hidden>Take <select data-part="take"></select></label>
    <label data-part="path-choice" hidden><input type="checkbox" data-part="path"> Path</label>
    <label>A click <select data-part="mode">
      <option value="one">shows a group</option>
      <option value="two">compares two tokens</option>
    </select></label>
  </div>
  <div class="atlas-body">
    <div class="atlas-map" data-part="map">
      <canvas data-part="points" aria-hidden="true"></canvas>
      <canvas data-part="marks" tabindex="0" role="img" aria-label="Map of the tokens"></canvas>
      <div class="atlas-card" data-part="card" hidden></div>
      <div class="atlas-legend" data-part="legend"></div>
      <div class="atlas-zoom">
        <button type="button" data-part="closer" aria-label="Zoom in" title="Zoom in (+)">+</button>
        <button type="button" data-part="farther" aria-label="Zoom out" title="Zoom out (-)">−</button>
        <button type="button" data-part="whole" aria-label="Show the whole map" title="Show the whole map (0)">⤢</button>
      </div>
      <p class="atlas-notice" data-part="notice" role="status">Drawing the map …</p>
    </div>
    <div class="atlas-side">
      <div class="atlas-head">
        <h2 data-part="title">No token chosen</h2>
        <div class="atlas-walk">
          <button type="button" data-part="back" aria-label="Back to the token before" title="Back">‹</button>
          <button type="button" data-part="forward" aria-label="Forward again" title="Forward">›</button>
          <button type="button" data-part="clear" aria-label="Clear the choice" title="Clear (Escape)">×</button>
        </div>
      </div>
      <p class="atlas-hint" data-part="hint">Click a token, or type its number: its group lights up, and is listed here.
      Arrow keys go to the nearest token in their direction, Enter plays it, Escape clears. Drag, or Shift and arrow keys, move
      the map; the wheel, or + and −, zoom.</p>
      <dl class="atlas-facts" data-part="facts" hidden></dl>
      <div class="atlas-pair" data-part="pair" hidden></div>
      <div class="atlas-tabs" data-part="tabs" role="tablist" aria-label="Tables of the chosen token" hidden>
        <button type="button" role="tab" data-table="members" aria-selected="true"></button>
        <button type="button" role="tab" data-table="overlaps" aria-selected="false"></button>
        <button type="button" role="tab" data-table="links" aria-selected="false" hidden></button>
      </div>
      <div class="atlas-scroll" data-part="scroll" hidden><table data-part="table" role="grid"></table></div>
      <p class="atlas-rest" data-part="rest"></p>
      <p class="atlas-rest" data-part="steps" hidden>Steps: the differences between the """
    + term_html("fsq")
    + """ of the two tokens, summed.</p>
      <p class="atlas-news" data-part="news" role="status" aria-live="polite"></p>
    </div>
  </div>
</div>
"""
)


def create_atlas(
    content: bytes,
    levels: Sequence[int],
    usage: str,
    phones: dict[str, object] | None,
    sizes: str,
    utterances: dict[str, object],
    theta_at: str,
    listen_at: str,
    theta: float,
) -> gr.HTML:
    """Lay the map out within the Blocks that is being built.

    content: an atlas as `pcg.groups.atlas.atlas_bytes` writes it. levels: of the FSQ digits, none for another codec.
    usage, sizes: packed columns. phones: as `phone_map` gives it, None where the phones of codes are not known. theta_at: a
    selector of the slider that the highlighted group follows while it moves; listen_at: of the button that plays the chosen
    token, if there is one.

    Its event PICK brings `anchor` and `second`, each a token or None; `scene`, `sizes` and `utterances` may be updated.
    """
    with TemporaryDirectory() as folder:
        # A file as the value of a component is what gradio copies to its cache and addresses under any root path.
        path = Path(folder) / "atlas.bin"
        path.write_bytes(content)
        return gr.HTML(
            {"path": str(path), "meta": {"_type": "gradio.FileData"}},
            html_template=TEMPLATE,
            js_on_load=joined(SCRIPTS),
            apply_default_css=False,
            elem_id="map-atlas",
            levels=list(levels),
            usage=usage,
            phones=phones,
            sizes=sizes,
            utterances=utterances,
            theta_at=theta_at,
            listen_at=listen_at,
            theta=theta,
            scene=None,
        )
