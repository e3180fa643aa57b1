"""The report of an experiment: one self-contained page of tables and figures, and `results.json` beside it."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import plotly.io
import plotly.offline

from explorers.colours import method_styles
from explorers.results.figures import CAPTIONS, figures
from explorers.shared.readout import table_html
from pcg.errors import InputError, counted
from pcg.experiments.results import Results, Summary, summarise
from pcg.experiments.store import Store
from pcg.experiments.tables import MeanSize, Table, tables
from pcg.experiments.unit import Record, Unit
from pcg.files import renew_checksums, replacing, write_json

STYLES, RESULTS, FORMAT = Path(__file__).with_name("results.css"), "results.json", 1
MOST_SOUNDS = 14
# The page may load nothing: what it shows lies in it.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; media-src data:"
COLOURS = """:root { color-scheme: light dark; --body-text-color: light-dark(#1c2024, #e9e7e2);
  --body-text-color-subdued: light-dark(#5c636b, #a2a8ae); --border-color-primary: light-dark(#dedbd4, #31353a);
  --block-background-fill: light-dark(#ffffff, #1c1f23); --link-text-color: light-dark(#8f5a00, #e69f00); }
body { max-width: 1240px; margin: 0 auto; padding: 16px; color: var(--body-text-color);
  background: light-dark(#f6f5f2, #141619); font: 15px/1.45 system-ui, sans-serif; }
section { margin: 16px 0; padding: 14px 16px; border: 1px solid var(--border-color-primary); border-radius: 8px;
  background: var(--block-background-fill); }"""
DRAW = """for (const place of document.querySelectorAll(".figure")) {
  const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  Plotly.newPlot(place, figure.data, figure.layout, {responsive: true, displayModeBar: false});
}"""


@dataclass(frozen=True)
class Findings:
    """Everything that a set of records shows, but for sounds. contexts: machine, versions and judges of the records."""

    results: Results
    summaries: Sequence[Summary]
    tables: Sequence[Table]
    figures: Mapping[str, go.Figure]
    contexts: Mapping[str, Sequence[str]]
    records: int

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        mean_size: MeanSize | None = None,
    ) -> "Findings":
        """Compute all tables and figures."""
        results = Results(records)
        summaries = summarise(results)
        made = tables(results, summaries, mean_size)
        return cls(results, summaries, made, figures(results, summaries), _contexts(records), len(records))

    def as_dict(self) -> dict[str, object]:
        """Return all tables and the data of all figures, ready for JSON."""
        return {
            "format": FORMAT,
            "records": self.records,
            "made": {name: list(values) for name, values in self.contexts.items()},
            "tables": [table.as_dict() for table in self.tables],
            "summaries": [s.as_dict() for s in self.summaries],
            "figures": {name: json.loads(plotly.io.to_json(figure)) for name, figure in self.figures.items()},
        }


def write_report(
    folder: Path,
    out: Path,
    mean_size: MeanSize | None = None,
    sound: Callable[[Unit], tuple[np.ndarray, int]] | None = None,
    voice: str | None = None,
) -> Findings:
    """Write the page `out` and `results.json` beside it, from the results in `folder`.

    Args:
        mean_size: (similarity, theta) -> the mean group size of the voice.
        sound: unit -> samples `[N]` and rate, to embed one utterance in several settings.
        voice: the identity of the voice (`context["voice"]`) where the folder has results of several.

    Raises:
        InputError: if there are no results.
    """
    records = Store(folder).all() if folder.is_dir() else []
    records = [record for record in records if voice in (None, record.context.get("voice"))]
    if not records:
        raise InputError("results", str(folder), "a folder with at least one result")
    findings = Findings.of(records, mean_size)
    # Names without their folders, which may name the user.
    command = f"python -m pcg report {folder.name} --out {out.name}"
    with replacing(out) as temporary:
        temporary.write_text(page(findings, command, _sounds(records, sound) if sound else ""), encoding="utf-8")
        write_json(out.with_name(RESULTS), findings.as_dict())
        renew_checksums(out.with_name(RESULTS))
    return findings


def page(findings: Findings, command: str, sounds: str = "") -> str:
    """The page as HTML; `sounds` is a part of it that is HTML already."""
    units, settings = counted(findings.records, "unit"), counted(len(findings.summaries), "setting")
    links = "".join(f"<li><a href='#{escape(table.name)}'>{escape(table.title)}</a></li>" for table in findings.tables)
    made = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td class='text'>{escape('; '.join(values))}</td></tr>"
        for name, values in findings.contexts.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>PCG Lab: results</title>'
        f"<style>{COLOURS}{method_styles()}{STYLES.read_text(encoding='utf-8')}</style></head><body><h1>PCG Lab: results</h1>"
        f"<p>{units}, {settings}; intervals of 95 % over utterances. Data: {RESULTS}. Written by "
        f"<code>{escape(command)}</code>.</p>"
        f"<nav aria-label='Contents'><ul>{links}</ul></nav>"
        f"{''.join(_section(table, findings.figures.get(table.name)) for table in findings.tables)}{sounds}"
        f"<section id='made'><h2>Machine, versions and judges</h2><table class='lab-table'>{made}</table></section>"
        f"<script>{plotly.offline.get_plotlyjs()}</script><script>{DRAW}</script></body></html>"
    )


def _section(table: Table, figure: go.Figure | None) -> str:
    """The figure, and the table folded below it, but for the claims."""
    name, drawn = escape(table.name), ""
    if figure:
        # Within a script no text may look like its end.
        data = plotly.io.to_json(figure).replace("<", "\\u003c")
        drawn = (
            f"<p class='results-note'>{escape(CAPTIONS[table.name])}</p><div class='figure' data-figure='figure-{name}'></div>"
            f"<script type='application/json' id='figure-{name}'>{data}</script>"
        )
    body = measured_html(table.as_dict())
    opened = " open" if table.name == "claims" else ""
    folded = f"<details{opened}><summary>{counted(len(table.rows), 'row')}</summary>{body}</details>"
    return f"<section id='{name}'><h2>{escape(table.title)}</h2>{drawn}{folded}</section>"


def measured_html(table: Mapping) -> str:
    """A table of `results.json` with its note and its command; all words are escaped."""
    note, command = escape(table["note"]), escape(table["command"])
    return (
        f"{table_html(table['title'], table['columns'], table['shown'])}"
        f"<p class='results-note'>{note} Command: <code>{command}</code></p>"
    )


def _contexts(records: Sequence[Record]) -> dict[str, list[str]]:
    """The values of the records' contexts, each once; of the dates the first and the last."""
    values: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in record.context.items():
            for key, one in value.items() if isinstance(value, Mapping) else [("", value)]:
                values.setdefault(f"{name}: {key}" if key else name, {})[str(one)] = None
    contexts = {name: list(distinct) for name, distinct in values.items()}
    if len(dates := sorted(contexts.get("date", []))) > 2:
        contexts["date"] = [f"{dates[0]} to {dates[-1]}"]
    return contexts


def _sounds(records: Sequence[Record], sound: Callable[[Unit], tuple[np.ndarray, int]]) -> str:
    """The utterance with records in most settings, in at most MOST_SOUNDS of them."""
    by_text: dict[str, dict[str, Record]] = {}
    for record in records:
        by_text.setdefault(record.unit.utterance.text, {}).setdefault(record.unit.condition.name, record)
    text, chosen = max(by_text.items(), key=lambda item: len(item[1]))
    takes = "".join(_take(name, record, sound) for name, record in list(chosen.items())[:MOST_SOUNDS])
    return f"<section id='sounds'><h2>Listen</h2><p>{escape(text)}</p><div class='takes'>{takes}</div></section>"


def _take(name: str, record: Record, sound: Callable[[Unit], tuple[np.ndarray, int]]) -> str:
    import soundfile

    (samples, rate), flac = sound(record.unit), BytesIO()
    soundfile.write(flac, np.clip(samples, -1, 1), rate, format="FLAC", subtype="PCM_16")
    errors, words = record.result.words
    return (
        f"<figure><figcaption>{escape(name)}</figcaption>"
        f"<audio controls preload='none' src='data:audio/flac;base64,{b64encode(flac.getvalue()).decode()}'></audio>"
        f"<figcaption>{escape(record.result.heard) or '(nothing)'} ({errors} of {words})</figcaption></figure>"
    )
