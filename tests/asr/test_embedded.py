"""The embedded recogniser: what padding may not change, what is read in training and in decoding, and its folder."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pcg.asr.embedded import Recogniser, load_recogniser, vocabulary_of
from pcg.asr.network import LogMel, Subwords, read_path, spell
from pcg.errors import AssetError
from pcg.synthesis.voice import load_llama
from pcg.training.recogniser import lay_out

Babble = Callable[[int, int], list[Tensor]]


def test_a_path_is_merged_before_blanks_are_dropped() -> None:
    a, b, space = (spell(character)[0] for character in "ab ")
    assert read_path([0, a, a, 0, a, b, b, space, space, 0, space, b, 0]) == "aab b"


def test_subwords_spell_every_text_and_count_its_characters() -> None:
    subwords = Subwords.learn(["the cat sat on the mat", "don't"], 40)
    for text in ("the cat", "zebra quiz", "isn't it"):
        tokens = subwords.encode(text)
        assert subwords.decode(tokens) == text
        assert sum(subwords.lengths[t] for t in tokens) == len(text) + 1
    assert subwords.encode("") == []
    assert subwords.decode([]) == ""


@torch.inference_mode()
def test_decoding_reads_what_training_laid_out(recogniser: Recogniser, recogniser_folder: Path, babble: Babble) -> None:
    """The likelihoods of the decoder's pass are those that transformers computes for a training row."""
    subwords = Subwords.load(recogniser_folder / "subwords.json")
    lm, texts = load_llama(recogniser_folder / "lm", vocabulary_of(subwords)), ["the lazy dog", "", "a fox"]
    samples = babble(3, 3)
    lengths = torch.tensor([len(s) for s in samples])
    encoded = recogniser._encoder(*LogMel()(torch.nn.utils.rnn.pad_sequence(samples, batch_first=True), lengths))
    reader = torch.nn.ModuleDict({"projector": recogniser._projector, "lm": lm})
    embeddings, positions, labels = lay_out(reader, subwords, encoded, texts)
    mask = torch.ones_like(positions)
    laws = lm(inputs_embeds=embeddings, attention_mask=mask, position_ids=positions).logits.log_softmax(-1)
    tokens = [subwords.encode(text) for text in texts]
    for row, (said, found) in enumerate(zip(tokens, recogniser.read(recogniser.hear(samples), tokens), strict=True)):
        places = (labels[row] >= 0).nonzero()[:, 0]
        assert labels[row, places].tolist() == [t + 1 for t in said] + [0]
        wanted = laws[row, places[:-1], labels[row, places[:-1]]]
        assert torch.allclose(found.log_likelihoods, wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("recogniser.json", "damaged"),
        ("subwords.json", "damaged"),
        ("encoder/model.safetensors", "damaged"),
        ("encoder/config.json", '{"layers": 3}'),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(recogniser_folder: Path, tmp_path: Path, part: str, content: str) -> None:
    folder = shutil.copytree(recogniser_folder, tmp_path / "copy")
    (folder / part).write_text(content)
    with pytest.raises(AssetError, match="damaged") as caught:
        load_recogniser(folder)
    assert "\n" not in str(caught.value)
