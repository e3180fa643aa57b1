"""Judges by name, each through the same interface, on checkpoints of the hub's format."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from pcg.asr.embedded import load_recogniser
from pcg.asr.judges import JUDGES, Judge, ListeningJudge, load_judge, way_of
from pcg.asr.word_search import load_lexicon
from pcg.errors import AssetError, InputError
from tests.asr import checkpoints

Babble = Callable[[int, int], list[Tensor]]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, recogniser_folder: Path) -> dict[str, Path | None]:
    folder = tmp_path_factory.mktemp("judges")
    made = {name: getattr(checkpoints, name)(folder / name) for name in ("granite", "hubert")}
    return made | {"embedded": recogniser_folder}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in JUDGES if name != "whisper-large"])
def test_every_judge_writes_a_text_for_every_recording(name: str, places: dict[str, Path | None], babble: Babble) -> None:
    judge: Judge = load_judge(name, checkpoint=str(places[name]) if name in places else None)
    recordings = [u.numpy() for u in babble(3, 1)]
    silence = [np.zeros(0, np.float32), np.zeros(16_000, np.float32)]
    texts = judge.transcribe([recordings[0], *silence, *recordings[1:]], 16_000)
    assert [texts[0], *texts[3:]] == judge.transcribe(recordings, 16_000)
    assert texts[1:3] == ["", ""]
    assert all(isinstance(text, str) for text in texts)
    assert judge.name


def test_the_embedded_judge_hears_in_listed_words_and_says_so(places: dict[str, Path | None], babble: Babble) -> None:
    at, recordings = str(places["embedded"]), [u.numpy() for u in babble(4, 2)]
    judge, greedy = load_judge("embedded", checkpoint=at), ListeningJudge(load_recogniser(Path(at)), "ar")
    lexicon = load_lexicon()
    assert lexicon.name in judge.name
    assert lexicon.name not in greedy.name
    assert judge.transcribe(recordings, 16_000) != greedy.transcribe(recordings, 16_000)


def test_recordings_are_heard_at_any_rate(places: dict[str, Path | None], babble: Babble) -> None:
    judge = load_judge("hubert", checkpoint=str(places["hubert"]))
    assert len(judge.transcribe([babble(1, 2)[0].numpy().repeat(3)], 48_000)) == 1


@pytest.mark.slow
def test_whisper_understands_the_voice_and_not_the_same_backwards() -> None:
    from pcg.metrics.intelligibility import word_errors
    from pcg.settings import Settings
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    synthesizer, judge = Synthesizer(load_voice()), load_judge("whisper")
    text = "The kettle is boiling, so please turn off the stove."
    take = synthesizer.take(text, Settings(), next(iter(synthesizer.voice.references)))
    forwards, backwards, again = judge.transcribe([take.audio, take.audio[::-1], take.audio], take.sample_rate)
    assert word_errors(text, forwards).rate <= 0.2
    assert word_errors(text, backwards).rate > 0.8
    assert forwards == again, "the verdict does not depend on the order"
    assert judge.name.startswith("Whisper tiny.en")


def test_unknown_judges_modes_and_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="judge"):
        load_judge("nobody")
    with pytest.raises(InputError, match="mode"):
        way_of("reckless")
    for name in ("hubert", "whisper", "granite"):
        with pytest.raises(AssetError, match="missing"):
            load_judge(name, checkpoint=str(tmp_path / "nothing"))
