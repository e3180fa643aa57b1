"""Tables of results: rows of conditions and columns of figures, on the utterances that all rows share.

`tables` makes all of them; `fill` writes them between the marks of a markdown document.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace

from pcg.errors import InputError
from pcg.experiments.papers import DIFFERS, PCG_SSD_BETA, PCG_TABLE_1, PCG_TABLE_2, SSD_TABLE_1, SSD_TABLE_3, Quoted, claims
from pcg.experiments.results import (
    BLOCK,
    Results,
    Summary,
    alike,
    at_equal_work,
    holm,
    identity,
    is_usual,
    knob,
    most_heard,
    pareto,
    summarise,
)
from pcg.experiments.unit import DEFAULTS
from pcg.metrics.estimate import Estimate

Cell = str | int | float | Estimate | None
MISSING = "-"
BRACKETS = "Brackets: 95 % bootstrap interval over utterances."
RUN = "python -m pcg experiment run"
METHODS = ("SD", "SSD", "PCG", "membership", "typical")
SWAPS = {"swap": "cosine group", "random swap": "any code (control)"}
# A loss above this many points was stated beforehand as one that matters.
MARGIN = 0.02
# One-sided, as of an interval of 95 %.
LEVEL = 0.025


@dataclass(frozen=True)
class Column:
    """A column of cells: value(summary) times `scale`, with so many `digits` and a `suffix`; `words` are shown as they are.

    by_judge: the figure depends on the judge of words, so the column stands once for each.
    """

    title: str
    digits: int = 0
    scale: float = 1.0
    suffix: str = ""
    signed: bool = False
    words: bool = False
    least: float | None = None
    value: Callable[[Summary], Cell] = field(default=lambda row: None, compare=False)
    by_judge: bool = False

    def by(self, name: str) -> "Column":
        return replace(self, title=f"{self.title}, {name}") if name else self

    def show(self, cell: Cell) -> str:
        if cell is None:
            return MISSING
        if isinstance(cell, Estimate):
            return f"{self._figure(cell.value)}{self.suffix} [{self._figure(cell.low)}, {self._figure(cell.high)}]"
        return cell if isinstance(cell, str) else self._figure(cell) + self.suffix

    def _figure(self, value: float) -> str:
        if self.least is not None and value < self.least:
            return f"<{self.least:g}"
        return f"{self.scale * value:{'+' if self.signed else ''}.{self.digits}f}"


def of(title: str, name: str, digits: int = 0, scale: float = 1.0, **options: object) -> Column:
    """Make a column of the figure `name` of `Summary`."""
    return Column(title, digits, scale, value=lambda row: getattr(row, name), **options)


def change(title: str, name: str, digits: int = 1, scale: float = 100, **options: object) -> Column:
    """Make a column of the figure `name` of `Difference`."""
    options = {"signed": True} | options
    return Column(title, digits, scale, value=lambda row: row.change and getattr(row.change, name), **options)


def papers_columns(titles: dict[str, str], quoted: Callable[[Summary], Quoted | None]) -> tuple[Column, ...]:
    """Make columns of the paper's numbers, with the spread that it prints. quoted: the paper's row, if it has one."""

    def cell(row: Summary, name: str) -> Cell:
        number = (quoted(row) or {}).get(name)
        if isinstance(number, tuple):
            return "{:g} ± {:g}".format(*number)
        return None if number is None else f"{number:g}{'x' if name == 'speedup' else ''}"

    return tuple(Column(f"paper: {title}", value=lambda row, name=name: cell(row, name)) for title, name in titles.items())


def by_position(title: str, name: str) -> Column:
    """Make a column of shares in percent, one for each position in the draft."""
    return Column(title, words=True, value=lambda row: " ".join(f"{100 * share:.0f}" for share in getattr(row, name)))


def _pcg_table_1(row: Summary) -> Quoted | None:
    settings = row.condition.settings
    usual = {"SSD": settings.beta == PCG_SSD_BETA, "PCG": settings.theta == DEFAULTS.theta}.get(row.method, True)
    return PCG_TABLE_1.get(row.method) if usual else None


def _ssd_tables(row: Summary) -> Quoted | None:
    beta = 0.0 if row.method == "SD" else row.condition.settings.beta
    return SSD_TABLE_1.get(row.method) or SSD_TABLE_3.get(beta)


def _loss(row: Summary, family: Sequence[Summary]) -> Cell:
    """Tell whether a loss above MARGIN is ruled out, p adjusted for all of `family` (Holm)."""
    if row.change is None:
        return None
    changes = {identity(each.condition): Summary(row.results, each.condition).change for each in family}
    tests = {name: each.no_loss(MARGIN) for name, each in changes.items() if each}
    if None in tests.values():
        return None
    adjusted = dict(zip(tests, holm([p for p, _ in tests.values()]), strict=True))
    p, power = adjusted[identity(row.condition)], tests[identity(row.condition)][1]
    shown = f"p {p:.3f}" if p >= 0.001 else "p < 0.001"
    return f"{'' if p < LEVEL else 'not '}ruled out, {shown}, power {100 * power:.0f} %"


SETTING = Column("setting", words=True, value=lambda row: row.name)
N, SEEDS = of("n", "utterances"), Column("seeds", value=lambda row: row.n / row.utterances if row.n > row.utterances else None)
TIMED = Column("n of the speed-ups", value=lambda row: row.timed if row.timed < row.utterances else None)
SPEEDUP = of("speed-up", "speedup", 2, suffix="x")
BLOCKS = of(f"speed-up, over blocks of {BLOCK}", "speedup_over_blocks", 2, suffix="x")
CALLS = of("tokens per target call", "mean_acceptance_length", 2)
TESTED = of("accepted of tested %", "acceptance_of_tested", 0, 100)
WER, CER = of("WER %", "wer", 1, 100, by_judge=True), of("CER %", "cer", 1, 100)
TAIL = (
    of("more than half wrong %", "lost", 1, 100),
    of("WER % of the worst 5 %, from", "wer_p95", 0, 100),
    of("worst WER %", "wer_worst", 0, 100),
)
WER_CHANGE = change("WER, points", "wer", by_judge=True)
SPEAKER, DISTILLED, DNSMOS = of("speaker", "similarity", 3), of("DistillMOS", "distillmos", 2), of("DNSMOS", "dnsmos", 2)
NLL_CHANGE = change("NLL to AR, nats", "nll", 2, 1)
LIMIT = of("at the limit %", "hit_limit", 1, 100)
PCG_NAMES = {"speed-up": "speedup", "WER %": "wer", "CER %": "cer", "speaker": "similarity", "MOS": "mos"}
SSD_NAMES = {"WER %": "wer", "NMOS": "mos", "speaker": "similarity", "LM-RTF": "lm_rtf"}


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
        return [[column.show(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def markdown(self, heading: bool = True) -> str:
        dashes = ["---", *("---" if column.words else "---:" for column in self.columns[1:])]
        body = []
        for line in [[column.title for column in self.columns], dashes, *self.shown()]:
            # A cell is one line, without bars and markup.
            cells = [" ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|") for text in line]
            body.append("| " + " | ".join(cells) + " |")
        head = [f"**{self.title}**", ""] if heading else []
        return "\n".join([*head, *body, "", self.note, "", f"Computed by `{self.command}`."])

    def as_dict(self) -> dict[str, object]:
        """Return the table ready for JSON; estimates are dicts of value, low and high."""
        titles = [column.title for column in self.columns]
        rows = [{t: asdict(c) if isinstance(c, Estimate) else c for t, c in zip(titles, r, strict=True)} for r in self.rows]
        head = {"name": self.name, "title": self.title, "columns": titles}
        return head | {"rows": rows, "shown": self.shown(), "note": self.note, "command": self.command}


def pivot(
    name: str,
    title: str,
    results: Results,
    rows: Iterable[Summary],
    columns: Sequence[Column],
    note: str = "",
    command: str = "main",
    together: bool = True,
) -> Table:
    """Make a table of `rows`, without columns that have no cell. together: compute the rows again on the utterances that they
    share, once by each judge where a column needs it."""
    shared, shown = alike(results, rows) if together else (results, list(rows))
    judges = shared.by_judge() if together and shown else {"": shared}
    heard = [[row, *(Summary(of, row.condition) for judge, of in judges.items() if judge)] for row in shown]
    wide = [(column.by(judge), at) for column in columns for at, judge in enumerate(judges) if column.by_judge or not at]
    cells = [[column.value(row[at]) for column, at in wide] for row in heard]
    kept = [i for i in range(len(wide)) if not cells or any(row[i] is not None for row in cells)]
    made = tuple(tuple(row[i] for i in kept) for row in cells)
    return Table(name, title, tuple(wide[i][0] for i in kept), made, f"{BRACKETS} {note}".strip(), f"{RUN} {command}")


def tables(results: Results, summaries: Sequence[Summary] | None = None) -> list[Table]:
    """Return all tables that have rows."""
    summaries = summarise(results) if summaries is None else summaries
    usual = [s for s in summaries if s.condition.swap is None and is_usual(s)]
    family = most_heard(by_method(usual, ("AR", *METHODS)))
    ruled_out = Column(f"a loss above {100 * MARGIN:g} points", words=True, by_judge=True, value=lambda row: _loss(row, family))
    made = [
        _claims(results, summaries),
        pivot(
            "overview", "Speed, acceptance and words", results, family,
            (SETTING, N, SEEDS, TIMED, SPEEDUP, BLOCKS, CALLS, TESTED, NLL_CHANGE, DISTILLED, WER, WER_CHANGE, ruled_out),
            "Speed-up: tokens per second of the decoding loop over AR. NLL: -log of a token's probability under the target. "
            "Points: less AR on the same utterances. p: one-sided paired t-test against the margin that was stated beforehand, "
            "adjusted for all rows (Holm), at 2.5 %; power: how often it would tell so, not adjusted, without a difference.",
        ),
        pivot(
            "main", "Words, speaker, sound and speed (PCG Table 1)", results,
            most_heard(by_method(usual, ("original", "codec", "draft", "AR", *METHODS))),
            (SETTING, N, SPEEDUP, WER, WER_CHANGE, *TAIL, CER, SPEAKER, DISTILLED, DNSMOS,
             *papers_columns(PCG_NAMES, _pcg_table_1)),
            f"Points: less AR on the same utterances. {DIFFERS['main']}",
        ),
        _tradeoff(results, usual),
        _equal_work(results, usual),
        _swap(results, summaries),
        pivot(
            "ssd", "The tolerance of SSD (SSD Tables 1 and 3)", results, by_method(usual, ("draft", "AR", "SD", "SSD")),
            (SETTING, N, SPEEDUP, CALLS, WER, DNSMOS, SPEAKER, of("LM-RTF", "lm_rtf", 3),
             *papers_columns(SSD_NAMES, _ssd_tables)),
            DIFFERS["ssd"], "tradeoff",
        ),
        pivot(
            "acceptance", "Acceptance", results, [s for s in most_heard(usual) if s.acceptance_rate],
            (SETTING, N, of("accepted of drafted %", "acceptance_rate", 1, 100), TESTED, CALLS,
             by_position("by position %", "acceptance"), by_position("by position, if tested %", "conditional"),
             of("trials per rejection", "trials_per_rejection", 2), LIMIT),
            f"By position: share of rounds that accepted there; if tested: share of the tests there. {DIFFERS['acceptance']}",
        ),
        pivot(
            "conditions", "Every setting", results, summaries,
            (SETTING, N, WER, TAIL[0], CER, SPEAKER, DNSMOS, SPEEDUP, of("text to audio", "wall_speedup", 2, suffix="x"),
             of("tokens/s", "tokens_per_second"), LIMIT),
            "Rows of different n are not to be compared.", "all", together=False,
        ),
    ]  # fmt: skip
    return [table for table in made if table.rows]


def by_method(summaries: Iterable[Summary], methods: Sequence[str]) -> list[Summary]:
    """Return the rows of `methods`, in their order and by knob."""
    wanted = [s for s in summaries if s.method in methods]
    return sorted(wanted, key=lambda s: (methods.index(s.method), knob(s.condition)))


def _claims(results: Results, summaries: Sequence[Summary]) -> Table:
    """Return the papers' claims with the verdicts of all judges."""
    judges = [f"ours, by {judge}" for judge in results.by_judge() if judge]
    columns = tuple(Column(title, words=True) for title in ("claim", "verdict", "ours", *judges, "the paper", "where"))
    rows = [(c.text, c.stated, c.ours, *c.others, c.paper, c.source, c.n) for c in claims(results, summaries)]
    return Table("claims", "The papers' claims", (*columns, Column("n")), tuple(rows), DIFFERS["claims"], f"{RUN} all")


def _tradeoff(results: Results, usual: Sequence[Summary]) -> Table:
    """Compare every rule at every setting, by speed, and mark the Pareto front."""
    _, shown = alike(results, [s for s in usual if s.speedup])
    prices = ("wer", "nll") if all(s.nll for s in shown) else ("wer",)
    front = {row.name: stands for row, stands in pareto(shown, prices)}
    order = sorted(shown if len(shown) > 1 else (), key=lambda s: s.speedup.value if s.speedup else 0.0)
    best = Column("best here", words=True, value=lambda row: f"{front[row.name]:.0%}" if row.name in front else "")
    p = change("p", "p", 3, 1, signed=False, least=0.001, by_judge=True)
    note = (
        "Points: less AR on the same utterances; p: Student's paired t-test. NLL: -log of a token's probability under the "
        "target. Best: no other is as fast with as few word errors and as likely a text; and in how many of the resamplings of "
        "the utterances that is so. A text that is likelier than AR's is no better one."
    )
    columns = (SETTING, N, SPEEDUP, CALLS, of("NLL, nats", "nll", 2), WER, WER_CHANGE, p, best)
    return pivot("tradeoff", "Words against speed, every rule and setting", results, order, columns, note, "tradeoff")


def _equal_work(results: Results, usual: Sequence[Summary]) -> Table:
    """Compare PCG and every other rule at equal work."""
    judges = results.by_judge()
    points, p = Column("PCG less it, points", 1, 100, signed=True), Column("p", 3, least=0.001)
    words = [column.by(judge) for judge in judges for column in (points, p)]
    columns = (SETTING, N, CALLS, Column("PCG of that work", words=True),
               Column("its tokens per call", 2), *words, Column("NLL of PCG less its, nats", 2, signed=True))  # fmt: skip
    rows = []
    for row in by_method(usual, ("SSD", "membership", "typical")):
        less = {judge: at_equal_work(of, "PCG", row.condition) for judge, of in judges.items()}
        if (first := less[""]) is not None:
            own, theirs = first.work
            lost = [cell for each in less.values() for cell in (each.wer, each.p)]
            rows.append((row.name, first.utterances, theirs, first.name, own, *lost, first.nll))
    note = f"{BRACKETS} Below zero: fewer word errors, or likelier text, by PCG. p: Student's paired t-test. {DIFFERS['equal']}"
    return Table("work", "PCG and the other rules at equal work", columns, tuple(rows), note, f"{RUN} tradeoff")


def _swap(results: Results, summaries: Sequence[Summary]) -> Table:
    """PCG Table 2, with random codes at the same places as the control."""
    swaps = sorted((s for s in summaries if s.condition.swap), key=lambda s: ([*SWAPS].index(s.method), knob(s.condition)))
    columns = (
        Column("replaced by", words=True, value=lambda row: SWAPS[row.method]),
        Column("theta", 3, value=lambda row: row.condition.swap.theta),
        of("swapped %", "swapped", 1, 100), N, WER_CHANGE, change("CER, points", "cer"),
        of("speaker, to before", "similarity", 3), change("DistillMOS", "distillmos", 2, 1), change("DNSMOS", "dnsmos", 2, 1),
        of("mel distance, dB", "mel_distance", 1),
    )  # fmt: skip
    theirs = "; ".join(f"{share:g} % swapped: {points:+.1f} points" for share, points in PCG_TABLE_2.values() if share)
    note = f"Differences to the same utterances before the swap. The paper: {theirs}. {DIFFERS['swap']}"
    return pivot("swap", "Members of a group in each other's place (PCG Table 2)", results, swaps, columns, note, "swap")


MARKED = re.compile(r"(<!-- table (\S+) of (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def fill(document: str, folder: str, made: Sequence[Table]) -> str:
    """Write the tables `made` into `document` between the marks that name them as tables of `folder`.

        <!-- table claims of assets/results -->
        <!-- end of table -->

    Raises:
        InputError: if no mark names `folder`, or a mark names a table that is not there.
    """
    by_name = {table.name: table for table in made}
    if folder not in {mark[3] for mark in MARKED.finditer(document)}:
        raise InputError("markdown", folder, "a folder that a mark in the document names: <!-- table NAME of FOLDER -->")

    def filled(mark: re.Match[str]) -> str:
        begin, name, named, end = mark.groups()
        if named != folder:
            return mark[0]
        if name not in by_name:
            raise InputError("table", name, "one of " + ", ".join(by_name))
        return f"{begin}\n{by_name[name].markdown(heading=False)}\n\n{end}"

    return MARKED.sub(filled, document)
