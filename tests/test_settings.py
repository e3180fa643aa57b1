"""Settings are validated where they are made, and presets where they are read."""

import pytest

from pcg.errors import InputError
from pcg.presets import MOST_OWN, PAPERS, Preset, find_preset, forget, keep, read_presets, write_presets
from pcg.settings import Settings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "beam"),
        ("theta", 0.1),
        ("theta", float("nan")),
        ("lookahead", 0),
        ("lookahead", 2.5),
        ("beta", 1.5),
        ("temperature", 0.0),
        ("temperature", "warm"),
        ("seed", -1),
        ("seed", True),
        pytest.param("seed", 10**5000, id="huge"),
        ("beta", float("inf")),
        ("method", ["pcg"]),
        ("adaptive", 1),
        ("similarity", None),
    ],
)
def test_a_value_out_of_range_is_named_with_its_range(field, value):
    with pytest.raises(InputError) as caught:
        Settings(**{field: value})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field} is ")


def test_settings_survive_a_round_trip_and_refuse_unknown_keys():
    settings = Settings(method="ssd", theta=0.5, lookahead=4, beta=0.2, temperature=1.0, seed=7)
    assert Settings.from_dict(settings.as_dict()) == settings
    with pytest.raises(InputError, match="volume"):
        Settings.from_dict({"volume": 3})


@pytest.mark.parametrize(
    "values", [None, [], "pcg", 7, {"theta": {"a": []}}, {"theta": None}, {"method": "x" * 10_000}, {7: 1}]
)
def test_settings_from_anywhere_are_refused_in_a_sentence(values):
    with pytest.raises(InputError) as caught:
        Settings.from_dict(values)
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)


def test_the_papers_presets_hold_the_papers_values():
    pcg, ssd = (find_preset((), name).settings for name in ("PCG, as published", "SSD, as published"))
    assert (pcg.method, pcg.lookahead, pcg.temperature) == ("pcg", 3, 0.8)
    assert 0.38 <= pcg.theta <= 0.45
    assert (ssd.method, ssd.lookahead, ssd.beta) == ("ssd", 3, 0.4)
    assert {preset.settings.method for preset in PAPERS} == {"ar", "sd", "ssd", "pcg"}
    assert all(preset.source for preset in PAPERS)
    assert Settings() in [preset.settings for preset in PAPERS]


def test_a_preset_leaves_the_seed_alone():
    assert Preset("mine", Settings("ssd", beta=0.1)).over(Settings(seed=9)) == Settings("ssd", beta=0.1, seed=9)


def test_own_presets_survive_a_round_trip_and_replace_their_namesakes():
    own = keep(keep((), Preset("mine", Settings(theta=0.4))), Preset("yours <b>", Settings("ar")))
    assert read_presets(write_presets(own)) == own
    own = keep(own, Preset("mine", Settings(theta=0.6)))
    assert [(p.name, p.settings.theta) for p in own] == [("yours <b>", Settings().theta), ("mine", 0.6)]
    assert forget(own, "mine") == own[:1]
    assert find_preset(own, "mine").settings.theta == 0.6


def test_bad_presets_of_a_browser_are_left_out():
    good = {"name": "good", "settings": {"theta": 0.4}}
    bad = [
        None, 7, [], {}, {"name": "x"}, {"name": "x", "settings": None}, {"name": "x", "settings": {"theta": 9}},
        {"name": "", "settings": {}}, {"name": "x" * 1000, "settings": {}}, {"name": ["x"], "settings": {}},
        {"name": "x\ny", "settings": {}}, {"name": PAPERS[0].name, "settings": {}},
    ]  # fmt: skip
    assert [p.name for p in read_presets([*bad, good])] == ["good"]
    for values in (None, "text", {"name": "x"}, 3):
        assert read_presets(values) == ()
    assert len(read_presets([{"name": f"p{i}", "settings": {}} for i in range(1000)])) == MOST_OWN


def test_presets_that_cannot_be_kept_are_refused():
    full = read_presets([{"name": f"p{i}", "settings": {}} for i in range(MOST_OWN)])
    with pytest.raises(InputError, match="at most"):
        keep(full, Preset("one more", Settings()))
    assert len(keep(full, Preset("p3", Settings("ar")))) == MOST_OWN
    with pytest.raises(InputError, match="papers"):
        keep((), Preset(PAPERS[0].name, Settings()))
    with pytest.raises(InputError, match="preset is 'nothing'"):
        find_preset(full, "nothing")
