"""The results of experiments as HTML: where they are from, tables with the papers' numbers, verdicts, progress; and the script
that makes the points of a figure clickable, which gradio's plots lack, and follows the links of the contents.

Names come from a user's file and words from a recogniser, so all are escaped.
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import gradio as gr

from explorers.colours import swatch_html
from explorers.experiments.actions import HeardUnit, Study
from explorers.experiments.archive import NO_RESULTS, OWN, SHIPPED
from explorers.experiments.figures import CAPTIONS
from explorers.experiments.report import Findings
from explorers.shared.readout import busy_html, message_html
from explorers.shared.scripts import SHARED, joined
from explorers.shared.terms import titled_html
from pcg.errors import counted
from pcg.experiments.claims import CONTRADICTED, DISAGREE, HOLDS, OPEN, UNTESTED
from pcg.experiments.tables import MISSING, Column, Table
from pcg.metrics.intelligibility import comparable

STYLES = Path(__file__).with_name("findings.css")
SCRIPT = Path(__file__).with_name("findings.js")
CLICK = "pick"
SIGNS = {HOLDS: "✓", CONTRADICTED: "✗", OPEN: "?", UNTESTED: "–", DISAGREE: "≠"}
VERDICT = "verdict"
PAPER = "paper: "
# What the papers' figures are called where they stand below ours of another name; the first are of another scale, too.
OTHER_SCALES = ("MOS", "SIM")
BELOW = {"MOS": ("DNSMOS",), "SIM": ("speaker",), "its WER %": ("WER %",)}
BELOW["PCG's WER %"] = tuple(f"WER %, PCG cosine at this {axis}" for axis in ("speed", "work"))
FROM = {SHIPPED: "Shipped with this project", OWN: "Runs on this server"}
OTHERS = (
    " They were measured with another voice, draft or judge than this page has, so takes that are generated again differ; "
    "docs/results.md tells which, and has tables of the voice in this project."
)
EMPTY = f'<p class="findings-note">{NO_RESULTS} Partial results are shown during the run.</p>'


def create_clicks(figures: Sequence[str]) -> gr.HTML:
    """A line that explains a click, within the Blocks that is being built. Its event CLICK brings the name of the
    `condition` whose point was clicked, escaped, in one of the `figures`, the ids of plots."""
    return gr.HTML(
        html_template='<p class="findings-note">Click a point to listen to its takes, or choose its name here.</p>',
        js_on_load=joined([SHARED, SCRIPT]),
        apply_default_css=False,
        figures=list(figures),
    )


def source_html(source: str, findings: Findings | None, same_voice: bool = True) -> str:
    """Where the results that are shown come from, and how many they are; or that there are none."""
    if findings is None:
        return EMPTY
    most = max(summary.utterances for summary in findings.summaries)
    said = f"{FROM[source]}: {counted(findings.records, 'unit')}, up to {counted(most, 'utterance')} in each setting."
    return f'<p class="findings-note">{escape(said)}{"" if same_voice else OTHERS}</p>'


def heading_html(table: Table, source: str, title: bool = True) -> str:
    """The title of a card, or nothing where it stands elsewhere; whose results, over how many utterances; the caption."""
    caption, numbers = CAPTIONS.get(table.name, ""), _numbers(table)
    head = f'<h2 tabindex="-1">{escape(table.title)}</h2>' if title else ""
    whose = f'<p class="findings-source">{escape(FROM[source] + (f": {numbers}" if numbers else ""))}.</p>'
    return f'<header class="findings-head">{head}{whose}{f"<p>{escape(caption)}</p>" if caption else ""}</header>'


def table_html(table: Table, made: Mapping[str, str]) -> str:
    """A table with the papers' numbers below ours; folded, its differences to the papers, its command, judges and machine."""
    below = _below(table.columns)
    kept = [at for at in range(len(table.columns)) if at not in below.values()]
    heads = "".join(f'<th scope="col"{_kind(c)}>{titled_html(c.title)}</th>' for c in (table.columns[at] for at in kept))
    rows = "".join(_row(table.columns, shown, kept) + _papers_row(table.columns, shown, kept, below) for shown in table.shown())
    judges = "; ".join(f"{what}: {_brief(who)}" for what, who in made.items())
    notes = (
        f"<p>{escape(table.note)}</p><p>Command: <code>{escape(table.command)}</code></p>"
        f"{f'<p>{escape(judges)}.</p>' if judges else ''}"
    )
    # What scrolls must be reached by the keyboard, too.
    return (
        f'<div class="findings"><div class="findings-wide" role="group" aria-label="{escape(table.title)}" tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<details><summary>How to read it, and how it was measured</summary><div class="findings-note">{notes}</div></details>'
        "</div>"
    )


def progress_html(study: Study) -> str:
    """Where a run stands; not announced aloud before its end, as it changes often."""
    at = study.progress
    if study.over:
        return message_html(f"All done: {counted(at.total, 'unit')}.")
    left = "preparing" if at.seconds_left is None else f"about {duration(at.seconds_left)} left"
    bar = f'<progress max="{at.total}" value="{at.done}" aria-label="units done"></progress>'
    return busy_html(f"{escape(at.notice)} {at.done:,} of {counted(at.total, 'unit')} <span>{left}</span>".lstrip(), bar)


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


def _below(columns: Sequence[Column]) -> dict[int, int]:
    """The place of a column of ours to that of the paper's figures that stand below its own."""
    places = {column.title: at for at, column in enumerate(columns)}
    below = {}
    for title, at in places.items():
        name = title.removeprefix(PAPER)
        ours = next((places[own] for own in BELOW.get(name, (name,)) if own in places), at)
        if ours != at and title.startswith(PAPER):
            below[ours] = at
    return below


def _row(columns: Sequence[Column], shown: Sequence[str], kept: Sequence[int]) -> str:
    cells = "".join(_cell(columns[at], shown[at]) for at in kept[1:])
    return f'<tr><th scope="row">{swatch_html(shown[0])}{escape(shown[0])}</th>{cells}</tr>'


def _papers_row(columns: Sequence[Column], shown: Sequence[str], kept: Sequence[int], below: Mapping[int, int]) -> str:
    """What a paper has in the place of a row, below it; nothing where it has nothing."""
    if all(shown[at] == MISSING for at in below.values()):
        return ""
    cells = []
    for at in kept[1:]:
        theirs = shown[below[at]] if at in below else MISSING
        name = columns[below[at]].title.removeprefix(PAPER) if at in below else ""
        named = f"{name} " if name in OTHER_SCALES else ""
        cells.append("<td></td>" if theirs == MISSING else f"<td>{escape(named + theirs)}</td>")
    return f'<tr class="paper"><th scope="row">the paper</th>{"".join(cells)}</tr>'


def _cell(column: Column, text: str) -> str:
    if column.title == VERDICT:
        verdict = text.partition(",")[0]
        return f'<td class="text verdict" data-verdict="{verdict}"><i aria-hidden="true">{SIGNS[verdict]}</i> {text}</td>'
    if column.words:
        return f'<td class="text">{escape(text)}</td>'
    value, bracket, interval = text.partition(" [")
    return f"<td>{escape(value)}{f'<small>[{escape(interval)}</small>' if bracket else ''}</td>"


def _kind(column: Column) -> str:
    return ' class="text"' if column.words else ""


def _numbers(table: Table) -> str:
    """Over how many utterances the rows are; nothing where the table does not count them."""
    places = [i for i, column in enumerate(table.columns) if column.title == "n" or column.title.endswith(": n")]
    counts = sorted({cell for row in table.rows for i in places if isinstance(cell := row[i], int)})
    if not counts:
        return ""
    return ("" if len(counts) == 1 else f"{counts[0]} to ") + f"{counted(counts[-1], 'utterance')} a row"
