"""Swaps over many utterances, the paper's Table 2 on this voice: the part of the Swap panel that runs a small grid."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import gradio as gr

from explorers.errors import page_error
from explorers.shared.blocks import DECODING, queued_beside, run_and_stop, wire_stop
from explorers.shared.readout import failure_html, message_html
from explorers.swap.actions import THETAS, UTTERANCES, Campaign, campaign, swap_grid
from explorers.swap.figures import campaign_html, progress_html
from pcg.errors import PCGError
from pcg.experiments.store import Store
from pcg.experiments.worker import WorkerSpec
from pcg.synthesis.synthesizer import Synthesizer

MANY_HEADING = f"""<header class="title"><h2>Over many utterances<small>the paper's Table 2, on this voice</small></h2>
<p>{UTTERANCES} sentences by the target, swapped at the sizes of cosine groups at theta {", ".join(map(str, THETAS))},
each with its control. Finished work is not repeated.</p></header>"""
MANY_EMPTY = f"Press “Swap {UTTERANCES} sentences”: the table grows here row by row."
MANY_READY = "About 100 s on one core. Finished work is stored."
STOPPED = "Stopped. Finished utterances stay."


@dataclass(frozen=True)
class ManyControls:
    """The controls of a run over many utterances."""

    run: gr.Button
    stop: gr.Button
    status: gr.HTML


def create_many_controls() -> ManyControls:
    """Lay the controls out within the Blocks that is being built."""
    with gr.Column(elem_classes="lab-form"):
        run, stop = run_and_stop("swap-many-", f"Swap {UTTERANCES} sentences", "secondary")
        status = gr.HTML(message_html(MANY_READY), apply_default_css=False, elem_id="swap-many-status")
    return ManyControls(run, stop, status)


def create_many_table() -> gr.HTML:
    """Lay the table out within the Blocks that is being built."""
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(MANY_HEADING, apply_default_css=False)
        return gr.HTML(message_html(MANY_EMPTY), apply_default_css=False, elem_id="swap-many-table")


def _campaigner(synthesizer: Synthesizer, spec: WorkerSpec, store: Store) -> Callable[[str], Iterator[list[object]]]:
    def run(similarity: str) -> Iterator[list[object]]:
        shown: Campaign | None = None
        try:
            with closing(campaign(synthesizer, swap_grid(synthesizer, similarity), spec, store)) as steps:
                for step in steps:
                    new = shown is None or step.table is not shown.table
                    yield [campaign_html(step) if new else gr.skip(), progress_html(step)]
                    shown = step
        except PCGError as error:
            yield [gr.skip(), failure_html(error)]
            raise page_error(error) from error

    return run


def wire_many(
    synthesizer: Synthesizer, spec: WorkerSpec, store: Store, controls: ManyControls, similarity: gr.Dropdown, table: gr.HTML
) -> None:
    """Let the button run the grid; `store` keeps its units."""
    running = controls.run.click(
        _campaigner(synthesizer, spec, store), similarity, [table, controls.status],
        **queued_beside(controls.status), concurrency_id=DECODING, concurrency_limit=1,
        api_name="swap_many",
        api_description="Swap a few sentences at several thetas by one similarity, beside random controls; streams the table "
        "and how far it is, both as HTML.",
    )  # fmt: skip
    wire_stop(controls.stop, running, controls.status, STOPPED)
