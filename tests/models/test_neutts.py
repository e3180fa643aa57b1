"""NeuTTS through the real path: small checkpoints in the format of Air and Nano are loaded, prompted, and spoken with."""

import json
from pathlib import Path

import pytest
import tiny_neutts
import torch
from tiny_neutts import AIR_CARD, CODES, END, FIRST_CODE, new_model, save_nano_tokenizer, save_tiny_neutts

from pcg.errors import AssetError
from pcg.models import hub
from pcg.models.hub import HubModel, codec_folder, hub_model, is_neutts, needs_hub
from pcg.models.weights import Vocabulary, load_llama
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import Voice, load_voice
from pcg.text.neutts import APACHE, OPEN, NeuTTSReader, licence_of, load_reader
from pcg.text.prompt import CONTEXT, Reference
from tests.models.test_weights import assert_same_logits

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
    *(83, 135, 230, 84, 135, 238, 0, 261, 198, 64, 82, 82, 72, 82, 83, 64, 77, 83, 25, 263),
    *(FIRST_CODE + 5, FIRST_CODE + 65_535),
]


@pytest.fixture(scope="module")
def reader(neutts: Synthesizer) -> NeuTTSReader:
    return neutts.voice.reader


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Voice:
    folder = tmp_path_factory.mktemp("nano")
    save_tiny_neutts(folder, nano=True)
    return load_voice(str(folder))


def test_the_prompt_has_these_ids(reader: NeuTTSReader) -> None:
    prompt = reader.prompt("One, two!", AB)
    assert prompt.ids.tolist() == GOLDEN
    assert reader.tokenizer.decode(prompt.ids) == WRITTEN
    assert prompt.positions.tolist() == list(range(len(GOLDEN)))
    assert prompt.next_position == len(GOLDEN)
    assert prompt.room == CONTEXT - len(GOLDEN)


def test_nano_begins_with_the_mark_of_its_tokenizer_and_has_a_licence_of_its_own(nano: Voice) -> None:
    assert (nano.vocabulary, nano.licence) == (VOCABULARY, OPEN)
    assert nano.reader.prompt("One, two!", AB).ids.tolist() == [tiny_neutts.TEXT, *GOLDEN]


def test_a_prompt_without_a_reference_is_about_the_text_alone(reader: NeuTTSReader) -> None:
    written = reader.tokenizer.decode(reader.prompt("One, two!", OWN).ids)
    assert written == WRITTEN.replace("ˈæb. ", "").replace("<|speech_5|><|speech_65535|>", "")


def test_figures_are_spoken_and_every_text_is_closed(reader: NeuTTSReader) -> None:
    assert reader.prompt("In 5 minutes", OWN).ids.tolist() == reader.prompt("in five minutes.", OWN).ids.tolist()
    assert reader.prompt("In 5 minutes", OWN).ids.tolist() != reader.prompt("in five minutes?", OWN).ids.tolist()


def test_a_tokenizer_that_closes_every_text_is_refused(tmp_path: Path) -> None:
    save_nano_tokenizer(tmp_path, codes=8, behind="<|im_end|>")
    with pytest.raises(AssetError, match="does not read NeuTTS's marks as they are written"):
        load_reader(tmp_path, 8)


@pytest.mark.parametrize("is_nano", [False, True])
def test_logits_are_as_transformers_has_them(is_nano: bool, tmp_path: Path) -> None:
    model = new_model(is_nano, seed=1)
    model.save_pretrained(tmp_path)
    assert_same_logits(tmp_path, model, VOCABULARY)


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


def test_what_is_drafted_by_some_layers_is_checked_by_all(neutts: Synthesizer) -> None:
    """Were the draft's biases lost, it would still speak: it must be the target's own layers, biases among them."""
    draft, target = neutts.voice.draft, neutts.voice.target
    assert torch.equal(draft.weights.qkv_bias, target.weights.qkv_bias[[0, 2]])
    assert draft.weights.qkv_bias.abs().min() > 0
