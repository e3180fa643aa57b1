"""The listening test as a program takes it."""

from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.listening.actions import ListeningRequest
from tests.explorers.listening.ears import ASKED


def arguments(request: ListeningRequest) -> list[object]:
    return [list(v) if isinstance(v, tuple) else v for v in vars(request).values()]


@pytest.mark.slow
def test_a_program_takes_the_whole_test(address: str) -> None:
    client = Client(address, verbose=False)
    name = "PCG · theta 0.25 · lookahead 2 · temperature 0.6"
    client.predict(0.25, 2, 0.3, 0.6, api_name="/listening_keep")
    request = replace(ASKED, design="abx", compared=("SD", name))
    *_, last = client.submit(*arguments(request), api_name="/listening_prepare")
    told, player, *_ = last
    # Nothing of what the page got names a method.
    assert "PCG" not in repr(last)
    assert "theta" not in repr(last)
    assert (told["number"], told["letters"], sorted(player["value"])) == (
        1, ["A", "B", "X"], ["count", "kind", "letters", "number", "sounds", "text"],
    )  # fmt: skip
    files = player["value"]["sounds"]
    assert [Path(file).name for file in files] == ["A.wav", "B.wav", "X.wav"]
    assert len({Path(file).parent for file in files}) == 3
    assert len({(soundfile.info(file).frames, soundfile.info(file).format, Path(file).stat().st_size) for file in files}) == 1
    for refused in (
        {"trial": 1, "answer": "A", "plays": [1, 1, 0]},
        {"trial": 2, "answer": "A", "plays": [1] * 3},
        "<b>",
        None,
    ):
        with pytest.raises(AppError):
            client.predict(refused, api_name="/listening_vote")
    with pytest.raises(AppError, match="not over"):
        client.predict(api_name="/listening_export")
    client.predict({"trial": 1, "answer": "A", "plays": [1, 1, 2]}, api_name="/listening_vote")
    record, *_ = client.predict({"trial": 2, "answer": "B", "plays": [1, 1, 1]}, api_name="/listening_vote")
    assert [trial["vote"]["answer"] for trial in record["trials"]] == ["A", "B"]
    assert set(record["systems"]) == {"SD", name}
    judged, page = client.predict(api_name="/listening_judge")
    assert judged["systems"][name]["judged"]["n"] == 2
    assert "nobody" in page
    files = client.predict(api_name="/listening_export")["value"]
    assert [Path(file).suffix for file in files] == [".json", ".csv"]


def test_sessions_do_not_mix_and_may_end_early(address: str) -> None:
    one, other = Client(address, verbose=False), Client(address, verbose=False)
    one.predict(*arguments(ASKED), api_name="/listening_prepare")
    with pytest.raises(AppError, match="no test"):
        other.predict(api_name="/listening_end")
    choices, _ = other.predict(api_name="/listening_keep_last")
    assert "SD · lookahead 3 · temperature 0.8" in [choice[0] for choice in choices["choices"]]
    record, *_ = one.predict(api_name="/listening_end")
    assert [trial["vote"] for trial in record["trials"]] == [None, None]
