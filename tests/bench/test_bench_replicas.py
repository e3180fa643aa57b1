"""The bench of replicas: its rate on made-up clients, a lone client over HTTP; with Ray, a figure of each kind."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pcg.bench.replicas import LONE_TAKES, Door, Heard, hear_alone, requests_per_second
from pcg.cli import main
from pcg.serving.speech_service import SpeechService
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from tests.serving.served import serve


@pytest.fixture
def door(tiny_voice_folder: Path, tmp_path: Path) -> Iterator[Door]:
    service = SpeechService(Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path))
    for address in serve(service):
        yield Door(urlsplit(address).port, "one", "tiny")


def test_a_lone_client_hears_the_first_sound_before_the_last_and_asks_for_one_take_after_another(door: Door) -> None:
    heard = hear_alone(door)
    assert len(heard) == LONE_TAKES
    assert all(0 < each.first_sound < each.ended - each.begun for each in heard)
    assert all(before.ended < after.begun for before, after in pairwise(heard))


def test_the_rate_counts_while_all_clients_are_there_and_a_take_by_its_share() -> None:
    """Two clients; each take lasts two seconds, and half of it has come after one. Four takes in four seconds, or three and
    half of one that lasts until nobody else asks."""
    heard = [Heard(begun, ((begun + 1, 50), (begun + 2, 50))) for begun in (0.0, 0.0, 2.0, 2.0, 4.0, 4.0)]
    assert requests_per_second(heard, 2) == 1.0
    late = [*heard[:4], Heard(4.0, ((5.0, 50), (8.0, 50))), heard[5]]
    assert requests_per_second(late, 2) == 3.5 / 4


@pytest.mark.slow
def test_the_last_line_tells_rates_and_first_sounds(tiny_voice_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray.serve")
    assert main(["bench", "replicas", "--clients", "2", "--repeats", "1", "--model", str(tiny_voice_folder)]) == 0
    *_, told, last = capsys.readouterr().out.splitlines()
    figures = json.loads(last)
    assert min(value for name, value in figures.items() if name != "ratios") > 0
    assert f"for a lone client after {figures['first_sound_alone']:.2f} s" in told
