"""Words by several judges, and by kind of sentence."""

from dataclasses import replace

import pytest

from pcg.errors import InputError
from pcg.experiments.results.analysis import Results, summarise
from pcg.experiments.results.claims import CONTRADICTED, DISAGREE, HOLDS, claims
from pcg.experiments.results.condition_names import SCHEMES, sampler_name
from pcg.experiments.results.tables import Table, tables
from pcg.experiments.suites import ar, declared, pcg, sd, ssd, swapped
from pcg.experiments.unit import Condition, Hearing, Record, Result, Utterance
from tests.experiments.synthetic import record

DRAFTING = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10), "trials": 45}
OTHER = "whisper"
SWAP_CLAIM = "Members of a group stand for each other: swapping them costs at most one point of WER"


def heard_twice(condition: Condition, errors: int, others: int, count: int = 24, **figures: object) -> list[Record]:
    also = [Hearing(OTHER, "what it heard", (others + i % 2, 20), (2 * others, 100)) for i in range(count)]
    return [record(condition, i, errors + i % 2, 20, also_heard=(also[i],), **figures) for i in range(count)]


def study(swap_by_other: int) -> list[Record]:
    return [
        *heard_twice(ar(), 2, 4),
        *heard_twice(sd(), 2, 4, **DRAFTING),
        *heard_twice(ssd(0.3), 6, 9, **DRAFTING),
        *heard_twice(pcg(0.5), 3, 4, **DRAFTING),
        *heard_twice(swapped(0.5), 2, swap_by_other, swapped=0.91, mel_distance=3.0),
    ]


def made(records: list[Record]) -> dict[str, Table]:
    results = Results(records)
    return {table.name: table for table in tables(results, summarise(results))}


def by_title(table: Table, row: str) -> dict[str, object]:
    (found,) = [cells for cells in table.rows if cells[0] == row]
    return dict(zip([column.title for column in table.columns], found, strict=True))


def test_every_judge_has_its_own_rate_and_its_own_difference_to_ar() -> None:
    row = by_title(made(study(4))["judges"], "SSD, beta 0.3")
    assert (row["WER %"].value, row[f"WER %, {OTHER}"].value) == pytest.approx((6.5 / 20, 9.5 / 20))
    assert (row["WER, points"].value, row[f"WER, points, {OTHER}"].value) == pytest.approx((4 / 20, 5 / 20))
    assert by_title(made(study(4))["judges"], "AR")[f"WER, points, {OTHER}"] is None


def test_without_a_second_judge_there_is_no_table_of_judges() -> None:
    alone = [replace(r, result=replace(r.result, also_heard=())) for r in study(4)]
    assert "judges" not in made(alone)
    assert made(alone)["claims"].columns[3].title == "the paper"
    mixed = [*alone[:1], *study(4)[1:]]
    assert Results(mixed).judges == ()
    with pytest.raises(InputError, match="one who heard all units"):
        Results(mixed).heard_by(OTHER)


@pytest.mark.parametrize(("by_other", "verdict"), [(4, HOLDS), (9, DISAGREE)])
def test_a_claim_on_which_judges_disagree_is_called_so(by_other: int, verdict: str) -> None:
    results = Results(study(by_other))
    claim = next(c for c in claims(results, summarise(results)) if c.text == SWAP_CLAIM)
    assert (claim.verdict, claim.others[0].partition(":")[0]) == (verdict, "-" if verdict == HOLDS else CONTRADICTED)
    row = by_title(made(study(by_other))["claims"], SWAP_CLAIM)
    assert (row["verdict"].partition(",")[0], row[f"ours, by {OTHER}"]) == (verdict, claim.others[0])
    assert row["verdict"].endswith("n below 200")


def test_a_claim_without_words_is_the_same_by_every_judge() -> None:
    results = Results(study(9))
    claim = next(c for c in claims(results, summarise(results)) if "Thinning" in c.text)
    assert claim.others == ("-",)


def test_kinds_of_sentences_stand_side_by_side() -> None:
    records = [
        replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, section="everyday" if i < 6 else "rare words")))
        for i, r in enumerate(record(ar(), i, 1 if i < 6 else 5, 20) for i in range(24))
    ]
    row = by_title(made(records)["sections"], "AR")
    assert (row["everyday, n"], row["WER %, everyday"].value) == (6, pytest.approx(0.05))
    assert (row["rare words, n"], row["WER %, rare words"].value) == (18, pytest.approx(0.25))
    assert "sections" not in made([record(ar(), i) for i in range(24)])


def test_each_judge_hears_each_kind_of_sentence() -> None:
    records = [
        replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, section="everyday" if i < 6 else "rare words")))
        for i, r in enumerate(heard_twice(ar(), 2, 4))
    ]
    table = made(records)["sections"]
    assert [column.title for column in table.columns[:4]] == [
        "setting",
        "everyday, n",
        "WER %, everyday",
        "WER %, everyday, whisper",
    ]
    assert [cell.value for cell in table.rows[0][2:4]] == pytest.approx([2.5 / 20, 4.5 / 20])


def in_turns(condition: Condition, errors: dict[str, int], others: int) -> list[Record]:
    """Voices in turns, each with errors of its own."""
    said = heard_twice(condition, 0, others)
    voices = [list(errors)[i % len(errors)] for i in range(len(said))]
    return [
        replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, voice=voice)),
                result=replace(r.result, words=(errors[voice], 20)))
        for r, voice in zip(said, voices, strict=True)
    ]  # fmt: skip


def test_every_voice_tells_what_the_codec_costs_it_by_each_judge() -> None:
    original, codec = (Condition(name, ar().settings, model=name) for name in ("original", "codec"))
    records = in_turns(original, {"slt": 2, "rms": 1}, 2) + in_turns(codec, {"slt": 2, "rms": 4}, 3)
    table = made(records + in_turns(ar(), {"slt": 5, "rms": 5}, 6))["voices"]
    assert [row[:2] for row in table.rows] == [("slt", 12), ("rms", 12), ("all voices", 24)]
    costs = {row: by_title(table, row)["codec over original, points"].value for row in ("slt", "rms", "all voices")}
    assert costs == pytest.approx({"slt": 0, "rms": 3 / 20, "all voices": 1.5 / 20})
    row = by_title(table, "rms")
    assert [row[f"{name}: WER %"].value for name in ("original", "codec", "AR")] == pytest.approx([1 / 20, 4 / 20, 5 / 20])
    assert row[f"codec over original, points, {OTHER}"].value == pytest.approx(1 / 20)
    assert "voices" not in made(in_turns(original, {"slt": 2}, 2))


def test_a_result_keeps_its_hearings_through_json() -> None:
    result = study(4)[0].result
    assert Result.from_dict(result.as_dict()) == result
    assert result.by(OTHER).words == result.also_heard[0].words


def test_seeds_have_a_mean_and_a_deviation() -> None:
    records = [record(ar(), i, errors, 20, seed=seed) for seed, errors in enumerate((1, 2, 3)) for i in range(24)]
    row = by_title(made(records)["seeds"], "AR")
    assert (row["seeds"], row["WER %"], row["CER %"], row["speed-up"]) == (3, "10.0 ± 5.0", "4.0 ± 2.0", "1.00 ± 0.00")
    assert row["speaker"] == "0.800 ± 0.000"
    assert "seeds" not in made([record(ar(), i) for i in range(24)])


def test_another_temperature_stands_in_a_table_of_its_own_and_in_no_other() -> None:
    grid = declared("temperature", [Utterance("hello", "one")], False, lambda similarity, theta: theta)
    records = [record(c, i, i % 2 + (c.settings.temperature > 0.8), 20) for c in grid.conditions for i in range(24)]
    tables = made(records)
    told = {(row[0], row[1]): row for row in tables["temperature"].rows}
    assert len(told) == len(grid.conditions)
    assert told["SD", 0.8][2] == told["SD, temperature 0.6", 0.6][2] == 24
    by_name = {name: {row[0] for row in table.rows} for name, table in tables.items()}
    assert "SD, temperature 0.6" in by_name["conditions"]
    others = [name for name in by_name if name not in ("conditions", "temperature", "claims")]
    assert not [(name, row) for name in others for row in by_name[name] if "temperature" in str(row)]
    assert "temperature" not in made([each for each in records if each.unit.condition.settings.temperature == 0.6])


def test_tongue_twisters_are_judged_apart_from_other_sentences() -> None:
    grid = declared("mspoof", [Utterance("hello", "one")], False, lambda similarity, theta: theta)
    schemes = [c for c in grid.conditions if sampler_name(c.settings) in SCHEMES]
    better = {"EAS": (1, 5), "truncated": (5, 1)}
    records = [
        replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, section=section)))
        for c in schemes
        for part, section in enumerate(("everyday", "twisters"))
        for r in (record(c, f"{section} {i}", better.get(sampler_name(c.settings), (3, 3))[part], 20) for i in range(24))
    ]
    results = Results(records)
    verdicts = {c.text: (c.verdict, c.source, c.n) for c in claims(results, summarise(results))}
    plain = "EAS makes fewer word errors than top-k sampling"
    assert verdicts[plain] == (HOLDS, "MSpoofTTS Table 1", 24)
    assert verdicts[f"{plain}, in tongue twisters"] == (CONTRADICTED, "MSpoofTTS Table 2", 24)
