"""What the stage is told of the takes, and what the claim above it is made of."""

import json
import re
from pathlib import Path

import pytest

from explorers.judging import JudgedTake, Verdicts
from explorers.listen.claim import Measured, claim_html, measured
from explorers.listen.stage import stage_value
from explorers.session import Session, TakeView
from pcg.audio import write_wav
from pcg.metrics.intelligibility import Errors, misheard_words
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer

TEXT = "Hello, this is No. 7, yes!"


def said(synthesizer: Synthesizer, folder: Path, heard: str | None) -> tuple[dict[str, object], TakeView]:
    take = synthesizer.take(TEXT, Settings("pcg", theta=0.3), "one")
    write_wav(folder / "take.wav", take.audio, take.sample_rate)
    session = Session().with_take(TakeView.of(take), True, sound=folder / "take.wav")
    judged = JudgedTake(heard or "", Errors(2, 6), Errors(3, 20), None, 3.0)
    value = stage_value(session, Verdicts({folder / "take.wav": judged} if heard is not None else {}))
    assert [sound["path"] for sound in value["sounds"]] == [str(folder / "take.wav")]
    (lane,) = map(json.loads, value["lanes"])
    return lane, TakeView.of(take)


def test_a_lane_has_the_tokens_the_rounds_and_the_words_of_its_take(synthesizer: Synthesizer, tmp_path: Path) -> None:
    lane, view = said(synthesizer, tmp_path, None)
    assert (tuple(lane["kinds"]), tuple(lane["sizes"])) == (view.kinds, view.group_sizes)
    assert sum(tokens for tokens, _ in lane["steps"]) == len(view.tokens)
    assert sum(ms for _, ms in lane["steps"]) > 0
    assert (lane["key"], lane["name"], lane["method"], lane["ratio"]) == ("pcg", "PCG", "pcg", None)
    assert lane["words"] == TEXT.split()
    assert lane["starts"][0] == 0
    assert lane["starts"] == sorted(set(lane["starts"]))
    assert lane["starts"][-1] < 1
    assert lane["wrong"] is lane["errors"] is lane["heard"] is None


def test_words_and_tokens_behind_a_pause_come_after_its_silence(synthesizer: Synthesizer, tmp_path: Path) -> None:
    take = synthesizer.take("Hello. [pause:2] Yes, one. [pause:0.5]", Settings("pcg", theta=0.3), "one")
    session = Session().with_take(TakeView.of(take), True)
    (lane,) = map(json.loads, stage_value(session, Verdicts())["lanes"])
    assert lane["words"] == ["Hello.", "Yes,", "one."]
    first, second, third = (start * take.audio_seconds for start in lane["starts"])
    assert first == 0
    assert 2 < second < third < take.audio_seconds - 0.5
    assert [seconds for _, seconds in lane["pauses"]] == [2, 0.5]
    assert lane["pauses"][1][0] == len(take.tokens)


def test_the_stage_says_which_ratio_is_over_ar_of_an_earlier_run() -> None:
    def view(method: str, speed: float) -> TakeView:
        return TakeView(Settings(method), TEXT, "one", 1.5, speed, 0.3, 0.5, 2.0, False, (), (), (), ())

    session = Session().with_take(view("ar", 100), True).with_take(view("sd", 90), True).with_take(view("pcg", 125), False)
    lanes = {lane["key"]: lane for lane in map(json.loads, stage_value(session, Verdicts())["lanes"])}
    assert (lanes["pcg"]["ratio"], lanes["pcg"]["baseline"]) == (1.25, "last run")
    assert (lanes["sd"]["ratio"], lanes["sd"]["baseline"]) == (0.9, "same run")


def test_a_lane_of_several_takes_tells_the_mean_of_their_speed_ups() -> None:
    session = Session()
    for seed, speed in enumerate((100.0, 150.0)):
        for method, tokens_per_second in (("ar", 100.0), ("pcg", speed)):
            view = TakeView(
                Settings(method, seed=seed), TEXT, "one", 1.5, tokens_per_second, 0.3, 0.5, 2.0, False, (), (), (), ()
            )
            session = session.with_take(view, True, joins=seed > 0)
    lanes = {lane["key"]: lane for lane in map(json.loads, stage_value(session, Verdicts())["lanes"])}
    assert (lanes["pcg"]["ratio"], lanes["pcg"]["takes"]) == (1.25, 2)


@pytest.mark.parametrize(
    ("heard", "wrong"),
    [
        ("hello this is number seven yes", []),
        ("hello it is number seven", ["this", "yes!"]),
        ("hello this is number eleven yes", ["7,"]),
        ("", TEXT.split()),
    ],
)
def test_words_that_the_judge_did_not_hear_are_marked(
    heard: str, wrong: list[str], synthesizer: Synthesizer, tmp_path: Path
) -> None:
    lane, _ = said(synthesizer, tmp_path, heard)
    assert [word for word, flag in zip(lane["words"], lane["wrong"], strict=True) if flag] == wrong
    assert (lane["errors"], lane["length"], lane["heard"]) == (2, 6, heard)


def test_inserted_words_belong_to_no_word_of_the_text() -> None:
    assert misheard_words("the dog", "the big dog") == (False, False)


def written(folder: Path, voice: str) -> Path:
    def row(method: str, speed: float, length: float, wer: float, **knobs: float) -> dict[str, object]:
        settings = {**Settings().as_dict(), **knobs}
        figures = {"speedup": {"value": speed}, "mean_acceptance_length": {"value": length}, "wer": {"value": wer}}
        return {"method": method, "n": 60, "condition": {"settings": settings}, **figures}

    rows = [
        row("AR", 1.0, 1.0, 0.25),
        row("PCG cosine", 9.0, 4.0, 0.9, theta=0.9),
        row("PCG cosine", 1.5, 2.5, 0.27),
        row("PCG cosine", 8.0, 2.5, 0.27, lookahead=9),
        row("SSD", 1.6, 2.0, 0.4),
    ]
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps({"made": {"voice": [voice]}, "summaries": rows}))
    return folder


def test_the_claim_is_made_of_the_shipped_results_at_the_pages_own_settings(tmp_path: Path) -> None:
    written(tmp_path / "one", "abc")
    rows = measured({"abc"}, tmp_path)
    assert rows["pcg"] == Measured(60, 1.5, 0.4, 0.27, "theta 0.3")
    said = re.sub("<[^>]+>", "", claim_html(rows))
    assert "On 60 sentences PCG (theta 0.3) was 1.50 times as fast as AR, with 60% fewer calls of the target" in said
    assert "27.0% of the words misheard (AR: 25.0%)" in said
    assert "SSD (beta 0.3): 1.60 times, with 50% fewer calls" in said
    assert measured({"another voice"}, tmp_path) == {}
    assert "times" not in claim_html({})
    assert "group of similar tokens" in claim_html({})
    for key in ("draft-model", "target-model", "call", "pcg"):
        assert f'href="#term-{key}"' in claim_html({})
