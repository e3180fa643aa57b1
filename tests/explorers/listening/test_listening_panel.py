import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorers.listening.actions import (
    MOST_KEPT,
    NO_TAKE,
    NO_TEST,
    NOT_OVER,
    BlindTest,
    ListeningRequest,
    Preparing,
    end,
    export,
    judge,
    keep,
    last_settings,
    name_of,
    prepare,
    question,
    sound_of,
    sounds,
    vote,
    write_sounds,
)
from explorers.listening.reveal import reveal_html
from explorers.session import Session
from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests import ANCHOR, loudness
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.hostile import MARKUP, assert_words_stay_words
from tests.explorers.listening.ears import ASKED, FakeEars

RATED = replace(ASKED, design="rating", compared=("PCG", "AR", "SD"), reference="AR", anchor=True)


def prepared(synthesizer: Synthesizer, request: ListeningRequest, kept: dict[str, Settings] | None = None) -> BlindTest:
    *steps, last = prepare(synthesizer, request, kept or {})
    assert [step.done for step in steps] == list(range(steps[0].count))
    return last


@pytest.fixture(scope="module")
def blind_test(synthesizer: Synthesizer) -> BlindTest:
    return prepared(synthesizer, ASKED)


def voted(blind_test: BlindTest, answer: object = "A") -> BlindTest:
    plays = [1] * len(blind_test.plan.design.letters)
    while not blind_test.over:
        blind_test = vote(blind_test, len(blind_test.votes) + 1, answer, plays)
    return blind_test


def swapped(blind_test: BlindTest) -> BlindTest:
    """The same sounds behind the same letters, made by the other method."""
    other = {"AR": "PCG", "PCG": "AR"}
    trials = tuple(replace(t, systems=tuple(other[s] for s in t.systems)) for t in blind_test.plan.trials)
    takes = tuple({other[name]: reading for name, reading in takes.items()} for takes in blind_test.takes)
    return replace(blind_test, plan=replace(blind_test.plan, trials=trials), takes=takes)


def messages(synthesizer: Synthesizer, blind_test: BlindTest, folder: Path) -> list[object]:
    """All that a listener gets before the votes: words, names of files and their bytes."""
    sent: list[object] = []
    while not blind_test.over:
        folder.mkdir(exist_ok=True)
        paths = write_sounds(synthesizer, folder, blind_test, np.random.default_rng(3))
        sent += [question(blind_test), *((path.name, path.read_bytes()) for path in paths)]
        blind_test = vote(blind_test, len(blind_test.votes) + 1, "B", [1] * len(paths))
    return sent


@pytest.mark.parametrize("design", ["ab", "abx"])
def test_nothing_that_is_sent_before_the_vote_differs_with_the_identity(
    synthesizer: Synthesizer, tmp_path: Path, design: str
) -> None:
    blind_test = prepared(synthesizer, replace(ASKED, design=design))
    sent = messages(synthesizer, blind_test, tmp_path)
    assert sent == messages(synthesizer, swapped(blind_test), tmp_path)
    assert [t.systems for t in blind_test.plan.trials] != [t.systems for t in swapped(blind_test).plan.trials]
    # And what is sent does follow the sounds.
    exchanged = replace(swapped(blind_test), plan=blind_test.plan)
    assert sent != messages(synthesizer, exchanged, tmp_path)
    told = json.dumps([message for message in sent if isinstance(message, dict)])
    assert not any(word in told for word in ("AR", "PCG", "theta", "seed"))


def test_progress_does_not_tell_whose_take_comes_next(synthesizer: Synthesizer) -> None:
    for compared in (("AR", "PCG"), ("SD", "SSD")):
        *steps, _ = prepare(synthesizer, replace(ASKED, compared=compared), {})
        assert steps == [Preparing(done, 4) for done in range(4)]


@pytest.mark.slow
def test_the_sounds_of_a_trial_are_the_takes_equally_loud_and_long(synthesizer: Synthesizer) -> None:
    blind_test, rate = prepared(synthesizer, RATED), synthesizer.voice.codec.sample_rate
    trial = blind_test.plan.trials[0]
    heard = dict(zip(blind_test.plan.design.letters, sounds(synthesizer, blind_test, np.random.default_rng(0)), strict=True))
    assert list(heard) == ["R", "A", "B", "C", "D"]
    assert len({len(samples) for samples in heard.values()}) == 1
    assert len({samples.tobytes() for samples in heard.values()}) == 5
    levels = []
    for samples, name in zip(heard.values(), trial.systems, strict=True):
        take = synthesizer.take(
            blind_test.texts[trial.item], blind_test.systems.get(name, blind_test.systems["AR"]).with_(seed=trial.seed), "two"
        )
        if name != ANCHOR:
            assert np.array_equal(sound_of(synthesizer, blind_test, 0, name), take.audio)
            assert np.corrcoef(samples[: len(take.audio)], take.audio)[0, 1] > 0.999
        levels.append(loudness(samples[: len(take.audio)] / 2**15, rate))
    assert max(levels) - min(levels) < 0.2
    hidden = heard["ABCD"[trial.systems.index("AR", 1) - 1]]
    assert np.abs(hidden.astype(int) - heard["R"]).max() <= 3


def test_a_sitting_takes_each_vote_once(blind_test: BlindTest) -> None:
    once = vote(blind_test, 1, "tie", [1, 1])
    refusals = {
        "trial is 1, but must be 2": (once, 1, "A", [1, 1]),
        "given before B was played": (once, 2, "A", [1, 0]),
        "answer is 'X'": (once, 2, "X", [1, 1]),
        "accepts no more votes": (voted(blind_test), 3, "A", [1, 1]),
        NO_TEST: (None, 1, "A", [1, 1]),
    }
    for sentence, given in refusals.items():
        with pytest.raises(PCGError, match=sentence):
            vote(*given)
    # What was refused changed nothing.
    assert (len(once.votes), question(once)["number"], blind_test.votes) == (1, 2, ())


def test_who_was_who_is_told_only_in_the_end(blind_test: BlindTest, synthesizer: Synthesizer, tmp_path: Path) -> None:
    for refused in (
        blind_test.record,
        lambda: export(tmp_path, blind_test),
        lambda: list(judge(synthesizer, FakeEars, blind_test)),
    ):
        with pytest.raises(PCGError, match=NOT_OVER):
            refused()
    assert list(tmp_path.iterdir()) == []
    early = end(vote(blind_test, 1, "A", [1, 1]))
    assert (early.over, early.record()["outcome"]["n"], early.record()["trials"][1]["vote"]) == (True, 1, None)
    with pytest.raises(PCGError, match=NO_TEST):
        end(None)


def test_the_record_says_who_how_fast_and_how_good(blind_test: BlindTest, synthesizer: Synthesizer, tmp_path: Path) -> None:
    *_, judged = judge(synthesizer, FakeEars, voted(blind_test))
    record = judged.record()
    assert json.loads(json.dumps(record, allow_nan=False)) == json.loads(json.dumps(record))
    assert record["systems"]["AR"]["speed_up"] == 1.0
    assert record["systems"]["PCG"]["judged"]["wer"]["value"] == 0.25
    assert "seed" not in record["systems"]["PCG"]["settings"]
    assert (record["seed"], record["judges"]) == (5, FakeEars().names("the voice's reference"))
    json_path, csv_path = export(tmp_path, judged)
    assert json.loads(json_path.read_text())["trials"] == json.loads(json.dumps(record))["trials"]
    assert len(list(csv.DictReader(csv_path.open()))) == 4


@pytest.mark.slow
def test_the_reveal_tells_differences_and_small_numbers(blind_test: BlindTest, synthesizer: Synthesizer) -> None:
    drafting = {"lookahead", "adaptive", "lookahead_cost", "verification"}
    assert set(blind_test.differences()) == {"method", "theta", "similarity", *drafting}
    page = reveal_html(voted(blind_test))
    assert "n too small: 2 votes count" in page
    assert "Judging; the figures follow" in page
    *_, judged = judge(synthesizer, FakeEars, voted(blind_test))
    assert "nobody &lt;b&gt;" in reveal_html(judged)
    rating = voted(prepared(synthesizer, RATED), [10, 20, 30, 40])
    page = reveal_html(rating)
    assert "PCG less AR" in page
    assert "10 · 20 · 30 · 40" in page


def test_every_setting_in_which_systems_differ_is_told(blind_test: BlindTest) -> None:
    usual, other = Settings(), Settings(
        theta=0.4, lookahead=2, temperature=0.7, adaptive=True, similarity="mel", top_k=5, top_p=0.9, repetition_penalty=1.1,
        hierarchical=True, verification="block", lookahead_cost=0.1, seed=1,
    )  # fmt: skip
    systems = {"usual": usual, "other": other, "eas": Settings(sampler="eas"), "ssd": Settings("ssd", beta=0.4)}
    told = replace(blind_test, systems=systems).differences()
    assert set(told) == set(Settings.model_fields) - {"seed"}
    assert replace(blind_test, systems={"a": usual, "b": usual.with_(seed=1, beta=0.9)}).differences() == {}


def test_hostile_words_stay_words(synthesizer: Synthesizer) -> None:
    blind_test = prepared(synthesizer, replace(ASKED, lines=MARKUP, trials=1))
    assert_words_stay_words(reveal_html(voted(blind_test)))


def test_kept_settings_have_names_that_tell_them_apart(synthesizer: Synthesizer) -> None:
    kept = keep({}, [Settings("pcg", theta=0.3, seed=1), Settings("pcg", theta=0.3, seed=2), Settings("pcg", theta=0.4)])
    assert list(kept) == ["PCG · theta 0.3 · lookahead 3 · temperature 0.8", "PCG · theta 0.4 · lookahead 3 · temperature 0.8"]
    odd = [Settings("pcg", similarity="mel"), Settings("sd", adaptive=True), Settings("ar", adaptive=True)]
    odd += [Settings(sampler="eas"), Settings(top_p=0.9), Settings("sd", verification="block"), Settings(lookahead_cost=0.1)]
    said = ["by mel", "adaptive", "temperature 0.8", "EAS", "top p 0.9", "block verification", "lookahead cost 0.1"]
    assert [name_of(s).split(" · ")[-1] for s in odd] == said
    blind_test = prepared(synthesizer, replace(ASKED, compared=tuple(kept), trials=1), kept)
    assert blind_test.differences() == {"theta": dict(zip(kept, (0.3, 0.4), strict=True))}
    with pytest.raises(InputError, match="stored settings"):
        keep(kept, [Settings("ssd", beta=i / 100) for i in range(MOST_KEPT)])
    with pytest.raises(PCGError, match=NO_TAKE):
        last_settings(Session())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"design": "x"}, "design is 'x'"),
        ({"compared": ("AR",)}, "exactly 2"),
        ({"compared": None}, "exactly 2"),
        ({"compared": ("AR", "??")}, "what is compared is '\\?\\?'"),
        ({"design": "rating", "reference": "SD"}, "reference is 'SD'"),
        ({"source": "web"}, "texts is 'web'"),
        ({"lines": " \n "}, "number of lines is 0"),
        ({"lines": "a\n" * 61}, "number of lines is 61"),
        ({"lines": "?!"}, "must be English text"),
        ({"lines": "hello, is this one sentence, " * 18}, "about ten seconds"),
        ({"trials": 31}, "number of trials is 31"),
        ({"trials": 0}, "number of trials is 0"),
        ({"trials": float("nan")}, "number of trials"),
        ({"trials": None}, "number of trials"),
        ({"voice": "nobody"}, "voice"),
        ({"theta": 7.0}, "theta is 7.0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(synthesizer: Synthesizer, changes: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        list(prepare(synthesizer, replace(ASKED, **changes), {}))


def test_a_closed_preparation_stops(synthesizer: Synthesizer) -> None:
    steps = prepare(synthesizer, ASKED, {})
    next(steps)
    steps.close()
    assert list(steps) == []
