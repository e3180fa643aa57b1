"""Settings are validated where they are made, and presets where they are read."""

import pytest

from pcg.errors import InputError
from pcg.settings import PAPERS, Settings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "beam"),
        ("theta", 0.1),
        ("theta", float("nan")),
        ("lookahead", 0),
        ("lookahead", 2.5),
        ("beta", 1.5),
        ("temperature", -0.1),
        ("temperature", "warm"),
        ("seed", -1),
        ("seed", True),
        pytest.param("seed", 10**5000, id="huge"),
        ("beta", float("inf")),
        ("method", ["pcg"]),
        ("hierarchical", 1),
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
    named = {preset.name: preset.settings for preset in PAPERS}
    pcg, ssd = named["PCG, as published"], named["SSD, as published"]
    assert (pcg.method, pcg.lookahead, pcg.temperature) == ("pcg", 3, 0.8)
    assert 0.38 <= pcg.theta <= 0.45
    assert (ssd.method, ssd.lookahead, ssd.beta) == ("ssd", 3, 0.4)
    assert {preset.settings.method for preset in PAPERS} == {"ar", "sd", "ssd", "pcg"}
    assert all(preset.source for preset in PAPERS)
    assert Settings() in [preset.settings for preset in PAPERS]
