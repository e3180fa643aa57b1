"""The report of an experiment as one self-contained page: tables, figures, sounds and how they were made."""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import plotly.io
import plotly.offline

from explorers.colours import swatch_html
from explorers.experiments.figures import CAPTIONS, figures
from pcg.errors import InputError, counted
from pcg.experiments.claims import Headline, headlines
from pcg.experiments.results import Results, Summary, method, of_one_temperature, summarise
from pcg.experiments.store import Store
from pcg.experiments.tables import MeanSize, Table, tables
from pcg.experiments.unit import Record, Unit, Utterance
from pcg.files import renew_checksums, replacing, write_json

Voiced = Callable[[Unit], tuple[np.ndarray, int]]
STYLES = Path(__file__).with_name("report.css")
RESULTS = "results.json"
FORMAT = 1
MOST_SOUNDS = 14
# The page may load nothing: what it shows lies in it.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; media-src data:"
DRAW = """for (const place of document.querySelectorAll(".figure")) {
  const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  Plotly.newPlot(place, figure.data, figure.layout, {responsive: true, displayModeBar: false});
}"""


@dataclass(frozen=True)
class Findings:
    """The results of a set of records: everything that the page shows except sounds. before: the names of those tables that
    were made before, of other records, and of which `contexts` say nothing."""

    results: Results
    summaries: Sequence[Summary]
    tables: Sequence[Table]
    figures: Mapping[str, go.Figure]
    headlines: Sequence[Headline]
    contexts: Mapping[str, Sequence[str]]
    records: int
    before: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        mean_size: MeanSize | None = None,
    ) -> "Findings":
        results = Results(records)
        summaries = summarise(results)
        made = tables(results, summaries, mean_size)
        usual = of_one_temperature(results, summaries)
        return cls(results, summaries, made, figures(*usual), headlines(*usual), _contexts(records), len(records))

    def as_dict(self) -> dict[str, object]:
        """All tables and the data of all figures, ready for JSON."""
        return {
            "format": FORMAT,
            "records": self.records,
            "made": {name: list(values) for name, values in self.contexts.items()},
            "headlines": [asdict(headline) for headline in self.headlines],
            "tables": [table.as_dict() for table in self.tables],
            "summaries": [s.as_dict() for s in self.summaries],
            "figures": {name: json.loads(plotly.io.to_json(figure)) for name, figure in self.figures.items()},
        }


def write_report(
    folder: Path,
    out: Path,
    mean_size: MeanSize | None = None,
    sound: Voiced | None = None,
    examples: int = 2,
    voice: str | None = None,
) -> Findings:
    """Write the page `out` and `results.json` beside it, from the results in `folder`.

    mean_size(similarity, theta): of the voice's groups. sound(unit): the
    samples `[N]` and rate of a unit again, for `examples` utterances in at most `MOST_SOUNDS` settings each. voice: the
    identity of the voice (`context["voice"]`) where the folder has results of several. Raises InputError if there are none.
    """
    records = Store(folder).all() if folder.is_dir() else []
    records = [record for record in records if voice in (None, record.context.get("voice"))]
    if not records:
        raise InputError("results", str(folder), "a folder with at least one result")
    findings = Findings.of(records, mean_size)
    sounds = _sounds(findings.results, sound, examples) if sound else ""
    # Names without their folders, which may name the user.
    command = f"python -m pcg report {folder.name} --out {out.name}"
    with replacing(out) as temporary:
        temporary.write_text(page(findings, command, sounds), encoding="utf-8")
        write_json(out.with_name(RESULTS), findings.as_dict())
        renew_checksums(out.with_name(RESULTS))
    return findings


def page(findings: Findings, command: str, sounds: str = "") -> str:
    """The page as HTML. sounds: a part of it that is HTML already."""
    parts = [_lead(findings, command), _first_screen(findings)]
    parts += [_section(table, findings.figures.get(table.name)) for table in findings.tables]
    parts += [sounds, _settings(findings), _made(findings)]
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f"<title>PCG Lab: results</title><style>{STYLES.read_text(encoding='utf-8')}</style></head><body>",
            *parts,
            f"<script>{plotly.offline.get_plotlyjs()}</script><script>{DRAW}</script></body></html>",
        ]
    )


def _lead(findings: Findings, command: str) -> str:
    utterances = max((s.utterances for s in findings.summaries), default=0)
    return (
        f"<h1>PCG Lab: results</h1><p class='lead'>{counted(findings.records, 'unit')}: "
        f"{counted(len(findings.summaries), 'setting')}, up to {counted(utterances, 'utterance')} each. "
        "Intervals are of 95 %, over utterances.</p>"
        f"<p class='lead'>All numbers of this page, ready to be read by programs, lie beside it in {RESULTS}. It was written "
        f"by <code>{escape(command)}</code>.</p>"
    )


def _first_screen(findings: Findings) -> str:
    """The findings, each linked to its table, and the contents."""
    said = [f"<li><a href='#{escape(h.table)}'>{escape(h.text)}</a></li>" for h in findings.headlines]
    links = [f"<li><a href='#{escape(table.name)}'>{escape(table.title)}</a></li>" for table in findings.tables]
    found = f"<section id='findings'><h2>Findings</h2><ol>{''.join(said)}</ol></section>" if said else ""
    return f"{found}<nav aria-label='Contents'><ul>{''.join(links)}</ul></nav>"


def _section(table: Table, figure: go.Figure | None) -> str:
    """The figure, and the table folded below it, for most: all tables at once would be a wall."""
    drawn = _figure(table.name, figure) if figure else ""
    again = f"<p class='note'>To run it again: <code>{escape(table.command)}</code></p>"
    note = f"<p class='note'>{escape(table.note)}</p>"
    opened = " open" if table.name == "claims" else ""
    folded = f"<details{opened}><summary>{counted(len(table.rows), 'row')}</summary>{_table(table)}{note}{again}</details>"
    return f"<section id='{escape(table.name)}'><h2>{escape(table.title)}</h2>{drawn}{folded}</section>"


def _figure(name: str, figure: go.Figure) -> str:
    # Within a script no text may look like its end.
    data = plotly.io.to_json(figure).replace("<", "\\u003c")
    return (
        f"<p class='note'>{escape(CAPTIONS[name])}</p><div class='figure' data-figure='figure-{escape(name)}'></div>"
        f"<script type='application/json' id='figure-{escape(name)}'>{data}</script>"
    )


def _table(table: Table) -> str:
    heads = [f"<th scope='col'{' class=text' if column.words else ''}>{escape(column.title)}</th>" for column in table.columns]
    body = []
    for shown in table.shown():
        cells = [_cell(text, column.words) for column, text in zip(table.columns[1:], shown[1:], strict=True)]
        body.append(f"<tr><th scope='row'>{swatch_html(shown[0])}{escape(shown[0])}</th>{''.join(cells)}</tr>")
    return f"<div class='wide'><table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"


def _cell(text: str, words: bool) -> str:
    if words:
        return f"<td class='text'>{escape(text)}</td>"
    value, bracket, interval = text.partition(" [")
    return f"<td>{escape(value)}{f'<small>[{escape(interval)}</small>' if bracket else ''}</td>"


def _settings(findings: Findings) -> str:
    rows = []
    for summary in findings.summaries:
        condition = summary.condition
        knobs = [_knob(name, value) for name, value in condition.settings.as_dict().items() if name != "seed"]
        more = [f"model {condition.model}"] if condition.model != "target" else []
        more += [f"rule {condition.rule}"] if condition.rule else []
        more += [_knob(f"swap {name}", value) for name, value in asdict(condition.swap).items()] if condition.swap else []
        rows.append((condition.name, ", ".join(knobs + more)))
    return f"<section id='settings'><h2>Settings</h2>{_pairs(rows)}</section>"


def _made(findings: Findings) -> str:
    rows = [(name, "; ".join(values)) for name, values in findings.contexts.items()]
    return f"<section id='made'><h2>Machine, versions and judges</h2>{_pairs(rows)}</section>"


def _knob(name: str, value: object) -> str:
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    """Names and what belongs to them."""
    lines = "".join(f"<tr><th scope='row'>{escape(name)}</th><td class='prose'>{escape(said)}</td></tr>" for name, said in rows)
    return f"<div class='wide'><table><tbody>{lines}</tbody></table></div>"


def _contexts(records: Sequence[Record]) -> dict[str, list[str]]:
    """The values of the records' contexts, each once; of the dates the first and the last."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in record.context.items():
            inner = value.items() if isinstance(value, Mapping) else [("", value)]
            for key, one in inner:
                found.setdefault(f"{name}: {key}" if key else name, {})[str(one)] = None
    values = {name: list(seen) for name, seen in found.items()}
    if len(dates := sorted(values.get("date", []))) > 2:
        values["date"] = [f"{dates[0]} to {dates[-1]}"]
    return values


def _sounds(results: Results, sound: Voiced, examples: int) -> str:
    """Some utterances in several settings: the utterances with records in most settings."""
    said: dict[Utterance, dict[str, Record]] = {}
    for condition in results.conditions:
        for record in results.of(condition):
            said.setdefault(record.unit.utterance, {}).setdefault(condition.name, record)
    chosen = sorted(said, key=lambda utterance: -len(said[utterance]))[:examples]
    parts = [
        f"<h3>{escape(utterance.text)}</h3><div class='takes'>"
        + "".join(_take(record, sound) for record in _varied(list(said[utterance].values())))
        + "</div>"
        for utterance in chosen
    ]
    note = "<p class='note'>Below each: the recognised words and their errors. One utterance proves nothing.</p>"
    return f"<section id='sounds'><h2>Listen</h2>{''.join(parts)}{note}</section>"


def _varied(records: Sequence[Record]) -> list[Record]:
    """At most `MOST_SOUNDS`: every method's first setting before any method's second, in the order of the records."""
    seen: Counter[str] = Counter()
    ranks: list[int] = []
    for name in (method(record.unit.condition) for record in records):
        ranks.append(seen[name])
        seen[name] += 1
    kept = sorted(range(len(records)), key=ranks.__getitem__)[:MOST_SOUNDS]
    return [records[i] for i in sorted(kept)]


def _take(record: Record, sound: Voiced) -> str:
    import soundfile

    samples, rate = sound(record.unit)
    flac = BytesIO()
    soundfile.write(flac, np.clip(samples, -1, 1), rate, format="FLAC", subtype="PCM_16")
    errors, words = record.result.words
    return (
        f"<figure><figcaption>{escape(record.unit.condition.name)}</figcaption>"
        f"<audio controls preload='none' src='data:audio/flac;base64,{b64encode(flac.getvalue()).decode()}'></audio>"
        f"<figcaption class='note'>{escape(record.result.heard) or '(nothing)'} ({errors} of {words})</figcaption></figure>"
    )
