"""The cards of the results, a table each, with its figure, if it has one; most of them folded; and a list of their contents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import gradio as gr
import plotly.graph_objects as go
from gradio.blocks import Block
from gradio.components import Component

from explorers.experiments.figures import CAPTIONS
from explorers.experiments.findings import heading_html, table_html
from pcg.experiments.tables import Table

# The order of the page: a card for every table of `pcg.experiments.results.tables`, shown where it has rows.
CARDS = (
    "claims", "main", "tradeoff", "equal", "work", "lookahead", "acceptance", "factors", "drift", "swap", "ablations", "ssd",
    "relax", "sampling", "twisters", "differences", "pairs", "drafts", "judges", "sections", "voices", "seeds", "temperature",
    "conditions",
)  # fmt: skip
# The others are opened by their titles: all at once would be a dozen screens.
OPEN = ("claims", "main")
FIGURES = tuple(name for name in CARDS if name in CAPTIONS)
# Those whose points know the name of their condition.
CLICKABLE = ("main", "tradeoff", "swap")
PREFIX = "experiments-card-"

Updates = dict[Block, object]


@dataclass(frozen=True)
class FigureCard:
    """A table of the results, with its figure, if it has one."""

    card: gr.Column | gr.Accordion
    heading: gr.HTML
    figure: gr.Plot | None
    table: gr.HTML

    @property
    def all(self) -> list[Component | gr.Column | gr.Accordion]:
        return [self.card, self.heading, *([self.figure] if self.figure else []), self.table]

    def updates(self, table: Table | None, figure: go.Figure | None, source: str, facts: Mapping[str, str]) -> Updates:
        """Show `table` and its `figure` of `source`, made as `facts` say; hide the card where there is no table."""
        drawn: Updates = {self.figure: gr.update(value=figure, visible=figure is not None)} if self.figure else {}
        if table is None:
            return drawn | {self.card: gr.update(visible=False), self.heading: "", self.table: ""}
        folded = isinstance(self.card, gr.Accordion)
        shown = gr.update(visible=True, label=table.title) if folded else gr.update(visible=True)
        heading = heading_html(table, source, title=not folded)
        return drawn | {self.card: shown, self.heading: heading, self.table: table_html(table, facts)}


def create_card(name: str) -> FigureCard:
    """Lay the card of the table `name` out within the Blocks that is being built."""
    place = {"visible": False, "elem_id": PREFIX + name, "elem_classes": "lab-card"}
    with gr.Column(**place) if name in OPEN else gr.Accordion(name, open=False, **place) as card:
        heading = gr.HTML("", apply_default_css=False)
        figure = gr.Plot(show_label=False, elem_id=f"experiments-figure-{name}") if name in FIGURES else None
        table = gr.HTML("", apply_default_css=False, elem_id=f"experiments-table-{name}")
    return FigureCard(card, heading, figure, table)


def contents_html(tables: Sequence[Table]) -> str:
    """Links to the cards of `tables`, in the order of the page."""
    titles = {table.name: table.title for table in tables}
    links = [f'<li><a href="#{PREFIX}{name}">{escape(titles[name])}</a></li>' for name in CARDS if name in titles]
    return f'<nav class="findings-contents" aria-label="Tables"><ul>{"".join(links)}</ul></nav>' if links else ""
