"""What judges say of the takes of a page: figures, names, and what is not judged twice. The judges are the tests' own."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from explorers.judging import NO_TAKE, Judges, Verdicts, judge_takes
from explorers.listen.archive import FIGURES, GONE, record, save_takes
from explorers.listen.take_figures import judged_html, longest_of, mel_html
from explorers.session import PRESET, Session, TakeView
from pcg.audio import write_wav
from pcg.errors import PCGError
from pcg.metrics.memory import JudgementMemory
from pcg.metrics.recording import Sample
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin, Stored, read_stored
from pcg.text.prompt import Reference
from tests.explorers.hostile import MARKUP, assert_words_stay_words

TEXT = "hello, is this one sentence"


class Parrot:
    """A judge that hears every sound as it was meant, but for the last word, and counts what it heard."""

    name = "a parrot <b>"

    def __init__(self, said: str = "hello is this one") -> None:
        self.said, self.heard = said, 0

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        self.heard += len(recordings)
        return [self.said for _ in recordings]


class Seconds:
    """A metric that tells one sound from another, and counts how many it measured."""

    higher_is_better = True

    def __init__(self, key: str, of_reference: bool) -> None:
        self.key, self.name, self.measured = key, f"{key} of the tests", 0
        self._of_reference = of_reference

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        self.measured += len(batch)
        sounds = [s.reference_for(self.key) if self._of_reference else s for s in batch]
        return [len(sound.samples) / sound.sample_rate for sound in sounds]


def new_judges(said: str = "hello is this one", memory: JudgementMemory | None = None) -> tuple[Judges, Parrot, Seconds]:
    words, quality = Parrot(said), Seconds("dnsmos", of_reference=False)
    return Judges(words, Seconds("sim", of_reference=True), quality, memory), words, quality


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("takes")


@pytest.fixture(scope="module")
def session(synthesizer: Synthesizer, folder: Path) -> Session:
    """Two takes by AR, one by PCG, and one by a preset in a visitor's voice, of which no file is kept."""
    origin, found = Origin.of(synthesizer.voice), Session()
    for method, seed in (("ar", 0), ("ar", 1), ("pcg", 0)):
        take = synthesizer.take(TEXT, Settings(method, seed=seed), "two")
        sound = folder / f"{method}-{seed}.wav"
        write_wav(sound, take.audio, take.sample_rate, Stored.of(take, origin).to_json())
        found = found.with_take(TakeView.of(take), True, sound=sound, joins=seed > 0)
    gone = replace(TakeView.of(take), voice="your recording")
    return found.with_take(gone, True, key=PRESET, name="mine <i>")


@pytest.fixture(scope="module")
def judged(synthesizer: Synthesizer, session: Session) -> Verdicts:
    judges, *_ = new_judges()
    *_, last = judge_takes(synthesizer, lambda: judges, session, Verdicts())
    return last


def test_every_take_that_has_a_sound_is_judged_one_after_the_other(synthesizer: Synthesizer, session: Session) -> None:
    called: list[int] = []
    judges, words, _ = new_judges()
    steps = judge_takes(synthesizer, lambda: called.append(1) or judges, session, Verdicts())
    assert (next(steps).by_sound, called) == ({}, [])
    assert [len(step.by_sound) for step in steps] == [1, 2, 3]
    assert words.heard == 3


def test_figures_are_those_of_the_judges(synthesizer: Synthesizer, session: Session, judged: Verdicts) -> None:
    said = session.cards["ar"].first
    verdict = judged.of(said)
    assert (verdict.heard, verdict.words.rate) == ("hello is this one", 0.2)
    assert verdict.characters.rate == pytest.approx(9 / 26)
    assert verdict.dnsmos == pytest.approx(said.reading.audio_seconds)
    reference = synthesizer.voice.references["two"]
    assert verdict.similarity == len(synthesizer.decode(reference.codes.tolist(), reference)) / 16_000
    assert judged.of(session.cards[PRESET].first) is None
    assert judged.judges["Speaker"] == "sim of the tests to the voice's reference"
    assert judged.judges["WER, CER"].startswith("a parrot <b>; ")


def test_what_is_known_is_not_judged_again(synthesizer: Synthesizer, session: Session, judged: Verdicts, folder: Path) -> None:
    def fail() -> Judges:
        raise AssertionError("there is nothing to hear")

    (again,) = judge_takes(synthesizer, fail, session, judged)
    assert again.by_sound == judged.by_sound
    fewer = Session({"pcg": session.cards["pcg"]})
    (left,) = judge_takes(synthesizer, fail, fewer, judged)
    assert list(left.by_sound) == [folder / "pcg-0.wav"]


def test_a_memory_knows_sounds_by_their_content(synthesizer: Synthesizer, session: Session, tmp_path: Path) -> None:
    for expected in (3, 0):
        judges, words, quality = new_judges(memory=JudgementMemory(tmp_path))
        *_, last = judge_takes(synthesizer, lambda judges=judges: judges, session, Verdicts())
        assert (words.heard, quality.measured) == (expected, expected)
        assert len(last.by_sound) == 3


def test_a_visitors_voice_is_compared_with_its_own_recording(synthesizer: Synthesizer, session: Session, folder: Path) -> None:
    reading = replace(session.cards["pcg"].reading, voice="your recording")
    own = Reference("yes", synthesizer.voice.references["two"].codes[:10])
    mine = Session().with_take(reading, True, sound=folder / "pcg-0.wav", reference=own)
    judges, *_ = new_judges()
    *_, last = judge_takes(synthesizer, lambda: judges, mine, Verdicts())
    (verdict,) = last.by_sound.values()
    assert verdict.similarity == len(synthesizer.decode(own.codes.tolist(), own)) / 16_000
    speechless = Session().with_take(reading, True, sound=folder / "pcg-0.wav", reference=replace(own, codes=own.codes[:0]))
    *_, last = judge_takes(synthesizer, lambda: judges, speechless, Verdicts())
    assert [v.similarity for v in last.by_sound.values()] == [None]


def test_nothing_said_nothing_judged(synthesizer: Synthesizer, tmp_path: Path) -> None:
    with pytest.raises(PCGError, match=NO_TAKE):
        next(judge_takes(synthesizer, lambda: None, Session(), Verdicts()))
    with pytest.raises(PCGError, match=NO_TAKE):
        save_takes(tmp_path / "all.zip", Session(), Verdicts())


def test_judges_transcribe_a_sound() -> None:
    judges, *_ = new_judges("yes")
    assert judges.transcribe(np.zeros(8000), 8000) == "yes"


def test_the_zip_holds_every_take_and_the_figures(session: Session, judged: Verdicts, tmp_path: Path) -> None:
    save_takes(tmp_path / "all.zip", session, judged)
    assert [path.name for path in tmp_path.iterdir()] == ["all.zip"]
    with ZipFile(tmp_path / "all.zip") as archive:
        archive.extractall(tmp_path / "out")
    figures = json.loads((tmp_path / "out" / FIGURES).read_text())
    assert figures == json.loads(json.dumps(record(session, judged), allow_nan=False))
    ar = figures["cards"]["ar"]
    assert [take["file"] for take in ar["takes"]] == ["ar-take-1-seed-0.wav", "ar-take-2-seed-1.wav"]
    assert (ar["means"]["n"], ar["takes"][0]["judged"]["wer"], ar["takes"][0]["judged"]["n"]) == (2, 0.2, 1)
    assert read_stored(tmp_path / "out" / "ar-take-2-seed-1.wav").settings == Settings("ar", seed=1)
    assert figures["cards"][PRESET]["preset"] == "mine <i>"
    assert figures["cards"][PRESET]["takes"][0]["file"] is None
    assert str(tmp_path) not in json.dumps(figures)


def test_sounds_that_are_gone_are_not_left_out_in_silence(session: Session, tmp_path: Path) -> None:
    lost = session.with_take(session.cards["pcg"].reading, True, sound=tmp_path / "gone.wav")
    with pytest.raises(PCGError, match=GONE):
        save_takes(tmp_path / "all.zip", lost, Verdicts())
    assert list(tmp_path.iterdir()) == []


def test_a_card_shows_figures_with_n_and_judges_and_means(session: Session, judged: Verdicts) -> None:
    ar, pcg = session.cards["ar"], session.cards["pcg"]
    alone, pair = judged_html(pcg, 1, judged), judged_html(ar, 2, judged)
    assert ">20.0%<" in alone
    assert "n = 1" in alone
    assert "a parrot &lt;b&gt;" in alone
    assert "Mean" not in alone
    assert "Mean of n = 2 takes" in pair
    assert "over n = 2 takes" in pair
    assert "No sound to judge" in judged_html(session.cards[PRESET], 1, judged)
    assert "Not judged yet" in judged_html(pcg, 1, Verdicts())


def test_what_was_heard_stays_words(session: Session, judged: Verdicts) -> None:
    hostile = Verdicts({sound: replace(v, heard=MARKUP) for sound, v in judged.by_sound.items()}, {"WER": MARKUP})
    assert_words_stay_words(judged_html(session.cards["pcg"], 1, hostile))


def test_mel_pictures_share_one_scale(session: Session, tmp_path: Path) -> None:
    seconds = [said.reading.audio_seconds for card in session.cards.values() for said in card.takes]
    assert longest_of(session) == max(seconds)
    write_wav(tmp_path / "noise.wav", np.random.default_rng(0).normal(0, 0.1, 16_000), 16_000)
    whole, half = mel_html(tmp_path / "noise.wav", 1.0), mel_html(tmp_path / "noise.wav", 2.0)
    share = [float(page.split("--share:")[1].split("%")[0]) for page in (whole, half)]
    assert share == pytest.approx([100, 50], abs=5)  # whole frames
    assert "0 to 8 kHz" in whole
    assert "data:image/webp;base64," in whole


def test_a_take_of_minutes_has_a_picture_and_is_judged_to_its_end(
    synthesizer: Synthesizer, session: Session, tmp_path: Path
) -> None:
    """WebP is narrower than three minutes of frames."""
    path, rate, seconds = tmp_path / "long.wav", synthesizer.voice.codec.sample_rate, 170
    write_wav(path, np.random.default_rng(0).normal(0, 0.1, seconds * rate).astype(np.float32), rate)
    page = mel_html(path, 0.0)
    assert f"{seconds:.1f} s, 0 to 8 kHz" in page
    assert "data:image/webp;base64," in page
    long = session.with_take(session.cards["ar"].reading, True, sound=path)
    judges, *_ = new_judges()
    *_, last = judge_takes(synthesizer, lambda: judges, long, Verdicts())
    assert last.of(long.cards["ar"].first).dnsmos == pytest.approx(seconds)


def test_where_there_is_no_sound_there_is_no_picture(tmp_path: Path) -> None:
    write_wav(tmp_path / "short.wav", np.zeros(100, np.float32), 16_000)
    for sound in (None, tmp_path / "gone.wav", tmp_path / "short.wav"):
        assert mel_html(sound, 1.0) == ""
