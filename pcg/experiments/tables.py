"""Tables of results: rows of conditions and columns of figures, on the utterances that all rows share.

`tables` makes all of them; `fill` writes them between the marks of a markdown document.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

from pcg.errors import InputError
from pcg.experiments import papers
from pcg.experiments.claims import claims
from pcg.experiments.papers import DIFFERS, PCG_SSD_BETA, Quoted
from pcg.experiments.results import (
    CONTROL,
    Difference,
    Results,
    Summary,
    alike,
    holm,
    identity,
    is_usual,
    knob,
    most_heard,
    nearest,
    pareto,
    sampler_name,
    schemes,
    summarise,
)
from pcg.experiments.unit import DEFAULTS, Condition
from pcg.metrics.estimate import Estimate, share

Cell = str | int | float | Estimate | None
MeanSize = Callable[[str, float], float]
MISSING = "-"
BRACKETS = "Brackets: 95 % bootstrap interval over utterances."
RUN = "python -m pcg experiment run"
TWISTERS = "twisters"
METHODS = ("SD", "SSD", "PCG cosine", "PCG Mel", "membership", "typical")
SWAPS = {
    "swap cosine": "cosine group",
    "swap Mel": "Mel group",
    "swap both": "group of both",
    "random swap": "any code (control)",
}
# Most words of the reference, by the name of the length.
LENGTHS = {"one": 1, "two": 2, "three to five": 5, "six to ten": 10, "more": math.inf}
# A loss above this many points was stated beforehand as one that matters.
MARGIN = 0.02
# One-sided, as of an interval of 95 %.
LEVEL = 0.025


class Row:
    """A condition as one judge heard it, and its difference to a baseline (AR by default)."""

    def __init__(self, results: Results, row: Summary, against: Condition | None, quoted: Quoted | None) -> None:
        self.results, self.condition, self.against, self.quoted = results, row.condition, against, quoted
        self.name = row.name

    @cached_property
    def summary(self) -> Summary:
        return Summary(self.results, self.condition)

    @cached_property
    def change(self) -> Difference | None:
        if self.against is None or identity(self.against) == identity(self.condition):
            return None
        return Difference(self.results, self.condition, self.against)


@dataclass(frozen=True)
class Column:
    """A column of cells: value(row) times `scale`, with so many `digits` and a `suffix`; `words` are shown as they are.

    by_judge: the figure depends on the judge of words, so the column stands once for each.
    """

    title: str
    digits: int = 0
    scale: float = 1.0
    suffix: str = ""
    signed: bool = False
    words: bool = False
    least: float | None = None
    value: Callable[[Row], Cell] = field(default=lambda row: None, compare=False)
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
    return Column(title, digits, scale, value=lambda row: getattr(row.summary, name), **options)


def change(title: str, name: str, digits: int = 1, scale: float = 100, **options: object) -> Column:
    """Make a column of the figure `name` of `Difference`."""
    options = {"signed": True} | options
    return Column(title, digits, scale, value=lambda row: row.change and getattr(row.change, name), **options)


def paper(title: str, name: str) -> Column:
    """Make a column of the paper's number, with its spread as the paper prints it."""

    def cell(row: Row) -> Cell:
        if row.quoted is None or name not in row.quoted.values:
            return None
        value, spread = row.quoted.values[name], row.quoted.spread.get(name)
        return f"{value:g}{'x' if name == 'speedup' else ''}" if spread is None else f"{value:g} ± {spread:g}"

    return Column(f"paper: {title}", value=cell)


SETTING = Column("setting", words=True, value=lambda row: row.name)
N, SPEEDUP = of("n", "utterances"), of("speed-up", "speedup", 2, suffix="x")
CALLS = of("tokens per target call", "mean_acceptance_length", 2)
TESTED = of("accepted of tested %", "acceptance_of_tested", 0, 100)
DRAFTED = of("accepted of drafted %", "acceptance_rate", 1, 100)
WER, CER = of("WER %", "wer", 1, 100, by_judge=True), of("CER %", "cer", 1, 100)
LOST = of("more than half wrong %", "lost", 1, 100)
WER_CHANGE, P = change("WER, points", "wer", by_judge=True), change("p", "p", 3, 1, signed=False, least=0.001, by_judge=True)
SPEAKER, DNSMOS, SPOOF = of("speaker", "similarity", 3), of("DNSMOS", "dnsmos", 2), of("spoof %", "spoof", 1, 100)
NLL, NLL_CHANGE = of("NLL, nats", "nll", 2), change("NLL to AR, nats", "nll", 2, 1)
LIMIT = of("at the limit %", "hit_limit", 1, 100)


def ruled_out(family: Sequence[Summary]) -> Column:
    """Make the column that tells whether a loss above MARGIN is ruled out, p adjusted for all of `family` (Holm)."""

    def cell(row: Row) -> Cell:
        if row.change is None:
            return None
        bases = [(each.condition, row.results.baseline(each.condition)) for each in family]
        pairs = [(c, base) for c, base in bases if base and identity(base) != identity(c)]
        tests = [Difference(row.results, c, base).no_loss(MARGIN) for c, base in pairs]
        if None in tests:
            return None
        place = [identity(c) for c, _ in pairs].index(identity(row.condition))
        p, power = holm([p for p, _ in tests])[place], tests[place][1]
        said = f"p {p:.3f}" if p >= 0.001 else "p < 0.001"
        return f"{'' if p < LEVEL else 'not '}ruled out, {said}, power {100 * power:.0f} %"

    return Column(f"a loss above {100 * MARGIN:g} points", words=True, by_judge=True, value=cell)


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
        lines = [[column.title for column in self.columns], dashes, *self.shown()]
        body = ["| " + " | ".join(_plain(text) for text in line) + " |" for line in lines]
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
    quoted: Callable[[Summary], Quoted | None] = lambda row: None,
    first: Column | None = None,
    together: bool = True,
) -> Table:
    """Make a table of `rows`, without columns that have no cell.

    Args:
        together: compute the rows again on the utterances that they share, once by each judge where a column needs it.
    """
    shared, shown = alike(results, rows) if together else (results, list(rows))
    judges = shared.by_judge() if together and shown else {"": shared}
    heard = [[Row(of, row, of.baseline(row.condition), quoted(row)) for of in judges.values()] for row in shown]
    everything = (first or SETTING, *columns)
    wide = [(column.by(judge), at) for column in everything for at, judge in enumerate(judges) if column.by_judge or not at]
    cells = [[column.value(row[at]) for column, at in wide] for row in heard]
    kept = [i for i in range(len(wide)) if not cells or any(row[i] is not None for row in cells)]
    made = tuple(tuple(row[i] for i in kept) for row in cells)
    return Table(name, title, tuple(wide[i][0] for i in kept), made, f"{BRACKETS} {note}".strip(), f"{RUN} {command}")


def tables(results: Results, summaries: Sequence[Summary] | None = None, mean_size: MeanSize | None = None) -> list[Table]:
    """Return all tables that have rows. mean_size(similarity, theta): the mean group size over tokens, where it is known."""
    summaries = summarise(results) if summaries is None else summaries
    columns = (N, WER, LOST, CER, SPEAKER, DNSMOS, SPOOF, SPEEDUP, of("text to audio", "wall_speedup", 2, suffix="x"),
               of("tokens/s", "tokens_per_second"), LIMIT)  # fmt: skip
    every = pivot(
        "conditions", "Every setting", results, summaries, columns, "Rows of different n are not to be compared.", "all",
        together=False,
    )  # fmt: skip
    usual = [s for s in summaries if s.condition.swap is None and is_usual(s)]
    heard = most_heard(usual)
    rules = by_method(usual, ("original", "codec", "draft", "AR", *METHODS))
    family = most_heard(by_method(usual, ("AR", *METHODS)))
    made = [
        claim_table(results, summaries),
        pivot(
            "overview", "Speed, acceptance and words", results, family,
            (N, SPEEDUP, CALLS, TESTED, NLL_CHANGE, WER, WER_CHANGE, ruled_out(family)),
            "Speed-up: tokens per second of the decoding loop over AR. NLL: -log of a token's probability under the target. "
            "Points: less AR on the same utterances. p: one-sided paired t-test against the margin that was stated beforehand, "
            "adjusted for all rows (Holm), at 2.5 %; power: how often it would tell so if there were no difference.",
        ),
        pivot(
            "main", "Words, speaker, sound and speed (PCG Table 1)", results, most_heard(rules),
            (N, SPEEDUP, WER, LOST, CER, SPEAKER, DNSMOS, SPOOF, *(paper(*pair) for pair in PCG_PAPER)),
            DIFFERS["main"], quoted=_pcg_table_1,
        ),
        _failures_by_length(results, usual),
        _tradeoff(results, usual),
        _equal_work(results, usual),
        _swap(results, summaries, mean_size),
        pivot(
            "ssd", "The tolerance of SSD (SSD Tables 1 and 3)", results, by_method(usual, ("draft", "AR", "SD", "SSD")),
            (N, SPEEDUP, CALLS, WER, DNSMOS, SPEAKER, of("LM-RTF", "lm_rtf", 3), paper("WER %", "wer"),
             paper("NMOS", "mos"), paper("speaker", "similarity"), paper("LM-RTF", "lm_rtf")),
            DIFFERS["ssd"], "tradeoff", quoted=_ssd_tables,
        ),
        pivot(
            "lookahead", "Speed by lookahead (PCG Fig. 4, SSD Fig. 3)", results, _several_lookaheads(summaries),
            (Column("lookahead", value=lambda row: row.condition.settings.lookahead), N, SPEEDUP, CALLS),
            DIFFERS["lookahead"], "lookahead",
        ),
        pivot(
            "acceptance", "Acceptance", results, [s for s in heard if s.acceptance_rate],
            (N, DRAFTED, TESTED, CALLS, Column("by position %", words=True, value=lambda r: _percents(r.summary.acceptance)),
             Column("by position, if tested %", words=True, value=lambda r: _percents(r.summary.conditional)),
             of("trials per rejection", "trials_per_rejection", 2), LIMIT),
            f"By position: share of rounds that accepted there; if tested: share of the tests there. {DIFFERS['acceptance']}",
        ),
        *(_samplers(results, twisters) for twisters in (False, True)),
        every,
    ]  # fmt: skip
    return [table for table in made if table.rows]


PCG_PAPER = (("speed-up", "speedup"), ("WER %", "wer"), ("CER %", "cer"), ("speaker", "similarity"), ("MOS", "mos"))


def by_method(summaries: Iterable[Summary], methods: Sequence[str]) -> list[Summary]:
    """Return the rows of `methods`, in their order and by knob."""
    wanted = [s for s in summaries if s.method in methods]
    return sorted(wanted, key=lambda s: (methods.index(s.method), knob(s.condition)))


def claim_table(results: Results, summaries: Sequence[Summary]) -> Table:
    judges = [f"ours, by {judge}" for judge in results.judges]
    columns = tuple(Column(title, words=True) for title in ("claim", "verdict", "ours", *judges, "the paper", "where"))
    rows = [(c.text, c.stated, c.ours, *c.others, c.paper, c.source, c.n) for c in claims(results, summaries)]
    return Table("claims", "The papers' claims", (*columns, Column("n")), tuple(rows), DIFFERS["claims"], f"{RUN} all")


def _pcg_table_1(row: Summary) -> Quoted | None:
    named = "PCG" if row.method == "PCG cosine" and row.condition.settings.theta == DEFAULTS.theta else row.method
    return None if named == "SSD" and row.condition.settings.beta != PCG_SSD_BETA else papers.PCG_TABLE_1.get(named)


def _ssd_tables(row: Summary) -> Quoted | None:
    if row.method in ("draft", "AR"):
        return papers.SSD_TABLE_1[row.method]
    return papers.SSD_TABLE_3.get(0.0 if row.method == "SD" else row.condition.settings.beta)


def _failures_by_length(results: Results, usual: Sequence[Summary]) -> Table:
    """Count the failures of each setting by the words of the reference; no rows where all references have one length."""
    shared, shown = alike(results, most_heard(by_method(usual, ("AR", *METHODS))))
    rows: list[tuple[Cell, ...]] = []
    for row in shown:
        by_length = {name: [] for name in LENGTHS}
        for record in shared.of(row.condition):
            length = next(name for name, most in LENGTHS.items() if record.result.words[1] <= most)
            by_length[length].append(record.result)
        for length, found in by_length.items():
            if found:
                failures = (
                    [2 * each.words[0] > each.words[1] for each in found],
                    [each.hit_limit for each in found],
                    [not each.heard.strip() for each in found],
                )
                rows.append((row.name, length, len(found), *(share(sum(failed), len(found)) for failed in failures)))
    columns = (SETTING, Column("words", words=True), Column("n"), LOST, LIMIT, Column("empty %", 1, 100))
    several = len({length for _, length, *_ in rows}) > 1
    note = "Brackets: Wilson's 95 % interval. At the limit: cut by the longest length. Empty: the judge heard no word."
    return Table("lengths", "Failures by length", columns, tuple(rows) if several else (), note, f"{RUN} main")


def _tradeoff(results: Results, usual: Sequence[Summary]) -> Table:
    """Compare every rule at every setting, by speed, and mark the Pareto front."""
    plain = [s for s in usual if s.speedup and not sampler_name(s.condition.settings)]
    _, shown = alike(results, plain)
    prices = ("wer", "nll") if all(s.nll for s in shown) else ("wer",)
    front = {row.name for row in pareto(shown, prices)}
    order = sorted(shown if len(shown) > 1 else (), key=lambda s: s.speedup.value if s.speedup else 0.0)
    best = Column("best here", words=True, value=lambda row: "best" if row.name in front else "")
    note = (
        "Points: less AR on the same utterances; p: Student's paired t-test. NLL: -log of a token's probability under the "
        "target. Best: no other is as fast with as few word errors and as likely a text."
    )
    columns = (N, SPEEDUP, CALLS, NLL, WER, WER_CHANGE, P, best)
    return pivot("tradeoff", "Words against speed, every rule and setting", results, order, columns, note, "tradeoff")


def _equal_work(results: Results, usual: Sequence[Summary]) -> Table:
    """Compare PCG with cosine groups and every other rule at the setting of nearest work."""
    judges = results.by_judge()
    less, p = Column("PCG less it, points", 1, 100, signed=True), Column("p", 3, least=0.001)
    words = [column.by(judge) for judge in judges for column in (less, p)]
    columns = (Column("setting", words=True), Column("n"), replace(CALLS), Column("PCG of nearest work", words=True),
               Column("its tokens per call", 2), *words, Column("NLL of PCG less its, nats", 2, signed=True))  # fmt: skip
    rows = []
    for row in by_method(usual, ("SSD", "PCG Mel", "membership", "typical")):
        near = {judge: nearest(of, "PCG cosine", row.condition) for judge, of in judges.items()}
        if near[""] is not None:
            calls = [Summary(results, c).mean_acceptance_length for c in (row.condition, near[""].condition)]
            lost = [cell for each in near.values() for cell in (each.wer, each.p)]
            rows.append((row.name, near[""].utterances, calls[0], near[""].condition.name, calls[1], *lost, near[""].nll))
    note = f"{BRACKETS} Below zero: fewer word errors, or likelier text, by PCG. p: Student's paired t-test. {DIFFERS['equal']}"
    return Table("work", "PCG and the other rules at equal work", columns, tuple(rows), note, f"{RUN} tradeoff")


def _swap(results: Results, summaries: Sequence[Summary], mean_size: MeanSize | None) -> Table:
    """PCG Table 2, with random codes at the same places as the control."""
    swaps = sorted((s for s in summaries if s.condition.swap), key=lambda s: ([*SWAPS].index(s.method), knob(s.condition)))
    size = Column("mean |G|", 1, value=lambda r: mean_size and mean_size(r.condition.swap.similarity, r.condition.swap.theta))
    columns = (
        Column("theta", 3, value=lambda row: row.condition.swap.theta), size, of("swapped %", "swapped", 1, 100), N, WER_CHANGE,
        change("CER, points", "cer"), of("speaker, to before", "similarity", 3), change("DNSMOS", "dnsmos", 2, 1),
        of("mel distance, dB", "mel_distance", 1),
    )  # fmt: skip
    theirs = "; ".join(
        f"{q.values['swapped']:g} % swapped: {100 * q.values['wer']:+.1f} points" for q in papers.PCG_TABLE_2[1:]
    )
    first = Column("replaced by", words=True, value=lambda row: SWAPS[row.summary.method])
    note = f"Differences to the same utterances before the swap. The paper: {theirs}. {DIFFERS['swap']}"
    return pivot(
        "swap", "Members of a group in each other's place (PCG Table 2)", results, swaps, columns, note, "swap", first=first
    )


def _several_lookaheads(summaries: Sequence[Summary]) -> list[Summary]:
    rows = [s for s in by_method(summaries, ("SD", "SSD", "PCG cosine")) if s.speedup]
    family = {id(s): (s.method, knob(s.condition)) for s in rows}
    counts = [family[id(s)] for s in rows]
    several = [s for s in rows if counts.count(family[id(s)]) > 1]
    return sorted(several, key=lambda s: (*family[id(s)], s.condition.settings.lookahead))


def _samplers(results: Results, twisters: bool) -> Table:
    """MSpoofTTS Tables 1 (all sentences but tongue twisters) and 2 (tongue twisters)."""
    by_name = schemes(results)
    inside = results.within(by_name.values(), [s for s in results.sections if (s == TWISTERS) == twisters])
    rows = [Summary(inside, condition) for condition in by_name.values() if condition in inside]
    names = {identity(condition): name for name, condition in by_name.items()}
    quoted = papers.MSPOOF_TABLE_2 if twisters else papers.MSPOOF_TABLE_1_LIBRISPEECH
    columns = (
        N, WER, SPEAKER, DNSMOS, of("computed", "computed", 2), of("RTF", "rtf", 2), SPOOF,
        *(paper(title, title.lower()) for title in ("WER", "NISQA", "MOSNet")), paper("SIM", "similarity"),
    )  # fmt: skip
    note = (
        "Computed: tokens that the target read for each token of the output, pruned beams included. Spoof: 1 - P(real) by M50; "
        f"HierRAS and HierEAS choose by these detectors. {CONTROL}: Original with the top-p of RAS and EAS, a control of ours. "
        f"{DIFFERS['sampling']}"
    )
    title = "Samplers on tongue twisters (MSpoofTTS Table 2)" if twisters else "Samplers (MSpoofTTS Table 1)"
    return pivot(
        TWISTERS if twisters else "sampling", title, inside, rows, columns, note, "mspoof",
        quoted=lambda row: quoted.get(names[identity(row.condition)]),
        first=Column("method", words=True, value=lambda row: names[identity(row.condition)]),
    )  # fmt: skip


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


def _percents(shares: Sequence[float]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)


def _plain(text: str) -> str:
    """Return a cell of a markdown table: one line, no bars, no markup."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
