"""MSpoofTTS's tables, and when spoof rises: our figures in the right row, beside the paper's."""

from dataclasses import replace

import pytest

from pcg.experiments.results.analysis import Results, summarise
from pcg.experiments.results.claims import CONTRADICTED, HOLDS, claims
from pcg.experiments.results.tables import tables
from pcg.experiments.results.tables.table import Table
from pcg.experiments.suites import ar, declared, pcg, sd
from pcg.experiments.unit import Condition, Record, Utterance
from tests.experiments.synthetic import record

SAID = tuple(Utterance(f"Sentence {i}.", "one", ("everyday", "twisters")[i % 2]) for i in range(80))
LAWS = {c.name: c for c in declared("mspoof", SAID, False, lambda similarity, theta: theta).conditions}


def spoken(condition: Condition, errors: int, section: str = "", count: int = 24, **figures: object) -> list[Record]:
    made = [record(condition, f"{section} {i}.", errors + i % 2, 20, **figures) for i in range(count)]
    return [replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, section=section))) for r in made]


def made(records: list[Record]) -> dict[str, Table]:
    results = Results(records)
    return {table.name: table for table in tables(results, summarise(results))}


def cell(table: Table, row: str, column: str) -> object:
    (found,) = [cells for cells in table.rows if cells[0] == row]
    return found[[c.title for c in table.columns].index(column)]


def study() -> list[Record]:
    return [
        *spoken(LAWS["Original"], 4, "everyday", rounds=100, spoof=0.6),
        *spoken(LAWS["HierEAS"], 2, "everyday", rounds=100, computed=460, spoof=0.2),
        *spoken(LAWS["EAS"], 3, "everyday", rounds=100, spoof=0.5),
        *spoken(LAWS["EAS"], 3, "balanced", rounds=100, spoof=0.5),
        *spoken(LAWS["Original"], 9, "twisters", rounds=100, spoof=0.8),
    ]


def test_twisters_have_a_table_of_their_own_beside_the_papers_numbers() -> None:
    found = made(study())
    usual, twisting = found["sampling"], found["twisters"]
    assert [row[0] for row in usual.rows] == ["Original", "EAS", "HierEAS"]
    assert [row[0] for row in twisting.rows] == ["Original"]
    assert cell(usual, "Original", "WER %").value == pytest.approx(4.5 / 20)
    assert cell(twisting, "Original", "WER %").value == pytest.approx(9.5 / 20)
    assert cell(usual, "HierEAS", "computed").value == 4.6
    assert cell(usual, "HierEAS", "spoof %").value == pytest.approx(0.2)
    assert cell(usual, "HierEAS", "paper: WER %") == "5.32 / 6.33"
    assert cell(twisting, "Original", "paper: NISQA") == "4.459"
    assert usual.command.endswith("run mspoof")


def test_the_control_stands_between_original_and_eas_and_says_what_the_penalty_adds() -> None:
    said = [
        *spoken(LAWS["Original"], 6, "everyday"),
        *spoken(LAWS["top-p"], 4, "everyday"),
        *spoken(LAWS["EAS"], 3, "everyday"),
    ]
    table = made(said)["sampling"]
    assert [row[0] for row in table.rows] == ["Original", "top-p", "EAS"]
    assert cell(table, "top-p", "WER %").value == pytest.approx(4.5 / 20)
    assert cell(table, "top-p", "paper: WER %") is None
    assert "EAS less top-p is -5.0 [-5.0, -5.0] points of WER over 24 utterances." in table.note
    assert "EAS less" not in made([*said[:24], *said[48:]])["sampling"].note


def test_without_detectors_there_is_no_column_of_dashes() -> None:
    bare = made([*spoken(LAWS["RAS"], 4, "everyday"), *spoken(ar(), 2), *spoken(sd(), 2), *spoken(pcg(0.5), 2)])
    assert "relax" not in bare
    for table in bare.values():
        assert not any("spoof" in column.title for column in table.columns)
    judged = made([*spoken(ar(), 2, spoof=0.3), *spoken(sd(), 2, spoof=0.35)])
    assert cell(judged["conditions"], "AR", "spoof %").value == pytest.approx(0.3)
    assert cell(judged["main"], "SD", "spoof %").value == pytest.approx(0.35)
    assert cell(judged["differences"], "SD", "spoof, points").value == pytest.approx(0.05)


def test_the_table_says_what_moves_first_as_theta_falls() -> None:
    records = [
        *spoken(ar(), 1, spoof=0.3),
        *spoken(pcg(0.3), 6, spoof=0.7),
        *spoken(pcg(0.5), 1, spoof=0.4),
        *spoken(pcg(0.7), 1, spoof=0.3),
        *spoken(sd(), 1, spoof=0.3),
    ]
    table = made(records)["relax"]
    assert [(row[1], row[-1]) for row in table.rows] == [(0.7, "nothing"), (0.5, "spoof"), (0.3, "spoof and WER")]
    assert (
        "As theta falls, spoof is clearly above SD's first at theta 0.5 and WER is clearly above SD's first at theta 0.3."
        in table.note
    )
    assert cell(table, "PCG, theta 0.5", "spoof, points").value == pytest.approx(0.1)
    # The negative control: words go first.
    words = [*spoken(sd(), 1, spoof=0.3), *spoken(pcg(0.5), 5, spoof=0.3)]
    assert (
        "spoof is at no theta clearly above SD's and WER is clearly above SD's first at theta 0.5" in made(words)["relax"].note
    )


def test_the_papers_claims_are_put_to_our_words() -> None:
    def verdict(eas: int) -> str:
        results = Results([*spoken(LAWS["Original"], 4), *spoken(LAWS["EAS"], eas)])
        (claim,) = [c for c in claims(results, summarise(results)) if c.text.startswith("EAS makes fewer")]
        assert claim.paper == "5.76 against 6.94 %"
        return claim.verdict

    assert (verdict(2), verdict(6)) == (HOLDS, CONTRADICTED)
