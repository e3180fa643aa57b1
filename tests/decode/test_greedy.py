"""Temperature 0: exact rules say what the target says greedily, bit for bit on one kernel; rules over groups need not."""

import pytest

from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

TEXT = "Please call the doctor before nine."


@pytest.fixture(scope="module")
def synthesizer() -> Synthesizer:
    return Synthesizer(load_voice())


@pytest.fixture(scope="module")
def alone(synthesizer: Synthesizer) -> tuple[int, ...]:
    return synthesizer.take(TEXT, Settings("ar", temperature=0.0), "heart").tokens


@pytest.mark.parametrize(
    "settings",
    [
        Settings("sd", temperature=0.0),
        Settings("sd", temperature=0.0, lookahead=6, verification="block"),
        Settings("ssd", temperature=0.0, beta=0.0),
        Settings("pcg", temperature=0.0, theta=1.0),
        Settings("sd", temperature=0.0, lookahead_cost=0.1, lookahead=8),
    ],
    ids=["sd", "block", "ssd", "singletons", "varying"],
)
def test_an_exact_rule_says_what_ar_says(synthesizer: Synthesizer, alone: tuple[int, ...], settings: Settings) -> None:
    take = synthesizer.take(TEXT, settings, "heart")
    assert take.tokens == alone
    assert take.mean_acceptance_length > 1.3
    assert synthesizer.take(TEXT, settings.with_(seed=99), "heart").tokens == alone


@pytest.mark.parametrize("settings", [Settings("pcg", temperature=0.0), Settings("ssd", temperature=0.0)], ids=["pcg", "ssd"])
def test_a_rule_that_is_not_exact_may_say_something_else(
    synthesizer: Synthesizer, alone: tuple[int, ...], settings: Settings
) -> None:
    """The negative control: it accepts tokens that are not the target's first choice."""
    assert synthesizer.take(TEXT, settings, "heart").tokens != alone
