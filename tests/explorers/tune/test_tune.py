"""The take in hand without a browser: what is shown of it, what is measured on it, and how it refuses."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorers.session import Session, TakeView
from explorers.shared.scripts import packed
from explorers.tune.actions import NO_TAKE, group_of, show, study, take_in_hand, time_steps
from explorers.tune.figures import figures_html, what_if_html
from explorers.tune.layout import heading_html
from explorers.tune.measured import Bench, Measured
from pcg.audio import write_wav
from pcg.errors import InputError, PCGError
from pcg.settings import Settings
from pcg.spoof.detector import RESOLUTIONS, Detector, DetectorConfig
from pcg.spoof.detectors import Detectors
from pcg.synthesis.costs import StepCosts
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Take
from pcg.takes.written import pack_take

TEXT = "Hello, yes."
SETTINGS = Settings("pcg", theta=0.3, seed=5)


def sound_of(pieces: list[str]) -> np.ndarray:
    return np.concatenate([np.frombuffer(base64.b64decode(piece), "<i2") for piece in pieces]) / 32767


def on_page(session: Session, take: Take, folder: Path) -> Session:
    path = folder / f"{take.settings.method}-{len(session.cards)}.wav"
    write_wav(path, take.audio, take.sample_rate)
    return session.with_take(TakeView.of(take), True, sound=path, packed=pack_take(take))


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take(TEXT, SETTINGS, "one")


@pytest.fixture(scope="module")
def session(synthesizer: Synthesizer, take: Take, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """AR and PCG, from one run."""
    folder = tmp_path_factory.mktemp("takes")
    ar = synthesizer.take(TEXT, SETTINGS.with_(method="ar"), "one")
    return on_page(on_page(Session(), ar, folder), take, folder)


@pytest.fixture(scope="module")
def bench(synthesizer: Synthesizer, session: Session) -> Bench:
    return show(synthesizer, session, "pcg", Bench(), 1).bench


def test_the_strip_shows_every_token_with_its_test_and_the_sound(
    synthesizer: Synthesizer, session: Session, take: Take
) -> None:
    shown = show(synthesizer, session, "pcg", Bench(), 3)
    entries = [json.loads(token) for token in shown.run["tokens"]]
    assert (shown.run["number"], shown.sound["number"], shown.run["method"]) == (3, 3, "pcg")
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
    assert entries[0]["test"]["group"] == first.group
    assert json.loads(shown.run["drafted"]) == [list(round_.drafted) for round_ in take.rounds]
    assert sound_of(shown.sound["pieces"]) == pytest.approx(take.audio.clip(-1, 1), abs=1e-4)


def test_samples_beyond_one_are_clipped() -> None:
    assert sound_of([packed(np.array([0.0, 1.0, -2.0, 3.0], np.float32))]).tolist() == [0, 1, -1, 1]


def test_the_take_in_hand_is_the_chosen_one_or_that_of_pcg(session: Session) -> None:
    assert take_in_hand(session, "ar").reading.method == "ar"
    assert take_in_hand(session, "ssd").reading.method == "pcg"
    assert take_in_hand(Session({"ar": session.cards["ar"]}), "ssd").reading.method == "ar"
    assert take_in_hand(Session(), "pcg") is None
    with pytest.raises(InputError, match="take is 'magic', but must be one of ar, sd, ssd, pcg, preset"):
        take_in_hand(session, "magic")


def test_without_a_take_nothing_is_shown_and_nothing_can_be_timed(synthesizer: Synthesizer) -> None:
    assert show(synthesizer, Session(), "pcg", Bench(), 1) is study(synthesizer, Session(), "pcg", Bench(), 1) is None
    assert "none yet" in heading_html(Session(), "pcg")
    for act in (lambda: time_steps(synthesizer, Session(), "pcg", Bench()), lambda: group_of(synthesizer, Session(), "pcg", 0)):
        with pytest.raises(PCGError, match=NO_TAKE):
            act()


def test_speed_is_compared_with_ar_of_the_same_run(
    synthesizer: Synthesizer, session: Session, bench: Bench, tmp_path: Path
) -> None:
    assert bench.speed_up == pytest.approx(session.cards["pcg"].first.speed_up)
    assert "AR with the same text, voice, sampling and seed" in figures_html(bench)
    assert "Press “Measure the bound” to see the highest possible speed-up." in figures_html(bench)
    earlier = replace(bench, earlier=True)
    assert "AR of an earlier run, with the same text" in figures_html(earlier)
    other = on_page(session, synthesizer.take(TEXT, Settings("ar", seed=9), "one"), tmp_path)
    assert show(synthesizer, other, "pcg", Bench(), 1).bench.speed_up is None
    alone = show(synthesizer, Session({"pcg": session.cards["pcg"]}), "pcg", Bench(), 1).bench
    assert alone.speed_up is alone.bound is None
    assert "press “Generate”" in figures_html(alone)


def test_the_bound_is_that_of_the_steps_and_the_acceptance(synthesizer: Synthesizer, session: Session, bench: Bench) -> None:
    assert bench.bound is None
    timed = bench.timed(3, StepCosts(ar=1.0, draft=0.1, verify=1.2))
    assert timed.bound == pytest.approx(bench.last.reading.mean_acceptance_length / (1.2 + 3 * 0.1))
    assert timed.timed(4, StepCosts(1, 1, 1)).bound == timed.bound
    adaptive = replace(bench.last, reading=replace(bench.last.reading, settings=SETTINGS.with_(adaptive=True)))
    assert timed.spoken(adaptive, None).bound is None
    assert time_steps(synthesizer, session, "pcg", bench).bound > 0


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
    settings: Settings, rate: float | None, sizes: tuple[int, ...], words: str | None, bench: Bench
) -> None:
    reading = replace(bench.last.reading, settings=settings, acceptance_rate=rate, group_sizes=sizes)
    idle = Bench().spoken(replace(bench.last, reading=reading), None)
    assert (words is None and idle.idle is None) or words in idle.idle
    assert (words or "tokens/s") in figures_html(idle)


def test_drafting_that_costs_more_than_it_saves_is_told(bench: Bench) -> None:
    reading = replace(bench.last.reading, group_sizes=(2,) * len(bench.last.reading.tokens), acceptance_rate=0.3)
    slow, quick = (replace(bench.last, reading=replace(reading, tokens_per_second=speed)) for speed in (100.0, 200.0))
    assert "Slower than AR here (0.50×)" in Bench().spoken(slow, quick).idle
    assert Bench().spoken(quick, slow).idle is None


def test_acceptance_is_told_of_drafted_and_of_tested_tokens_and_by_position(bench: Bench, take: Take) -> None:
    shown = figures_html(bench)
    for name, rate in (("accepted of drafted", take.acceptance_rate), ("accepted of tested", take.acceptance_of_tested)):
        assert f">{name}</a></dt><dd>{rate:.0%}</dd>" in shown
    for share in take.acceptance_by_position:
        assert f"<b>{share:.0%}</b>" in shown


def test_estimates_are_called_so_and_stand_beside_what_was_measured(
    synthesizer: Synthesizer, session: Session, bench: Bench
) -> None:
    studied = study(synthesizer, session, "pcg", bench, 1)
    shown = what_if_html(studied.bench)
    assert "<b>Estimated</b>, not decoded" in shown
    assert "The estimate cannot know the tokens after a different decision" in shown
    assert f"{bench.last.reading.acceptance_rate:.0%} was measured" in shown
    assert shown.count("aria-current") == 2
    assert "No estimate" in what_if_html(bench)
    assert studied.spoof is None
    record = studied.bench.record()
    assert {choice["value"] for choice in record["estimate"]["theta"]} >= {0.3, 0.5, 1.0}
    assert record["settings"] == SETTINGS.as_dict()


def test_the_curves_come_only_from_detectors_that_fit(synthesizer: Synthesizer, judged: Synthesizer, session: Session) -> None:
    tokens = session.cards["pcg"].reading.tokens
    told = study(judged, session, "pcg", Bench(), 2).spoof
    assert (told["number"], told["judge"]) == (2, "untrained <b>")
    curves = {curve["name"]: curve["values"] for curve in told["curves"]}
    assert [*curves] == [r.name for r in RESOLUTIONS]
    for resolution in RESOLUTIONS:
        if len(tokens) < resolution.span:
            assert set(curves[resolution.name]) == {None}
        else:
            assert curves[resolution.name] == pytest.approx(
                judged.decoder.detectors.curve(tokens, resolution).tolist(), abs=1e-3
            )
    config = DetectorConfig(synthesizer.voice.codec.codebook_size + 1, width=16, heads=2, layers=1, feed_forward=16)
    other = Synthesizer(synthesizer.voice, detectors=Detectors("", {r.name: Detector(config).eval() for r in RESOLUTIONS}))
    assert study(other, session, "pcg", Bench(), 1).spoof is None


def test_a_tested_group_is_shown_on_a_small_map(synthesizer: Synthesizer, session: Session, take: Take) -> None:
    test = max((t for r in take.rounds for t in r.tests), key=lambda test: test.group_size)
    told = group_of(synthesizer, session, "pcg", test.group)
    places = np.frombuffer(base64.b64decode(told["places"]), "<i2").reshape(-1, 2)
    assert len(places) == synthesizer.voice.codec.codebook_size
    assert (places.min(), places.max()) == (0, 1000)
    assert test.token in told["members"]
    assert len(told["members"]) == test.group_size
    for wrong in (-1, 10**6, True, "0", None):
        with pytest.raises(InputError, match="group is"):
            group_of(synthesizer, session, "pcg", wrong)


def test_what_was_measured_survives_the_way_through_the_session(session: Session, take: Take) -> None:
    kept = Measured.of(session.cards["pcg"].first.take())
    assert kept == Measured.of(take)
