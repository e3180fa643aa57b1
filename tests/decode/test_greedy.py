"""Temperature 0: exact rules say what the target says greedily, bit for bit on one kernel; rules over groups need not."""

import pytest

from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer

TEXT = "Call the doctor."


@pytest.fixture(scope="module")
def alone(shipped: Synthesizer) -> tuple[int, ...]:
    return shipped.take(TEXT, Settings("ar", temperature=0.0), "heart").tokens


@pytest.mark.parametrize(
    "settings",
    [
        Settings("sd", temperature=0.0),
        Settings("sd", temperature=0.0, lookahead=6, verification="block"),
        Settings("ssd", temperature=0.0, beta=0.0),
        Settings("pcg", temperature=0.0, theta=1.0),
        Settings("sd", temperature=0.0, lookahead=8),
    ],
    ids=["sd", "block", "ssd", "singletons", "eight drafts"],
)
def test_an_exact_rule_says_what_ar_says(shipped: Synthesizer, alone: tuple[int, ...], settings: Settings) -> None:
    take = shipped.take(TEXT, settings, "heart")
    assert take.tokens == alone
    assert take.mean_acceptance_length > 1.3
    assert shipped.take(TEXT, settings.with_(seed=99), "heart").tokens == alone


@pytest.mark.parametrize("settings", [Settings("pcg", temperature=0.0), Settings("ssd", temperature=0.0)], ids=["pcg", "ssd"])
def test_a_rule_that_is_not_exact_may_say_something_else(
    shipped: Synthesizer, alone: tuple[int, ...], settings: Settings
) -> None:
    """The negative control: it accepts tokens that are not the target's first choice."""
    assert shipped.take(TEXT, settings, "heart").tokens != alone
