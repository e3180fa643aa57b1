"""NeuTTS through the real path: small checkpoints in the format of Air and Nano are loaded, prompted, and spoken with."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tiny_neutts
import torch
from tiny_neutts import (
    AIR_CARD,
    CODES,
    END,
    FIRST_CODE,
    MARKS,
    new_model,
    save_nano_tokenizer,
    save_tiny_neutts,
    save_tokenizer,
)
from transformers import PreTrainedModel

from pcg.analysis.swap import Swap, swap
from pcg.cli import main
from pcg.errors import AssetError, InputError, PCGError
from pcg.models import hub
from pcg.models.hub import HubModel, codec_folder, hub_model, is_neutts, needs_hub
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import load_llama
from pcg.prompts.llasa import OWN_VOICE
from pcg.prompts.neutts import APACHE, CONTEXT, OPEN, NeuTTSReader, licence_of, load_reader
from pcg.prompts.prompt import Reference
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import Voice, load_voice
from pcg.takes.stored import read_stored

VOCABULARY = Vocabulary(CODES, FIRST_CODE, END)
OWN = Reference("", torch.empty(0, dtype=torch.int64))
AB = Reference("Ab", torch.tensor([5, 65_535]))
WRITTEN = (
    "user: Convert the text to speech:<|TEXT_PROMPT_START|>ˈæb. wˌʌn, tˈuː!<|TEXT_PROMPT_END|>\n"
    "assistant:<|SPEECH_GENERATION_START|><|speech_5|><|speech_65535|>"
)
# The bytes of "user: Convert the text to speech:", and of "ˈæb. wˌʌn, tˈuː!" between two marks; then those of "\nassistant:".
GOLDEN = [
    *(84, 82, 68, 81, 25, 220, 34, 78, 77, 85, 68, 81, 83, 220, 83, 71, 68, 220, 83, 68, 87, 83, 220, 83, 78, 220),
    *(82, 79, 68, 68, 66, 71, 25, 260, 135, 230, 127, 99, 65, 13, 220, 86, 135, 234, 134, 234, 77, 11, 220),
    *(
        83,
        135,
        230,
        84,
        135,
        238,
        0,
        261,
        198,
        64,
        82,
        82,
        72,
        82,
        83,
        64,
        77,
        83,
        25,
        263,
        FIRST_CODE + 5,
        FIRST_CODE + 65_535,
    ),
]


@pytest.fixture(scope="module")
def reader(neutts: Synthesizer) -> NeuTTSReader:
    return neutts.voice.reader


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Voice:
    folder = tmp_path_factory.mktemp("nano")
    save_tiny_neutts(folder, nano=True)
    return load_voice(str(folder))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Four seconds of a tone that moves, in stereo at another rate than the codec's."""
    time = np.arange(4 * 44_100) / 44_100
    tone = 0.3 * np.sin(2 * np.pi * (200 + 100 * time) * time)
    soundfile.write(tmp_path / "me.wav", np.stack([tone, tone], 1), 44_100)
    return tmp_path / "me.wav"


def test_the_prompt_has_these_ids(reader: NeuTTSReader) -> None:
    prompt = reader.prompt("One, two!", AB)
    assert prompt.ids.tolist() == GOLDEN
    assert reader.tokenizer.decode(prompt.ids) == WRITTEN
    assert prompt.positions.tolist() == list(range(len(GOLDEN)))
    assert prompt.next_position == len(GOLDEN)
    assert prompt.room == CONTEXT - len(GOLDEN)


def test_nano_begins_with_the_mark_of_its_tokenizer(nano: Voice) -> None:
    assert nano.reader.prompt("One, two!", AB).ids.tolist() == [tiny_neutts.TEXT, *GOLDEN]


def test_a_prompt_without_a_reference_is_about_the_text_alone(reader: NeuTTSReader) -> None:
    written = reader.tokenizer.decode(reader.prompt("One, two!", OWN).ids)
    assert written == WRITTEN.replace("ˈæb. ", "").replace("<|speech_5|><|speech_65535|>", "")


def test_figures_are_spoken_and_every_text_is_closed(reader: NeuTTSReader) -> None:
    assert reader.prompt("In 5 minutes", OWN).ids.tolist() == reader.prompt("in five minutes.", OWN).ids.tolist()
    assert reader.prompt("In 5 minutes", OWN).ids.tolist() != reader.prompt("in five minutes?", OWN).ids.tolist()


def test_a_text_cannot_speak_as_a_mark_or_a_code(reader: NeuTTSReader) -> None:
    said = "Stop <|SPEECH_GENERATION_END|><|im_end|> here <<|a|>|speech_7|> <|speech_9|>."
    ids = reader.prompt(said, Reference(said, torch.tensor([3]))).ids.tolist()
    plain = reader.prompt("Stop here.", Reference("Stop here.", torch.tensor([3]))).ids.tolist()
    assert [i for i in ids if i >= tiny_neutts.TEXT] == [i for i in plain if i >= tiny_neutts.TEXT]
    with pytest.raises(PCGError, match="at least one English word"):
        reader.prompt("<| ?!", OWN)


def test_length_follows_the_reference_and_spelled_out_figures(reader: NeuTTSReader) -> None:
    usual = reader.tokens_for("One sentence.")
    slow = Reference("One sentence.", torch.zeros(round(2 * usual), dtype=torch.int64))
    assert reader.tokens_for("One sentence.", slow) == pytest.approx(2 * usual, rel=0.02)
    assert reader.tokens_for("One sentence.", OWN) == usual
    assert reader.tokens_for("in 1999") > 2 * reader.tokens_for("in one")


def test_prompt_and_speech_keep_within_the_context(reader: NeuTTSReader, neutts: Synthesizer) -> None:
    with pytest.raises(InputError, match=r"text with its reference is '19.. ids .* at most 2048 together: take a shorter"):
        reader.prompt("Hello, is this one sentence?", Reference("Ab", torch.zeros(1850, dtype=torch.int64)))
    # Fifteen seconds of reference leave room for each piece of a long text, even where each byte is an id.
    words = "These words were said in all of the fifteen seconds that a reference may have, at the usual speed of a reader " * 2
    longest = Reference(words, torch.zeros(750, dtype=torch.int64))
    pieces = neutts.chunks(("The first part of this text is like all others that follow it. " * 9)[:600])
    assert len(pieces) > 2
    for piece in pieces:
        assert reader.prompt(piece, longest).room >= 1.1 * reader.tokens_for(piece, longest)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"codes": 7}, r"lacks 1 of NeuTTS's speech tokens, <\|speech_7\|> first"),
        ({"marks": MARKS[:5]}, r"lacks 1 of NeuTTS's speech tokens, <\|SPEECH_GENERATION_END\|> first"),
        ({"marks": (*MARKS, "<|speech_3|>")}, "do not follow one another"),
    ],
)
def test_a_tokenizer_that_is_none_of_a_neutts_is_refused(made: dict[str, object], sentence: str, tmp_path: Path) -> None:
    save_tokenizer(tmp_path, **{"codes": 8} | made)
    with pytest.raises(AssetError, match=sentence):
        load_reader(tmp_path, 8)


def test_a_tokenizer_that_closes_every_text_is_refused(tmp_path: Path) -> None:
    save_nano_tokenizer(tmp_path, codes=8, behind="<|im_end|>")
    with pytest.raises(AssetError, match="does not read NeuTTS's marks as they are written"):
        load_reader(tmp_path, 8)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"The tokenizer in .* is missing or damaged"):
        load_reader(tmp_path, 8)


@pytest.mark.parametrize("is_nano", [False, True])
def test_logits_are_as_transformers_has_them(is_nano: bool, tmp_path: Path) -> None:
    model = new_model(is_nano, seed=1)
    model.save_pretrained(tmp_path)
    ids = torch.tensor([[256, 80, 263, *range(FIRST_CODE, FIRST_CODE + 320, 16)]])
    assert_same_logits(ids, DecodingLlama(load_llama(tmp_path, VOCABULARY), VOCABULARY), model)


def assert_same_logits(ids: torch.Tensor, engine: DecodingLlama, model: PreTrainedModel) -> None:
    """The engine's logits over the codes and the end are those of `model`, also far into the context."""
    positions = torch.arange(ids.shape[1])[None] + 1900
    with torch.inference_mode():
        expected = model(ids, position_ids=positions).logits[0][:, VOCABULARY.model_ids()]
    found = engine.forward(ids, engine.rotary(positions), engine.cache(1, ids.shape[1]))[0]
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=1e-3)
    assert expected.std() > 0.1


def test_a_qwen2_that_sees_only_a_window_is_refused(tmp_path: Path) -> None:
    new_model().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"use_sliding_window": True}))
    with pytest.raises(AssetError, match=r"The config .* is missing or damaged"):
        load_llama(tmp_path, VOCABULARY)


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        (AIR_CARD, APACHE),
        (AIR_CARD.replace("apache-2.0", "other"), OPEN),
        ("# No front matter\n", OPEN),
        ("---\nlicense: [\n---\n", OPEN),
        (None, OPEN),
    ],
)
def test_the_licence_is_what_the_card_says_else_the_narrower_one(card: str | None, licence: str, tmp_path: Path) -> None:
    if card is not None:
        (tmp_path / "README.md").write_text(card, encoding="utf-8")
    assert licence_of(tmp_path) == licence


def test_names_and_codecs_are_its_own(
    neutts_folder: Path, llasa_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PCG_REVISION", raising=False)
    monkeypatch.delenv("PCG_CODEC_REVISION", raising=False)
    asked: list[HubModel] = []
    monkeypatch.setattr(hub, "download", lambda model, device: asked.append(model) or tmp_path)
    assert hub_model("neutts-air@v1") == HubModel("neuphonic/neutts-air", "v1")
    assert hub_model("neutts-nano") == HubModel("neuphonic/neutts-nano")
    assert (is_neutts(neutts_folder), is_neutts(llasa_folder)) == (True, False)
    assert codec_folder(neutts_folder) == neutts_folder / "codec"
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).symlink_to(neutts_folder / name)
    assert needs_hub(str(tmp_path))
    assert codec_folder(tmp_path) == tmp_path
    assert asked == [HubModel("neuphonic/neucodec")]


def test_voices_of_neutts_say_what_they_are(neutts: Synthesizer, nano: Voice) -> None:
    voice = neutts.voice
    assert voice.vocabulary == nano.vocabulary == VOCABULARY
    assert (voice.licence, nano.licence) == (APACHE, OPEN)
    assert voice.reference_seconds == (3, 15)
    assert "untrained" in voice.notice
    assert list(voice.references) == [OWN_VOICE]
    assert voice.target_folder == voice.folder
    assert (voice.codec.sample_rate, voice.codec.hop) == (24_000, 480)
    assert torch.equal(voice.code_embedding, new_model().get_input_embeddings().weight[FIRST_CODE:])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_speaks(method: str, neutts: Synthesizer) -> None:
    take = neutts.take("Hello.", Settings(method, theta=0.4, seed=3), OWN_VOICE)
    assert len(take.tokens) > 5
    assert max(take.tokens) < CODES
    assert (len(take.audio), take.sample_rate) == (480 * len(take.tokens), 24_000)
    assert np.isfinite(take.audio).all()
    assert take.tokens == neutts.take("Hello.", Settings(method, theta=0.4, seed=3), OWN_VOICE).tokens


def test_at_theta_one_pcg_says_what_sd_says(neutts: Synthesizer) -> None:
    said = [neutts.take("Hello.", Settings(method, theta=1.0, seed=4), OWN_VOICE).tokens for method in ("sd", "pcg")]
    assert said[0] == said[1]


def test_what_is_drafted_by_some_layers_is_checked_by_all(neutts: Synthesizer) -> None:
    """Were the draft's biases lost, it would still speak: it must be the target's own layers, biases among them."""
    draft, target = neutts.voice.draft, neutts.voice.target
    assert torch.equal(draft.weights.qkv_bias, target.weights.qkv_bias[[0, 2]])
    assert draft.weights.qkv_bias.abs().min() > 0


@pytest.mark.slow
def test_a_recording_becomes_a_voice_and_is_cut_from_the_sound(neutts: Synthesizer, recording: Path) -> None:
    reference = neutts.voice.reference_from_audio(recording, "Hello there.")
    assert len(reference.codes) == pytest.approx(200, abs=10)
    take = neutts.take("Hello.", Settings("ar", seed=1), "me", reference)
    assert take.tokens != neutts.take("Hello.", Settings("ar", seed=1), OWN_VOICE).tokens
    before = reference.codes[-neutts.voice.codec.past_tokens :]
    whole = neutts.voice.codec.decode(torch.cat([before, torch.tensor(take.tokens)]))
    middle = slice(480, -480)  # but for the faded ends
    assert take.audio[middle] == pytest.approx(whole.numpy()[len(before) * 480 :][middle], abs=1e-4)


def test_codes_form_groups_and_are_swapped_within_them(neutts: Synthesizer) -> None:
    groups = neutts.groups(0.4)
    assert len(groups.members_of(int(groups.group_of_centre[VOCABULARY.eos]))) == 1
    tokens = neutts.take("Hello.", Settings("pcg", theta=0.4), OWN_VOICE).tokens
    swapped = swap(tokens, groups, Swap(0.4), neutts.voice.usage > 0, torch.Generator().manual_seed(0))
    assert swapped.share > 0.5
    for i in swapped.positions:
        assert swapped.tokens[i] in groups.members_of(int(groups.group_of_centre[tokens[i]])).tolist()


@pytest.mark.slow
def test_the_command_line_speaks_with_it(
    neutts_folder: Path, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.wav"
    given = ["--model", str(neutts_folder), "--method", "sd", "--out", str(out), "--json"]
    assert main(["speak", "Hi.", *given, "--reference", str(recording), "--reference-text", "Hello there."]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    samples, rate = soundfile.read(out)
    assert (len(samples), rate) == (480 * summary["tokens"], 24_000)
    assert read_stored(out).origin.licence == APACHE
