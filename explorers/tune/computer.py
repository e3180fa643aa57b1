"""Which method is faster than AR on this computer: costs and acceptance, measured on request."""

from html import escape

import gradio as gr

from explorers.errors import showing_errors
from explorers.shared.blocks import DECODING
from explorers.zero_gpu import is_lent
from pcg.settings import Settings
from pcg.synthesis.costs import Breakeven, will_it_pay
from pcg.synthesis.synthesizer import Synthesizer

HEADING = '<header class="title"><h2>Is drafting faster here?<small>measured on this computer</small></h2></header>'
NO_RESULTS = "Drafting saves time where a pass over several tokens costs little more than a pass over one."


def create_computer(synthesizer: Synthesizer) -> None:
    """Lay the card out within the Blocks that is being built; nothing, where nothing drafts or the GPU is lent by the call."""
    if synthesizer.voice.draft is None or is_lent():
        return
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        answer = gr.HTML(f"<p>{NO_RESULTS}</p>", apply_default_css=False, elem_id="computer-answer")
        measure = gr.Button("Measure this computer", elem_id="computer-measure", size="sm", scale=0, min_width=180)

    def answered() -> str:
        with showing_errors():
            return answer_html(will_it_pay(synthesizer, Settings()))

    measure.click(
        answered, None, answer, api_name="will_it_pay", concurrency_id=DECODING, concurrency_limit=1,
        trigger_mode="always_last",
        api_description="Time passes, drafts and rounds on this computer, and the method and lookahead that pay here.",
    )  # fmt: skip


def answer_html(pays: Breakeven) -> str:
    """The sentence and, folded, the figures that it rests on."""
    return (
        f"<p><strong>{escape(pays.sentence)}</strong></p>"
        "<p>SD keeps AR's distribution. PCG keeps it over groups at each step. SSD keeps none for beta above 0. With a "
        f"lookahead cost of {pays.lookahead_cost:.2f} each round drafts the number of tokens that is fastest here.</p>"
        f'<details><summary>Figures</summary><pre tabindex="0">{escape(pays.table())}</pre></details>'
    )
