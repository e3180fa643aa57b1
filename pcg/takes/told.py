"""Acceptance in words and in columns: of drafted tokens, of tested ones, and by position. One rate alone misleads: behind the
first rejection of a round nothing is tested."""

from collections.abc import Sequence


def accepted_in_words(of_drafted: float | None, of_tested: float | None, by_position: Sequence[float]) -> str:
    """The figures of `Take` of the same meaning, as one phrase; "" where nothing was tested."""
    if of_drafted is None or of_tested is None:
        return ""
    places = ", ".join(f"{share:.0%}" for share in by_position)
    return f"accepted {of_drafted:.0%} of drafted and {of_tested:.0%} of tested tokens, by position {places} of rounds"


def accepted_in_columns(of_drafted: float | None, of_tested: float | None, by_position: Sequence[float]) -> dict[str, str]:
    """The same as cells of a table, by title; "-" for what there is none of."""
    rates = {"of drafted": of_drafted, "of tested": of_tested}
    cells = {title: "-" if rate is None else f"{rate:.1%}" for title, rate in rates.items()}
    return cells | {"by position %": " ".join(f"{100 * share:.0f}" for share in by_position) or "-"}
