from dataclasses import replace
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.groups.listen_token import NO_TAKE, PROMPT, Listening, audition, create_listen, nearest_member
from explorers.session import Session, TakeView
from pcg.errors import PCGError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from tests.explorers.served import in_hand, serve_clients

THETA = 0.3


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take("The quick brown fox.", Settings("pcg", theta=THETA), "two")


@pytest.fixture(scope="module")
def session(take: Take) -> Session:
    return Session().with_take(TakeView.of(take))


@pytest.fixture(scope="module")
def anchor(synthesizer: Synthesizer, take: Take) -> int:
    groups = synthesizer.library.groups(THETA, "cosine")
    return next(t for t in take.tokens if groups.size(int(groups.group_of_centre[t])) > 2)


def hear(synthesizer: Synthesizer, session: Session, anchor: object, other: object = None, theta: float = THETA) -> Listening:
    shown = session.in_hand("pcg")
    return audition(synthesizer, shown, anchor, other, theta, "cosine")


def test_anchor_and_nearest_member_are_heard_alone_and_in_the_utterance(
    synthesizer: Synthesizer, session: Session, anchor: int, take: Take
) -> None:
    heard = hear(synthesizer, session, anchor)
    nearest, similarities = synthesizer.library.neighbours("cosine").of(anchor)
    assert float(similarities[1]) > THETA
    assert [a.token for a in heard.alone] == [anchor, int(nearest[1])] == [a.token for a in heard.context]
    assert heard.context[0].positions == heard.context[1].positions
    assert all(len(a.samples) == len(take.audio) for a in heard.context)
    count = len(heard.context[0].positions)
    assert f"{count} of {len(take.tokens)} tokens of the PCG take belong" in heard.words[-1]
    assert f"replaced by {anchor} in A and by {int(nearest[1])} in B." in heard.words[-1]
    assert "also in the group" in heard.words[0]
    # Twelve tokens of 40 ms.
    assert heard.words[1].startswith("Alone: 0.48 s each.")


def test_the_voice_of_the_take_is_the_context(synthesizer: Synthesizer, session: Session, take: Take) -> None:
    alone_at_one = hear(synthesizer, session, take.tokens[0], theta=1.0)
    assert np.array_equal(alone_at_one.context[0].samples, take.audio)


def test_a_take_by_a_recording_is_heard_in_that_voice(synthesizer: Synthesizer, take: Take) -> None:
    own, reading = synthesizer.voice.reference("one"), TakeView.of(replace(take, voice="your recording"))
    heard = hear(synthesizer, Session().with_take(reading, reference=own), take.tokens[0], theta=1.0)
    assert np.array_equal(heard.context[0].samples, synthesizer.decode(list(take.tokens), own))


def test_a_token_without_company_has_no_b(synthesizer: Synthesizer, session: Session, anchor: int) -> None:
    heard = hear(synthesizer, session, anchor, theta=1.0)
    assert len(heard.alone) == len(heard.context) == 1
    assert "contains nothing else" in heard.words[0]
    assert nearest_member(synthesizer, synthesizer.library.groups(1.0, "cosine"), anchor, "cosine") is None


def test_a_chosen_b_outside_the_group_is_told(synthesizer: Synthesizer, session: Session, anchor: int) -> None:
    heard = hear(synthesizer, session, float(anchor), float((anchor + 1) % 61), theta=1.0)
    assert [a.token for a in heard.alone] == [anchor, (anchor + 1) % 61]
    assert "not in the group" in heard.words[0]


def test_without_a_member_in_the_utterance_the_words_say_so(synthesizer: Synthesizer, session: Session, take: Take) -> None:
    absent = next(t for t in range(64) if t not in take.tokens)
    heard = hear(synthesizer, session, absent, theta=1.0)
    assert heard.context == ()
    assert "there is nothing to replace" in heard.words[-1]


def test_without_a_take_a_token_is_heard_alone(synthesizer: Synthesizer, anchor: int) -> None:
    heard = hear(synthesizer, Session(), anchor)
    assert (len(heard.alone), heard.context, heard.words[-1]) == (2, (), NO_TAKE)


def test_without_a_token_the_page_asks_for_one(synthesizer: Synthesizer, session: Session) -> None:
    assert hear(synthesizer, session, None) == Listening((PROMPT,))


@pytest.mark.parametrize(("anchor", "theta"), [(64, THETA), (-1, THETA), (2.5, THETA), (1, 7)])
def test_bad_input_is_refused(anchor: object, theta: float, synthesizer: Synthesizer, session: Session) -> None:
    with pytest.raises(PCGError, match=r"token is|theta is"):
        hear(synthesizer, session, anchor, theta=theta)


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer, session: Session):
    with gr.Blocks() as app:
        theta, similarity = gr.Slider(0.2, 1, THETA), gr.Dropdown(["cosine"], value="cosine")
        create_listen(
            synthesizer, gr.State(session), gr.Number(precision=0), gr.Number(precision=0), theta, similarity, in_hand()
        )
    yield from serve_clients(app)


def test_the_endpoint_answers_with_words_sounds_and_pictures(client: Client, anchor: int, take: Take) -> None:
    words, *sounds, alone, context = client.predict(anchor, (anchor + 1) % 61, THETA, "cosine", api_name="/listen")
    assert f"A is token <b>{anchor}</b>" in words
    lengths = [soundfile.info(Path(sound)).frames for sound in sounds]
    assert lengths == [12 * 640] * 2 + [len(take.audio)] * 2
    assert all(picture["visible"] and "heatmap" in picture["value"]["plot"] for picture in (alone, context))


def test_the_endpoint_refuses_in_one_sentence(client: Client) -> None:
    with pytest.raises(AppError, match="token is 99, but must be a whole number from 0 to 63"):
        client.predict(99, None, THETA, "cosine", api_name="/listen")
