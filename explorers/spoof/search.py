"""The beams on the Spoof panel: the tree of a scheme that searched, and the sound of a beam."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import gradio as gr
import numpy as np
from gradio.components import Component

from explorers.errors import showing_errors
from explorers.shared.blocks import pcm, player
from explorers.shared.terms import term_html
from explorers.spoof.beam_tree import PICK, branch_html, create_tree, tree_html
from explorers.spoof.beams import PLAN, HeardBranch, Tree, hear_branch
from explorers.spoof.ways import SEARCHED, WAYS
from explorers.zero_gpu import STARTING_SECONDS, on_gpu
from pcg.synthesis.synthesizer import Synthesizer

BEAMS = """<header class="title"><h2>Beams<small>candidates of the search, and their pruning</small></h2>
<p>After a warm-up of {0} tokens, {2[0]} {3} continue from the same position; {2[1]} are left after {1[0]} tokens, {2[2]}
after {1[1]}, and after {1[2]} the one with the best sum of ranks is chosen.</p></header>"""
BEAM_HINT = '<p class="beams-note">Click a beam, or enter its numbers, to hear the utterance up to its end.</p>'


@dataclass(frozen=True)
class Search:
    """The beams: their scheme, the tree, and the selected beam. `trees` holds Trees by scheme."""

    trees: gr.State
    way: gr.Radio
    tree: gr.HTML
    cycle: gr.Number
    beam: gr.Number
    hear: gr.Button
    record: gr.JSON
    words: gr.HTML
    sound: gr.Audio

    @property
    def heard(self) -> list[Component]:
        return [self.record, self.words, self.sound]


def create_search(synthesizer: Synthesizer) -> Search:
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(BEAMS.format(PLAN.warmup, PLAN.stages, PLAN.beams, term_html("beam", "beams")), apply_default_css=False)
        way = gr.Radio(
            [(WAYS[key].name, key) for key in SEARCHED], value=SEARCHED[-1], label="Way", show_label=False, container=False,
            elem_id="spoof-way", elem_classes="lab-picker",
        )  # fmt: skip
        tree = create_tree()
        with gr.Row(elem_classes="lab-seed"):
            cycle = gr.Number(1, label="Cycle", precision=0, minimum=1, min_width=80, elem_id="spoof-cycle")
            beam = gr.Number(1, label="Beam", precision=0, minimum=1, min_width=80, elem_id="spoof-beam")
            hear = gr.Button("Play this beam", elem_id="spoof-hear", size="md", min_width=140)
        words = gr.HTML(BEAM_HINT, apply_default_css=False, elem_id="spoof-words")
        sound = player(synthesizer, "Beam", "spoof-sound-beam", autoplay=True)
        record = gr.JSON(visible=False)
    return Search(gr.State({}), way, tree, cycle, beam, hear, record, words, sound)


def wire_search(synthesizer: Synthesizer, search: Search) -> None:
    hear = on_gpu(partial(hear_branch, synthesizer), lambda *_: STARTING_SECONDS)

    def show_tree(way: str, trees: Mapping[str, Tree]) -> str:
        return tree_html(trees.get(way))

    def hear_beam(way: str, cycle: int, beam: int, trees: Mapping[str, Tree]) -> list[object]:
        with showing_errors():
            return _heard(hear(trees, way, cycle, beam))

    def hear_picked(way: str, trees: Mapping[str, Tree], event: gr.EventData) -> list[object]:
        picked = event._data if isinstance(event._data, Mapping) else {}
        with showing_errors():
            branch = hear(trees, way, picked.get("cycle"), picked.get("beam"))
        return [branch.cycle, branch.beam.number, *_heard(branch)]

    shared = {"show_progress": "minimal", "trigger_mode": "always_last"}
    search.way.input(
        show_tree, [search.way, search.trees], search.tree, queue=False, show_progress="hidden", api_visibility="private"
    )
    search.hear.click(
        hear_beam, [search.way, search.cycle, search.beam, search.trees], search.heard,
        api_name="spoof_beam",
        api_description="The sound of this session's last run of `spoof` up to the end of one beam, chosen or pruned, with "
        "that beam in the place of the chosen one; cycle and beam count from 1, as in its record. Answers with a record, the "
        "same in words, and the sound.",
        **shared,
    )  # fmt: skip
    getattr(search.tree, PICK)(
        hear_picked, [search.way, search.trees], [search.cycle, search.beam, *search.heard], api_visibility="private", **shared
    )


def _heard(branch: HeardBranch) -> list[object]:
    return [branch.record(), branch_html(branch), sound_of(branch.samples, branch.sample_rate)]


def sound_of(samples: np.ndarray, sample_rate: int) -> tuple[int, np.ndarray] | None:
    return pcm(samples, sample_rate) if len(samples) else None
