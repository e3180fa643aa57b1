"""A worker's results are those of the synthesizer and of the judges, and everything but times is always the same."""

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pcg.audio import load_audio, write_wav
from pcg.errors import AssetError, InputError
from pcg.experiments.runner import run
from pcg.experiments.store import Store
from pcg.experiments.unit import Condition, Record, Result, Unit, Utterance
from pcg.experiments.worker import Worker, WorkerSpec
from pcg.groups.audition import mel_distance
from pcg.groups.swap import Swap
from pcg.metrics.quality import Resemblyzer
from pcg.rules import membership, named_rule
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

SAID = Utterance("hello, is this one sentence?", "one")
AR, PCG = Condition("AR", Settings("ar")), Condition("PCG", Settings("pcg", theta=0.3, lookahead=4))
SWAP = Swap(0.3)


@pytest.fixture(scope="module")
def spec(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> WorkerSpec:
    return WorkerSpec(str(tiny_voice_folder), "embedded", dnsmos=False, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def worker(spec: WorkerSpec) -> Worker:
    return spec.load()


@pytest.fixture(scope="module")
def synthesizer(spec: WorkerSpec) -> Synthesizer:
    return Synthesizer(load_voice(spec.model), spec.cache)


def unit(condition: Condition, seed: int = 3, said: Utterance = SAID) -> Unit:
    return Unit(said, condition, seed)


def swapped(**changes: object) -> Condition:
    return Condition("swapped", Settings("ar"), swap=replace(SWAP, **changes))


def timeless(result: Result) -> Result:
    return replace(result, decoding_seconds=0.0, wall_seconds=0.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_result_says_what_the_take_says(worker: Worker, synthesizer: Synthesizer, method: str) -> None:
    wanted = unit(Condition("", Settings(method, theta=0.3, lookahead=4, seed=99)))
    take, result = synthesizer.take(SAID.text, wanted.settings, "one"), worker.run(wanted)
    assert wanted.settings.seed == unit(Condition("", Settings("ar"))).settings.seed
    assert result.tokens == take.tokens
    assert (result.rounds, result.drafted, result.hit_limit) == (len(take.rounds), take.drafted, take.hit_limit)
    assert result.audio_seconds == take.audio_seconds
    assert (1 + result.accepted / result.rounds) == take.mean_acceptance_length
    rates = [a / t for a, t in zip(result.accepted_at, result.tested, strict=True) if t]
    assert rates == take.conditional_acceptance_by_position
    assert len(result.tested) == (0 if method == "ar" else 4)
    assert (result.swapped, result.mel_distance, result.dnsmos) == (0.0, None, None)
    assert 0 < result.decoding_seconds <= result.wall_seconds
    json.dumps(Record(wanted, result, {}).as_dict(), allow_nan=False)


def test_recordings_are_judged_as_they_are_and_through_the_codec(
    worker: Worker, synthesizer: Synthesizer, tmp_path: Path
) -> None:
    codec, time = synthesizer.voice.codec, np.arange(32_000) / 16_000
    recording = (0.3 * np.sin(2 * np.pi * 200 * time) * (1 + np.sin(20 * time))).astype(np.float32)
    write_wav(tmp_path / "a.wav", recording, codec.sample_rate)
    heard, path = load_audio(tmp_path / "a.wav", codec.sample_rate), str(tmp_path / "a.wav")
    said = Utterance(SAID.text, "me", reference=path, reference_text=SAID.text, recording=path)
    original, through = (worker.run(unit(replace(AR, model=model), said=said)) for model in ("original", "codec"))
    assert original.audio_seconds == len(recording) / codec.sample_rate
    assert through.tokens == tuple(codec.encode(torch.from_numpy(heard)).tolist())
    assert (original.tokens, original.drafted, original.decoding_seconds) == ((), 0, 0)


class Ear:
    """A judge that keeps what it is given."""

    def __init__(self, name: str) -> None:
        self.name, self.sounds = name, []

    def transcribe(self, recordings: list[np.ndarray], sample_rate: int) -> list[str]:
        self.sounds += recordings
        return [f"hello {self.name}"]


def test_a_second_judge_hears_the_same_sound(spec: WorkerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    ears = {name: Ear(name) for name in ("embedded", "whisper")}
    monkeypatch.setattr("pcg.experiments.worker.load_judge", lambda name, device: ears[name])
    both = replace(spec, judge="embedded,whisper")
    assert both.voice_id != spec.voice_id
    result = both.load().run(unit(AR))
    (first,), (second,) = (ear.sounds for ear in ears.values())
    assert np.array_equal(first, second)
    assert (result.heard, result.words, result.by("whisper").heard) == ("hello embedded", (4, 5), "hello whisper")


def test_the_draft_speaks_alone_and_a_rule_takes_the_place_of_the_methods(worker: Worker, synthesizer: Synthesizer) -> None:
    draft, top = replace(AR, model="draft"), Condition("", Settings("sd"), rule="membership:60")
    alone = Synthesizer(replace(synthesizer.voice, target=synthesizer.voice.draft))
    assert worker.run(unit(draft)).tokens == alone.take(SAID.text, unit(draft).settings, "one").tokens
    take = synthesizer.take(SAID.text, unit(top).settings, "one", rule=membership(60))
    assert worker.run(unit(top)).tokens == take.tokens
    others = {worker.run(unit(condition)).tokens for condition in (AR, draft, top, Condition("", Settings("sd")))}
    assert len(others) == 4


def test_a_swap_replaces_members_of_groups_and_is_compared_with_what_was_before(
    worker: Worker, synthesizer: Synthesizer
) -> None:
    before, after = worker.sound(unit(AR)), worker.sound(unit(swapped()))
    assert before.swapped == ()
    differ = [i for i, (a, b) in enumerate(zip(before.tokens, after.tokens, strict=True)) if a != b]
    assert tuple(differ) == after.swapped != ()
    groups = synthesizer.groups(0.3)
    for i in differ:
        group = groups.members_of(int(groups.group_of_centre[before.tokens[i]])).tolist()
        assert after.tokens[i] in group
    result = worker.run(unit(swapped()))
    assert result.tokens == after.tokens
    assert result.swapped == len(differ) / len(after.tokens)
    assert result.mel_distance == mel_distance(before.samples, after.samples, after.sample_rate) > 0
    ear = Resemblyzer()
    voices = [ear.embed(s.samples, s.sample_rate) for s in (before, after)]
    assert result.similarity == pytest.approx(float(voices[0] @ voices[1]), abs=1e-6)


def test_threads_are_the_workers_only_while_it_works(worker: Worker) -> None:
    before, first = torch.get_num_threads(), worker.run(unit(AR))
    torch.set_num_threads(before + 1)
    again = worker.run(unit(AR))
    assert torch.get_num_threads() == before + 1
    torch.set_num_threads(before)
    assert timeless(again) == timeless(first)


def test_a_bad_spec_and_an_unknown_voice_are_refused(worker: Worker, tiny_voice_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="model is"):
        _ = WorkerSpec(str(tmp_path / "none")).voice_id
    with pytest.raises(AssetError, match="missing"):
        _ = WorkerSpec(str(tmp_path)).voice_id
    with pytest.raises(InputError, match="judge"):
        WorkerSpec(str(tiny_voice_folder), judge="nobody").load()
    with pytest.raises(InputError, match="voice is 'three'"):
        worker.run(unit(AR, said=replace(SAID, voice="three")))


def test_who_speaks_and_who_judges_is_known_by_content(spec: WorkerSpec, tmp_path: Path) -> None:
    folder = tmp_path / "voice"
    shutil.copytree(spec.model, folder)
    copy = replace(spec, model=str(folder))
    assert copy.voice_id == spec.voice_id == replace(copy, cache=None).voice_id
    (folder / "MODEL_CARD.md").write_text("a card")
    (folder / "atlas-1.safetensors").write_bytes(b"a map")
    assert replace(copy).voice_id == spec.voice_id
    others = {replace(spec, judge="whisper").voice_id, replace(spec, dnsmos=True).voice_id}
    others |= {replace(spec, device="cuda").voice_id, replace(spec, draft=str(folder / "draft")).voice_id}
    weights = folder / "draft" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x55")
    others |= {replace(copy).voice_id, replace(spec, draft=str(folder / "draft")).voice_id}
    assert len(others | {spec.voice_id}) == 7


def test_a_record_says_where_it_was_made_and_names_no_one(worker: Worker) -> None:
    context = worker.record(unit(AR), workers=3).context
    assert (context["workers"], context["threads"], context["device"]) == (3, 1, "cpu")
    assert (context["model"], context["voice"], context["judges"]) == ("tiny", worker.voice_id, worker.judges)
    assert all(context[name] for name in ("processor", "cores", "python", "torch", "kernel", "format", "date"))
    words = set(json.dumps(context).replace('"', " ").replace("/", " ").split())
    assert not words & {socket.gethostname(), Path.home().name}


@pytest.mark.slow
def test_two_processes_give_what_one_gives(worker: Worker, spec: WorkerSpec, tmp_path: Path) -> None:
    said = [SAID, replace(SAID, text="yes", voice="two")]
    units = [unit(condition, said=u) for u in said for condition in (AR, PCG, swapped())]
    store = Store(tmp_path)
    places = {r.unit: r.context["workers"] for r in run(units, spec, store, processes=2)}
    assert places == dict.fromkeys(units, 2)
    one = [timeless(worker.run(u)) for u in units]
    assert [timeless(r.result) for r in store.records(units, spec.voice_id)] == one
    assert len({r.tokens for r in one}) == len(units)


RULES = "sd ssd:0.3 pcg:0.4 membership:4 relaxed:4:0.2 typical:0.09:0.3 ensemble:0.5 cascade:0.3 lantern:0.2"


def test_every_named_rule_speaks_and_others_are_refused(synthesizer: Synthesizer) -> None:
    neighbours = synthesizer.library.neighbours
    for name in RULES.split():
        assert synthesizer.take("yes", Settings(theta=0.3), "one", rule=named_rule(name, neighbours)).drafted > 0
    for name in ("", "best", "membership", "membership:x", "membership:3:4", "typical:0.1", "ensemble:2"):
        with pytest.raises(InputError):
            named_rule(name, neighbours)
