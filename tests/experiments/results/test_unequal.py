"""Settings that were said unequally often: nothing is compared over different utterances."""

from dataclasses import replace

import pytest

from pcg.analysis.whatif import STEPS, Trace, digits
from pcg.experiments.results.analysis import Results, summarise
from pcg.experiments.results.comparisons import SPEED, WORK, Axis, Matched, curve, matched
from pcg.experiments.results.tables import tables
from pcg.experiments.suites import TITLES, ar, declared, pcg, sd, ssd
from pcg.experiments.unit import Condition, Hearing, Record, Utterance
from tests.experiments.synthetic import record

DRAFTING = {"rounds": 40, "drafted": 120, "tested": (40, 30, 20), "accepted_at": (30, 20, 10), "trials": 45}
TRACE = Trace("agrb", *(digits([1.0] * 4, STEPS[name]) for name in ("sizes", "places", "entropy", "surprisal")), "vvss")
# Tables whose rows stand for themselves.
APART = {
    "conditions": "everything that was measured, and its note says not to compare",
    "claims": "each row is a claim of its own",
    "equal": "each row is a comparison of its own",
    "work": "each row is a comparison of its own",
    "voices": "each row is of one voice, with its own utterances in all columns",
}


def spoken(condition: Condition, count: int, section: str = "", **figures: object) -> list[Record]:
    drafting = {} if condition.settings.method == "ar" else DRAFTING | {"accepted": 60}
    also = (Hearing("another", "what it heard", (2, 20), (3, 100)),)
    said = [
        record(
            condition, f"{section} {i}.", i % 3, 20, seed=seed, trace=TRACE, spoof=0.3, also_heard=also, **drafting | figures
        )
        for i in range(count)
        for seed in (0, 1)
    ]
    return [replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, section=section))) for r in said]


def unequal() -> list[Record]:
    """Every declared setting: those of the main grid more often than all others, of which hardly two were said as often."""
    said = [Utterance("hello", "one", section) for section in ("everyday", "twisters")]
    grids = {name: declared(name, said, False, lambda similarity, theta: 0.9 * theta).conditions for name in TITLES}
    seldom = {condition: 5 + at % 7 for name in grids for at, condition in enumerate(grids[name])}
    counts = seldom | dict.fromkeys(grids["main"], 24) | {ar(): 22}
    counts |= dict.fromkeys(grids["originals"], 24)
    return [
        replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, voice=("slt", "rms")[i % 4 > 1])))
        for condition, count in counts.items()
        for section in ("everyday", "twisters")
        for i, r in enumerate(spoken(condition, count, section, **({"swapped": 0.5} if condition.swap else {})))
    ]


def test_all_rows_that_are_compared_have_the_same_utterances() -> None:
    results = Results(unequal())
    made = {table.name: table for table in tables(results, summarise(results))}
    assert made.keys() == {
        "claims", "main", "tradeoff", "equal", "work", "swap", "ssd", "lookahead", "acceptance", "factors",
        "drift", "ablations", "relax", "sampling", "twisters", "judges", "sections", "voices", "seeds",
        "differences", "temperature", "conditions",
    }  # fmt: skip
    for name, table in made.items():
        places = [at for at, column in enumerate(table.columns) if column.title == "n" or column.title.endswith(", n")]
        assert places or name in ("lookahead", "factors")  # these say it in the note, or have tests for rows
        for at in places:
            counts = {row[at] for row in table.rows} - {None}
            assert len(counts) == 1 or name in APART, f"{name} has rows of {sorted(counts)} utterances"
    assert len({row[1] for row in made["conditions"].rows}) > 5


POINT = ssd(0.3)


def compared(axis: Axis, **counts: int) -> Matched:
    """SSD, SD and AR on 24 utterances, PCG at theta .6, .5 and .4 on some: the point lies at .4."""
    figures = {ar(): (100, 0), sd(): (90, 20), POINT: (150, 75), pcg(0.6): (120, 40), pcg(0.5): (130, 60), pcg(0.4): (160, 80)}
    records = []
    for condition, (speed, accepted) in figures.items():
        count = counts.get(f"at_{10 * condition.settings.theta:.0f}", 0) if condition.settings.method == "pcg" else 24
        drafted = {"drafted": 120, "accepted": accepted} if accepted else {}
        # The first eight sentences are the harder ones.
        records += [record(condition, i, 8 if i < 8 else 1, 20, speed + i % 2, **drafted) for i in range(count)]
    results = Results(records)
    return matched(results, axis, "PCG cosine", curve(results, "PCG cosine", POINT), POINT)


@pytest.mark.parametrize("axis", [SPEED, WORK])
def test_a_setting_that_was_said_seldom_takes_no_utterances_from_a_comparison(axis: Axis) -> None:
    found = compared(axis, at_6=24, at_5=8, at_4=24)
    assert (found.utterances, found.nearest.utterances, found.nearest.condition) == (24, 24, pcg(0.4))
    assert found.point_wer.value == pytest.approx(80 / 24 / 20)
    # SD and one more make a curve.
    found = compared(axis, at_6=8, at_5=8, at_4=24)
    assert (found.utterances, found.met, found.nearest.condition) == (24, 1.0, pcg(0.4))


@pytest.mark.parametrize("axis", [SPEED, WORK])
def test_where_no_curve_is_left_all_settings_make_it_and_no_row_mixes_their_utterances(axis: Axis) -> None:
    """The point and the setting nearest to it share sixteen utterances, all of the curve eight."""
    found = compared(axis, at_6=8, at_4=16)
    assert (found.utterances, found.nearest.utterances, found.nearest.condition) == (8, 8, pcg(0.4))
    assert found.point_wer.value == found.curve_wer.value == pytest.approx(8 / 20)
