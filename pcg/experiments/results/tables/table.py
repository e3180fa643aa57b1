"""A table as data: columns that know how to show a figure, rows of cells; rendered as markdown or as dicts for JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from pcg.experiments.results.papers import Quoted
from pcg.metrics.estimate import Estimate

Cell = str | int | float | Estimate | None
MISSING = "-"
BRACKETS = "Brackets: 95 % bootstrap interval over utterances."
RUN = "python -m pcg experiment run"


@dataclass(frozen=True)
class Column:
    """How a column shows its cells: a figure times `scale` with so many `digits` and a `suffix`, and one below `least` as less
    than that; or `words` as they are."""

    title: str
    digits: int = 0
    scale: float = 1.0
    suffix: str = ""
    signed: bool = False
    words: bool = False
    least: float | None = None

    def by(self, name: str) -> "Column":
        """The same by one judge, or of one kind of sentence; "" is none in particular."""
        return replace(self, title=f"{self.title}, {name}") if name else self

    def show(self, cell: Cell) -> str:
        if cell is None:
            return MISSING
        if isinstance(cell, Estimate):
            ends = f"{self._figure(cell.low)}, {self._figure(cell.high)}"
            return f"{self._figure(cell.value)}{self.suffix} [{ends}]"
        return cell if isinstance(cell, str) else self._figure(cell) + self.suffix

    def _figure(self, value: float) -> str:
        if self.least is not None and value < self.least:
            return f"<{self.least:g}"
        return f"{self.scale * value:{'+' if self.signed else ''}.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """`rows` have a cell for each of `columns`. note: what to know before comparing. command: what computes it again."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str
    command: str

    def shown(self) -> list[list[str]]:
        """The rows as texts."""
        return [[column.show(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def without(self, *optional: Column) -> "Table":
        """The table less those of `optional` that have nothing in any row."""
        blank = [i for i, c in enumerate(self.columns) if c in optional and all(row[i] is None for row in self.rows)]
        kept = [i for i in range(len(self.columns)) if i not in blank]
        columns, rows = tuple(self.columns[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, columns=columns, rows=rows)

    def markdown(self) -> str:
        lines = [
            [column.title for column in self.columns],
            ["---", *("---" if c.words else "---:" for c in self.columns[1:])],
            *self.shown(),
        ]
        body = ["| " + " | ".join(_plain(text) for text in line) + " |" for line in lines]
        return "\n".join([f"**{self.title}**", "", *body, "", self.note, "", f"`{self.command}`"])

    def as_dict(self) -> dict[str, object]:
        """Everything, ready for JSON; estimates are dicts of value, low and high."""
        titles = [column.title for column in self.columns]
        rows = [{t: asdict(c) if isinstance(c, Estimate) else c for t, c in zip(titles, r, strict=True)} for r in self.rows]
        head = {"name": self.name, "title": self.title, "columns": titles}
        return head | {"rows": rows, "shown": self.shown(), "note": self.note, "command": self.command}

    @classmethod
    def from_dict(cls, table: Mapping) -> "Table":
        """What `as_dict` wrote, its cells as they were shown. Raises KeyError or TypeError for what is no table."""
        columns = tuple(Column(str(title), words=True) for title in table["columns"])
        rows = tuple(tuple(map(str, row)) for row in table["shown"])
        return cls(table["name"], table["title"], columns, rows, table["note"], table["command"])


N = Column("n")
P = Column("p", 3, least=0.001)
SPEEDUP = Column("speed-up", 2, suffix="x")
CALLS = Column("tokens per target call", 2)
WER, CER = Column("WER %", 1, 100), Column("CER %", 1, 100)
SPEAKER, DNSMOS = Column("speaker", 3), Column("DNSMOS", 2)
SPOOF = Column("spoof %", 1, 100)
WER_CHANGE, SPOOF_CHANGE = (Column(f"{name}, points", 1, 100, signed=True) for name in ("WER", "spoof"))


def quoted_cells(quoted: Quoted | None, *keys: str) -> tuple[Cell, ...]:
    """The cells of a paper's row: a number, or a number and its spread as the paper prints them."""
    if quoted is None:
        return (None,) * len(keys)
    return tuple(_printed(quoted, key) for key in keys)


def _printed(quoted: Quoted, key: str) -> Cell:
    value, spread = quoted.values.get(key), quoted.spread.get(key)
    if value is None or key in ("speedup", "lm_rtf"):
        return value
    return f"{value:g}" if spread is None else f"{value:g} ± {spread:g}"


def _plain(text: str) -> str:
    """A cell of a markdown table: one line, no bars, no markup."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
