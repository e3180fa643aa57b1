"""Tables and claims from records that can be worked out by hand, on the utterances that all rows share."""

import json
import re
from pathlib import Path

import pytest

from pcg.errors import InputError
from pcg.experiments.grids import EXPERIMENTS, ar, draft, pcg, sd, ssd, swapped
from pcg.experiments.papers import CONTRADICTED, DISAGREE, HOLDS, OPEN, claims
from pcg.experiments.results import Results, summarise
from pcg.experiments.tables import Column, Table, fill, tables
from pcg.experiments.unit import Condition, JudgeTranscript, Record
from pcg.metrics.estimate import Estimate
from pcg.places import PROJECT
from tests.experiments.synthetic import record

DRAFTING = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10), "trials": 45}
MARKS = "<!-- table {} of {} -->\n{}<!-- end of table -->\n"


def spoken(condition: Condition, errors: int, speed: float = 100.0, count: int = 24, **figures: object) -> list[Record]:
    return [record(condition, i, errors + i % 2, 20, speed + i % 3, **figures) for i in range(count)]


def made(records: list[Record]) -> dict[str, Table]:
    return {table.name: table for table in tables(Results(records))}


def cell(table: Table, row: str, column: str) -> object:
    (cells,) = [cells for cells in table.rows if cells[0] == row]
    return cells[[c.title for c in table.columns].index(column)]


def study() -> list[Record]:
    return [
        *spoken(draft(), 12, 500),
        *spoken(ar(), 1),
        *spoken(sd(), 1, 90, **DRAFTING),
        *spoken(ssd(0.3), 6, 140, **DRAFTING),
        *spoken(pcg(0.5), 2, 120, **DRAFTING),
        *spoken(pcg(0.4), 3, 160, **DRAFTING),
        *spoken(Condition("short", pcg(0.5).settings.with_(lookahead=1)), 9, 195, **DRAFTING),
        *spoken(swapped(0.5), 2, swapped=0.9, mel_distance=3.0),
        *spoken(swapped(0.5, "random"), 15, swapped=0.9, mel_distance=9.0),
    ]


def test_the_papers_numbers_stand_beside_ours() -> None:
    assert set(made(spoken(ar(), 1))) == {"overview", "main", "ssd", "conditions"}  # only tables with rows
    all_tables = made(study())
    for table in all_tables.values():
        assert table.note
        assert table.command.startswith("python -m pcg experiment run ")
    assert cell(all_tables["main"], "SD", "paper: WER %") == "11.1 ± 0.6"
    assert cell(all_tables["main"], "SSD, beta 0.3", "paper: speed-up") == "1.4x"
    assert cell(all_tables["main"], "PCG, theta 0.5", "paper: WER %") is None
    assert cell(all_tables["main"], "AR", "WER %").value == pytest.approx(1.5 / 20)
    assert cell(all_tables["ssd"], "SD", "paper: LM-RTF") == "0.509"
    overview = all_tables["overview"]
    assert cell(overview, "SSD, beta 0.3", "WER, points").value == pytest.approx(5 / 20)
    assert cell(overview, "SSD, beta 0.3", "a loss above 2 points").startswith("not ruled out, p 1.000")
    assert cell(overview, "SD", "a loss above 2 points") == "ruled out, p < 0.001, power 100 %"
    assert "5 % swapped: +0.4 points" in all_tables["swap"].note
    assert cell(all_tables["swap"], "cosine group", "WER, points").value == pytest.approx(1 / 20)
    assert cell(all_tables["swap"], "any code (control)", "WER, points").value == pytest.approx(14 / 20)


def test_rows_of_one_table_share_their_utterances() -> None:
    """Of 24 utterances the first ten are harder, and one setting has these alone."""
    hard = [8] * 10 + [1] * 14
    records = [
        *(record(ar(), i, errors, 20) for i, errors in enumerate(hard)),
        *(record(sd(), i, errors, 20, 110, **DRAFTING) for i, errors in enumerate(hard)),
        *(record(ssd(0.4), i, errors, 20, 150, **DRAFTING) for i, errors in enumerate(hard[:10])),
    ]
    all_tables = made(records)
    for name in ("main", "acceptance"):
        assert {cells[1] for cells in all_tables[name].rows} == {24}
        assert "SSD, beta 0.4" not in {cells[0] for cells in all_tables[name].rows}
    for name in ("tradeoff", "ssd"):
        assert {cells[1] for cells in all_tables[name].rows} == {10}
        assert [cell(all_tables[name], row, "WER %").value for row in ("AR", "SD", "SSD, beta 0.4")] == pytest.approx(
            [8 / 20] * 3
        )
    apart = [*(record(ar(), i) for i in range(24)), *(record(sd(), i) for i in range(24, 48))]
    assert not {"main", "tradeoff"} & set(made(apart))


def test_every_declared_setting_has_a_place_and_no_table_mixes_utterances() -> None:
    also = (JudgeTranscript("another", "what it heard", (2, 20), (3, 100)),)
    grids = {name: experiment.conditions for name, experiment in EXPERIMENTS.items()}
    counts = {condition: 5 + at % 7 for conditions in grids.values() for at, condition in enumerate(conditions)}
    counts |= dict.fromkeys((*grids["main"], *grids["paper"][:2]), 24) | {ar(): 22}
    records = []
    for condition, count in counts.items():
        drafting = {} if condition.settings.method == "ar" else DRAFTING
        swap = {"swapped": 0.5} if condition.swap else {}
        records += spoken(condition, 1, 100, count, nats=150.0, also_heard=also, **drafting, **swap)
    all_tables = made(records)
    assert set(all_tables) == {"claims", "overview", "main", "tradeoff", "work", "swap", "ssd", "acceptance", "conditions"}
    for name in set(all_tables) - {"conditions", "claims", "work"}:
        (place,) = [at for at, column in enumerate(all_tables[name].columns) if column.title == "n"]
        assert len({row[place] for row in all_tables[name].rows}) == 1, name
    assert "WER, points, another" in [column.title for column in all_tables["swap"].columns]


def verdicts(records: list[Record]) -> dict[str, str]:
    results = Results(records)
    return {re.sub(r" \(.*?\)", "", c.text): c.verdict for c in claims(results, summarise(results))}


FEWER = "At the work of SSD, PCG makes fewer word errors"


def test_claims_follow_the_records_whatever_the_paper_says() -> None:
    found = verdicts(study())
    assert found[FEWER] == HOLDS
    assert found["Exact speculative decoding is no faster than AR"] == HOLDS
    assert found["Thinning takes at most 3 trials on average"] == HOLDS
    assert found["Members of a group stand for each other: swapping them costs at most one point of WER"] == CONTRADICTED
    worse = [*spoken(ar(), 1), *spoken(sd(), 1, 130), *spoken(ssd(0.3), 2, 140), *spoken(pcg(0.4), 9, 160)]
    assert verdicts(worse)[FEWER] == CONTRADICTED
    assert verdicts(worse)["Exact speculative decoding is no faster than AR"] == CONTRADICTED


def test_noise_leaves_a_claim_open_and_a_handful_of_utterances_decides_nothing() -> None:
    noisy = [record(ssd(0.3), i, (0, 6)[i % 2], 20, 140) for i in range(24)]
    assert verdicts([*spoken(ar(), 1), *spoken(sd(), 1, 90), *spoken(pcg(0.4), 3, 160), *noisy])[FEWER] == OPEN
    few = [r for r in study() if r.unit.utterance in {s.unit.utterance for s in study()[:12]}]
    assert set(verdicts(few).values()) == {OPEN}


def test_judges_who_disagree_leave_no_verdict() -> None:
    def heard(condition: Condition, errors: int, by_other: int) -> list[Record]:
        return spoken(condition, errors, also_heard=(JudgeTranscript("another", "", (by_other, 20), (0, 1)),))

    records = [*heard(ar(), 1, 1), *heard(sd(), 1, 1), *heard(ssd(0.3), 6, 2), *heard(pcg(0.4), 3, 7)]
    assert verdicts(records)[FEWER] == DISAGREE


def test_markdown_keeps_to_its_columns_and_units_and_json_to_its_numbers() -> None:
    assert Column("WER %", 1, 100).show(Estimate(0.1234, 0.1, 0.15)) == "12.3 [10.0, 15.0]"
    assert Column("change", 1, 100, signed=True).show(0.02) == "+2.0"
    assert Column("speed-up", 2, suffix="x").show(Estimate(1.5, 1.4, 1.6)) == "1.50x [1.40, 1.60]"
    assert Column("n").show(None) == "-"
    named = Condition("a | b\n<b>bold</b>", ssd(0.3).settings)
    table = made([*spoken(ar(), 1), *spoken(named, 2)])["conditions"]
    lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert "a \\| b &lt;b>bold" in table.markdown()
    kept = json.loads(json.dumps(table.as_dict(), allow_nan=False))
    assert kept["rows"][0]["WER %"]["value"] == pytest.approx(1.5 / 20)
    assert kept["shown"][0][2] == table.shown()[0][2]


def test_a_document_is_filled_between_its_marks_and_the_rest_stays() -> None:
    table = Table("one", "One", (Column("a", words=True), Column("b|c")), (("<1>", "2\n3"),), "A note.", "make it")
    before = "Words.\n" + MARKS.format("one", "here", "old\n") + MARKS.format("one", "there", "kept\n")
    after = fill(before, "here", [table])
    body = "\n| a | b\\|c |\n| --- | ---: |\n| &lt;1> | 2 3 |\n\nA note.\n\nComputed by `make it`.\n\n"
    assert after == "Words.\n" + MARKS.format("one", "here", body) + MARKS.format("one", "there", "kept\n")
    assert fill(after, "here", [table]) == after
    with pytest.raises(InputError, match="a folder that a mark in the document names"):
        fill(before, "elsewhere", [table])
    with pytest.raises(InputError, match="one of one"):
        fill(MARKS.format("two", "here", ""), "here", [table])


@pytest.mark.slow
def test_the_document_shows_the_tables_of_the_shipped_units(tmp_path: Path) -> None:
    from pcg.cli import main

    copy, document = tmp_path / "results.md", PROJECT / "docs" / "results.md"
    copy.write_text(document.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["report", str(PROJECT / "assets" / "results"), "--markdown", str(copy)]) == 0
    assert copy.read_text(encoding="utf-8") == document.read_text(encoding="utf-8")
