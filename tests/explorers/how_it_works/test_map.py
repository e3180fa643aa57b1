import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import torch
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.how_it_works.map import create_map, hear_token, take_tokens, token_group, whole_view, write_points
from explorers.session import Session, ShownTake
from explorers.theme import launch_options
from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.neighbours import build_neighbours
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.served import in_hand, serve_clients

THETA, CODES = 0.3, 60
USAGE = torch.arange(CODES)


class Library:
    """Groups of random vectors, so crowded that they overlap; codes 4 and 7 are twins."""

    def __init__(self) -> None:
        vectors = torch.randn(CODES, 5, generator=torch.Generator().manual_seed(3))
        vectors[7] = vectors[4]
        self.lists = build_neighbours(vectors, 0.2)

    def neighbours(self, similarity: str) -> object:
        return self.lists

    def groups(self, theta: float, similarity: str) -> Groups:
        return self.lists.groups_at(theta)


LIBRARY = Library()
CROWDED = SimpleNamespace(library=LIBRARY, voice=SimpleNamespace(usage=USAGE))


@pytest.fixture(scope="module")
def session(synthesizer: Synthesizer) -> Session:
    return Session().with_take(ShownTake.of(synthesizer.take("The quick brown fox.", Settings("pcg", seed=7), "two")))


@pytest.mark.parametrize("token", [0, 4, 7, 31])
@pytest.mark.parametrize("theta", [0.3, 0.6, 1.0])
def test_a_token_shows_its_group(token: int, theta: float) -> None:
    shown = SimpleNamespace(**token_group(CROWDED, token, theta, "cosine"))
    groups = LIBRARY.groups(theta, "cosine")
    sets = [set(groups.members_of(k).tolist()) for k in range(len(groups))]
    assert set(shown.members) == sets[int(groups.group_of_centre[token])]
    assert (len(shown.members), shown.members[0], shown.usage) == (shown.size, token, token)
    assert all(similarity > theta for similarity in shown.similarities[1:])
    assert list(shown.similarities) == sorted(shown.similarities, reverse=True)
    assert shown.count == sum(token in members for members in sets)


def test_a_token_is_a_whole_number_of_the_vocabulary() -> None:
    for token in (-1, CODES, 2.5, float("nan"), float("inf"), None, True, "3", [1], {"a": 1}):
        with pytest.raises(InputError, match=r"token is .*, but must be a whole number from 0 to 59\."):
            token_group(CROWDED, token, THETA, "cosine")
    assert token_group(CROWDED, 3.0, THETA, "cosine")["token"] == 3
    with pytest.raises(InputError, match=r"theta is 0\.1"):
        token_group(CROWDED, 5, 0.1, "cosine")


def test_the_points_keep_their_places_and_the_unused_stay_at_the_border(synthesizer: Synthesizer, tmp_path: Path) -> None:
    write_points(synthesizer, tmp_path / "map.json")
    written = json.loads((tmp_path / "map.json").read_text())
    x, y = np.array(written["x"]), np.array(written["y"])
    atlas = synthesizer.library.atlas()
    used = atlas.nearest[:, 0].numpy() != np.arange(written["count"])
    assert x[used].max() - x[used].min() > 30_000 or y[used].max() - y[used].min() > 30_000
    assert np.corrcoef(x[used], atlas.x.numpy()[used])[0, 1] == pytest.approx(1, abs=1e-3)


def test_a_take_keeps_to_the_map(session: Session) -> None:
    shown = session.in_hand("pcg")
    tokens = take_tokens(shown, 64)
    assert (tokens["method"], tokens["tokens"]) == ("PCG", [t for t in shown.take.tokens if t < 64])
    tested = [test.token for round_ in shown.take.rounds for test in round_.tests]
    assert len(tokens["accepted"]) + len(tokens["rejected"]) == sum(token < 64 for token in tested)
    assert take_tokens(None, 64) is None


def test_the_map_knows_every_size_and_says_how_many_sound_alikes_a_token_has(synthesizer: Synthesizer) -> None:
    groups = synthesizer.groups(THETA)
    sizes, view = groups.sizes[groups.group_of_centre], whole_view(synthesizer, None, None, THETA, "cosine")
    assert f"about {sizes.double().mean().item() - 1:.0f} sound-alikes" in view["about"]
    assert json.loads(view["sizes"]) == {"groups": sizes[:-1].tolist(), "counts": groups.count[:-1].tolist()}


def test_a_token_is_heard_alone_and_for_its_group_in_the_take(synthesizer: Synthesizer, session: Session) -> None:
    shown = session.in_hand("pcg")
    token = shown.take.tokens[3]
    words, single, placed = hear_token(synthesizer, shown, token, THETA, "cosine")
    members = token_group(synthesizer, token, THETA, "cosine")["members"]
    count = sum(t in members for t in shown.take.tokens)
    assert f"{count} of {len(shown.take.tokens)} tokens" in words
    assert len(placed.positions) == count > 0
    assert len(placed.samples) == len(shown.take.tokens) * synthesizer.voice.codec.hop
    assert len(single.samples) > 0
    words, _, placed = hear_token(synthesizer, None, token, THETA, "cosine")
    assert ("no take yet" in words, placed) == (True, None)


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer, session: Session) -> Iterator[Client]:
    with gr.Blocks() as app:
        create_map(synthesizer, gr.State(session), in_hand(), gr.HTML(js_on_load="trigger('locate')"))
    yield from serve_clients(app, **launch_options())


def test_programs_get_the_same_answers_and_are_told_what_is_wrong(client: Client, synthesizer: Synthesizer) -> None:
    assert client.predict(3, THETA, "cosine", api_name="/token_group") == token_group(synthesizer, 3, THETA, "cosine")
    with pytest.raises(AppError, match=r"Token must be a whole number from 0 to 63\."):
        client.predict(64, api_name="/token_group")
    with pytest.raises(AppError, match="Similarity must be one of cosine, "):
        client.predict(3, THETA, "<b>", api_name="/token_group")
