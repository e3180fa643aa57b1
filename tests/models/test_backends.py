"""What LLaSA and NeuTTS have in common: they read, speak, clone and swap alike, each in its own format."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile
import tiny_llasa
import tiny_neutts
import torch

from pcg.cli import main
from pcg.errors import AssetError, InputError, PCGError
from pcg.groups.swap import Swap, swap
from pcg.models.weights import Vocabulary
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text import llasa, neutts
from pcg.text.llasa import OWN_VOICE
from pcg.text.prompt import PromptReader, Reference
from tests.wav_comment import read_stored

OWN = Reference("", torch.empty(0, dtype=torch.int64))


@dataclass(frozen=True)
class Backend:
    """tiny: what writes it with random weights. shortest: seconds of a reference."""

    name: str
    tiny: ModuleType
    load_reader: Callable[[Path, int], PromptReader]
    code: str
    licence: str
    shortest: int
    hop: int
    sample_rate: int


LLASA = Backend("LLaSA", tiny_llasa, llasa.load_reader, "<|s_{}|>", "CC-BY-NC-4.0", 1, 320, 16_000)
NEUTTS = Backend("NeuTTS", tiny_neutts, neutts.load_reader, "<|speech_{}|>", neutts.APACHE, 3, 480, 24_000)


@pytest.fixture(scope="module", params=[LLASA, NEUTTS], ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    return request.param


@pytest.fixture
def synthesizer(backend: Backend, request: pytest.FixtureRequest) -> Synthesizer:
    return request.getfixturevalue(backend.name.lower())


@pytest.fixture
def reader(synthesizer: Synthesizer) -> PromptReader:
    return synthesizer.voice.reader


@pytest.fixture
def recording(backend: Backend, tmp_path: Path) -> Path:
    """A second more than the shortest reference: a tone that moves, in stereo at another rate than the codec's."""
    time = np.arange((backend.shortest + 1) * 44_100) / 44_100
    tone = 0.3 * np.sin(2 * np.pi * (200 + 100 * time) * time)
    soundfile.write(tmp_path / "me.wav", np.stack([tone, tone], 1), 44_100)
    return tmp_path / "me.wav"


def test_a_text_cannot_speak_as_a_mark_or_a_code(backend: Backend, reader: PromptReader) -> None:
    end, code, other = backend.tiny.SPECIALS[-1], backend.code.format(7), backend.code.format(9)
    said = f"Stop <|SPEECH_GENERATION_END|>{end} here <<|a|>{code[1:]} {other}."
    ids = reader.prompt(said, Reference(said, torch.tensor([3]))).ids.tolist()
    plain = reader.prompt("Stop here.", Reference("Stop here.", torch.tensor([3]))).ids.tolist()
    assert [i for i in ids if i >= backend.tiny.TEXT] == [i for i in plain if i >= backend.tiny.TEXT]
    with pytest.raises(PCGError, match="at least one English word"):
        reader.prompt("<| ?!", OWN)


def test_length_follows_the_reference_and_spelled_out_figures(reader: PromptReader) -> None:
    usual = reader.tokens_for("One sentence.")
    slow = Reference("One sentence.", torch.zeros(round(2 * usual), dtype=torch.int64))
    assert reader.tokens_for("One sentence.", slow) == pytest.approx(2 * usual, rel=0.02)
    assert reader.tokens_for("One sentence.", OWN) == usual
    assert reader.tokens_for("in 1999") > 1.9 * reader.tokens_for("in one")


def test_prompt_and_speech_keep_within_the_context(reader: PromptReader, synthesizer: Synthesizer) -> None:
    with pytest.raises(InputError, match=r"text with its reference is '19.. ids .* at most 2048 together: take a shorter"):
        reader.prompt("Hello, is this one sentence?", Reference("Ab", torch.zeros(1850, dtype=torch.int64)))
    # Fifteen seconds of reference leave room for each piece of a long text, even where each byte is an id.
    words = (
        "These words were said in all of the fifteen seconds that a reference may have, at the usual speed of a reader who " * 2
    )
    longest = Reference(words, torch.zeros(750, dtype=torch.int64))
    pieces = synthesizer.chunks(("The first part of this text is like all others that follow it. " * 9)[:600])
    assert len(pieces) > 2
    for piece in pieces:
        assert reader.tokens_for(piece) <= reader.chunk_tokens
        assert reader.prompt(piece, longest).room >= 1.1 * reader.tokens_for(piece, longest)


def test_a_tokenizer_that_is_none_of_it_is_refused(backend: Backend, tmp_path: Path) -> None:
    end, marks = "<|SPEECH_GENERATION_END|>", backend.tiny.MARKS
    lacks = f"lacks 1 of {backend.name}'s speech tokens, "
    for codes, some, told in (
        (7, marks, f"{lacks}{backend.code.format(7)} first"),
        (8, tuple(mark for mark in marks if mark != end), f"{lacks}{end} first"),
        (8, (*marks, backend.code.format(3)), "do not follow one another"),
    ):
        backend.tiny.save_tokenizer(tmp_path, codes=codes, marks=some)
        with pytest.raises(AssetError, match=re.escape(told)):
            backend.load_reader(tmp_path, 8)


def test_a_folder_without_a_tokenizer_is_refused(backend: Backend, tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"The tokenizer in .* is missing or damaged"):
        backend.load_reader(tmp_path, 8)


def test_a_voice_says_what_it_is(backend: Backend, synthesizer: Synthesizer) -> None:
    voice, tiny = synthesizer.voice, backend.tiny
    assert voice.vocabulary == Vocabulary(tiny.CODES, tiny.FIRST_CODE, tiny.END)
    assert voice.licence == backend.licence
    assert voice.reference_seconds == (backend.shortest, 15)
    assert "untrained" in voice.notice
    assert list(voice.references) == [OWN_VOICE]
    assert voice.target_folder == voice.folder
    assert (voice.codec.sample_rate, voice.codec.hop) == (backend.sample_rate, backend.hop)
    assert (voice.usage == 1).all()
    assert voice.code_embedding.shape == (tiny.CODES, tiny.WIDTH)
    assert torch.equal(voice.code_embedding, tiny.new_model().get_input_embeddings().weight[tiny.FIRST_CODE :])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_speaks(method: str, backend: Backend, synthesizer: Synthesizer) -> None:
    take = synthesizer.take("Hello.", Settings(method, theta=0.4, seed=3), OWN_VOICE)
    assert len(take.tokens) > 5
    assert max(take.tokens) < backend.tiny.CODES
    assert (len(take.audio), take.sample_rate) == (backend.hop * len(take.tokens), backend.sample_rate)
    assert np.isfinite(take.audio).all()
    assert take.tokens == synthesizer.take("Hello.", Settings(method, theta=0.4, seed=3), OWN_VOICE).tokens


def test_at_theta_one_pcg_says_what_sd_says(synthesizer: Synthesizer) -> None:
    sd, pcg = (synthesizer.take("Hello.", Settings(method, theta=1.0, seed=4), OWN_VOICE).tokens for method in ("sd", "pcg"))
    assert sd == pcg


@pytest.mark.parametrize("backend", [LLASA, pytest.param(NEUTTS, marks=pytest.mark.slow)], ids=lambda b: b.name, indirect=True)
def test_a_recording_becomes_a_voice_and_is_cut_from_the_sound(
    backend: Backend, synthesizer: Synthesizer, recording: Path
) -> None:
    reference = synthesizer.voice.reference_from_audio(recording, "Hello there.")
    assert len(reference.codes) == pytest.approx(50 * (backend.shortest + 1), abs=10)
    take = synthesizer.take("Hello.", Settings("ar", seed=1), "me", reference)
    assert take.tokens != synthesizer.take("Hello.", Settings("ar", seed=1), OWN_VOICE).tokens
    assert len(take.audio) == backend.hop * len(take.tokens)
    codec = synthesizer.voice.codec
    before = reference.codes[-codec.past_tokens :]
    whole = codec.decode(torch.cat([before, torch.tensor(take.tokens)]))[len(before) * codec.hop :]
    middle = slice(codec.hop, -codec.hop)  # but for the faded ends
    assert take.audio[middle] == pytest.approx(whole.numpy()[middle], abs=1e-4)


def test_codes_form_groups_and_the_end_stands_alone(backend: Backend, synthesizer: Synthesizer) -> None:
    groups, eos = synthesizer.groups(0.4), synthesizer.voice.vocabulary.eos
    assert len(groups.members_of(int(groups.group_of_centre[eos]))) == 1
    members = set(groups.members_of(int(groups.group_of_centre[0])).tolist())
    assert len(members & {code * tiny_llasa.SPOKEN_EVERY for code in range(tiny_llasa.ALIKE)}) > 1
    assert all(member % tiny_llasa.SPOKEN_EVERY == 0 for member in members)
    assert synthesizer.statistics(0.4).vocab == backend.tiny.CODES + 1


def test_spoken_codes_are_swapped_for_others_of_their_groups(backend: Backend, synthesizer: Synthesizer) -> None:
    groups = synthesizer.groups(0.4)
    tokens = synthesizer.take("Hello.", Settings("pcg", theta=0.4), OWN_VOICE).tokens
    swapped = swap(tokens, groups, Swap(0.4), synthesizer.voice.usage > 0, torch.Generator().manual_seed(0))
    assert swapped.share > 0.5
    for i in swapped.positions:
        assert swapped.tokens[i] in groups.members_of(int(groups.group_of_centre[tokens[i]])).tolist()
    sound = synthesizer.decode(list(swapped.tokens), synthesizer.voice.references[OWN_VOICE])
    assert len(sound) == backend.hop * len(tokens)


@pytest.mark.slow
def test_the_command_line_speaks_with_it(
    backend: Backend, recording: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    out, folder = tmp_path / "out.wav", request.getfixturevalue(f"{backend.name.lower()}_folder")
    given = ["--model", str(folder), "--method", "sd", "--out", str(out), "--json"]
    assert main(["speak", "Hi.", *given, "--reference", str(recording), "--reference-text", "Hello there."]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    samples, rate = soundfile.read(out)
    assert (len(samples), rate) == (backend.hop * summary["tokens"], backend.sample_rate)
    assert read_stored(out).origin.licence == backend.licence
