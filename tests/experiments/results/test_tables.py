"""Our figures beside the papers': in the right row, in the right unit, and as text that cannot break a table."""

import json
import re

import pytest

from pcg.experiments.results import papers
from pcg.experiments.results.analysis import Results, summarise
from pcg.experiments.results.claims import CONTRADICTED, HOLDS, OPEN, UNTESTED, claims
from pcg.experiments.results.tables import Column, Table, tables
from pcg.experiments.suites import ar, draft, pcg, sd, ssd, swapped, variant
from pcg.experiments.unit import Condition, Record
from pcg.metrics.estimate import Estimate
from tests.experiments.synthetic import record


def spoken(condition: Condition, errors: int, speed: float = 100.0, count: int = 24, **figures: object) -> list[Record]:
    return [record(condition, i, errors + i % 2, 20, speed + i % 3, **figures) for i in range(count)]


def made(records: list[Record]) -> dict[str, Table]:
    results = Results(records)
    return {table.name: table for table in tables(results, summarise(results), lambda similarity, theta: 10 * theta)}


def cell(table: Table, row: str, column: str) -> object:
    place = [c.title for c in table.columns].index(column)
    (found,) = [cells for cells in table.rows if cells[0] == row]
    return found[place]


def study() -> list[Record]:
    drafting = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10), "trials": 45}
    return [
        *spoken(draft(), 12, 500),
        *spoken(ar(), 1),
        *spoken(sd(), 1, 90, **drafting),
        *spoken(ssd(0.3), 6, 140, **drafting),
        *spoken(pcg(0.5), 2, 120, **drafting),
        *spoken(pcg(0.4), 3, 160, **drafting),
        *spoken(pcg(0.7, "mel"), 5, 130, **drafting),
        *spoken(sd(lookahead=1), 1, 80, **drafting),
        *spoken(pcg(0.5, lookahead=1), 1, 95, **drafting),
        *spoken(variant("weighted", 0.5), 4, 126, **drafting),
        *spoken(swapped(0.5), 2, swapped=0.9, mel_distance=3.0),
        *spoken(swapped(0.5, replacement="random"), 15, swapped=0.9, mel_distance=9.0),
    ]


def test_the_papers_rows_stand_beside_ours() -> None:
    table = made(study())["main"]
    assert cell(table, "SD", "paper: WER %") == "11.1 ± 0.6"
    assert cell(table, "SSD, beta 0.3", "paper: speed-up") == 1.4
    assert cell(table, "PCG, theta 0.5", "paper: WER %") is None
    assert cell(table, "PCG at the speed of SSD, beta 0.3", "paper: WER %") == "13.8 ± 0.4"
    assert cell(table, "AR", "WER %").value == pytest.approx(1.5 / 20)
    ssd_rows = made(study())["ssd"]
    assert cell(ssd_rows, "SD", "paper: LM-RTF") == papers.SSD_TABLE_3[0.0].values["lm_rtf"] == 0.509
    assert cell(ssd_rows, "SSD, beta 0.3", "paper: WER %") == "6.29"


def test_what_the_main_table_lacks_of_the_papers_rows_it_names_with_the_reason() -> None:
    records = [each for each in study() if each.unit.condition.model == "target"]
    (unsaid,) = [row for row in made(records)["main"].rows if str(row[0]).startswith("draft alone")]
    assert unsaid[0].endswith("not measured; a feature draft cannot speak alone")
    assert (unsaid[1], unsaid[-4]) == (None, "52.8 ± 1.6")
    seldom = [*records, *spoken(draft(), 12, 500, count=9)]
    assert made(seldom)["main"].rows[0][0] == "draft alone: said 9 utterances, see the trade-off"
    fast = [each for each in study() if each.unit.condition.settings.method != "ssd"] + spoken(ssd(0.3), 6, 300)
    (apart,) = [row for row in made(fast)["main"].rows if "at the speed" in str(row[0])]
    assert apart[0].startswith("PCG at the speed of SSD, beta 0.3: not comparable, the curve reaches 0.90 to 1.59x")
    assert (apart[1], apart[4], apart[-4]) == (24, None, "13.8 ± 0.4")


def test_samplers_have_no_row_in_the_trade_off() -> None:
    eas = Condition("EAS", ar().settings.with_(sampler="eas", temperature=1.0))
    assert {row[1] for row in made([*study(), *spoken(eas, 2, count=5)])["tradeoff"].rows} == {24}


def test_rows_of_one_table_share_their_utterances() -> None:
    """Of 24 utterances the first ten are harder, and one setting has said these alone."""
    drafting = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10)}
    hard = [8] * 10 + [1] * 14
    records = [
        *(record(ar(), i, errors, 20) for i, errors in enumerate(hard)),
        *(record(sd(), i, errors, 20, 110, **drafting) for i, errors in enumerate(hard)),
        *(record(ssd(0.4), i, errors, 20, 150, **drafting) for i, errors in enumerate(hard[:10])),
    ]
    found = made(records)
    for name in ("main", "differences", "acceptance"):
        assert {cells[1] for cells in found[name].rows} - {None} == {24}
        assert "SSD, beta 0.4" not in {cells[0] for cells in found[name].rows}
    assert cell(found["main"], "SD", "WER %").value == pytest.approx(sum(hard) / 24 / 20)
    for name in ("tradeoff", "ssd"):
        assert {cells[1] for cells in found[name].rows} == {10}
        assert [cell(found[name], row, "WER %").value for row in ("AR", "SD", "SSD, beta 0.4")] == pytest.approx([8 / 20] * 3)


def test_settings_that_share_no_utterance_stand_in_no_table() -> None:
    apart = [*(record(ar(), i) for i in range(24)), *(record(sd(), i) for i in range(24, 48))]
    assert not {"main", "tradeoff"} & set(made(apart))


def test_a_table_without_records_is_left_out() -> None:
    few = made(spoken(ar(), 1))
    assert "swap" not in few
    assert "lookahead" not in few
    assert "claims" not in few
    assert {"main", "conditions"} <= set(few)
    assert set(made(study())) == {
        "claims", "main", "tradeoff", "equal", "work", "swap", "ssd", "lookahead", "acceptance", "ablations", "differences",
        "conditions",
    }  # fmt: skip


def test_a_swap_is_measured_against_the_same_utterances() -> None:
    table = made(study())["swap"]
    assert cell(table, "cosine group", "WER, points").value == pytest.approx(1 / 20)
    assert cell(table, "any code (control)", "WER, points").value == pytest.approx(14 / 20)
    assert cell(table, "cosine group", "mean |G|") == 5.0
    assert cell(table, "cosine group", "speed-up with PCG").value == pytest.approx(1.2, abs=0.01)
    assert cell(table, "any code (control)", "speed-up with PCG") is None
    quoted = [row for row in table.rows if row[0] == "the paper: cosine group"]
    assert [row[2] for row in quoted] == [1.0, 4.5, 10.3]


def test_the_speed_of_groups_is_of_what_was_swapped_or_missing() -> None:
    """PCG's first ten sentences were its fast ones."""
    often = [*spoken(ar(), 1), *spoken(pcg(0.5), 2, 200, count=10), *(record(pcg(0.5), i, speed=50) for i in range(10, 24))]
    assert cell(made([*often, *spoken(swapped(0.5), 2, count=10)])["swap"], "cosine group", "speed-up with PCG").value > 1.9
    assert cell(made([*often[:-4], *spoken(swapped(0.5), 2)])["swap"], "cosine group", "speed-up with PCG") is None


def test_a_variant_is_measured_against_plain_pcg() -> None:
    table = made(study())["ablations"]
    assert cell(table, "PCG weighted, theta 0.5", "over plain PCG").value == pytest.approx(126 / 120, abs=0.005)
    assert cell(table, "PCG weighted, theta 0.5", "WER to plain PCG, points").value == pytest.approx(2 / 20)


def verdicts(records: list[Record]) -> dict[str, str]:
    results = Results(records)
    return {re.sub(r" \(.*?\)", "", c.text): c.verdict for c in claims(results, summarise(results))}


def test_claims_follow_the_records_whatever_the_paper_says() -> None:
    found = verdicts(study())
    assert found["At the speed of SSD, PCG makes fewer word errors"] == HOLDS
    assert found["Exact speculative decoding is no faster than AR"] == HOLDS
    assert found["Thinning takes at most 3 trials on average"] == HOLDS
    assert found["A lookahead of 3 tokens is the fastest for PCG"] == HOLDS
    # A loss of five points is no small one.
    assert found["Members of a group stand for each other: swapping them costs at most one point of WER"] == CONTRADICTED
    # The same study with the parts of SSD and PCG exchanged.
    worse = [
        *spoken(ar(), 1),
        *spoken(sd(), 1, 130),
        *spoken(ssd(0.3), 2, 140),
        *spoken(pcg(0.5), 7, 135),
        *spoken(pcg(0.4), 9, 160),
    ]
    found = verdicts(worse)
    assert found["At the speed of SSD, PCG makes fewer word errors"] == CONTRADICTED
    assert found["Exact speculative decoding is no faster than AR"] == CONTRADICTED


def test_a_claim_is_left_open_by_few_words_and_untested_out_of_reach() -> None:
    alike = [*spoken(ar(), 1), *spoken(sd(), 1, 90), *spoken(pcg(0.4), 3, 160)]
    noisy = [record(ssd(0.3), i, (0, 6)[i % 2], 20, 140) for i in range(24)]
    assert verdicts(alike + noisy)["At the speed of SSD, PCG makes fewer word errors"] == OPEN
    fast = spoken(ssd(0.3), 3, 300)
    assert verdicts(alike + fast)["At the speed of SSD, PCG makes fewer word errors"] == UNTESTED


def test_a_handful_of_utterances_decides_nothing() -> None:
    few = [r for r in study() if r.unit.utterance in {s.unit.utterance for s in study()[:12]}]
    assert set(verdicts(few).values()) <= {OPEN, UNTESTED}


def test_a_column_shows_its_unit_and_its_interval() -> None:
    assert Column("WER %", 1, 100).show(Estimate(0.1234, 0.1, 0.15)) == "12.3 [10.0, 15.0]"
    assert Column("change", 1, 100, signed=True).show(0.02) == "+2.0"
    assert Column("speed-up", 2, suffix="x").show(Estimate(1.5, 1.4, 1.6)) == "1.50x [1.40, 1.60]"
    assert Column("n").show(None) == "-"


def test_markdown_keeps_to_its_columns_and_json_to_its_numbers() -> None:
    named = Condition("a | b\n<b>bold</b>", ssd(0.3).settings)
    table = made([*spoken(ar(), 1), *spoken(named, 2)])["conditions"]
    lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert "a \\| b &lt;b>bold" in table.markdown()
    kept = json.loads(json.dumps(table.as_dict(), allow_nan=False))
    assert kept["rows"][0]["WER %"]["value"] == pytest.approx(1.5 / 20)
    assert kept["shown"][0][2] == table.shown()[0][2]


def test_every_table_says_what_differs_and_how_to_run_it_again() -> None:
    for table in made(study()).values():
        assert table.note
        assert table.command.startswith("python -m pcg experiment run ")
        assert all(len(row) == len(table.columns) for row in table.rows)
