"""The report of an experiment: one self-contained page of tables and figures, and `results.json` beside it."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from statistics import fmean

import numpy as np
import plotly.io
import plotly.offline

from explorers.colours import css_variables
from explorers.results.figures import CAPTIONS, figures
from explorers.shared.readout import table_html
from pcg.errors import InputError, counted
from pcg.experiments.results import Results, summarise
from pcg.experiments.store import Store
from pcg.experiments.tables import tables
from pcg.experiments.unit import Record, Unit
from pcg.files import renew_checksums, replacing, write_json

STYLES, RESULTS, FORMAT = Path(__file__).with_name("results.css"), "results.json", 1
MOST_SOUNDS, MOST_APART = 14, 20
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

Content = Mapping[str, object]
"""What `findings` returns and `results.json` holds."""
SoundOf = Callable[[Unit], tuple[np.ndarray, int]]
"""Unit -> samples `[N]` and rate."""


def findings(records: Sequence[Record]) -> Content:
    """Compute all tables and the data of all figures, ready for JSON. made: machine, versions and judges of the records."""
    results = Results(records)
    summaries = summarise(results)
    return {
        "format": FORMAT,
        "records": len(records),
        "made": _contexts(records),
        "tables": [table.as_dict() for table in tables(results, summaries)],
        "figures": {name: json.loads(plotly.io.to_json(figure)) for name, figure in figures(results, summaries).items()},
    }


def write_report(folder: Path, out: Path, sound: SoundOf | None = None, voice: str | None = None) -> Content:
    """Write the page `out` and `results.json` beside it, from the results in `folder`.

    Args:
        sound: decodes a unit, to embed one utterance in several settings.
        voice: the identity of the voice (`context["voice"]`) where the folder has results of several.

    Raises:
        InputError: if there are no results.
    """
    records = Store(folder).all() if folder.is_dir() else []
    records = [record for record in records if voice in (None, record.context.get("voice"))]
    if not records:
        raise InputError("results", str(folder), "a folder with at least one result")
    content = findings(records)
    # Names without their folders, which may name the user.
    command = f"python -m pcg report {folder.name} --out {out.name}"
    with replacing(out) as temporary:
        temporary.write_text(page_html(content, command, sounds_html(records, sound) if sound else ""), encoding="utf-8")
        write_json(out.with_name(RESULTS), content)
        renew_checksums(out.with_name(RESULTS))
    return content


def page_html(content: Content, command: str, sounds: str = "") -> str:
    """Return the whole page; `sounds` is a part of it that is HTML already."""
    sections, links = "", ""
    for table in content["tables"]:
        name, title, figure = escape(table["name"]), escape(table["title"]), content["figures"].get(table["name"])
        drawn, opened = "", " open" if name == "claims" else ""
        if figure:
            # Within a script no text may look like its end.
            data = json.dumps(figure).replace("<", "\\u003c")
            drawn = (
                f"<p class='results-note'>{escape(CAPTIONS[name])}</p><div class='figure' data-figure='figure-{name}'></div>"
                f"<script type='application/json' id='figure-{name}'>{data}</script>"
            )
        rows = f"<details{opened}><summary>{counted(len(table['rows']), 'row')}</summary>{measured_html(table)}</details>"
        sections += f"<section id='{name}'><h2>{title}</h2>{drawn}{rows}</section>"
        links += f"<li><a href='#{name}'>{title}</a></li>"
    made = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td class='text'>{escape('; '.join(values))}</td></tr>"
        for name, values in content["made"].items()
    )
    units = counted(content["records"], "unit")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>PCG Lab: results</title>'
        f"<style>{COLOURS}{css_variables()}{STYLES.read_text(encoding='utf-8')}</style></head><body><h1>PCG Lab: results</h1>"
        f"<p>{units}; intervals of 95 % over utterances. Data: {RESULTS}. Written by "
        f"<code>{escape(command)}</code>.</p>"
        f"<nav aria-label='Contents'><ul>{links}</ul></nav>{sections}{sounds}"
        f"<section id='made'><h2>Machine, versions and judges</h2><table class='lab-table'>{made}</table></section>"
        f"<script>{plotly.offline.get_plotlyjs()}</script><script>{DRAW}</script></body></html>"
    )


def measured_html(table: Mapping) -> str:
    """Return a table of `results.json` with its note and its command; all words are escaped."""
    note, command = escape(table["note"]), escape(table["command"])
    return (
        f"{table_html(table['title'], table['columns'], table['shown'])}"
        f"<p class='results-note'>{note} Command: <code>{command}</code></p>"
    )


def _contexts(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the values of the records' contexts, each once; of the dates the first and the last."""
    values: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in record.context.items():
            for key, one in value.items() if isinstance(value, Mapping) else [("", value)]:
                values.setdefault(f"{name}: {key}" if key else name, {})[str(one)] = None
    contexts = {name: list(distinct) for name, distinct in values.items()}
    if len(dates := sorted(contexts.get("date", []))) > 2:
        contexts["date"] = [f"{dates[0]} to {dates[-1]}"]
    return contexts


def sounds_html(records: Sequence[Record], sound: SoundOf) -> str:
    """Return the utterance with records in most settings, in at most MOST_SOUNDS of them; then the MOST_APART takes on which
    SSD and the setting of PCG that does nearly as much work differ most in words."""
    by_text: dict[str, dict[str, Record]] = {}
    for record in records:
        by_text.setdefault(record.unit.utterance.text, {}).setdefault(record.unit.condition.name, record)
    text, chosen = max(by_text.items(), key=lambda item: len(item[1]))
    takes = "".join(_player(record, sound) for record in list(chosen.values())[:MOST_SOUNDS])
    html = f"<section id='sounds'><h2>Listen</h2><p>{escape(text)}</p><div class='takes'>{takes}</div></section>"
    pairs = most_apart(records)
    if not pairs:
        return html
    rows = "".join(
        f"<p>{escape(ssd.unit.utterance.text)}</p><div class='takes'>{_player(ssd, sound)}{_player(pcg, sound)}</div>"
        for ssd, pcg in pairs
    )
    note = "These were chosen for their difference, so they say nothing of the average."
    return f"{html}<section id='apart'><h2>Where SSD and PCG differ most in words</h2><p>{note}</p>{rows}</section>"


def most_apart(records: Sequence[Record], count: int = MOST_APART) -> list[tuple[Record, Record]]:
    """Return pairs of SSD and PCG on one utterance and seed, those whose errors differ most first."""
    plain = [
        r for r in records if r.unit.condition.model == "target" and not r.unit.condition.rule and not r.unit.condition.swap
    ]
    work: dict[tuple[str, str], list[float]] = {}
    for record in plain:
        method = record.unit.settings.method, record.unit.condition.name
        work.setdefault(method, []).append(1 + record.result.accepted / max(1, record.result.rounds))
    first = next((key for key in work if key[0] == "ssd"), None)
    if first is None or not any(method == "pcg" for method, _ in work):
        return []
    nearest = min((key for key in work if key[0] == "pcg"), key=lambda key: abs(fmean(work[key]) - fmean(work[first])))
    ssd, pcg = (
        {(r.unit.utterance, r.unit.seed): r for r in plain if r.unit.condition.name == name} for _, name in (first, nearest)
    )
    pairs = [(ssd[key], pcg[key]) for key in ssd if key in pcg]
    return sorted(pairs, key=lambda pair: -abs(pair[0].result.words[0] - pair[1].result.words[0]))[:count]


def _player(record: Record, sound: SoundOf) -> str:
    """Return a take with the name of its setting and what the judge heard."""
    import soundfile

    (samples, rate), flac = sound(record.unit), BytesIO()
    soundfile.write(flac, np.clip(samples, -1, 1), rate, format="FLAC", subtype="PCM_16")
    errors, words = record.result.words
    return (
        f"<figure><figcaption>{escape(record.unit.condition.name)}</figcaption>"
        f"<audio controls preload='none' src='data:audio/flac;base64,{b64encode(flac.getvalue()).decode()}'></audio>"
        f"<figcaption>{escape(record.result.heard) or '(nothing)'} ({errors} of {words})</figcaption></figure>"
    )
