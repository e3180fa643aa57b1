"""The CTC paper's Table 1 and Figures 3 and 4 by the shipped recogniser, from the results that are shipped with it."""

from pathlib import Path

import gradio as gr
import plotly.graph_objects as go

from explorers.colours import BLUE, GREEN, INK, ORANGE, VERMILION
from explorers.experiments.figures.results import bars, percent
from explorers.experiments.findings import table_html
from explorers.recognise.figures import LEGEND, SWEEP_HEIGHT, TOP
from explorers.shared.figures import MARGIN, axis, layout
from pcg.asr.self_speculative import Thresholds
from pcg.errors import AssetError
from pcg.experiments.recognition.study import AR, SWEPT_CTC, SWEPT_LM, Heard, RecognitionStudy, setting_name
from pcg.experiments.recognition.tables import is_swept, over, wer
from pcg.experiments.results.document import read_tables
from pcg.places import ASSETS

SHIPPED, TABLES = ASSETS / "recognition" / "study.json", "results.json"
HEADING = """<header class="title"><h2>Measured<small>the paper's table and figures, by this recogniser</small></h2>
<p>Shipped results, on sentences that were not in the training data. <code>python -m pcg experiment recognition</code>
measures them again, with recordings of your own if you like.</p></header>"""
BOTH = ((0.1, BLUE, "solid", "circle"), (0.2, GREEN, "6px,3px", "square"), (0.5, ORANGE, "2px,3px", "triangle-up"))


def create_measured(path: Path = SHIPPED) -> None:
    """Lay the card out within the Blocks that is being built; nothing where no results are shipped."""
    if not path.is_file():
        return
    try:
        # The tables as they are shipped: their intervals take longer than the page has to begin.
        study, tables = RecognitionStudy.read(path), read_tables(path.with_name(TABLES))
    except AssetError:
        return
    facts = {name: str(study.made[name]) for name in ("processor", "threads") if name in study.made}
    swept = next((name for name in study.heard if is_swept(study, name)), None)
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        if swept:
            gr.Plot(threshold_figure(study, swept), show_label=False, elem_id="recognise-measured-figure")
        for table in tables:
            with gr.Accordion(table.title, open=False):
                gr.HTML(table_html(table, facts), apply_default_css=False, elem_id=f"recognise-{table.name}")


def threshold_figure(study: RecognitionStudy, name: str) -> go.Figure:
    """WER against speed on one set: both steps, a curve for each tau of the language model, and either step alone."""
    heard = study.heard[name]
    curves = [(f"both, τ LM {lm:g}", [setting_name(Thresholds(ctc, lm)) for ctc in SWEPT_CTC], *style) for lm, *style in BOTH]
    curves += [
        ("CTC step alone", [setting_name(Thresholds(ctc, None)) for ctc in SWEPT_CTC], VERMILION, "8px,3px", "x"),
        ("LM step alone", [setting_name(Thresholds(None, lm)) for lm in SWEPT_LM], INK, "dot", "cross"),
        ("AR", [AR], INK, "solid", "diamond"),
    ]
    traces = [_curve(heard, *curve) for curve in curves]
    axes = {
        "xaxis": axis("speed-up over AR", ticksuffix="x"),
        "yaxis": axis(f"WER, {name}", ticksuffix=" %", automargin=True),
    }
    room = {"height": SWEEP_HEIGHT, "margin": MARGIN | {"t": TOP + 24}, "legend": LEGEND, "showlegend": True}
    return go.Figure(traces, layout(None) | axes | room)


def _curve(heard: dict[str, Heard], name: str, settings: list[str], colour: str, dash: str, symbol: str) -> go.Scatter:
    rates = [percent(wer(heard[at])) for at in settings]
    return go.Scatter(
        x=[over(heard[at], heard[AR]) for at in settings], y=[rate.value for rate in rates], name=name,
        mode="lines+markers", line={"color": colour, "width": 2, "dash": dash},
        marker={"color": colour, "size": 9, "symbol": symbol},
        error_y=bars(rates),
        text=settings, hovertemplate="%{text}<br>%{x:.2f}x, WER %{y:.1f} %<extra></extra>",
    )  # fmt: skip
