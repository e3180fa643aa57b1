"""Where acceptance fails, and how far relaxed texts drift: from traces that can be worked out by hand."""

from dataclasses import replace

import pytest

from pcg.analysis.whatif import STEPS, Trace, digits
from pcg.experiments.results.acceptance_factors import FACTORS, acceptance_by
from pcg.experiments.results.analysis import Results, summarise
from pcg.experiments.results.drift import drift
from pcg.experiments.results.tables import tables
from pcg.experiments.unit import Condition, Result
from pcg.settings import Settings
from tests.experiments.synthetic import record

AR, SD, PCG = Condition("AR", Settings("ar")), Condition("SD", Settings("sd")), Condition("PCG", Settings("pcg"))
BY = {factor.name: factor for factor in FACTORS}


def traced(kinds: str, surprisal: list[float], entropy: float = 1.0, phones: str | None = None, size: int = 1) -> Trace:
    return Trace(
        kinds,
        digits([2.0 if size == 4 else 0.0] * len(kinds), STEPS["sizes"]),
        digits(places(kinds), STEPS["places"]),
        digits([entropy] * len(kinds), STEPS["entropy"]),
        digits(surprisal, STEPS["surprisal"]),
        phones or "v" * len(kinds),
    )


def places(kinds: str) -> list[float]:
    found: list[float] = []
    for at in range(len(kinds)):
        found.append(1.0 if at == 0 or kinds[at - 1] in "rbt" else found[-1] + 1)
    return found


def test_acceptance_is_counted_by_phone_entropy_size_and_place():
    one = traced("aagrbaab", [1.0] * 8, phones="vvvspsss", size=4)
    results = Results([record(PCG, 1, trace=one)])
    by_phone = acceptance_by(results, PCG, BY["phone"])
    assert by_phone.keys() == {"vowel", "stop"}
    assert (by_phone["vowel"].accepted.value, by_phone["vowel"].relaxed.value) == (1.0, pytest.approx(1 / 3))
    assert by_phone["stop"].accepted.value == pytest.approx(2 / 3)
    assert by_phone["vowel"].share.value == pytest.approx(0.5)
    assert acceptance_by(results, PCG, BY["size of the group"]).keys() == {"4-7"}
    assert acceptance_by(results, PCG, BY["entropy of the target, nats"]).keys() == {"1 to 2"}
    by_depth = acceptance_by(results, PCG, BY["place in the draft"])
    assert {depth: of.accepted.value for depth, of in by_depth.items()} == {"1": 1.0, "2": 1.0, "3": 1.0, "4": 0.0}


def test_a_record_without_a_trace_tells_nothing():
    results = Results([record(PCG, 1), record(AR, 1)])
    assert acceptance_by(results, PCG, BY["phone"]) == {}
    assert drift(results, PCG, AR) is None
    assert not {"factors", "drift"} & {table.name for table in tables(results, summarise(results))}


def test_drift_is_the_surprisal_above_that_of_ar():
    relaxed = traced("gaaaaaabbb", [4, 3, 3, 3, 3, 3, 1, 1, 1, 2], entropy=1.0)
    plain = traced("t" * 10, [1.0] * 10)
    found = drift(Results([record(PCG, 1, trace=relaxed), record(AR, 1, trace=plain)]), PCG, AR)
    assert found.relaxed.value == pytest.approx(0.1)
    assert found.surprisal.value == pytest.approx(1.4)
    assert (found.early.value, found.late.value) == (pytest.approx(2.5), pytest.approx(0.5))
    # The five tokens behind the relaxed one have 2 nats above their entropy, the other four 0.25.
    assert found.behind.value == pytest.approx(2 - 0.25)
    assert drift(Results([record(SD, 1, trace=plain), record(AR, 1, trace=plain)]), SD, AR).behind is None


def test_traces_survive_json_and_stand_in_the_tables():
    trace = traced("agrb", [1.0, 2.0, 3.0, 4.0])
    made = record(SD, 1, drafted=3, accepted=2, tested=(1, 1, 1), accepted_at=(1, 1, 0), trace=trace)
    again = Result.from_dict(made.result.as_dict())
    assert again.trace == trace
    both = [record(condition, n, trace=trace, drafted=3) for condition in (AR, SD, PCG) for n in range(3)]
    results = Results(both)
    names = {table.name: table for table in tables(results, summarise(results))}
    many = Results([record(SD, n, trace=traced("a" * 50, [1.0] * 50), drafted=50) for n in range(3)])
    (factors,) = [table for table in tables(many, summarise(many)) if table.name == "factors"]
    assert factors.rows[0][3].value == 1.0
    vowels = names["factors"].rows[0]
    assert vowels[:2] == ("phone", "vowel")
    assert vowels[3] is None  # too few tests to say how many are accepted
    assert [row[0] for row in names["drift"].rows] == ["SD", "PCG"]


@pytest.mark.parametrize(("made", "warned"), [({"format": 1}, True), ({"format": 2}, False)])
def test_coins_that_all_utterances_shared_are_told_of(made, warned):
    trace = traced("agrb", [1.0, 2.0, 3.0, 4.0])
    spoken = [record(condition, n, trace=trace, drafted=3) for condition in (AR, SD) for n in range(3)]
    results = Results([replace(each, context=each.context | made) for each in spoken])
    (drifted,) = [table for table in tables(results, summarise(results)) if table.name == "drift"]
    assert ("share its coins" in drifted.note) == warned
