"""The line that tells how long a search still takes."""

from io import StringIO

import pytest

from pcg.groups.progress import eta_line, printed


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "line"),
    [
        (0, 10, 0.0, "lists: 0 %, 0 s left"),
        (1, 4, 30.0, "lists: 25 %, 1 min 30 s left"),
        (3, 4, 60.0, "lists: 75 %, 20 s left"),
        (4, 4, 80.0, "lists: 100 %, 0 s left"),
    ],
)
def test_the_rest_goes_on_as_it_began(done, total, elapsed, line):
    assert eta_line("lists", done, total, elapsed) == line


def test_one_line_is_rewritten_and_ended_when_all_is_done():
    stream, times = StringIO(), iter([0.0, 2.0, 4.0])
    progress = printed("lists", stream, lambda: next(times))
    progress(1, 2)
    assert "lists: 50 %, 2 s left" in stream.getvalue()
    assert "\n" not in stream.getvalue()
    progress(2, 2)
    assert stream.getvalue().endswith("\n")
    assert stream.getvalue().count("\n") == 1
