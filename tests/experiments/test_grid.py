"""A grid's order, what makes two units one, and that a user's file is read or refused in one sentence."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pcg.errors import InputError
from pcg.experiments.grids import Grid, read_grid
from pcg.experiments.unit import Condition, Record, Result, Unit, Utterance
from pcg.groups.swap import Swap
from pcg.metrics.intelligibility import read_sentences
from pcg.settings import METHODS, Settings

AR, PCG = Condition("AR", Settings("ar")), Condition("PCG", Settings("pcg", theta=0.4))
SAID = (Utterance("hello", "one"), Utterance("yes", "two"))
FILE = {
    "name": "mine",
    "texts": ["hello", "yes it is"],
    "voices": ["one", "two"],
    "seeds": [3, 4],
    "conditions": [
        {"name": "AR", "method": "ar"},
        {"name": "draft", "method": "ar", "model": "draft"},
        {"name": "top", "method": "sd", "lookahead": 5, "rule": "membership:10"},
        {"name": "swapped", "method": "ar", "swap": {"theta": 1, "replacement": "random"}},
    ],
}


def written(folder: Path, **changes: object) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in (FILE | changes).items() if v is not None}), encoding="utf-8")
    return path


def test_units_come_by_utterance_then_seed_and_conditions_in_turns_and_seeds_and_count_can_be_chosen() -> None:
    order = [(u.utterance.text, u.seed, u.condition.name) for u in Grid("g", (AR, PCG), SAID, range(20)).units()]
    assert [said[:2] for said in order[::2]] == [(text, seed) for text in ("hello", "yes") for seed in range(20)]
    assert {(a[2], b[2]) for a, b in zip(order[::2], order[1::2], strict=True)} == {("AR", "PCG"), ("PCG", "AR")}
    grid = Grid("g", (AR, PCG), SAID, (0,))
    assert (grid.over((1, 2), 1).seeds, grid.over((1, 2), 1).utterances, grid.over()) == ((1, 2), SAID[:1], grid)
    for count in (0, 2 + 1):
        with pytest.raises(InputError, match="count is"):
            grid.over(count=count)


def test_a_grid_of_nothing_or_with_two_of_a_name_is_refused() -> None:
    grid, twice = Grid("g", (AR, PCG), SAID, (0, 1)), (AR, replace(PCG, name="AR"))
    for field in ("conditions", "utterances", "seeds"):
        with pytest.raises(InputError, match=f"{field} is 'empty'"):
            replace(grid, **{field: ()})
    for changes, told in (({"seeds": (0, -1)}, "seed is -1"), ({"conditions": twice}, "name is 'AR'")):
        with pytest.raises(InputError, match=told):
            replace(grid, **changes)


def test_methods_share_the_coins_of_an_utterance_and_utterances_do_not() -> None:
    conditions = [Condition("", Settings(method)) for method in METHODS]
    seeds = [[Unit(said, c, seed).settings.seed for c in conditions] for seed in (3, 4) for said in SAID]
    assert [len(set(each)) for each in seeds] == [1, 1, 1, 1]
    assert len({each[0] for each in seeds}) == 4


def test_labels_and_settings_that_nobody_reads_are_no_part_of_a_unit() -> None:
    unit = Unit(SAID[0], PCG, 1)
    same = [
        replace(unit, condition=replace(PCG, name="other")),
        replace(unit, condition=Condition("PCG", PCG.settings.with_(seed=9, beta=0.9))),
        replace(unit, utterance=replace(SAID[0], section="rare")),
    ]
    assert {u.key("v") for u in same} == {unit.key("v")}
    ar = [Unit(SAID[0], Condition("AR", Settings("ar", theta=theta, lookahead=4)), 1).key("v") for theta in (0.3, 0.7)]
    assert ar[0] == ar[1]


def test_everything_that_is_heard_tells_units_apart() -> None:
    unit = Unit(SAID[0], PCG, 1)
    knobs = {"theta": 0.5, "lookahead": 4, "temperature": 0.7, "similarity": "mel", "method": "sd"}
    others = [replace(PCG, settings=PCG.settings.with_(**{name: value})) for name, value in knobs.items()]
    others += [replace(PCG, rule="membership:50"), replace(PCG, swap=Swap(0.4))]
    # A rule of its own may read what the method does not.
    others += [Condition("", Settings("sd", theta=theta), rule="membership:50") for theta in (0.3, 0.4)]
    others += [Condition("", Settings("ar"), model=model) for model in ("target", "draft")]
    units = [unit, replace(unit, seed=2), *(replace(unit, condition=c) for c in others)]
    units += [replace(unit, utterance=u) for u in (SAID[1], replace(SAID[0], voice="two"), replace(SAID[0], reference="a.wav"))]
    assert len({u.key("v") for u in units} | {unit.key("w")}) == len(units) + 1


def test_records_survive_json() -> None:
    said = Utterance("hello", "me", "rare", "a.wav", "good day")
    result = Result((1, 2), "hi", (1, 2), (3, 9), 0.5, None, 3, 4, 2, (2, 1), (1, 1), 0, False, 0.0, None, 1.0, 2.0, 3.0)
    for condition in (AR, replace(PCG, swap=Swap(0.4, replacement="random")), replace(PCG, rule="membership:50")):
        record = Record(Unit(said, condition, 7), result, {"workers": 1, "judges": {"WER": "one"}})
        assert Record.from_dict(json.loads(json.dumps(record.as_dict()))) == record


def test_a_file_is_read(tmp_path: Path) -> None:
    grid = read_grid(written(tmp_path))
    assert (grid.name, grid.seeds) == ("mine", (3, 4))
    assert grid.utterances == tuple(Utterance(t, v) for t in ("hello", "yes it is") for v in ("one", "two"))
    assert grid.conditions == (
        Condition("AR", Settings("ar")),
        Condition("draft", Settings("ar"), model="draft"),
        Condition("top", Settings("sd", lookahead=5), rule="membership:10"),
        Condition("swapped", Settings("ar"), swap=Swap(1.0, replacement="random")),
    )


def test_sections_are_sampled_evenly(tmp_path: Path) -> None:
    grid = read_grid(written(tmp_path, texts=None, sections=["everyday", "rare"], count=3, voices=["one"], seeds=None))
    assert grid.seeds == (0,)
    assert [u.section for u in grid.utterances] == ["everyday"] * 3 + ["rare"] * 3
    everyday = read_sentences("everyday")
    places = [everyday.index(u.text) for u in grid.utterances[:3]]
    assert places == [0, len(everyday) // 3, 2 * len(everyday) // 3]


def condition(**fields: object) -> dict[str, object]:
    return {"conditions": [{"name": "A", **fields}]}


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ("key of the grid is 'voice'", {"voice": "one"}),
        ("name is missing", {"name": None}),
        ("voices is 'one'", {"voices": "one"}),
        ("seeds is 'x'", {"seeds": ["x"]}),
        ("texts and sections", {"sections": ["rare"]}),
        ("texts and sections", {"texts": None}),
        ("count is 2", {"count": 2}),
        ("section is 'sung'", {"texts": None, "sections": ["sung"]}),
        ("count is 100000", {"texts": None, "sections": ["rare"], "count": 100_000}),
        ("text is ", {"texts": ["..."]}),
        ("conditions is 'AR'", {"conditions": ["AR"]}),
        ("key of the condition is 'seed'", condition(seed=1)),
        ("theta is 7", condition(theta=7)),
        ("method is 'magic'", condition(method="magic")),
        ("method is 'pcg'", condition(model="draft")),
        ("swap is 0.4", condition(swap=0.4)),
        ("key of the swap is 'share'", condition(swap={"theta": 0.4, "share": 1})),
    ],
)
def test_whatever_is_wrong_is_named_in_one_sentence(tmp_path: Path, said: str, changes: dict[str, object]) -> None:
    with pytest.raises(InputError) as error:
        read_grid(written(tmp_path, **changes))
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"name: [", b"\xff\xfe", b"!!python/object/apply:os.getcwd []", b"- 1", b""])
def test_what_is_no_grid_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "grid.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="grid"):
        read_grid(path)
    with pytest.raises(InputError, match="that can be read"):
        read_grid(tmp_path / "none.yaml")
