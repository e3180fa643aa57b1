"""What is done with all takes of the Compare panel together: judging them, and taking them away."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
from gradio.events import Dependency

from explorers.compare.archive import record, save_takes
from explorers.errors import telling
from explorers.judging import Ears, Verdicts, judge_takes
from explorers.session import Session, Turn
from explorers.shared.readout import message_html
from pcg.synthesis.synthesizer import Synthesizer

JUDGING = "judging"
JUDGES = "The judges hear takes as soon as they are all there: which words came across, whose voice it is, how clean it sounds."
LISTENING = "The judges listen: {done} of {count} takes heard."
JUDGED = "Judged: {count} takes. Each figure on a card is of one take (n = 1); one take proves nothing."
ZIP = "pcg-lab-takes.zip"


@dataclass(frozen=True)
class Tools:
    """What is there for all cards together. verdicts: holds what the judges said of the takes on the page; turn: a Turn, by
    which judges notice that something else is being said."""

    judge: gr.Button
    save: gr.Button
    status: gr.HTML
    file: gr.File
    record: gr.JSON
    verdicts: gr.State
    turn: gr.State


def create_tools(session: Session) -> Tools:
    """Lay them out within the Blocks that is being built."""
    with gr.Column(min_width=320, elem_classes="lab-card", elem_id="compare-tools"):
        with gr.Row():
            judge = gr.Button("Let the judges listen", size="md", elem_id="judge", min_width=150)
            save = gr.Button("Save all takes", size="md", elem_id="save-all", min_width=150)
        status = gr.HTML(message_html(JUDGES), apply_default_css=False, elem_id="judging-status")
        file = gr.File(label="All takes and their figures", visible=False, interactive=False, elem_id="saved")
        with gr.Accordion("As JSON", open=False):
            figures = record(session, Verdicts())
            shown = gr.JSON(figures, show_label=False, elem_id="compare-record", max_height=320)
    return Tools(judge, save, status, file, shown, gr.State(Verdicts()), gr.State(Turn()))


def wire_tools(
    synthesizer: Synthesizer, ears: Callable[[], Ears], tools: Tools, runs: Sequence[Dependency], session: gr.State
) -> None:
    """Judging follows every one of `runs` by itself, in a queue of its own: nobody's take waits for it. `ears` is called when
    there is something to hear."""
    judging = {
        "fn": _judger(synthesizer, ears),
        "inputs": [session, tools.verdicts, tools.turn],
        "outputs": [tools.record, tools.verdicts, tools.status],
        "show_progress": "hidden",
        "concurrency_id": JUDGING,
        "concurrency_limit": 1,
    }
    tools.judge.click(
        **judging,
        api_name="judge_takes",
        api_description="Let the judges hear the takes of this session that they have not heard; streams a record of all takes "
        "after each: figures, settings, verdicts, and who judged.",
    )
    for run in runs:
        run.success(**judging, api_visibility="private")
    tools.save.click(
        _saver, [session, tools.verdicts], tools.file, show_progress="minimal", concurrency_limit=None,
        api_name="save_takes", api_description="All takes of this session as WAV files, and their figures as JSON, in a zip.",
    )  # fmt: skip


def _judger(synthesizer: Synthesizer, ears: Callable[[], Ears]) -> Callable[..., Iterator[list[object]]]:
    def judge(session: Session, verdicts: Verdicts, turn: Turn) -> Iterator[list[object]]:
        begun = turn.number
        takes = [said for card in session.cards.values() for said in card.takes if said.sound]
        with telling(), closing(judge_takes(synthesizer, ears, session, verdicts)) as steps:
            for found in steps:
                if turn.number != begun:
                    # What is being judged is on its way out, and judges would slow down what is timed now.
                    return
                done = sum(found.of(said) is not None for said in takes)
                yield [record(session, found), found, message_html(LISTENING.format(done=done, count=len(takes)))]
        yield [record(session, found), found, message_html(JUDGED.format(count=done))]

    return judge


def _saver(session: Session, verdicts: Verdicts) -> Iterator[object]:
    with telling(), TemporaryDirectory() as folder:
        # When it is asked for the next step, gradio has copied the file to its cache, which it clears by itself.
        yield gr.update(value=str(save_takes(Path(folder) / ZIP, session, verdicts)), visible=True)
