"""The bar of a long search."""

import sys

import pytest

from pcg.groups.neighbours import bar


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_tells_how_far_it_is_on_a_terminal_and_nothing_elsewhere(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    progress = bar("neighbours")
    for _ in range(2):  # a search that is begun again begins the bar again
        progress(1, 4)
        progress(4, 4)
    shown = capsys.readouterr().err
    assert ("neighbours: 100%" in shown and "4/4" in shown) if terminal else shown == ""
