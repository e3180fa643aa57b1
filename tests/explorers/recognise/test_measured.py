"""The CTC paper's figure and tables on the panel, from the shipped results."""

from pathlib import Path

import gradio as gr
import pytest

from explorers.recognise.measured import SHIPPED, TABLES, create_measured, threshold_figure
from pcg.experiments.recognition.study import AR, RecognitionStudy
from pcg.experiments.recognition.tables import is_swept, recognition_tables, wer
from pcg.experiments.results.document import read_tables


def laid_out(path: Path) -> set[str]:
    with gr.Blocks() as page:
        create_measured(path)
    return {block.elem_id for block in page.blocks.values() if getattr(block, "elem_id", None)}


def test_every_table_and_the_figure_are_there():
    wanted = {"recognise-measured-figure", "recognise-recognition-claims", "recognise-recognition", "recognise-thresholds"}
    assert wanted <= laid_out(SHIPPED)


def test_the_shipped_tables_are_those_of_the_shipped_study():
    made = recognition_tables(RecognitionStudy.read(SHIPPED))
    assert [(table.title, table.shown()) for table in made] == [
        (table.title, table.shown()) for table in read_tables(SHIPPED.with_name(TABLES))
    ]


def test_the_figure_shows_the_rates_of_the_swept_set():
    study = RecognitionStudy.read(SHIPPED)
    name = next(name for name in study.heard if is_swept(study, name))
    curves = {trace.name: trace for trace in threshold_figure(study, name).data}
    assert {"AR", "CTC step alone", "LM step alone"} < curves.keys()
    assert (curves["AR"].x[0], curves["AR"].y[0]) == (1.0, pytest.approx(100 * wer(study.heard[name][AR]).value))


def test_without_results_or_with_damaged_ones_there_is_no_card(tmp_path: Path):
    assert laid_out(tmp_path / "none.json") == set()
    (tmp_path / "study.json").write_text("{}")
    assert laid_out(tmp_path / "study.json") == set()
