"""Settings are validated where they are made."""

import pytest

from pcg.errors import InputError
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
