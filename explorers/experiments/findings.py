"""The results of experiments as HTML: tables beside the papers' numbers, verdicts, progress; and the script that makes the
points of a figure clickable, which gradio's plots lack.

Names come from a user's file and words from a recogniser, so all are escaped.
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import gradio as gr

from explorers.colours import swatch_html
from explorers.experiments.actions import HeardUnit, Study
from explorers.experiments.figures import CAPTIONS
from explorers.shared.readout import busy_html, message_html
from explorers.shared.terms import titled_html
from pcg.experiments.results.claims import CONTRADICTED, HOLDS, OPEN, UNTESTED
from pcg.experiments.results.tables import Column, Table
from pcg.metrics.intelligibility import comparable

STYLES = Path(__file__).with_name("findings.css")
SCRIPT = Path(__file__).with_name("findings.js")
CLICK = "pick"
SIGNS = {HOLDS: "✓", CONTRADICTED: "✗", OPEN: "?", UNTESTED: "–"}
VERDICT = "verdict"
# Long tables, folded.
FOLDED = ("acceptance", "ssd", "differences", "conditions")


def create_clicks(figures: Sequence[str]) -> gr.HTML:
    """A line that explains a click, within the Blocks that is being built. Its event CLICK brings the name of the
    `condition` whose point was clicked, escaped, in one of the `figures`, the ids of plots."""
    return gr.HTML(
        html_template='<p class="findings-note">Click a point to listen to its takes, or choose its name here.</p>',
        js_on_load=SCRIPT.read_text(encoding="utf-8"),
        apply_default_css=False,
        figures=list(figures),
    )


def heading_html(table: Table) -> str:
    """The title of a card, and the caption of its figure."""
    caption = CAPTIONS.get(table.name, "")
    return (
        f'<header class="findings-head"><h2>{escape(table.title)}</h2>{f"<p>{escape(caption)}</p>" if caption else ""}</header>'
    )


def table_html(table: Table, made: Mapping[str, str]) -> str:
    """A table, its differences to the papers, its command, and its judges and machine."""
    heads = "".join(f'<th scope="col"{_kind(column)}>{titled_html(column.title)}</th>' for column in table.columns)
    rows = "".join(_row(table.columns, shown) for shown in table.shown())
    notes = (
        f"<p>{escape(table.note)}</p><p>Command: <code>{escape(table.command)}</code></p>"
        f"<p>{escape(_numbers(table) + '; '.join(f'{what}: {_brief(who)}' for what, who in made.items()))}.</p>"
    )
    # What scrolls must be reached by the keyboard, too.
    parts = (
        f'<div class="findings-wide" role="group" aria-label="{escape(table.title)}" tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<div class="findings-note">{notes}</div>'
    )
    if table.name in FOLDED:
        parts = f"<details><summary>{len(table.rows)} rows</summary>{parts}</details>"
    return f'<div class="findings">{parts}</div>'


def progress_html(study: Study) -> str:
    """Where a run stands; not announced aloud before its end, as it changes often."""
    at = study.progress
    if study.over:
        return message_html(f"All {at.total:,} units are done.")
    left = "preparing" if at.seconds_left is None else f"about {duration(at.seconds_left)} left"
    bar = f'<progress max="{at.total}" value="{at.done}" aria-label="units done"></progress>'
    return busy_html(f"{escape(at.notice)} {at.done:,} of {at.total:,} units <span>{left}</span>".lstrip(), bar)


def duration(seconds: float) -> str:
    """In the two largest of hours, minutes and seconds."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def heard_html(heard: HeardUnit) -> str:
    """The condition, the recognised words, and their errors."""
    errors, words = heard.record.result.words
    recognised = f"<q>{escape(heard.record.result.heard)}</q>" if comparable(heard.record.result.heard) else "nothing"
    rate = f"WER {100 * errors / words:.0f} % ({errors} of {words})" if words else "no words"
    other = "" if heard.same else " The tokens differ from the stored ones: another machine, or another voice with this name."
    name = escape(heard.record.unit.condition.name)
    return f'<p class="findings-heard"><b>{name}</b> <span>{rate}</span><br>Recognised: {recognised}{other}</p>'


def said_html(heard: HeardUnit) -> str:
    """The text, the voice and the seed."""
    unit = heard.record.unit
    return (
        f'<p class="findings-said"><q>{escape(unit.utterance.text)}</q> '
        f"<small>voice {escape(unit.utterance.voice)}, seed {unit.seed:d}</small></p>"
    )


def _brief(who: str) -> str:
    """A judge without the remarks behind its name, which the record holds."""
    return who.partition(";")[0]


def _row(columns: Sequence[Column], shown: Sequence[str]) -> str:
    cells = "".join(_cell(column, text) for column, text in zip(columns[1:], shown[1:], strict=True))
    return f'<tr><th scope="row">{swatch_html(shown[0])}{escape(shown[0])}</th>{cells}</tr>'


def _cell(column: Column, text: str) -> str:
    if column.title == VERDICT:
        return f'<td class="text verdict" data-verdict="{text}"><i aria-hidden="true">{SIGNS[text]}</i> {text}</td>'
    if column.words:
        return f'<td class="text">{escape(text)}</td>'
    value, bracket, interval = text.partition(" [")
    return f"<td>{escape(value)}{f'<small>[{escape(interval)}</small>' if bracket else ''}</td>"


def _kind(column: Column) -> str:
    return ' class="text"' if column.words else ""


def _numbers(table: Table) -> str:
    """Over how many utterances the rows are."""
    places = [i for i, column in enumerate(table.columns) if column.title == "n" or column.title.endswith(": n")]
    counts = sorted({cell for row in table.rows for i in places if isinstance(cell := row[i], int)})
    if not counts:
        return ""
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"n: {span} utterances a row; "
