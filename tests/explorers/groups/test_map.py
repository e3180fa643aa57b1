import base64
import json
import zlib
from collections.abc import Iterator

import gradio as gr
import numpy as np
import pytest
import torch
from gradio.utils import deep_hash
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.groups.actions import check_token, equal_theta, group_sizes, pack, token_group, token_pair, utterances
from explorers.groups.layout import create_map, look
from explorers.session import Session, TakeView
from explorers.shared.blocks import SIMILARITY_NAMES
from explorers.theme import launch_options
from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.neighbours import build_neighbours
from pcg.settings import SIMILARITIES, Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.served import serve_clients

THETA = 0.3
CODES = 60


class Library:
    """Groups of random vectors, so crowded that they overlap."""

    def __init__(self) -> None:
        vectors = torch.randn(CODES, 5, generator=torch.Generator().manual_seed(3))
        vectors[7] = vectors[4]
        self.lists = build_neighbours(vectors, 0.2)

    def neighbours(self, similarity: str) -> object:
        return self.lists

    def groups(self, theta: float, similarity: str) -> Groups:
        return self.lists.groups_at(theta)


LIBRARY = Library()
USAGE = torch.arange(CODES)


def sets_at(theta: float) -> dict[int, set[int]]:
    """The groups by number, the slow way."""
    groups = LIBRARY.groups(theta, "cosine")
    return {k: set(groups.members_of(k).tolist()) for k in range(len(groups))}


def unpacked(text: str, rows: int) -> np.ndarray:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(-1, 4, rows)
    return (planes.astype(np.int64) << np.array([0, 8, 16, 24])[:, None]).sum(1)


@pytest.mark.parametrize("token", [0, 4, 7, 31])
@pytest.mark.parametrize("theta", [0.3, 0.6, 1.0])
def test_a_token_shows_its_group_and_what_overlaps_it(token: int, theta: float) -> None:
    shown, sets = token_group(LIBRARY, USAGE, token, theta, "cosine"), sets_at(theta)
    assert set(shown.neighbours[: shown.size]) == sets[shown.group]
    assert shown.neighbours[0] == token
    assert all(similarity > theta for similarity in shown.similarities[1 : shown.size])
    assert all(similarity <= theta for similarity in shown.similarities[shown.size :])
    assert shown.count == sum(token in members for members in sets.values())
    assert shown.usage == token
    others = {k: len(sets[k] & sets[shown.group]) for k in sets if k != shown.group and sets[k] & sets[shown.group]}
    assert {o.group: o.shared for o in shown.overlaps} == others
    assert shown.overlapping == len(others)
    assert [o.shared for o in shown.overlaps] == sorted(others.values(), reverse=True)
    known = dict(zip(shown.neighbours, shown.similarities, strict=True))
    for overlap in shown.overlaps:
        assert overlap.size == len(sets[overlap.group])
        assert overlap.holds_token == (token in sets[overlap.group])
        assert overlap.similarity == known.get(overlap.centre)
        assert int(LIBRARY.groups(theta, "cosine").group_of_centre[overlap.centre]) == overlap.group


@pytest.mark.parametrize("theta", [0.25, 0.5, 0.8])
def test_two_tokens_are_together_exactly_when_a_group_holds_both(theta: float) -> None:
    sets = sets_at(theta)
    for first in range(0, CODES, 3):
        for second in range(1, CODES, 5):
            if first == second:
                continue
            pair = token_pair(LIBRARY, first, second, theta, "cosine")
            holding = {k for k, members in sets.items() if {first, second} <= members}
            assert pair.shared == len(holding)
            assert {link.group for link in pair.links} <= holding
            assert (pair.meeting is not None and theta < pair.meeting) == bool(holding)


def test_theta_would_have_to_move_just_as_far_as_is_said() -> None:
    for second in (4, 9, 23, 40):
        meeting = token_pair(LIBRARY, 0, second, THETA, "cosine").meeting
        if meeting is None:
            assert not any({0, second} <= members for members in sets_at(0.2).values())
        else:
            assert any({0, second} <= members for members in sets_at(meeting - 1e-4).values())
            assert not any({0, second} <= members for members in sets_at(meeting + 1e-4).values())


def pair_where(theta: float, wanted: object) -> object:
    pairs = (token_pair(LIBRARY, a, b, theta, "cosine") for a in range(CODES) for b in range(a))
    return next(pair for pair in pairs if wanted(pair))


def test_the_reasons_are_told_in_words() -> None:
    near = pair_where(0.5, lambda p: p.similarity and 0.5 < p.similarity < 0.9)
    assert near.sentences()[0].startswith("Together at theta 0.50: ")
    assert "above theta: each is in the other's group." in near.sentences()[1]
    third = pair_where(0.5, lambda p: p.shared and p.similarity and p.similarity < 0.5)
    assert "below theta: neither is in the other's group." in third.sentences()[1]
    assert f"Token {third.links[0].centre} is near both" in third.sentences()[2]
    assert f"to {third.meeting:.3f}." in third.sentences()[3]
    apart = pair_where(0.9, lambda p: not p.shared and p.meeting and p.via not in (p.first, p.second))
    assert apart.sentences()[0] == "Apart at theta 0.90: no group holds both."
    assert f"below {apart.meeting:.3f}, in the group of token {apart.via}." in apart.sentences()[-1]
    strange = pair_where(0.5, lambda p: p.meeting is None)
    assert strange.sentences()[1:] == (
        "Their similarity is not above 0.2, where the neighbour lists end.",
        "No theta from 0.2 on brings them together.",
    )


def test_twins_part_at_one_only() -> None:
    pair = token_pair(LIBRARY, 4, 7, 0.99, "cosine")
    assert (pair.similarity, pair.meeting, pair.shared) == (1.0, 1.0, 1)
    assert token_pair(LIBRARY, 4, 7, 1.0, "cosine").shared == 0


@pytest.mark.parametrize("token", [-1, CODES, 2.5, float("nan"), float("inf"), None, True, "3", [1], {"a": 1}])
def test_a_token_is_a_whole_number_of_the_vocabulary(token: object) -> None:
    for ask in (
        lambda: token_group(LIBRARY, USAGE, token, THETA, "cosine"),
        lambda: token_pair(LIBRARY, 1, token, THETA, "cosine"),
    ):
        with pytest.raises(InputError, match=r"token is .*, but must be a whole number from 0 to 59\."):
            ask()
    assert check_token("token", 3.0, CODES) == 3


def test_a_token_is_compared_with_another_one() -> None:
    with pytest.raises(InputError, match="another token than 5"):
        token_pair(LIBRARY, 5, 5, THETA, "cosine")
    with pytest.raises(InputError, match=r"theta is 0\.1"):
        token_group(LIBRARY, USAGE, 5, 0.1, "cosine")


def test_sizes_and_counts_travel_packed() -> None:
    groups = LIBRARY.groups(0.5, "cosine")
    sizes, spare = unpacked(group_sizes(groups), CODES)
    assert sizes.tolist() == groups.sizes[groups.group_of_centre][:-1].tolist()
    assert (sizes - spare).tolist() == groups.count[:-1].tolist()
    wide = np.array([0, 255, 65536, 2**32 - 1])
    assert unpacked(pack(wide), 4).tolist() == [wide.tolist()]


def test_a_full_vocabulary_fits_one_message() -> None:
    generator = np.random.default_rng(0)
    sizes = np.exp(generator.normal(3, 1.2, 2**16)).astype(int) + 1
    assert len(pack(sizes, generator.binomial(sizes, 0.02))) < 180_000


def reading(method: str, tokens: tuple[int, ...]) -> TakeView:
    drafts = ((tokens[0], True), (tokens[-1], False), (CODES, True))
    shape = (("accepted",) * len(tokens), (1,) * len(tokens), tokens, drafts)
    return TakeView(Settings(method), "Hello.", "one", 1.5, 100.0, 0.3, 0.5, 2.0, False, *shape)


def test_an_utterance_keeps_to_the_map_and_the_last_one_comes_first() -> None:
    session = Session().with_take(reading("ar", (1, 2, CODES)), True).with_take(reading("pcg", (5, 6, 5)), True)
    told = utterances(session, CODES)
    assert list(told) == ["pcg", "ar"]
    assert told["pcg"] == {"tokens": [5, 6, 5], "accepted": [5], "rejected": [5]}
    assert told["ar"] == {"tokens": [1, 2], "accepted": [1], "rejected": []}
    assert utterances(Session(), CODES) == {}


def test_a_changed_session_is_noticed() -> None:
    session = Session()
    assert deep_hash(session) != deep_hash(session.with_take(reading("pcg", (5, 6)), True))


def test_every_similarity_has_a_name() -> None:
    assert set(SIMILARITY_NAMES) == set(SIMILARITIES)


def test_the_scene_is_what_was_asked_for_and_json(synthesizer: Synthesizer) -> None:
    scene = look(synthesizer, 3.0, 8, THETA, "cosine")
    assert (scene.anchor, scene.second) == (3, 8)
    sent = json.loads(json.dumps(scene.prop))
    assert sent["group"]["token"] == 3
    assert sent["pair"]["sentences"][0].startswith(("Together", "Apart"))
    nothing = look(synthesizer, None, 8, THETA, "cosine")
    assert (nothing.anchor, nothing.second, nothing.prop["group"], nothing.prop["pair"]) == (None, None, None, None)


@pytest.mark.parametrize("after", SIMILARITIES)
def test_another_similarity_keeps_the_groups_as_large(synthesizer: Synthesizer, after: str) -> None:
    lists = synthesizer.library.neighbours(after)
    theta = equal_theta(synthesizer.library, THETA, "cosine", after)
    wanted = synthesizer.statistics(THETA).mean_size
    others = [0.2 + 0.01 * i for i in range(81)]
    best = min(abs(lists.mean_size_at(other) - wanted) for other in others)
    assert abs(lists.mean_size_at(theta) - wanted) <= best + 1e-9


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer) -> Iterator[Client]:
    with gr.Blocks() as app:
        create_map(synthesizer, gr.State(Session()))
    yield from serve_clients(app, **launch_options())


def test_programs_get_the_same_answers(client: Client, synthesizer: Synthesizer) -> None:
    group = client.predict(3, THETA, "cosine", api_name="/token_group")
    assert group == json.loads(json.dumps(look(synthesizer, 3, None, THETA, "cosine").prop["group"]))
    pair = client.predict(3, 8, THETA, api_name="/token_pair")
    assert pair["first"] == 3
    assert pair["second"] == 8
    sizes = unpacked(client.predict(THETA, api_name="/token_sizes"), synthesizer.voice.codec.codebook_size)
    assert sizes[0, 3] == group["size"]


def test_programs_are_told_what_is_wrong(client: Client) -> None:
    with pytest.raises(AppError, match=r"token is 64, but must be a whole number from 0 to 63\."):
        client.predict(64, api_name="/token_group")
    with pytest.raises(AppError, match=r"similarity is '&lt;b&gt;', but must be one of cosine, "):
        client.predict(3, THETA, "<b>", api_name="/token_group")
