"""A listening test that is sent round by a link."""

from dataclasses import asdict, replace

import pytest

from explorers.listening.actions import ListeningRequest, name_of, prepare
from explorers.listening.link import FORMAT, MARK, read_test, write_test
from pcg.errors import InputError
from pcg.saved_take import pack_json
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.listening.ears import ASKED

DIGEST = "0123456789abcdef"
WIDE = Settings("pcg", theta=0.3, similarity="mel")
KEPT = {name_of(WIDE): WIDE, "unused": Settings("sd")}
SENT = replace(
    ASKED, design="rating", compared=["PCG", name_of(WIDE), "AR"], reference="AR", anchor=True, source="own",
    lines="hello\nyes", theta=0.55, seed=7, similarity="mel",
)  # fmt: skip


def packed(**changes: object) -> str:
    values = asdict(replace(SENT, compared=["AR", "PCG"])) | changes
    return MARK + pack_json([FORMAT, "0123", list(values.values()), []])


def test_whoever_opens_it_has_the_same_test(synthesizer: Synthesizer) -> None:
    link = write_test(SENT, KEPT, DIGEST, "http://here")
    assert link.startswith(f"http://here/{MARK}")
    assert len(link) < 400
    request, kept, digest = read_test(link, synthesizer)
    assert (kept, digest) == ({name_of(WIDE): WIDE}, DIGEST[:12])
    assert request.systems(kept) == SENT.systems(KEPT)
    assert replace(request, compared=SENT.compared) == SENT
    *_, theirs = prepare(synthesizer, request, kept)
    *_, ours = prepare(synthesizer, SENT, KEPT)
    assert theirs.plan == ours.plan
    said = [[{name: reading.tokens for name, reading in trial.items()} for trial in test.takes] for test in (theirs, ours)]
    assert said[0] == said[1]


def test_a_preset_is_sent_by_its_settings(synthesizer: Synthesizer) -> None:
    mine = {"mine": Settings("sd"), "AR": WIDE, **KEPT}
    asked = replace(SENT, compared=["mine", "AR"], reference="mine")
    request, kept, _ = read_test(write_test(asked, mine, DIGEST, ""), synthesizer)
    name = name_of(Settings("sd"))
    assert (request.compared, request.reference, kept) == (["AR", name], name, {name: Settings("sd")})
    assert request.systems(kept) == {"AR": asked.settings("ar"), name: Settings("sd")}


def test_a_link_of_before_there_was_a_similarity_is_of_cosine_groups(synthesizer: Synthesizer) -> None:
    values = list(asdict(replace(SENT, compared=["AR", "PCG"])).values())
    request, *_ = read_test(MARK + pack_json([1, "0123", values[:-1], []]), synthesizer)
    assert (request.similarity, request.theta) == ("cosine", SENT.theta)


def test_another_seed_is_another_test(synthesizer: Synthesizer) -> None:
    one, other = (read_test(write_test(replace(SENT, seed=seed), KEPT, DIGEST, ""), synthesizer)[0] for seed in (1, 2))
    plans = [each.plan(list(each.systems(KEPT)), 2) for each in (one, other)]
    assert plans[0] != plans[1]


def test_lines_that_are_not_said_are_not_sent(synthesizer: Synthesizer) -> None:
    request, *_ = read_test(write_test(replace(SENT, source="evaluation"), KEPT, DIGEST, ""), synthesizer)
    assert request.lines == ""


def test_an_address_without_a_test_is_none(synthesizer: Synthesizer) -> None:
    assert read_test("http://here/#take=abc", synthesizer) is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"design": "duel"}, "design"),
        ({"voice": "nobody"}, "voice"),
        ({"theta": 7}, "theta"),
        ({"seed": "x"}, "seed"),
        ({"trials": 1000}, "trials"),
        ({"trials": None}, "trials"),
        ({"compared": "AR"}, "compared"),
        ({"compared": ["AR", "nobody"]}, "compared"),
        ({"reference": 3}, "reference"),
        ({"source": "radio"}, "texts"),
        ({"lines": "!!!"}, "text"),
        ({"lines": ["hello"]}, "lines"),
    ],
)
def test_what_no_control_could_hold_is_refused(synthesizer: Synthesizer, changes: dict[str, object], field: str) -> None:
    assert isinstance(read_test(packed(), synthesizer)[0], ListeningRequest)
    with pytest.raises(InputError, match=field):
        read_test(packed(**changes), synthesizer)


@pytest.mark.parametrize(
    "written", ["", "%%%", "abc", pack_json([2, "", [], []]), pack_json([FORMAT, "", [1], []]), pack_json({})]
)
def test_a_damaged_link_is_refused(synthesizer: Synthesizer, written: str) -> None:
    with pytest.raises(InputError, match="link"):
        read_test(MARK + written, synthesizer)


def test_a_test_that_could_not_be_prepared_has_no_link() -> None:
    with pytest.raises(InputError):
        write_test(replace(SENT, compared=["AR"]), KEPT, DIGEST, "")
