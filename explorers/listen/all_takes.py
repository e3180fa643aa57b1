"""What is done with all takes of the Compare panel together: judging and saving."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
from gradio.events import Dependency

from explorers.errors import showing_errors
from explorers.judging import Judges, Verdicts, judge_takes
from explorers.listen.archive import record, save_takes
from explorers.session import Session
from explorers.shared.blocks import json_drawer
from explorers.shared.readout import message_html
from explorers.turn import Turn
from pcg.errors import counted
from pcg.synthesis.synthesizer import Synthesizer

JUDGING = "judging"
JUDGES = "The judges run after each generation: recognised words, speaker similarity and sound quality."
JUDGING_NOW = "Judging: {done} of {takes} done."
JUDGED = "Judged: {takes}. Figures of one take (n = 1) prove nothing in general."
ZIP = "pcg-lab-takes.zip"
DOWNLOAD_FROM = "() => {{ setTimeout(() => document.querySelector('#{place} a')?.click(), 300); }}"
"""What downloads a file that has just come to the place of that id."""


@dataclass(frozen=True)
class Tools:
    """The tools for all cards together. verdicts: holds the verdicts on the takes of the page; turn: a Turn, by which judges
    notice that a new run has begun."""

    judge: gr.Button
    save: gr.Button
    status: gr.HTML
    file: gr.File
    record: gr.JSON
    verdicts: gr.State
    turn: gr.State


def create_tools(session: Session, verdicts: Verdicts) -> Tools:
    """Lay them out within the Blocks that is being built; `verdicts` are those on the takes of `session`."""
    with gr.Column(min_width=320, elem_classes="lab-card", elem_id="compare-tools"):
        with gr.Row():
            judge = gr.Button("Judge the takes", size="md", elem_id="judge", min_width=150)
            save = gr.Button("Save all takes", size="md", elem_id="save-all", min_width=150)
        status = gr.HTML(message_html(JUDGES), apply_default_css=False, elem_id="judging-status")
        file = gr.File(label="All takes and their figures", visible=False, interactive=False, elem_id="saved")
        shown = json_drawer("compare-record", record(session, verdicts))
    return Tools(judge, save, status, file, shown, gr.State(verdicts), gr.State(Turn()))


def wire_tools(
    synthesizer: Synthesizer, load_judges: Callable[[], Judges], tools: Tools, runs: Sequence[Dependency], session: gr.State
) -> None:
    """Judge after every one of `runs`, in a queue of its own, so that no take waits for it. `load_judges` is called when
    there is something to judge."""
    judging = {
        "fn": _judger(synthesizer, load_judges),
        "inputs": [session, tools.verdicts, tools.turn],
        "outputs": [tools.record, tools.verdicts, tools.status],
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "concurrency_id": JUDGING,
        "concurrency_limit": 1,
    }
    tools.judge.click(
        **judging,
        api_name="judge_takes",
        api_description="Judge the takes of this session that were not judged yet; streams a record of all takes after each: "
        "figures, settings, verdicts and the names of the judges.",
    )
    for run in runs:
        run.success(**judging | {"fn": _judger(synthesizer, load_judges, asked=False)}, api_visibility="private")
    saved = tools.save.click(
        _saver, [session, tools.verdicts], tools.file, show_progress="minimal", concurrency_limit=None,
        api_name="save_takes", api_description="All takes of this session as WAV files, and their figures as JSON, in a zip.",
    )  # fmt: skip

    saved.then(js=DOWNLOAD_FROM.format(place="saved"), api_visibility="private")


def _judger(
    synthesizer: Synthesizer, load_judges: Callable[[], Judges], asked: bool = True
) -> Callable[..., Iterator[list[object]]]:
    """asked: whether a person wants it; after a run that made no take there is nothing to judge, and no error."""

    def judge(session: Session, verdicts: Verdicts, turn: Turn) -> Iterator[list[object]]:
        if not asked and not session.cards:
            return
        begun = turn.number
        takes = [shown for card in session.cards.values() for shown in card.takes if shown.sound]
        with showing_errors(), closing(judge_takes(synthesizer, load_judges, session, verdicts)) as steps:
            for found in steps:
                if turn.number != begun:
                    # The judged takes are being replaced, and judges would slow down what is timed now.
                    return
                done = sum(found.of(shown) is not None for shown in takes)
                now = JUDGING_NOW.format(done=done, takes=counted(len(takes), "take"))
                yield [record(session, found), found, message_html(now)]
        yield [record(session, found), found, message_html(JUDGED.format(takes=counted(done, "take")))]

    return judge


def _saver(session: Session, verdicts: Verdicts) -> Iterator[object]:
    with showing_errors(), TemporaryDirectory() as folder:
        # When it is asked for the next step, gradio has copied the file to its cache, which it clears by itself.
        yield gr.update(value=str(save_takes(Path(folder) / ZIP, session, verdicts)), visible=True)
