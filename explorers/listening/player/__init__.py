"""The player of the listening test: synchronous sounds behind letters, with a cross-fade between them, and the vote.

Its data does not depend on the system behind a letter. The template is constant, as gradio would run what stands in it: words
that change are put in place by the script, as text.
"""

from collections.abc import Sequence
from pathlib import Path

import gradio as gr

from explorers.shared.scripts import DECK, SHARED, joined

STYLES = Path(__file__).with_name("player.css")
PARTS = ("_picture", "_sound", "_vote", "")
SCRIPTS = [SHARED, DECK, *(Path(__file__).with_name(f"player{part}.js") for part in PARTS)]
VOTE = "vote"
TEMPLATE = """
<div class="player" data-state="empty">
  <p class="player-notice" data-part="notice" role="status"></p>
  <p class="player-empty">Choose what to compare, then prepare the test: its sounds appear here under letters.</p>
  <div data-part="trial" hidden>
    <div class="player-head"><b data-part="number"></b><span data-part="question"></span></div>
    <div class="player-progress" aria-hidden="true"><i data-part="progress"></i></div>
    <blockquote data-part="said"></blockquote>
    <div class="player-sounds" data-part="sounds" role="group" aria-label="Sound to play"></div>
    <div class="player-bar" data-part="bar" role="slider" tabindex="0" aria-label="Position in the sounds; drag to set a loop"
      aria-valuemin="0" aria-valuemax="0" aria-valuenow="0">
      <i class="player-stretch" data-part="stretch" hidden></i><i class="player-now" data-part="head"></i>
    </div>
    <div class="player-transport">
      <button type="button" data-part="play" aria-keyshortcuts="Space">Play</button>
      <button type="button" data-part="round" aria-pressed="false" aria-keyshortcuts="L">Loop</button>
      <button type="button" data-part="whole" hidden>Whole sound</button>
      <span class="player-clock" data-part="clock"></span>
      <fieldset class="player-switch">
        <legend>Switching</legend>
        <label><input type="radio" name="player-switch" value="stay" checked> continues at the same position</label>
        <label><input type="radio" name="player-switch" value="restart"> restarts</label>
      </fieldset>
    </div>
    <div class="player-vote" data-part="vote" role="group" aria-label="Your vote"></div>
    <p class="player-wanting" data-part="wanting" role="status" aria-live="polite"></p>
    <p class="player-keys">Keys: a letter or its number switches, <kbd>space</kbd> plays and pauses, <kbd>L</kbd> loops,
    <kbd>[</kbd> and <kbd>]</kbd> set where the loop begins and ends. Use headphones, and do not change the level.</p>
  </div>
</div>
"""


def create_player() -> gr.HTML:
    """Lay the player out within the Blocks that is being built; its value is None, or what `trial_value` makes.

    Its event VOTE brings `trial`, its number, `answer` and `plays`, as `listening_tests.design.check_vote` takes them.
    """
    return gr.HTML(
        None,
        html_template=TEMPLATE,
        js_on_load=joined(SCRIPTS),
        apply_default_css=False,
        elem_id="listening-player",
    )


def trial_value(question: dict[str, object], sounds: Sequence[Path]) -> dict[str, object]:
    """`question`, and one file for each of its `letters`, which gradio copies and addresses."""
    return question | {"sounds": [{"path": str(path), "meta": {"_type": "gradio.FileData"}} for path in sounds]}
