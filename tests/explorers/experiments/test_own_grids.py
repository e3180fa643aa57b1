"""A visitor's grid from a file: what is read, and what is refused at once."""

from pathlib import Path
from time import perf_counter

import pytest

from explorers.experiments.grids import MOST_BYTES, chosen_grids, own_grid
from pcg.errors import InputError, PCGError
from pcg.synthesis.synthesizer import Synthesizer

PLAIN = """
name: mine
texts: [hello, a fox]
voices: [one, two]
seeds: [0, 1]
conditions:
  - {name: AR, method: ar}
  - {name: coarse, method: pcg, theta: 0.4}
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def written(folder: Path, text: str | bytes, name: str = "grid.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_plain_grid_is_read(tmp_path: Path) -> None:
    grid = own_grid(written(tmp_path, PLAIN), ("one", "two"))
    assert (grid.name, len(grid.units())) == ("mine", 16)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BOMB, "without aliases"),
        ("!!python/object/apply:os.system [echo]", "YAML in UTF-8"),
        (PLAIN + "rule: !!python/name:os.system x", "YAML in UTF-8"),
        ("[" * 60_000, "levels deep"),
        ("{a: " * 10_000, "levels deep"),
        ("- " * 20_000, "levels deep"),
        (f"name: {'x' * (MOST_BYTES + 1)}", "at most 64 KiB"),
        (f"name: {'x' * 50_000}", "at most 5,000 characters"),
        (PLAIN.replace("[0, 1]", str(list(range(3000)))), "units"),
        (PLAIN.replace("texts: [hello, a fox]", f"sections: {['everyday'] * 500}"), "units"),
        (b"\xff\xfe\x00name", "YAML in UTF-8"),
        ("name: [", "line"),
        ("just words", "mapping"),
        ("", "mapping"),
        (PLAIN.replace("theta: 0.4", "theta: 7"), "theta is 7"),
        (PLAIN.replace("voices: [one, two]", "voices: [nobody]"), "voices is 'nobody'"),
        (PLAIN.replace("name: mine", f"name: {dict.fromkeys(map(str, range(3000)), 1)}"), "name is"),
    ],
)
def test_a_hostile_grid_is_one_short_sentence_and_no_wait(text: str | bytes, told: str, tmp_path: Path) -> None:
    begun = perf_counter()
    with pytest.raises(PCGError, match=told) as refused:
        own_grid(written(tmp_path, text), ("one", "two"))
    assert perf_counter() - begun < 5
    assert len(str(refused.value)) < 400
    assert str(tmp_path) not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_kind_of_file_is_refused_unread(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a name that ends in"):
        own_grid(written(tmp_path, PLAIN, "grid.txt"), ("one",))


def test_grids_are_chosen_by_name_and_from_a_file(synthesizer: Synthesizer, tmp_path: Path) -> None:
    grids = chosen_grids(synthesizer, ["main", "lookahead", "main"], "quick", written(tmp_path, PLAIN))
    assert [grid.name for grid in grids] == ["main", "lookahead", "mine"]
    (larger,) = chosen_grids(synthesizer, ["main"], "full")
    assert len(larger.units()) > len(grids[0].units())
    wrong = (([], "quick", "at least one"), (["none"], "quick", "experiment is"), (["main"], "vast", "size is"))
    for names, size, told in wrong:
        with pytest.raises(InputError, match=told):
            chosen_grids(synthesizer, names, size)
