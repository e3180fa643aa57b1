"""The Tune panel without a browser: what it does, what its endpoints answer, and how they refuse."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
import soundfile
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.session import Turn
from explorers.shared.scripts import packed
from explorers.tune.actions import TuneRequest, TuneStep, time_ar, tune, tune_again
from explorers.tune.figures import figures_html, what_if_html
from explorers.tune.layout import create_tune
from explorers.tune.measured import Bench, Measured
from pcg.errors import PCGError
from pcg.metrics.bound import StepCosts
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin

REQUEST = TuneRequest("Hello, yes.", "one", "pcg", 0.3, 3, 0.3, "cosine", 0.6, 5, False)
ARGUMENTS = {**{name: getattr(REQUEST, name) for name in TuneRequest.__dataclass_fields__}}


def spoken(synthesizer: Synthesizer, bench: Bench | None = None, **changes: object) -> list[TuneStep]:
    return list(tune(synthesizer, replace(REQUEST, **changes), bench or Bench(), Turn()))


def sound_of(pieces: list[str]) -> np.ndarray:
    return np.concatenate([np.frombuffer(base64.b64decode(piece), "<i2") for piece in pieces]) / 32767


@pytest.fixture(scope="module")
def steps(synthesizer: Synthesizer) -> list[TuneStep]:
    return spoken(synthesizer)


def test_the_take_is_that_of_the_engine_and_its_sound_comes_in_pieces(synthesizer: Synthesizer, steps: list[TuneStep]) -> None:
    (take,) = [step.take for step in steps if step.take]
    engine = synthesizer.take(REQUEST.text, Settings(theta=0.3, seed=5), "one")
    assert take.tokens == engine.tokens
    sounds = [step.sound["pieces"] for step in steps if step.sound]
    assert [len(pieces) for pieces in sounds] == list(range(len(sounds)))
    assert len(sounds) > 2
    assert sound_of(sounds[-1]) == pytest.approx(take.audio.clip(-1, 1), abs=1e-4)
    assert steps[0].seed == 5
    assert steps[0].run["live"]
    assert not steps[-2].run["live"]


def test_every_token_of_the_strip_has_the_test_behind_it(steps: list[TuneStep]) -> None:
    entries = [json.loads(token) for token in steps[-2].run["tokens"]]
    take = steps[-2].take
    assert [entry["token"] for entry in entries] == list(take.tokens)
    for entry in entries:
        test = entry["test"]
        assert (test is None) == (entry["kind"] == "bonus")
        if test:
            assert test["accepted"] == (entry["kind"] == "accepted") == (test["coin"] < test["ratio"])
            assert (test["drafted"] == entry["token"]) or entry["kind"] == "resampled"
            assert test["grouped"]
    first = take.rounds[0].tests[0]
    assert entries[0]["test"]["mass_q"] == pytest.approx(first.mass_q, rel=1e-4)


def test_samples_beyond_one_are_clipped() -> None:
    assert sound_of([packed(np.array([0.0, 1.0, -2.0, 3.0], np.float32))]).tolist() == [0, 1, -1, 1]


def test_an_empty_seed_is_rolled_and_told(synthesizer: Synthesizer) -> None:
    seeds = {next(tune(synthesizer, replace(REQUEST, seed=None), Bench(), Turn())).seed for _ in range(5)}
    assert len(seeds) > 3
    assert all(0 <= seed < 10_000 for seed in seeds)


def test_a_newer_turn_ends_the_take_and_closes_the_engine(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    speak = Synthesizer.speak

    def watched(*arguments: object, **options: object):
        try:
            yield from speak(*arguments, **options)
        finally:
            closed.append(True)

    monkeypatch.setattr(Synthesizer, "speak", watched)
    turn = Turn()
    under_way = tune(synthesizer, REQUEST, Bench(), turn)
    next(under_way)
    next(under_way)
    assert closed == []
    turn.next()
    (last,) = list(under_way)
    assert (last.take, last.run["live"], closed) == (None, False, [True])
    assert "Stopped" in last.status
    assert [step.take is None for step in tune(synthesizer, REQUEST, Bench(), turn)][-2:] == [False, True]


def test_a_moved_knob_without_a_text_says_nothing(synthesizer: Synthesizer) -> None:
    (step,) = tune_again(synthesizer, replace(REQUEST, text=" "), Bench(), Turn())
    assert step.run is step.take is None


def test_a_recording_may_come_without_its_words(synthesizer: Synthesizer, tmp_path: Path) -> None:
    time = np.arange(2 * 16_000) / 16_000
    soundfile.write(tmp_path / "me.wav", 0.3 * np.sin(2 * np.pi * 220 * time), 16_000)
    request = replace(REQUEST, recording=str(tmp_path / "me.wav"), consent=True)
    first, *steps = tune(synthesizer, request, Bench(), Turn(), transcribe=lambda samples: "hello")
    assert first.recognised == "hello"
    assert next(step.reference for step in steps if step.take).text == "hello"
    with pytest.raises(PCGError, match="transcript is ''"):
        next(tune(synthesizer, request, Bench(), Turn()))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"text": ""}, "text is '', but must be some English text."),
        ({"voice": "nobody"}, "voice is 'nobody', but must be one of one, two."),
        ({"method": "magic"}, "method is 'magic', but must be one of ar, sd, ssd, pcg."),
        ({"theta": 3}, "theta is 3, but must be a number from 0.2 to 1."),
        ({"similarity": "taste"}, "similarity is 'taste', but must be one of"),
        ({"adaptive": "yes"}, "adaptive is 'yes', but must be true or false."),
        ({"recording": "a.wav"}, "confirm that the speaker agrees"),
    ],
)
def test_bad_input_is_refused_before_anything_is_said(
    change: dict[str, object], sentence: str, synthesizer: Synthesizer
) -> None:
    with pytest.raises(PCGError) as refused:
        next(tune(synthesizer, replace(REQUEST, **change), Bench(), Turn()))
    assert sentence in str(refused.value)


def test_speed_is_compared_with_ar_of_the_same_task_only(synthesizer: Synthesizer, steps: list[TuneStep]) -> None:
    bench = steps[-1].bench
    assert bench.speed_up is bench.bound is None
    assert "press “Measure AR”" in figures_html(bench)
    *_, measured = time_ar(synthesizer, replace(REQUEST, seed=9), bench, Turn())
    timed = measured.bench
    assert timed.last is bench.last
    assert timed.speed_up == pytest.approx(timed.last.reading.tokens_per_second / timed.ar.reading.tokens_per_second)
    assert timed.bound > 0
    assert "AR, measured on this page (seed 9)" in figures_html(timed)
    other = timed.spoken(replace(timed.last, reading=replace(timed.last.reading, text="Yes.")))
    assert other.speed_up is other.bound is None


def test_the_bound_is_that_of_the_steps_and_the_acceptance(steps: list[TuneStep]) -> None:
    bench, last = steps[-1].bench, steps[-1].bench.last
    timed = bench.timed(last, 3, StepCosts(ar=1.0, draft=0.1, verify=1.2))
    assert timed.bound == pytest.approx(last.reading.mean_acceptance_length / (1.2 + 3 * 0.1))
    assert timed.timed(last, 4, StepCosts(1, 1, 1)).bound == timed.bound
    adaptive = replace(last, reading=replace(last.reading, settings=last.settings.with_(adaptive=True)))
    assert timed.spoken(adaptive).bound is None


@pytest.mark.parametrize(
    ("settings", "rate", "sizes", "words"),
    [
        (Settings("ar"), None, (1, 1), "AR drafts nothing"),
        (Settings("sd", adaptive=True), None, (1, 1), "drafted nothing"),
        (Settings("sd"), 0.01, (1, 1), "Only 1.0% of the drafted tokens passed"),
        (Settings("pcg"), 0.3, (1, 1), "is alone in its group"),
        (Settings("ssd", beta=1), 0.9, (1, 1), "every drafted token passes"),
        (Settings("pcg"), 0.3, (1, 4), None),
    ],
)
def test_the_page_says_why_drafting_is_of_no_use(
    settings: Settings, rate: float | None, sizes: tuple[int, ...], words: str | None, steps: list[TuneStep]
) -> None:
    last = steps[-1].bench.last
    reading = replace(last.reading, settings=settings, acceptance_rate=rate, group_sizes=sizes)
    bench = Bench().spoken(replace(last, reading=reading))
    assert (words is None and bench.idle is None) or words in bench.idle
    assert (words or "tokens/s") in figures_html(bench)


def test_drafting_that_costs_more_than_it_saves_is_told(steps: list[TuneStep]) -> None:
    last = steps[-1].bench.last
    reading = replace(last.reading, group_sizes=(2,) * len(last.reading.tokens), acceptance_rate=0.3)
    slow, quick = (replace(last, reading=replace(reading, tokens_per_second=speed)) for speed in (100.0, 200.0))
    assert "Slower than AR here (0.50×)" in replace(Bench(), ar=quick).spoken(slow).idle
    assert replace(Bench(), ar=slow).spoken(quick).idle is None


def test_estimates_are_called_so_and_stand_beside_what_was_measured(steps: list[TuneStep]) -> None:
    shown = what_if_html(steps[-1].bench)
    assert "<b>Estimated</b>, not decoded" in shown
    assert "The estimate cannot know the tokens after a different decision" in shown
    assert f"{steps[-1].bench.last.reading.acceptance_rate:.0%} was measured" in shown
    assert shown.count("aria-current") == 2
    assert "No estimate" in what_if_html(Bench().spoken(Measured.of(steps[-2].take)))


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer) -> Iterator[Client]:
    with gr.Blocks() as app:
        create_tune(synthesizer, Origin.of(synthesizer.voice))
    _, url, _ = app.queue().launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield Client(url, verbose=False)
    app.close(verbose=False)


def test_the_endpoints_have_names_and_named_arguments(client: Client) -> None:
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    assert set(endpoints) == {"/tune", "/measure_ar", "/will_it_pay"}
    for name in ("/tune", "/measure_ar"):
        assert [p["parameter_name"] for p in endpoints[name]["parameters"]] == list(ARGUMENTS)


@pytest.mark.slow
def test_the_page_tells_whether_drafting_pays_on_this_computer(client: Client) -> None:
    answer = client.predict(api_name="/will_it_pay")
    assert "on this computer" in answer
    assert "a round, in AR steps (R)" in answer
    assert "pcg: times AR" in answer


def test_an_endpoint_answers_with_a_record_and_a_file(client: Client, synthesizer: Synthesizer) -> None:
    answers = list(client.submit(api_name="/tune", **ARGUMENTS))
    record = answers[-1][0]
    take = synthesizer.take(REQUEST.text, Settings(theta=0.3, seed=5), "one")
    assert record["tokens"] == list(take.tokens)
    assert record["settings"] == Settings(theta=0.3, seed=5).as_dict()
    assert record["acceptance_rate"] == pytest.approx(take.acceptance_rate, abs=1e-4)
    assert record["speed_up"] is None
    assert {choice["value"] for choice in record["estimate"]["theta"]} >= {0.3, 0.5, 1.0}
    path = next(outputs[3] for outputs in answers if isinstance(outputs[3], str))
    samples, rate = soundfile.read(path)
    assert (len(samples), rate) == (len(take.audio), take.sample_rate)


def test_ar_is_measured_in_the_same_session(client: Client) -> None:
    *_, _ = client.submit(api_name="/tune", **ARGUMENTS)
    *_, outputs = client.submit(api_name="/measure_ar", **ARGUMENTS)
    assert outputs[0]["speed_up"] > 0
    assert outputs[0]["bound"] > 0


def test_errors_reach_the_client_as_the_sentence(client: Client) -> None:
    with pytest.raises(AppError, match="text is '&lt;b&gt;漢字漢字&lt;/b&gt;', but must be English text"):
        client.predict(api_name="/tune", **(ARGUMENTS | {"text": "<b>漢字漢字</b>"}))
    hostile = "<script>${window.hacked = 1}</script> yes"
    *_, outputs = client.submit(api_name="/tune", **(ARGUMENTS | {"text": hostile}))
    assert not any("hacked" in piece for piece in outputs[1:] if isinstance(piece, str))
