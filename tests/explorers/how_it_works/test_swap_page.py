from collections.abc import Iterator, Sequence
from dataclasses import replace

import gradio as gr
import numpy as np
import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.how_it_works.swap import (
    NO_TAKE,
    ORIGINAL,
    SWAPPED,
    Version,
    create_swap,
    figures_html,
    heard_html,
    swap_test,
    take_to_swap,
)
from explorers.judging import Judges
from explorers.session import Session, ShownTake
from pcg.errors import PCGError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from tests.explorers.hostile import MARKUP, assert_words_stay_words
from tests.explorers.served import in_hand, serve_clients

TEXT, THETA = "The quick brown fox.", 0.3


class Parrot:
    """A judge that hears the first sound as it was meant, and a word less in each of the others."""

    name = MARKUP

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        return [TEXT.removesuffix(".").rsplit(maxsplit=i)[0] for i in range(len(recordings))]


class Loudness:
    """A metric and a speaker encoder that tell one sound from another by its level."""

    name = "a metric of the tests"

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        return np.array([self.score(samples, sample_rate), 1.0])

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        return float(np.abs(samples).mean())


Done = tuple[dict[str, Version], dict[str, str]]


def parrots() -> Judges:
    return Judges(Parrot(), Loudness(), Loudness())


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take(TEXT, Settings("ar", seed=7), "two")


@pytest.fixture(scope="module")
def session(take: Take) -> Session:
    return Session().with_take(ShownTake.of(take))


@pytest.fixture(scope="module")
def done(synthesizer: Synthesizer, session: Session) -> Done:
    *_, last = swap_test(synthesizer, parrots, session.in_hand("ar"), THETA, "cosine", 3)
    return last


def test_original_swap_and_control_differ_in_nothing_but_tokens_and_each_figure_is_its_judges(
    synthesizer: Synthesizer, done: Done, take: Take
) -> None:
    original, inside, control = done[0].values()
    assert original.swapped.tokens == take.tokens
    assert np.array_equal(original.samples, take.audio)
    # The control replaces as many codes, in the same places, by others.
    assert inside.swapped.positions == control.swapped.positions != ()
    assert inside.swapped.tokens != control.swapped.tokens
    speaker, loudness = synthesizer.voice.references["two"], []
    for version in done[0].values():
        assert np.array_equal(version.samples, synthesizer.decode(list(version.swapped.tokens), speaker))
        loudness.append(float(np.abs(version.samples).mean()))
    shown = [version.figures for version in (original, inside, control)]
    assert [figures["wer"] for figures in shown] == [0, 0.25, 0.5]
    assert [figures["dnsmos"] for figures in shown] == loudness
    assert [figures["similarity"] for figures in shown] == pytest.approx([1 + one * loudness[0] for one in loudness])
    assert (shown[0]["swapped"], shown[0]["mean_group_size"]) == (0, None)
    assert shown[1]["mean_group_size"] > 1


def test_the_take_of_ar_is_preferred_if_it_is_of_the_same_request(synthesizer: Synthesizer, take: Take) -> None:
    coarse = ShownTake.of(synthesizer.take(TEXT, Settings("pcg", theta=THETA, seed=7), "two"))
    both = Session().with_take(ShownTake.of(take)).with_take(coarse)
    assert take_to_swap(both, "pcg").take.settings.method == "ar"
    assert take_to_swap(both.holding(2), "pcg").take.settings.method == "pcg"
    other = Session().with_take(ShownTake.of(replace(take, text="Hello."))).with_take(coarse)
    assert take_to_swap(other, "pcg").take.settings.method == "pcg"


def test_a_take_by_a_recording_is_swapped_in_that_voice(synthesizer: Synthesizer, take: Take) -> None:
    own, made = synthesizer.voice.reference("one"), replace(take, voice="your recording")
    shown = ShownTake.of(made, reference=own)
    versions, _ = next(swap_test(synthesizer, parrots, shown, THETA, "cosine", 3))
    assert np.array_equal(versions[ORIGINAL].samples, synthesizer.decode(list(take.tokens), own))
    assert "voice your recording" in heard_html(ORIGINAL, versions[ORIGINAL], made)


def test_bad_input_is_refused(synthesizer: Synthesizer, session: Session) -> None:
    for values, told in (((7, "cosine", 3), "theta is 7"), ((0.3, "taste", 3), "similarity is 'taste'"),
                         ((0.3, "cosine", 0.5), "seed is 0.5"), ((0.3, "cosine", -1), "seed is -1")):  # fmt: skip
        with pytest.raises(PCGError, match=told):
            next(swap_test(synthesizer, parrots, session.in_hand("ar"), *values))
    with pytest.raises(PCGError, match=NO_TAKE):
        next(swap_test(synthesizer, parrots, None, THETA, "cosine", 3))


def test_the_page_says_what_was_measured_and_hostile_words_stay_words(done: Done, take: Take) -> None:
    inside, table = done[0][SWAPPED], figures_html(*done)
    assert "<td>0 %</td><td>25 %</td><td>50 %</td>" in table
    told = f"{len(inside.swapped.positions)} of {len(inside.swapped.tokens)} tokens replaced"
    assert told in heard_html(SWAPPED, inside, take)
    spoken = replace(inside, figures=inside.figures | {"heard": MARKUP})
    hostile = heard_html(ORIGINAL, spoken, replace(take, text=MARKUP, voice=MARKUP))
    for page in (hostile, table):
        assert_words_stay_words(page)


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer, session: Session) -> Iterator[Client]:
    with gr.Blocks() as app:
        create_swap(synthesizer, parrots, gr.State(session), in_hand())
    yield from serve_clients(app)


def test_the_endpoint_answers_with_record_and_sounds(client: Client, take: Take) -> None:
    first, last = client.submit(THETA, "cosine", 3, "pcg", api_name="/swap")  # sounds come before verdicts
    record, table, _, words, *_, status = last
    assert record["versions"]["swapped"]["swapped"] > 0
    assert set(record["judges"]) == {"WER", "Speaker", "DNSMOS"}
    assert ("By AR" in words, "WER" in table, "judged" in status) == (True, True, True)
    sounds = [view for view in first if isinstance(view, str) and view.endswith(".wav")]
    assert [soundfile.info(sound).frames for sound in sounds] == [len(take.audio)] * 3
    with pytest.raises(AppError, match="greater than maximum"):
        client.predict(7, "cosine", 3, "pcg", api_name="/swap")
