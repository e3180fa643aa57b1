"""LLaSA through the real path: a small checkpoint in its format is loaded, prompted, and spoken with."""

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import torch
from tiny_llasa import CODES, END, FIRST_CODE, save_tokenizer

from pcg.errors import AssetError, PCGError
from pcg.experiments.worker import WorkerSpec
from pcg.models.weights import count_weights
from pcg.saved_take import Origin
from pcg.synthesis import voice as voices
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.text.llasa import LlasaReader, load_reader
from pcg.text.prompt import CONTEXT, Reference

OWN = Reference("", torch.empty(0, dtype=torch.int64))
# The bytes of the template and of "Ab Hello, one.", between Llama 3's marks (256 .. 260) and LLaSA's (263 .. 265); then codes.
GOLDEN = [
    *(256, 258, 82, 88, 82, 83, 68, 76, 259, 198, 198, 51, 78, 67, 64, 88, 25, 220, 17, 21, 220, 41, 84, 75, 220),
    *(17, 15, 17, 19, 260, 258, 84, 82, 68, 81, 259, 198, 198, 34, 78, 77, 85, 68, 81, 83, 220, 83, 71, 68, 220),
    *(83, 68, 87, 83, 220, 83, 78, 220, 82, 79, 68, 68, 66, 71, 25, 263, 32, 65, 220, 39, 68, 75, 75, 78, 11, 220),
    *(78, 77, 68, 13, 264, 260, 258, 64, 82, 82, 72, 82, 83, 64, 77, 83, 259, 198, 198, 265),
    *(FIRST_CODE + 5, FIRST_CODE + 65_535),
]


@pytest.fixture(scope="module")
def reader(llasa: Synthesizer) -> LlasaReader:
    return llasa.voice.reader


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


def test_a_prompt_without_a_reference_is_about_the_text_alone(reader: LlasaReader) -> None:
    begin = GOLDEN.index(263) + 1
    assert reader.prompt("Hello, one.", OWN).ids.tolist() == GOLDEN[:begin] + GOLDEN[begin + 3 : -2]


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("", "cannot be used"),
        ("{{ messages[0]['content'] }}", "chat template .* cannot be used|does not read LLaSA's marks"),
        ("{{ no_such_thing() }}", "cannot be used"),
    ],
)
def test_a_template_that_is_none_of_a_llasa_is_refused(template: str, sentence: str, tmp_path: Path) -> None:
    save_tokenizer(tmp_path, template, codes=8)
    with pytest.raises(AssetError, match=sentence):
        load_reader(tmp_path, 8)


def test_weights_run_in_what_memory_has_room_for(llasa_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(free: int, precision: str = "auto") -> torch.dtype:
        for module in ("pcg.synthesis.voice", "pcg.models.hub"):
            monkeypatch.setattr(f"{module}.free_memory", lambda _: free)
        return voices._weights_type("tiny", llasa_folder, "cpu", precision)

    weights = count_weights(llasa_folder)
    sizes = (8 * weights, 8 * weights - 1, 4 * weights)
    assert [held(free) for free in sizes] == [torch.float32, torch.bfloat16, torch.bfloat16]
    assert held(8 * weights, "float32") == torch.float32
    with pytest.raises(PCGError, match=r"tiny needs 0.0 GiB of memory on the cpu, but 0.0 GiB are free: close other programs"):
        held(4 * weights - 1)
    with pytest.raises(PCGError, match="tiny needs"):
        held(8 * weights - 1, "float32")


def test_memory_that_runs_out_while_loading_is_one_sentence(llasa_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(voices, "load_llama", exhausted)
    monkeypatch.setattr(voices, "load_reader", lambda *_: LlasaReader(None, FIRST_CODE, END))
    with pytest.raises(PCGError, match=r"Memory ran out on the cpu while .* was loaded: choose a smaller model"):
        load_voice(str(llasa_folder))


def test_the_map_places_every_code(llasa: Synthesizer) -> None:
    atlas = llasa.library.atlas()
    assert len(atlas.x) == CODES
    assert torch.isfinite(atlas.x).all()


def change_the_end(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-2, 2)
        file.write(b"\x01\x02")


def test_a_takes_digest_knows_a_codec_that_lies_elsewhere(llasa: Synthesizer, llasa_folder: Path, tmp_path: Path) -> None:
    codec = shutil.copytree(llasa_folder / "codec", tmp_path / "codec")
    voice = replace(llasa.voice, codec_folder=codec)
    before = Origin.of(voice).digest
    assert before == Origin.of(voice).digest != Origin.of(llasa.voice).digest
    change_the_end(codec / "model.safetensors")
    assert Origin.of(voice).digest != before


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "codec/model.safetensors"])
def test_digests_know_every_file(name: str, llasa: Synthesizer, llasa_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(llasa_folder, tmp_path / "copy")

    def digests() -> tuple[str, str]:
        return Origin.of(replace(llasa.voice, folder=copy)).digest, WorkerSpec(str(copy)).voice_id

    before = digests()
    assert before == digests()
    change_the_end(copy / name)
    assert all(new != old for new, old in zip(digests(), before, strict=True))
