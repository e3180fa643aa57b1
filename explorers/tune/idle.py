"""Why drafting does nothing, or nothing good, in a take. Knows nothing of gradio."""

from typing import TYPE_CHECKING

from pcg.synthesis.drafts import LAYERS, LOOKUP, NONE

if TYPE_CHECKING:
    from explorers.tune.actions import Measured

USELESS = 0.05
SELDOM = 0.5


def why_idle(measured: "Measured", speed_up: float | None) -> str | None:
    """One sentence, the most telling reason first; None where drafting is of use. speed_up: over AR, None if unknown."""
    settings, rate = measured.settings, measured.reading.acceptance_rate
    if rate is None:
        return _why_nothing(measured)
    if settings.method == "ssd" and settings.beta == 1:
        return "At beta 1 every drafted token passes, and the target decides the bonus tokens alone."
    if weakness := _weakness(measured, rate):
        return weakness
    if rate < USELESS:
        return (
            f"Only {rate:.1%} of the drafted tokens passed: nearly every round brings one token, as AR does, at a higher price."
        )
    if settings.method == "pcg" and max(measured.reading.group_sizes, default=1) == 1:
        return "Every token of this take stood alone in its group, so PCG decided as SD does. Lower theta for larger groups."
    if settings.method == "ssd" and settings.beta == 0:
        return "At beta 0 SSD is SD: the tolerance is inactive."
    if speed_up is not None and speed_up < 1:
        return f"Slower than AR here ({speed_up:.2f}×): the drafts cost more time than their accepted tokens save."
    return None


def _why_nothing(measured: "Measured") -> str:
    """Nothing at all was drafted."""
    if measured.draft == NONE:
        return "No draft is loaded: the target is asked for every token."
    if measured.settings.method == "ar":
        return "AR drafts nothing: the target is asked for every token."
    if measured.draft == LOOKUP:
        return "Prompt lookup found nothing to copy in this take: no code came twice, so the target was asked for every token."
    return "Adaptive lookahead drafted nothing: the draft was too unsure at every position."


def _weakness(measured: "Measured", rate: float) -> str | None:
    """What is to be said of a draft that nobody trained, `rate` of whose tokens passed."""
    if measured.draft.startswith(LAYERS):
        return f"The draft is untrained: {rate:.1%} of its tokens passed, and more would pass if it were trained."
    copied = sum(cost.drafted > 0 for cost in measured.rounds) / max(1, len(measured.rounds))
    if measured.draft == LOOKUP and copied < SELDOM:
        return f"Prompt lookup found something to copy in {copied:.0%} of the rounds: the others brought one token, as in AR."
    return None
