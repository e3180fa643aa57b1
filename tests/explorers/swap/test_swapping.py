import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import gradio as gr
import numpy as np
import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.session import Session, TakeView
from explorers.swap import actions, figures
from explorers.swap.actions import Judges, StressTest, SwapRequest, said_by_target, stress
from explorers.swap.layout import create_swap
from pcg.analysis.swap import Swap, mel_distance, same_size_theta
from pcg.errors import PCGError
from pcg.experiments.unit import Condition, Unit, Utterance
from pcg.experiments.worker import WorkerSpec
from pcg.metrics.recording import Recording, Sample
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from tests.explorers.hostile import MARKUP, assert_words_stay_words
from tests.explorers.served import in_hand, serve_clients

TEXT, THETA = "The quick brown fox.", 0.3
ASKED = SwapRequest("last", "", "one", THETA, "cosine", 1.0, "random", 3)


class Parrot:
    """A judge that hears the first sound as it was meant, and a word less in each of the others."""

    name = MARKUP

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        return [TEXT.removesuffix(".").rsplit(maxsplit=i)[0] for i in range(len(recordings))]


class Loudness:
    """A metric that tells one sound from another; with a reference, how much louder it is than that."""

    key, name, higher_is_better = "loudness", "a metric of the tests", True

    def __init__(self, relative: bool) -> None:
        self._relative = relative

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        before = [self._of(s.reference) if self._relative else 0.0 for s in batch]
        return [self._of(s) - b for s, b in zip(batch, before, strict=True)]

    def _of(self, sound: Recording) -> float:
        return float(np.abs(sound.samples).mean())


@pytest.fixture(scope="module")
def judges() -> Judges:
    return Judges(Parrot(), Loudness(relative=True), Loudness(relative=False))


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take(TEXT, Settings("ar", seed=7), "two")


@pytest.fixture(scope="module")
def session(take: Take) -> Session:
    return Session().with_take(TakeView.of(take))


def done(synthesizer: Synthesizer, judges: Judges, session: Session, **changes: object) -> StressTest:
    *_, last = stress(synthesizer, lambda: judges, replace(ASKED, **changes), session)
    return last


@pytest.fixture(scope="module")
def found(synthesizer: Synthesizer, judges: Judges, session: Session) -> StressTest:
    return done(synthesizer, judges, session)


def test_original_swap_and_control_are_the_same_utterance_with_other_tokens(
    synthesizer: Synthesizer, found: StressTest, take: Take
) -> None:
    original, inside, control = found.versions
    assert original.swapped.tokens == take.tokens
    assert np.array_equal(original.samples, take.audio)
    assert inside.swap == Swap(THETA)
    assert control.swap == Swap(THETA, replacement="random")
    assert inside.swapped.positions == control.swapped.positions == original.swapped.candidates != ()
    assert inside.swapped.tokens != control.swapped.tokens
    speaker = synthesizer.voice.references["two"]
    for version in found.versions:
        assert np.array_equal(version.samples, synthesizer.decode(list(version.swapped.tokens), speaker))


def test_every_figure_is_its_judges(found: StressTest) -> None:
    original, inside, control = (v.figures for v in found.versions)
    assert [original["wer"], inside["wer"], control["wer"]] == [0, 0.25, 0.5]
    samples, rate = [v.samples for v in found.versions], found.versions[0].sample_rate
    loudness = [float(np.abs(s).mean()) for s in samples]
    assert [original["dnsmos"], inside["dnsmos"], control["dnsmos"]] == loudness
    assert [original["similarity"], control["similarity"]] == [0, loudness[2] - loudness[0]]
    assert (original["mel_distance"], original["swapped"]) == (0, 0)
    assert inside["mel_distance"] == mel_distance(samples[1], samples[0], rate) > 0
    assert inside["mean_group_size"] > 1
    assert original["mean_group_size"] is control["mean_group_size"] is None
    assert set(found.judges) == {"WER, CER", "Speaker", "DNSMOS", "Mel distance"}


def test_the_record_holds_everything_and_is_json(found: StressTest, take: Take) -> None:
    record = found.record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["text"], record["voice"], record["method"], record["note"]) == (TEXT, "two", "ar", actions.NOTE)
    versions, differences = record["versions"], record["differences"]
    assert versions["original"]["tokens"] == list(take.tokens)
    assert versions["swapped"]["swap"] == {"theta": THETA, "similarity": "cosine", "replacement": "group", "fraction": 1.0}
    for name in ("swapped", "control"):
        assert differences[name]["dnsmos"] == pytest.approx(versions[name]["dnsmos"] - versions["original"]["dnsmos"], abs=2e-6)
        assert differences[name]["mean_group_size"] is None


def test_sounds_come_before_verdicts(synthesizer: Synthesizer, judges: Judges, session: Session) -> None:
    called: list[int] = []
    steps = stress(synthesizer, lambda: called.append(1) or judges, ASKED, session)
    assert [(len(s.versions), bool(called)) for s in (next(steps), next(steps))] == [(0, False), (3, False)]
    last = next(steps)
    assert (last.now, called, all(v.verdict for v in last.versions)) == ("", [1], True)


def test_a_new_text_is_spoken_in_company(synthesizer: Synthesizer, judges: Judges) -> None:
    speak = Mock(wraps=synthesizer.speak)
    asked = replace(ASKED, source="text", text=TEXT, temperature=0.6)
    list(stress(synthesizer, lambda: judges, asked, Session(), speak=speak))
    assert [call.args[1].temperature for call in speak.call_args_list] == [0.6]


def test_a_new_text_is_the_unit_of_the_experiments(
    synthesizer: Synthesizer, judges: Judges, tiny_voice_folder: Path, tmp_path: Path
) -> None:
    unit = Unit(Utterance(TEXT, "one"), Condition("", Settings("ar"), swap=Swap(THETA, fraction=0.5)), 0)
    asked = {"text": TEXT, "voice": "one", "fraction": 0.5, "seed": unit.settings.seed}
    there = done(synthesizer, judges, Session(), source="text", **asked)
    heard = WorkerSpec(str(tiny_voice_folder), "embedded", dnsmos=False, cache=tmp_path).load().sound(unit)
    assert (there.versions[1].swapped.tokens, there.versions[1].swapped.positions) == (heard.tokens, heard.swapped)
    assert (there.original.method, there.original.voice) == ("ar", "one")


def test_mel_groups_of_equal_mean_size_are_another_control(synthesizer: Synthesizer, judges: Judges, session: Session) -> None:
    theta = 0.6
    *_, control = done(synthesizer, judges, session, theta=theta, control="mel").versions
    assert control.swap == Swap(same_size_theta(synthesizer.library, theta, "mel"), "mel")


def test_the_control_may_be_left_out(synthesizer: Synthesizer, judges: Judges, session: Session) -> None:
    assert [v.name for v in done(synthesizer, judges, session, control="none").versions] == ["original", "swapped"]


def test_at_theta_one_nothing_is_replaced(synthesizer: Synthesizer, judges: Judges, session: Session) -> None:
    original, inside, control = done(synthesizer, judges, session, theta=1.0).versions
    assert original.swapped == inside.swapped == control.swapped
    assert inside.figures["mel_distance"] == 0


def test_the_targets_own_take_is_preferred_if_it_says_the_same(synthesizer: Synthesizer, take: Take) -> None:
    coarse = TakeView.of(synthesizer.take(TEXT, Settings("pcg", theta=THETA, seed=7), "two"))
    both = Session().with_take(TakeView.of(take)).with_take(coarse)
    assert said_by_target(both).reading.method == "ar"
    other = Session().with_take(replace(TakeView.of(take), text="Hello.")).with_take(coarse)
    assert said_by_target(other).reading == coarse


def test_a_take_that_ran_to_the_limit_is_said_to(synthesizer: Synthesizer, judges: Judges, take: Take) -> None:
    for cut in (False, True):
        reading = replace(TakeView.of(take), hit_limit=cut)
        there = done(synthesizer, judges, Session().with_take(reading))
        assert (figures.CUT in figures.original_html(there)) == cut


def test_a_take_by_a_recording_is_swapped_in_that_voice(synthesizer: Synthesizer, judges: Judges, take: Take) -> None:
    own, reading = synthesizer.voice.reference("one"), TakeView.of(replace(take, voice="your recording"))
    there = done(synthesizer, judges, Session().with_take(reading, reference=own))
    assert np.array_equal(there.versions[0].samples, synthesizer.decode(list(take.tokens), own))
    assert "in the voice of your recording" in figures.original_html(there)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"source": "dream"}, "source is 'dream'"),
        ({"control": "cosine"}, "control is 'cosine'"),
        ({"control": "mel", "similarity": "mel"}, "different from the similarity"),
        ({"theta": 7}, "theta is 7"),
        ({"theta": None}, "theta is missing"),
        ({"similarity": "taste"}, "similarity is 'taste'"),
        ({"fraction": 1.5}, "fraction is 1.5"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"seed": -1}, "seed is -1"),
        ({"source": "text", "text": " "}, "text is"),
        ({"source": "text", "text": TEXT, "voice": "three"}, "voice is 'three'"),
    ],
)
def test_bad_input_is_refused(
    changes: dict[str, object], told: str, synthesizer: Synthesizer, judges: Judges, session: Session
) -> None:
    with pytest.raises(PCGError, match=told):
        done(synthesizer, judges, session, **changes)


def test_without_an_utterance_there_is_nothing_to_swap(synthesizer: Synthesizer, judges: Judges) -> None:
    with pytest.raises(PCGError, match=actions.NO_TAKE):
        done(synthesizer, judges, Session())


def test_the_strips_mark_what_was_replaced(found: StressTest) -> None:
    original, inside, _ = found.versions
    sizes = original.swapped.group_sizes
    company, replaced = sum(size > 1 for size in sizes), len(inside.swapped.positions)
    assert [figures.strip_html(original).count(f'class="{k}"') for k in ("kept", "replaced")] == [company, 0]
    assert [figures.strip_html(inside).count(f'class="{k}"') for k in ("kept", "single", "replaced")] == [
        0,
        len(sizes) - company,
        replaced,
    ]
    assert f"{replaced} replaced" in figures.strip_html(inside)
    assert all(kind in figures.legend_html() for kind in ("kept", "alone in its group", "replaced"))


def test_the_table_says_what_the_record_says(found: StressTest) -> None:
    page = figures.table_html(found)
    assert "<td>0.0%</td><td>25.0%</td><td>50.0%</td><td>+25.0 points</td><td>+50.0 points</td>" in page
    assert actions.NOTE in page
    before = figures.table_html(replace(found, versions=tuple(replace(v, verdict=None) for v in found.versions)))
    assert "<td>–</td><td>–</td><td>–</td><td>–</td><td>–</td>" in before


def test_hostile_words_stay_words(found: StressTest) -> None:
    assert found.original is not None
    heard = tuple(replace(v, verdict=replace(v.verdict, heard=MARKUP)) for v in found.versions)
    hostile = replace(found, original=replace(found.original, text=MARKUP, voice=MARKUP), versions=heard)
    for page in (figures.original_html(hostile), figures.table_html(hostile), figures.heard_html(hostile.versions[1])):
        assert_words_stay_words(page)


def test_the_picture_shows_every_version(found: StressTest) -> None:
    figure = figures.mels_figure(found)
    assert [note.text for note in figure.layout.annotations] == ["original", "swapped", "control"]
    assert len([trace for trace in figure.data if trace.type == "heatmap"]) == 3


def test_titles_tell_what_was_done(found: StressTest) -> None:
    told = [figures.title_html(v.name, v.swap) for v in found.versions]
    assert "cosine 0.3" in told[1]
    assert "same positions" in told[2]


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer, session: Session, tiny_voice_folder: Path):
    with gr.Blocks() as app:
        create_swap(synthesizer, WorkerSpec(str(tiny_voice_folder), "embedded"), gr.State(session), in_hand())
    yield from serve_clients(app)


@pytest.mark.slow
def test_the_endpoint_answers_with_record_sounds_and_pictures(client: Client, take: Take) -> None:
    record, said, table, _, *views, status = client.predict(*vars(ASKED).values(), api_name="/swap")
    assert record["versions"]["swapped"]["positions"]
    assert "embedded recogniser" in record["judges"]["WER, CER"]
    assert ("the target alone" in said, "WER" in table) == (True, True)
    assert status.count("Swapped.") == 1
    sounds = [view for view in views if isinstance(view, str) and Path(view).suffix == ".wav"]
    assert all(soundfile.info(sound).frames == len(take.audio) for sound in sounds)


def test_the_endpoint_refuses_in_one_sentence(client: Client) -> None:
    with pytest.raises(AppError, match="different from the similarity"):
        client.predict(*{**vars(ASKED), "similarity": "mel", "control": "mel"}.values(), api_name="/swap")
