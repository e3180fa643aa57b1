import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from explorers.listen import turns
from explorers.listen.actions import (
    NO_TEXT,
    RECORDING,
    CompareRequest,
    describe_groups,
    generate_again,
    generate_all,
    new_seed,
    preset_value,
    read_preset,
    stopped,
)
from explorers.listen.live import NEWEST, Live
from explorers.listen.turns import CompareStep, Speaker
from explorers.session import PRESET, Session
from pcg.errors import InputError, PCGError
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.takes.presets import PAPERS, Preset
from pcg.takes.take import Sound

REQUEST = CompareRequest("The quick brown fox.", "one", 0.3, 3, 0.3, 0.6, 5)
SHORT = replace(REQUEST, text="Yes.")


def takes(steps: list[CompareStep]) -> list[str]:
    return [step.new for step in steps if step.new]


def test_a_full_run_says_it_four_ways_and_compares_with_its_own_ar(speaker: Speaker) -> None:
    steps = list(generate_all(speaker, REQUEST, Session()))
    assert takes(steps) == list(METHODS)
    cards = steps[-1].session.cards
    for method in METHODS[1:]:
        expected = cards[method].reading.tokens_per_second / cards["ar"].reading.tokens_per_second
        assert cards[method].first.speed_up == pytest.approx(expected)
        assert cards[method].first.baseline == "same run"
    assert "Four takes in" in steps[-1].status


def test_without_a_draft_a_full_run_is_ar_alone(speaker: Speaker, tiny_voice_folder: Path, tmp_path: Path) -> None:
    draftless = replace(speaker, synthesizer=Synthesizer(load_voice(str(tiny_voice_folder), draft="none"), tmp_path))
    steps = list(generate_all(draftless, REQUEST, Session()))
    assert takes(steps) == ["ar"]
    assert "AR in" in steps[-1].status
    with pytest.raises(InputError, match="no draft is loaded"):
        list(generate_again(draftless, "pcg", REQUEST, steps[-1].session))


def test_a_preset_that_is_no_longer_chosen_cannot_be_generated(speaker: Speaker) -> None:
    with pytest.raises(PCGError, match="The preset in hand is no longer chosen"):
        list(generate_again(speaker, PRESET, REQUEST, Session()))


def test_progress_tells_method_tokens_and_seconds(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PROGRESS_SECONDS", 0.0)
    statuses = [step.status for step in generate_all(speaker, REQUEST, Session())]
    assert any("PCG: " in status and " tokens, " in status and "4 of 4" in status for status in statuses)


def test_progress_is_told_at_a_modest_rate(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PROGRESS_SECONDS", 1e9)
    steps = list(generate_all(speaker, REQUEST, Session()))
    assert len([step for step in steps if not step.live]) == 1 + len(METHODS)
    # The first sound does not wait, nor any end; the sound of PCG alone is sent, before anything is timed.
    assert [(step.live.key, step.live.ended) for step in steps if step.live and step.live.sounding][-1] == ("pcg", True)
    assert [step.live.key for step in steps if step.live] == ["pcg", "pcg", *METHODS]


def test_the_first_take_sounds_while_it_is_generated(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PROGRESS_SECONDS", 0.0)
    lives = [step.live.prop(7) for step in generate_again(speaker, "pcg", REQUEST, Session()) if step.live]
    take = speaker.synthesizer.take(REQUEST.text, REQUEST.settings("pcg"), "one")
    sent = {live["first"] + i: piece for live in lives for i, piece in enumerate(live["pieces"])}
    assert list(sent) == list(range(len(sent)))
    assert len(sent) > 2
    assert max(len(live["pieces"]) for live in lives) <= NEWEST
    sound = np.frombuffer(b"".join(map(base64.b64decode, sent.values())), "<i2") / 32767
    assert sound == pytest.approx(take.audio.clip(-1, 1), abs=1e-3)
    kinds, sizes, words = json.loads(lives[-1]["tokens"])
    assert len(kinds) == len(sizes) > 2
    assert (tuple(kinds), tuple(sizes)) == (take.kinds[: len(kinds)], take.group_sizes[: len(kinds)])
    assert {(live["number"], live["key"], live["method"]) for live in lives} == {(7, "pcg", "pcg")}
    assert words == REQUEST.text.split()


def test_of_a_long_take_the_newest_pieces_are_sent() -> None:
    live = Live("pcg", "pcg", "Wait. [pause:1] Go on.", sounding=True)
    for level in range(3 * NEWEST):
        live.add(Sound(np.full(2, level / 100, np.float32), 16_000))
        sent = live.prop(1)
        assert len(sent["pieces"]) == min(level + 1, NEWEST)
        assert sent["first"] + len(sent["pieces"]) == level + 1
        assert np.frombuffer(base64.b64decode(sent["pieces"][-1]), "<i2")[0] == int(level / 100 * 32767)
    assert json.loads(sent["tokens"])[2] == ["Wait.", "Go", "on."]


def test_a_stopped_run_names_what_it_has_finished_and_the_rest_is_stale(speaker: Speaker) -> None:
    *_, done = generate_all(speaker, SHORT, Session())
    steps = generate_all(speaker, SHORT, done.session)
    first = next(steps)
    assert all(card.outdated for card in first.session.cards.values())
    assert stopped(None) == stopped(first.session) == "Stopped before the first take was finished."
    last = next(step for step in steps if step.new == "sd")
    steps.close()
    assert stopped(last.session) == "Stopped after AR, SD."
    assert [key for key, card in last.session.cards.items() if card.outdated] == ["ssd", "pcg"]


@pytest.mark.parametrize(("method", "change"), [("pcg", {"theta": 0.6}), ("ssd", {"beta": 0.9})])
def test_a_knob_says_its_own_method_again(method: str, change: dict[str, float], speaker: Speaker) -> None:
    *_, last = generate_all(speaker, REQUEST, Session())
    steps = list(generate_again(speaker, method, replace(REQUEST, **change), last.session))
    assert takes(steps) == [method]
    card = steps[-1].session.cards[method]
    assert card.first.baseline == "last run"
    assert all(getattr(card.reading.settings, name) == value for name, value in change.items())
    others = set(METHODS) - {method}
    assert all(steps[-1].session.cards[other] == last.session.cards[other] for other in others)


def test_a_knob_says_nothing_without_a_text(speaker: Speaker) -> None:
    (step,) = generate_again(speaker, "pcg", replace(REQUEST, text="  "), Session())
    assert NO_TEXT in step.status


def test_closing_stops_the_engine(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PROGRESS_SECONDS", 0.0)
    closed = []
    speak = Synthesizer.speak

    def watched(*arguments: object, **options: object):
        try:
            yield from speak(*arguments, **options)
        finally:
            closed.append(arguments[2].method)

    monkeypatch.setattr(Synthesizer, "speak", watched)
    steps = generate_all(speaker, REQUEST, Session())
    for _ in range(3):
        next(steps)
    assert closed == []
    steps.close()
    assert closed == ["pcg"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"text": ""}, "Type an English text first."),
        ({"text": "[pause:1]"}, "Type an English text first."),
        ({"voice": "nobody"}, "voice is 'nobody', but must be one of one, two."),
        ({"theta": 3}, "theta is 3, but must be a number from 0.2 to 1."),
        ({"seed": None}, "seed is missing, but must be a number from 0 to"),
        ({"lookahead": 2.5}, "lookahead is 2.5, but must be a whole number from 1 to 16."),
        ({"similarity": "taste"}, "similarity is 'taste', but must be one of"),
        ({"takes": 6}, "takes is 6, but must be a number from 1 to 5."),
        ({"takes": 1.5}, "takes is 1.5, but must be a whole number"),
        ({"takes": 2, "seed": 2**32 - 1}, "seed is 4294967296, but must be"),
        ({"preset": "nobody's"}, 'preset is "nobody\'s", but must be one of'),
        ({"preset": "[" * 1000}, "or one of your own"),
        ({"preset": '{"name": "mine", "settings": {"theta": 7}}'}, "or one of your own"),
        ({"recording": "a.wav"}, "confirm that the speaker agrees"),
        ({"recording": "a.wav", "consent": True}, "transcript is missing, but must be the words"),
        ({"recording": "a.wav", "consent": True, "transcript": "yes"}, "a readable WAV"),
    ],
)
def test_bad_input_is_refused_before_anything_changes(change: dict[str, object], sentence: str, speaker: Speaker) -> None:
    with pytest.raises(PCGError) as refused:
        next(generate_all(speaker, replace(REQUEST, **change), Session()))
    assert sentence in str(refused.value)


@pytest.fixture
def recorded(tmp_path: Path) -> CompareRequest:
    time = np.arange(2 * 16000) / 16000
    soundfile.write(tmp_path / "me.flac", 0.3 * np.sin(2 * np.pi * 220 * time), 16000)
    return replace(REQUEST, recording=str(tmp_path / "me.flac"), transcript="hello, yes", consent=True)


def test_a_recording_with_consent_is_the_voice(speaker: Speaker, recorded: CompareRequest) -> None:
    *_, last = generate_again(speaker, "pcg", recorded, Session())
    said = last.session.cards["pcg"].first
    assert (said.reading.voice, said.reference.text) == (RECORDING, "hello, yes")


def test_words_that_are_not_given_are_transcribed_and_shown(speaker: Speaker, recorded: CompareRequest) -> None:
    heard: list[int] = []
    listening = replace(speaker, transcribe=lambda samples: heard.append(len(samples)) or "hello, this is one")
    first, *_, last = generate_again(listening, "pcg", replace(recorded, transcript=" "), Session())
    rate = speaker.synthesizer.voice.codec.sample_rate
    assert (first.recognised, heard) == ("hello, this is one", [pytest.approx(2 * rate, rel=0.05)])
    assert last.session.cards["pcg"].first.reference.text == "hello, this is one"
    first, *_ = generate_again(listening, "pcg", recorded, Session())
    assert (first.recognised, len(heard)) == (None, 1)


def test_a_long_recording_without_words_is_cut_and_can_be_used_again(
    speaker: Speaker, recorded: CompareRequest, tmp_path: Path
) -> None:
    heard: list[float] = []
    rate, longest = speaker.synthesizer.voice.codec.sample_rate, speaker.synthesizer.voice.reference_seconds[1]
    time = np.arange(int((longest + 5) * 16000)) / 16000
    soundfile.write(tmp_path / "long.wav", 0.3 * np.sin(2 * np.pi * 220 * time) * (time % 3 < 2.6), 16000)
    long = replace(recorded, recording=str(tmp_path / "long.wav"), transcript="")
    listening = replace(speaker, transcribe=lambda samples: heard.append(len(samples) / rate) or "hello")
    for _ in range(2):
        first, *_, last = generate_again(listening, "pcg", long, Session())
        # Blank words stay blank: with words, a recording of this length is refused.
        assert first.recognised == ""
    assert last.session.cards["pcg"].first.reference.text == "hello"
    assert all(1 < seconds <= longest for seconds in heard)
    with pytest.raises(InputError, match="seconds of speech"):
        next(generate_again(listening, "pcg", replace(long, transcript="hello"), Session()))


def test_a_recording_in_which_nothing_is_understood_is_refused(speaker: Speaker, recorded: CompareRequest) -> None:
    deaf = replace(speaker, transcribe=lambda samples: "")
    with pytest.raises(PCGError, match="No word was understood"):
        next(generate_again(deaf, "pcg", replace(recorded, transcript=""), Session()))


def test_several_takes_are_said_at_seeds_that_follow_card_by_card(speaker: Speaker) -> None:
    *steps, last = generate_all(speaker, replace(SHORT, takes=2), Session())
    assert takes([*steps, last]) == [*METHODS, *METHODS]
    assert "8 takes in" in last.status
    for method, card in last.session.cards.items():
        assert [said.reading.settings.seed for said in card.takes] == [5, 6]
        for said in card.takes:
            take = speaker.synthesizer.take(SHORT.text, said.reading.settings, "one")
            assert (said.reading.tokens, said.reading.method) == (take.tokens, method)
            assert (said.sound is None) == (len(take.audio) == 0)


def test_a_new_run_begins_its_cards_anew(speaker: Speaker) -> None:
    *_, last = generate_all(speaker, replace(SHORT, takes=2), Session())
    *_, last = generate_again(speaker, "pcg", SHORT, last.session)
    assert {key: len(card.takes) for key, card in last.session.cards.items()} == {"ar": 2, "sd": 2, "ssd": 2, "pcg": 1}


@pytest.mark.parametrize("preset", [PAPERS[1], Preset("mine <b>", Settings("pcg", theta=0.4, similarity="fsq", seed=99))])
def test_a_preset_is_a_fifth_card_at_the_seed_of_the_others(speaker: Speaker, preset: Preset) -> None:
    request = replace(SHORT, preset=preset_value(preset))
    *steps, last = generate_all(speaker, request, Session())
    assert takes([*steps, last]) == [*METHODS, PRESET]
    card = last.session.cards[PRESET]
    assert (card.name, card.reading.settings) == (preset.name, preset.settings.with_(seed=5))
    assert not last.session.with_marks({PRESET: card.first.task}).cards[PRESET].outdated
    first, *_ = generate_again(speaker, "pcg", request, last.session)
    assert [key for key, card in first.session.cards.items() if card.outdated] == ["pcg"]  # which is being renewed
    first, *_ = generate_all(speaker, SHORT, last.session)
    assert PRESET not in first.session.cards


def test_presets_come_back_from_the_control() -> None:
    own = Preset("my own", Settings("sd", lookahead=2))
    assert read_preset(preset_value(own)) == own
    assert all(read_preset(preset_value(paper)) == paper for paper in PAPERS)
    assert json.loads(preset_value(own))["name"] == "my own"
    assert read_preset("") is read_preset(None) is None


def test_the_similarity_makes_the_groups(speaker: Speaker) -> None:
    request = replace(REQUEST, similarity="fsq", theta=0.5)
    *_, last = generate_again(speaker, "pcg", request, Session())
    settings = Settings(theta=0.5, seed=5, similarity="fsq", temperature=request.temperature)
    take = speaker.synthesizer.take(request.text, settings, "one")
    assert last.session.cards["pcg"].reading.tokens == take.tokens
    assert describe_groups(speaker.synthesizer, 0.5, "fsq") != describe_groups(speaker.synthesizer, 0.5)


def test_theta_outside_its_range_is_refused() -> None:
    with pytest.raises(PCGError, match=r"theta is 0\.1"):
        describe_groups(None, 0.1)


def test_seeds_are_short_and_differ() -> None:
    seeds = {new_seed() for _ in range(50)}
    assert len(seeds) > 40
    assert all(0 <= seed < 10_000 for seed in seeds)
