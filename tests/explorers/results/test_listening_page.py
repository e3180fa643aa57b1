import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import gradio as gr
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from explorers.results.listening import (
    MARK,
    NO_TEST,
    BlindTest,
    ListeningRequest,
    create_listening_test,
    export,
    prepare,
    question,
    read_test,
    result_html,
    sounds,
    vote,
    write_test,
)
from explorers.shared.controls import setting
from explorers.theme import launch_options
from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests import ANCHOR, loudness
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import NEEDS_CHROMIUM
from tests.explorers.hostile import MARKUP, assert_words_stay_words
from tests.explorers.served import serve

LINES = ["yes ${hacked = 1}", "<b>fox</b>"]
KNOBS = {"theta": 0.3, "lookahead": 3, "beta": 0.3, "temperature": 0.6, "seed": 5}
ASKED = ListeningRequest(design="ab", compared=["AR", "PCG"], trials=2, voice="two", **KNOBS)
RATED = ASKED.with_(design="rating", compared=["PCG", "AR", "SD"])


@pytest.fixture(scope="module", autouse=True)
def few_texts() -> Iterator[None]:
    """Short ones, with markup, in place of the evaluation sentences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("explorers.results.listening.read_sentences", lambda: LINES)
        yield


def prepared(synthesizer: Synthesizer, request: ListeningRequest) -> BlindTest:
    *_, last = prepare(synthesizer, request)
    return last


def drawn(request: ListeningRequest) -> BlindTest:
    """A test without takes."""
    return BlindTest(request.plan(2), (MARKUP, MARKUP), request.voice, request.systems(), ())


def voted(test: BlindTest, answer: object = "A") -> BlindTest:
    while not test.over:
        test = vote(test, len(test.votes) + 1, answer, [1] * len(test.plan.design.letters))
    return test


def swapped(test: BlindTest) -> BlindTest:
    """The same sounds behind the same letters, made by the other method."""
    other = {"AR": "PCG", "PCG": "AR"}
    trials = tuple(replace(t, systems=tuple(other[s] for s in t.systems)) for t in test.plan.trials)
    tokens = tuple({other[name]: tokens for name, tokens in takes.items()} for takes in test.tokens)
    return replace(test, plan=replace(test.plan, trials=trials), tokens=tokens)


def sent_before_votes(synthesizer: Synthesizer, test: BlindTest) -> list[object]:
    sent: list[object] = []
    while not test.over:
        heard = sounds(synthesizer, test, np.random.default_rng(3))
        sent += [question(test), *(samples.tobytes() for samples in heard)]
        test = vote(test, len(test.votes) + 1, [1] if test.plan.design.kind == "cmos" else "B", [1] * len(heard))
    return sent


@pytest.mark.parametrize("design", ["ab", "abx", "cmos"])
def test_nothing_that_is_sent_before_the_vote_differs_with_the_identity(synthesizer: Synthesizer, design: str) -> None:
    *steps, test = prepare(synthesizer, ASKED.with_(design=design))
    assert steps == [f"Decoding take {at} of 4." for at in range(1, 5)]
    sent = sent_before_votes(synthesizer, test)
    assert sent == sent_before_votes(synthesizer, swapped(test))
    assert [t.systems for t in test.plan.trials] != [t.systems for t in swapped(test).plan.trials]
    # And what is sent does follow the sounds.
    assert sent != sent_before_votes(synthesizer, replace(swapped(test), plan=test.plan))
    told = json.dumps([message for message in sent if isinstance(message, dict)])
    assert not any(word in told for word in ("AR", "PCG", "theta", "seed"))


@pytest.mark.slow
def test_the_sounds_of_a_trial_are_the_takes_equally_loud_and_long(synthesizer: Synthesizer) -> None:
    test, rate = prepared(synthesizer, RATED), synthesizer.voice.codec.sample_rate
    trial = test.plan.trials[0]
    heard = dict(zip(test.plan.design.letters, sounds(synthesizer, test, np.random.default_rng(0)), strict=True))
    assert list(heard) == ["R", "A", "B", "C", "D"]
    assert len({len(samples) for samples in heard.values()}) == 1
    assert len({samples.tobytes() for samples in heard.values()}) == 5
    levels = []
    for samples, name in zip(heard.values(), trial.systems, strict=True):
        if name == ANCHOR:
            continue
        settings = test.systems[name].with_(seed=trial.seed)
        take = synthesizer.take(test.texts[trial.item], settings, "two")
        assert test.tokens[0][name] == take.tokens
        assert np.corrcoef(samples[: len(take.audio)], take.audio)[0, 1] > 0.999
        levels.append(loudness(samples[: len(take.audio)] / 2**15, rate))
    assert max(levels) - min(levels) < 0.2
    hidden = heard["ABCD"[trial.systems.index("AR", 1) - 1]]
    assert np.abs(hidden.astype(int) - heard["R"]).max() <= 3


def test_each_vote_counts_once_and_is_written_down(tmp_path: Path) -> None:
    blind_test = drawn(ASKED)
    once = vote(blind_test, 1, "tie", [1, 1])
    refusals = {
        "trial is 1, but must be 2": (once, 1, "A", [1, 1]),
        "given before B was played": (once, 2, "A", [1, 0]),
        "accepts no more votes": (voted(blind_test), 3, "A", [1, 1]),
        NO_TEST: (None, 1, "A", [1, 1]),
    }
    for sentence, given in refusals.items():
        with pytest.raises(PCGError, match=sentence):
            vote(*given)
    assert (len(once.votes), question(once)["number"], blind_test.votes) == (1, 2, ())
    record = json.loads(Path(export(tmp_path, voted(blind_test))).read_text())
    assert (record["outcome"]["n"], len(record["trials"])) == (2, 2)
    assert "seed" not in record["systems"]["PCG"]["settings"]


def test_the_result_tells_small_numbers_and_stays_words() -> None:
    page = result_html(voted(drawn(ASKED)))
    assert "n too small: 2 votes" in page
    assert "A: " in page
    assert_words_stay_words(page)
    rating = result_html(voted(drawn(RATED), [10, 20, 30, 5]))
    assert "PCG less AR" in rating
    assert "10 · 20 · 30 · 5" in rating
    assert "(n too small)" in rating  # and no interval of two trials
    assert "PCG over AR" in result_html(voted(drawn(ASKED.with_(design="cmos")), [2]))


def test_bad_requests_are_refused_in_one_sentence(synthesizer: Synthesizer) -> None:
    for changes, told in (
        ({"design": "x"}, "design is 'x'"), ({"compared": ["AR"]}, "exactly 2"), ({"compared": None}, "compared is missing"),
        ({"compared": ["AR", "??"]}, "what is compared is '\\?\\?'"), ({"trials": 31}, "trials is 31"),
        ({"voice": "nobody"}, "voice"), ({"theta": 7.0}, "theta is 7.0"), ({"seed": -1}, "seed is -1"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=told):
            next(prepare(synthesizer, ASKED.with_(**changes)))


SENT = RATED.with_(compared=["AR", "PCG", "SD"], theta=0.55, seed=7, similarity="mel")


def test_a_link_opens_the_same_test(synthesizer: Synthesizer) -> None:
    link = write_test(SENT, "http://here")
    assert link.startswith(f"http://here/{MARK}")
    assert len(link) < 400
    request = read_test(link, synthesizer)
    assert request == SENT
    assert request.plan(2) == SENT.plan(2)
    other = read_test(write_test(SENT.with_(seed=8), ""), synthesizer)
    assert other.plan(2) != request.plan(2)
    assert read_test("http://here/#take=abc", synthesizer) is None
    with pytest.raises(InputError):
        write_test(SENT.with_(compared=["AR"]), "")


def test_a_bad_link_is_refused(synthesizer: Synthesizer) -> None:
    changes = {"voice": "nobody", "theta": "nan", "seed": "x", "trials": "1000"}
    for name, value in changes.items():
        with pytest.raises(InputError, match=name):
            read_test(MARK + urlencode(dict(SENT) | {name: value}, doseq=True), synthesizer)
    for damaged in ("", "%%%", "abc"):
        with pytest.raises(InputError, match="is missing"):
            read_test(MARK + damaged, synthesizer)


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer) -> Iterator[str]:
    with gr.Blocks() as app, gr.Tab("Listening test"):
        knobs = ("theta", "lookahead", "beta", "temperature", "similarity")
        tuned = {"voice": gr.Dropdown(list(synthesizer.voice.references))} | {name: setting(name) for name in knobs}
        create_listening_test(app, synthesizer, tuned)
    yield from serve(app, **launch_options())


@pytest.fixture
def width() -> int:
    return 390


def prepare_and_play(page: Page, count: int) -> None:
    """Prepare a test of one trial, and play its sounds."""
    page.locator("#listening-trials input[type=number]").fill("1")
    page.keyboard.press("Tab")
    page.click("#listening-run")
    expect(page.locator(".ballot audio")).to_have_count(count)
    expect(page.locator(".ballot-vote button").first).to_be_disabled()
    for sound in page.locator(".ballot audio").all():
        sound.evaluate("sound => sound.play()")


@NEEDS_CHROMIUM
@pytest.mark.slow
def test_a_person_plays_votes_and_reads_the_result(page: Page, complaints: list[str]) -> None:
    prepare_and_play(page, 2)
    page.get_by_role("button", name="B is better").click()
    expect(page.locator("#listening-reveal")).to_contain_text("n too small: 1 vote")
    expect(page.locator("#listening-reveal")).to_contain_text("A: ")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []


@NEEDS_CHROMIUM
@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "count", "name", "key", "shown"),
    [("CMOS", 2, "A or B", "ArrowRight", "B is slightly better"), ("NMOS", 3, "Score of B", "End", "5")],
)
def test_scores_are_given_with_the_keyboard(
    page: Page, complaints: list[str], form: str, count: int, name: str, key: str, shown: str
) -> None:
    page.get_by_label(f"{form}: ").check()
    prepare_and_play(page, count)
    page.get_by_label(name).press(key)
    expect(page.locator(".ballot-vote")).to_contain_text(shown)
    page.get_by_role("button", name="Give these scores").click()
    expect(page.locator("#listening-reveal")).to_contain_text("n too small: 1 vote")
    assert complaints == []


@NEEDS_CHROMIUM
@pytest.mark.slow
def test_a_test_is_sent_round_by_its_link(page: Page, complaints: list[str]) -> None:
    page.get_by_label("Rating, 0 to 100").check()
    page.locator("#listening-seed input").fill("77")
    page.keyboard.press("Tab")
    page.click("#listening-link-make")
    expect(page.locator("#listening-link textarea")).not_to_have_value("")
    link = page.locator("#listening-link textarea").input_value()
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#listening-status")).to_contain_text("This test came by a link")
    expect(page.locator("#listening-seed input")).to_have_value("77")
    assert complaints == []
