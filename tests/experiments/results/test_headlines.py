"""The five sentences that stand before all tables."""

from pcg.experiments.results.analysis import Results, summarise
from pcg.experiments.results.headlines import headlines
from pcg.experiments.suites import ar, pcg, sd, ssd, swapped
from pcg.experiments.unit import Condition, Hearing, Record
from tests.experiments.synthetic import record


def said(records: list[Record]) -> dict[str, str]:
    results = Results(records)
    return {each.table: each.text for each in headlines(results, summarise(results))}


def spoken(
    condition: Condition, errors: int, speed: float, accepted: int = 0, count: int = 24, **figures: object
) -> list[Record]:
    drafts = {"drafted": 120, "accepted": accepted} if accepted else {}
    return [record(condition, i, errors + i % 2, 20, speed, **drafts, **figures) for i in range(count)]


def study(pcg_errors: int) -> list[Record]:
    records = spoken(ar(), 2, 100) + spoken(sd(), 2, 110, 40) + spoken(ssd(0.3), 6, 150, 70)
    records += spoken(pcg(0.5), pcg_errors, 130, 60) + spoken(pcg(0.4), pcg_errors, 140, 70)
    return records + spoken(swapped(0.4), 3, 100, swapped=0.9)


def test_each_finding_has_its_figure_and_its_table() -> None:
    found = said(study(3))
    assert "SD 1.10x" in found["main"]
    assert found["main"].index("PCG, theta 0.4 1.40x") < found["main"].index("SSD, beta 0.3 1.50x")
    assert "3 of 3 relaxed settings" in found["differences"]
    assert "SSD, beta 0.3, loses +20.0" in found["differences"]
    assert "2.8 tokens a call, n = 24), word errors of PCG, theta 0.4 less those of SSD, beta 0.3: -15.0" in found["work"]
    assert "Swapping 90 %" in found["swap"]
    assert "+5.0" in found["swap"]
    assert "factors" not in found  # nothing was traced


def test_pcg_and_ssd_are_paired_where_enough_was_said_by_every_judge() -> None:
    """The pair with the more equal work was said forty times."""
    heard = {"also_heard": (Hearing("another", "what it heard", (4, 20), (4, 100)),), "count": 200}
    often = [(ar(), 2, 0), (sd(), 2, 40), (ssd(0.3), 6, 70), (pcg(0.4), 3, 66)]
    records = [each for condition, errors, accepted in often for each in spoken(condition, errors, 100, accepted, **heard)]
    records += spoken(ssd(0.2), 5, 120, 60, **heard | {"count": 40}) + spoken(pcg(0.6), 5, 120, 60, **heard | {"count": 40})
    assert said(records)["work"] == (
        "At equal work (2.6 tokens a call, n = 200), word errors of PCG, theta 0.4 less those of SSD, beta 0.3: "
        "-15.0 [-15.0, -15.0] points; by another +0.0 [+0.0, +0.0] points."
    )


def test_what_is_not_beyond_chance_is_not_told_as_a_loss() -> None:
    records = [each for each in study(2) if each.unit.condition.settings.method != "ssd"]
    assert said(records)["differences"].startswith("No relaxed setting loses words that 24 utterances could tell")
    assert set(said(spoken(ar(), 2, 100))) == set()
