"""Judges by name, each through the same interface, on checkpoints of the hub's format."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import HubertConfig, HubertForCTC, Wav2Vec2CTCTokenizer, Wav2Vec2FeatureExtractor, Wav2Vec2Processor

from pcg.asr.embedded import load_recogniser
from pcg.asr.judges import ListeningJudge, load_judge, way_of
from pcg.asr.word_search import load_lexicon
from pcg.errors import AssetError, InputError

Babble = Callable[[int, int], list[Tensor]]


@pytest.fixture(scope="module")
def hubert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny checkpoint with random weights."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("hubert")
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]
    (folder / "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(letters)}))
    tokenizer = Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    features = Wav2Vec2FeatureExtractor(feature_size=1, sampling_rate=16_000, do_normalize=True, return_attention_mask=True)
    Wav2Vec2Processor(features, tokenizer).save_pretrained(folder)
    config = HubertConfig(
        vocab_size=len(letters), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        conv_dim=(16, 16), conv_kernel=(10, 8), conv_stride=(20, 16), num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True,
    )  # fmt: skip
    HubertForCTC(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whisper", "embedded", "hubert"])
def test_every_judge_writes_a_text_for_every_recording(name: str, hubert: str, recogniser_folder: Path, babble: Babble) -> None:
    judge = load_judge(name, checkpoint={"hubert": hubert, "embedded": str(recogniser_folder)}.get(name))
    recordings = [u.numpy() for u in babble(3, 1)]
    silence = [np.zeros(0, np.float32), np.zeros(16_000, np.float32)]
    texts = judge.transcribe([recordings[0], *silence, *recordings[1:]], 16_000)
    assert [texts[0], *texts[3:]] == judge.transcribe(recordings, 16_000)
    assert texts[1:3] == ["", ""]
    assert judge.name


def test_the_embedded_judge_hears_in_listed_words_and_says_so(recogniser_folder: Path, babble: Babble) -> None:
    recordings, lexicon = [u.numpy() for u in babble(4, 2)], load_lexicon()
    judge = load_judge("embedded", checkpoint=str(recogniser_folder))
    greedy = ListeningJudge(load_recogniser(recogniser_folder), "ar")
    assert lexicon.name in judge.name
    assert lexicon.name not in greedy.name
    assert judge.transcribe(recordings, 16_000) != greedy.transcribe(recordings, 16_000)


@pytest.mark.slow
def test_whisper_understands_the_voice_and_not_the_same_backwards() -> None:
    from pcg.metrics.intelligibility import word_errors
    from pcg.settings import Settings
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    synthesizer, judge = Synthesizer(load_voice()), load_judge("whisper")
    text = "The kettle is boiling, so please turn off the stove."
    take = synthesizer.take(text, Settings(), next(iter(synthesizer.voice.references)))
    forwards, backwards, again = judge.transcribe([take.audio, take.audio[::-1], take.audio], take.sample_rate)
    assert word_errors(text, forwards).rate <= 0.2
    assert word_errors(text, backwards).rate > 0.8
    assert forwards == again, "the verdict does not depend on the order"
    assert judge.name.startswith("Whisper tiny.en")


def test_unknown_judges_modes_and_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="judge"):
        load_judge("nobody")
    with pytest.raises(InputError, match="mode"):
        way_of("reckless")
    for name in ("hubert", "whisper"):
        with pytest.raises(AssetError, match="missing"):
            load_judge(name, checkpoint=str(tmp_path / "nothing"))
