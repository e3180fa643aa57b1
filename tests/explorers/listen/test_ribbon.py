import re

import pytest

from explorers.shared.ribbon import height, legend_html, ribbon_html, tail_html
from pcg.takes.take import KINDS


def test_every_token_is_a_bar_with_its_kind_its_group_and_its_time() -> None:
    html = ribbon_html("pcg", ["accepted", "resampled", "bonus"], [12, 3, 1], 50.0)
    titles = re.findall(r'<i class="(\w+)"[^>]*title="([^"]+)"', html)
    assert titles == [
        ("accepted", "accepted, group of 12, 0.00 s"),
        ("resampled", "resampled, group of 3, 0.02 s"),
        ("bonus", "bonus, group of 1, 0.04 s"),
    ]


def test_the_label_counts_the_kinds() -> None:
    html = ribbon_html("pcg", ["accepted", "accepted", "bonus"], [4, 2, 1], 50.0)
    assert 'role="img"' in html
    assert 'aria-label="PCG took 3 tokens: 2 accepted, 1 bonus; mean group size 2.3"' in html
    assert 'aria-label="AR took 2 tokens: 2 no draft used"' in ribbon_html("ar", ["target"] * 2, [1, 1], 50.0)


def test_full_seconds_are_marked() -> None:
    html = ribbon_html("ar", ["target"] * 120, [1] * 120, 50.0)
    assert re.findall(r'title="[^"]*, ([\d.]+) s" data-second="(\d)"', html) == [("1.00", "1"), ("2.00", "2")]


def test_a_take_that_ended_before_its_first_token_has_one_too() -> None:
    assert ribbon_html("pcg", (), (), 0.0).endswith("></div>")


def test_an_empty_take_has_an_empty_strip() -> None:
    assert "<i" not in ribbon_html("ar", [], [], 1.0)


def test_height_grows_with_the_group_and_stays_in_the_strip() -> None:
    heights = [height(size) for size in (1, 2, 8, 64, 256, 4096)]
    assert heights == sorted(heights)
    assert heights[0] > 0.3
    assert heights[-1] == 1.0


@pytest.mark.parametrize("kind", ["<b>", "${alert(1)}", ""])
def test_only_known_words_enter_the_strip(kind: str) -> None:
    with pytest.raises(ValueError, match="no such kind"):
        ribbon_html("pcg", [kind], [1], 50.0)
    with pytest.raises(ValueError, match="Unknown format code"):
        ribbon_html("pcg", ["accepted"], ["1"], 50.0)


def test_the_tail_keeps_the_newest_and_the_legend_shows_what_the_page_can_show() -> None:
    assert tail_html(["accepted", "bonus", "resampled"], [1, 1, 1], 2).count("<i") == 2
    assert all((f'class="{kind}"' in legend_html()) == (kind != "redrawn") for kind in KINDS)
    assert all(f'class="{kind}"' in legend_html(KINDS) for kind in KINDS)
