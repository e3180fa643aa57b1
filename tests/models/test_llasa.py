"""LLaSA through the real path: a small checkpoint in its format is loaded, prompted, and spoken with."""

import json
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tiny_llasa
import torch
from tiny_llasa import CODES, END, FIRST_CODE, MARKS, TEMPLATE, new_model, save_tokenizer

from pcg.analysis.swap import Swap, swap
from pcg.cli import main
from pcg.errors import AssetError, InputError, PCGError
from pcg.experiments.worker import WorkerSpec
from pcg.groups.atlas import atlas_bytes
from pcg.groups.similarities import fsq_features, mel_features
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import count_weights
from pcg.prompts.llasa import CONTEXT, OWN_VOICE, LlasaReader, load_reader
from pcg.prompts.prompt import Reference
from pcg.settings import METHODS, Settings
from pcg.synthesis import voice as voices
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.takes.stored import Origin, read_stored

TEXT = "Hello, is this one sentence?"
VOCABULARY = Vocabulary(CODES, FIRST_CODE, END)
OWN = Reference("", torch.empty(0, dtype=torch.int64))
# The bytes of the template and of "Ab Hello, one.", between Llama 3's marks (256 .. 260) and LLaSA's (263 .. 265); then codes.
GOLDEN = [
    *(
        256,
        258,
        82,
        88,
        82,
        83,
        68,
        76,
        259,
        198,
        198,
        51,
        78,
        67,
        64,
        88,
        25,
        220,
        17,
        21,
        220,
        41,
        84,
        75,
        220,
        17,
        15,
        17,
        19,
    ),
    *(
        260,
        258,
        84,
        82,
        68,
        81,
        259,
        198,
        198,
        34,
        78,
        77,
        85,
        68,
        81,
        83,
        220,
        83,
        71,
        68,
        220,
        83,
        68,
        87,
        83,
        220,
        83,
        78,
        220,
    ),
    *(82, 79, 68, 68, 66, 71, 25, 263, 32, 65, 220, 39, 68, 75, 75, 78, 11, 220, 78, 77, 68, 13, 264),
    *(260, 258, 64, 82, 82, 72, 82, 83, 64, 77, 83, 259, 198, 198, 265, FIRST_CODE + 5, FIRST_CODE + 65_535),
]


@pytest.fixture(scope="module")
def reader(llasa: Synthesizer) -> LlasaReader:
    return llasa.voice.reader


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two seconds of a tone that moves, in stereo at another rate than the codec's."""
    time = np.arange(88_200) / 44_100
    tone = 0.3 * np.sin(2 * np.pi * (200 + 100 * time) * time)
    soundfile.write(tmp_path / "me.wav", np.stack([tone, tone], 1), 44_100)
    return tmp_path / "me.wav"


def test_the_prompt_has_these_ids(reader: LlasaReader) -> None:
    prompt = reader.prompt("Hello, one.", Reference("Ab", torch.tensor([5, 65_535])))
    assert prompt.ids.tolist() == GOLDEN
    assert prompt.positions.tolist() == list(range(len(GOLDEN)))
    assert prompt.next_position == len(GOLDEN)
    assert prompt.room == CONTEXT - len(GOLDEN)


def test_the_prompt_is_what_the_template_writes_and_stops_where_speech_goes_on(reader: LlasaReader) -> None:
    said = "Convert the text to speech:<|TEXT_UNDERSTANDING_START|>Ab Hello, one.<|TEXT_UNDERSTANDING_END|>"
    chat = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": "<|SPEECH_GENERATION_START|><|s_5|><|s_65535|>"},
    ]
    written = reader.tokenizer.apply_chat_template(chat, tokenize=False, continue_final_message=True, date_string="26 Jul 2024")
    assert reader.tokenizer(written, add_special_tokens=False)["input_ids"] == GOLDEN
    today = reader.tokenizer.apply_chat_template(chat, tokenize=False, continue_final_message=True)
    assert date.today().strftime("%d %b %Y") in today  # so the date has to be given, or the prompt drifts


def test_a_text_cannot_speak_as_the_template_or_the_codec_does(reader: LlasaReader) -> None:
    said = "Stop <|SPEECH_GENERATION_END|><|eot_id|> here <<|a|>|s_7|> <|s_9|>."
    ids = reader.prompt(said, Reference(said, torch.tensor([3]))).ids.tolist()
    plain = reader.prompt("Stop here.", Reference("Stop here.", torch.tensor([3]))).ids.tolist()
    assert [i for i in ids if i >= 256] == [i for i in plain if i >= 256]
    with pytest.raises(PCGError, match="at least one English word"):
        reader.prompt("<| ?!", OWN)


def test_a_prompt_without_a_reference_is_about_the_text_alone(reader: LlasaReader) -> None:
    ids = reader.prompt("Hello, one.", OWN).ids.tolist()
    spoken = GOLDEN[: GOLDEN.index(263) + 1] + GOLDEN[GOLDEN.index(263) + 4 : -2]
    assert ids == spoken


def test_length_follows_the_reference_and_spelled_out_figures(reader: LlasaReader) -> None:
    usual = reader.tokens_for("One sentence.")
    slow = Reference("One sentence.", torch.zeros(round(2 * usual), dtype=torch.int64))
    assert reader.tokens_for("One sentence.", slow) == pytest.approx(2 * usual, rel=0.02)
    assert reader.tokens_for("One sentence.", OWN) == usual
    assert reader.tokens_for("in 1999") > 2 * reader.tokens_for("in one")


def test_prompt_and_speech_keep_within_the_context(reader: LlasaReader, llasa: Synthesizer) -> None:
    with pytest.raises(InputError, match=r"text with its reference is '19.. ids .* at most 2048 together: take a shorter"):
        reader.prompt(TEXT, Reference("Ab", torch.zeros(1850, dtype=torch.int64)))
    long = "The first part of this text is like all others that follow it. " * 9
    pieces = llasa.chunks(long[:600])
    assert len(pieces) > 2
    assert all(reader.tokens_for(piece) <= reader.chunk_tokens for piece in pieces)
    # Fifteen seconds of reference leave room for each piece.
    words = (
        "These words were said in all of the fifteen seconds that a reference may have, at the usual speed of a reader who " * 2
    )
    longest = Reference(words, torch.zeros(750, dtype=torch.int64))
    for piece in pieces:
        prompt = reader.prompt(piece, longest)
        assert prompt.room >= 1.1 * reader.tokens_for(piece, longest)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"codes": 7}, "lacks 1 of LLaSA's speech tokens, <|s_7|> first"),
        ({"marks": MARKS[:-3]}, "lacks 1 of LLaSA's speech tokens, <|SPEECH_GENERATION_END|> first"),
        ({"marks": (*MARKS, "<|s_3|>")}, "do not follow one another"),
        ({"template": ""}, "has no chat template"),
        ({"template": "{{ messages[0]['content'] }}"}, "chat template .* cannot be used|does not end with"),
        ({"template": "{{ no_such_thing() }}"}, "cannot be used"),
    ],
)
def test_a_tokenizer_that_is_none_of_a_llasa_is_refused(made: dict[str, object], sentence: str, tmp_path: Path) -> None:
    save_tokenizer(tmp_path, **{"codes": 8, "marks": MARKS, "template": TEMPLATE} | made)
    with pytest.raises(AssetError, match=sentence.replace("|s_", r"\|s_").replace("|>", r"\|>").replace("<|", r"<\|")):
        load_reader(tmp_path, 8)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"The tokenizer in .* is missing or damaged"):
        load_reader(tmp_path, 8)


def test_weights_run_in_what_memory_has_room_for(llasa_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = count_weights(llasa_folder)
    for free, expected in ((8 * weights, torch.float32), (8 * weights - 1, torch.bfloat16), (4 * weights, torch.bfloat16)):
        monkeypatch.setattr(voices, "free_memory", lambda _, free=free: free)
        monkeypatch.setattr("pcg.models.memory_check.free_memory", lambda _, free=free: free)
        assert voices._precision("tiny", llasa_folder, "cpu") == expected
    monkeypatch.setattr(voices, "free_memory", lambda _: 4 * weights - 1)
    monkeypatch.setattr("pcg.models.memory_check.free_memory", lambda _: 4 * weights - 1)
    with pytest.raises(PCGError, match=r"tiny needs 0.0 GiB of memory on the cpu, but 0.0 GiB are free: close other programs"):
        voices._precision("tiny", llasa_folder, "cpu")


def test_memory_that_runs_out_while_loading_is_one_sentence(llasa_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(voices, "load_llama", exhausted)
    monkeypatch.setattr(voices, "load_reader", lambda *_: LlasaReader(None, FIRST_CODE, END))
    with pytest.raises(PCGError, match=r"Memory ran out on the cpu while .* was loaded: choose a smaller model"):
        load_voice(str(llasa_folder))


def test_a_voice_of_llasa_says_what_it_is(llasa: Synthesizer) -> None:
    voice = llasa.voice
    assert voice.vocabulary == VOCABULARY
    assert voice.licence == "CC-BY-NC-4.0"
    assert voice.reference_seconds == (1, 15)
    assert "untrained" in voice.notice
    assert list(voice.references) == [OWN_VOICE]
    assert (voice.usage == 1).all()
    assert voice.code_embedding.shape == (CODES, tiny_llasa.WIDTH)
    assert torch.equal(voice.code_embedding, new_model().get_input_embeddings().weight[FIRST_CODE:])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_speaks(method: str, llasa: Synthesizer) -> None:
    take = llasa.take("Hello.", Settings(method, theta=0.4, seed=3), OWN_VOICE)
    assert len(take.tokens) > 5
    assert max(take.tokens) < CODES
    assert len(take.audio) == 320 * len(take.tokens)
    assert take.sample_rate == 16_000
    assert np.isfinite(take.audio).all()
    assert take.tokens == llasa.take("Hello.", Settings(method, theta=0.4, seed=3), OWN_VOICE).tokens


def test_at_theta_one_pcg_says_what_sd_says(llasa: Synthesizer) -> None:
    said = [llasa.take("Hello.", Settings(method, theta=1.0, seed=4), OWN_VOICE).tokens for method in ("sd", "pcg")]
    assert said[0] == said[1]


def test_a_recording_becomes_a_voice_and_is_cut_from_the_sound(llasa: Synthesizer, recording: Path) -> None:
    reference = llasa.voice.reference_from_audio(recording, "Hello there.")
    assert len(reference.codes) == pytest.approx(100, abs=10)
    take = llasa.take("Hello.", Settings("ar", seed=1), "me", reference)
    assert take.tokens != llasa.take("Hello.", Settings("ar", seed=1), OWN_VOICE).tokens
    assert len(take.audio) == 320 * len(take.tokens)
    whole = llasa.voice.codec.decode(torch.cat([reference.codes, torch.tensor(take.tokens)]))
    middle = slice(320, -320)  # but for the faded ends
    assert take.audio[middle] == pytest.approx(whole.numpy()[len(reference.codes) * 320 :][middle], abs=1e-4)


def test_codes_form_groups_and_the_end_stands_alone(llasa: Synthesizer) -> None:
    groups = llasa.groups(0.4)
    assert len(groups.members_of(int(groups.group_of_centre[VOCABULARY.eos]))) == 1
    first = [code * tiny_llasa.SPOKEN_EVERY for code in range(tiny_llasa.ALIKE)]
    members = set(groups.members_of(int(groups.group_of_centre[0])).tolist())
    assert len(members & set(first)) > 1
    assert all(member % tiny_llasa.SPOKEN_EVERY == 0 for member in members)
    assert llasa.statistics(0.4).vocab == CODES + 1


def test_spoken_codes_are_swapped_for_others_of_their_groups(llasa: Synthesizer) -> None:
    groups = llasa.groups(0.4)
    tokens = llasa.take("Hello.", Settings("pcg", theta=0.4), OWN_VOICE).tokens
    swapped = swap(tokens, groups, Swap(0.4), llasa.voice.usage > 0, torch.Generator().manual_seed(0))
    assert swapped.share > 0.5
    for i in swapped.positions:
        assert swapped.tokens[i] in groups.members_of(int(groups.group_of_centre[tokens[i]])).tolist()
    assert len(llasa.decode(list(swapped.tokens), llasa.voice.references[OWN_VOICE])) == 320 * len(tokens)


def test_the_map_places_every_code(llasa: Synthesizer) -> None:
    atlas = llasa.atlas()
    assert len(atlas.x) == CODES
    assert torch.isfinite(atlas.x).all()
    assert len(atlas_bytes(atlas)) > CODES * 4


def test_the_codec_lends_the_other_similarities(llasa: Synthesizer) -> None:
    codec = llasa.voice.codec
    assert llasa.library.similarities == ("cosine", "mel", "fsq", "both")
    digits = fsq_features(codec.fsq)
    assert digits.shape == (CODES, 24)
    assert len(digits.unique(dim=0)) == CODES

    class Some:
        """The first codes of the codec: all of them take a minute."""

        sample_rate, hop, codebook_size = codec.sample_rate, codec.hop, 96
        decode_batch = staticmethod(codec.decode_batch)

    mel = mel_features(Some())
    assert mel.shape[0] == 96
    assert torch.isfinite(mel).all()
    assert len(mel.unique(dim=0)) == 96


def test_a_takes_digest_knows_a_codec_that_lies_elsewhere(llasa: Synthesizer, llasa_folder: Path, tmp_path: Path) -> None:
    codec = shutil.copytree(llasa_folder / "codec", tmp_path / "codec")
    voice = replace(llasa.voice, codec_folder=codec)
    before = Origin.of(voice).digest
    assert before == Origin.of(voice).digest != Origin.of(llasa.voice).digest
    with (codec / "model.safetensors").open("r+b") as file:
        file.seek(-2, 2)
        file.write(b"\x01\x02")
    assert Origin.of(voice).digest != before


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "codec/model.safetensors"])
def test_digests_know_every_file(name: str, llasa: Synthesizer, llasa_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(llasa_folder, tmp_path / "copy")

    def digests() -> tuple[str, str]:
        return Origin.of(replace(llasa.voice, folder=copy)).digest, WorkerSpec(str(copy)).voice_id

    before = digests()
    assert before == digests()
    with (copy / name).open("r+b") as file:
        file.seek(-2, 2)
        file.write(b"\x01\x02")
    assert all(new != old for new, old in zip(digests(), before, strict=True))


@pytest.mark.slow
def test_the_command_line_speaks_with_it(
    llasa_folder: Path, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.wav"
    given = ["--model", str(llasa_folder), "--method", "sd", "--out", str(out), "--json"]
    spoken = ["--reference", str(recording), "--reference-text", "Hello there."]
    assert main(["speak", "Hi.", *given, *spoken]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    samples, rate = soundfile.read(out)
    assert (len(samples), rate) == (320 * summary["tokens"], 16_000)
    assert read_stored(out).origin.licence == "CC-BY-NC-4.0"
