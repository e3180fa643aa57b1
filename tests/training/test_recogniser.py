"""The recogniser's stages on a corpus of chirps: batches, disturbances, both losses, resuming and publishing."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_target import read_log

from pcg.asr.embedded import load_recogniser
from pcg.asr.network import BLANK, CLASSES, EncoderConfig, spell
from pcg.asr.self_speculative import PRESETS, transcribe
from pcg.files import LIST
from pcg.training.corpus import SAMPLE_RATE
from pcg.training.recogniser import ReaderShape, RecogniserRecipe, ctc_loss, train_parts, train_recogniser
from pcg.training.shards import Utterance, spoken_utterance, write_shard
from pcg.training.speech import Disturbances, SpeechBatches, disturb, read_spoken

ENCODER = EncoderConfig(layers=2, width=16, heads=2, feed_forward=32, kernel=5)
READER = ReaderShape(subwords=40, layers=2, width=32, heads=2, feed_forward=48)
RECIPE = RecogniserRecipe(encoder=ENCODER, reader=READER, steps=1)
WORDS = ("up", "down", "low", "high", "don't", "stop")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> list[Utterance]:
    """Two dozen sentences of random words, spoken as chirps, read back from a shard on disk."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("corpus")
    spoken = []
    for _ in range(24):
        text, time = " ".join(rng.choice(WORDS, 3)) + ".", np.arange(int(rng.uniform(0.8, 1.6) * SAMPLE_RATE)) / SAMPLE_RATE
        chirp = 0.25 * np.sin(2 * np.pi * rng.uniform(200, 900) * time * (1 + time))
        spoken.append(spoken_utterance("chirp", text, chirp))
    write_shard(folder / "train" / "chirp" / "00000.npy", spoken)
    sentences = read_spoken([folder], "train")
    assert len(sentences) == 24
    assert all(spell(sentence.text) and not sentence.text.endswith(".") for sentence in sentences)
    return sentences


def test_batches_depend_on_the_seed_alone_and_fit(sentences: list[Utterance]) -> None:
    one, other = (SpeechBatches(sentences, 8.0, seed) for seed in (3, 4))
    again = SpeechBatches(sentences, 8.0, 3)
    for index in (0, one.per_epoch, one.per_epoch + 1):
        batch, repeat = one.batch(index), again.batch(index)
        assert batch.texts == repeat.texts
        assert torch.equal(batch.samples, repeat.samples)
        assert batch.samples.numel() <= 8.0 * SAMPLE_RATE * 1.2
        for row, length in zip(batch.samples, batch.lengths, strict=True):
            assert not row[length:].any()
    assert one.batch(one.per_epoch).texts != other.batch(other.per_epoch).texts


def test_noise_has_the_ratio_that_was_drawn_and_stays_within_the_speech() -> None:
    samples = 0.1 * torch.randn(3, 16_000, generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([16_000, 16_000, 9000])
    samples *= torch.arange(16_000) < lengths[:, None]
    noisy = disturb(samples, lengths, Disturbances(channel=0, noise=1.0, snr=(10.0, 10.0)), torch.Generator().manual_seed(2))
    assert not noisy[2, 9000:].any()
    # The gain at the end is unknown: the part of the result that is the speech tells it.
    gain = (noisy * samples).sum(1, keepdim=True) / samples.square().sum(1, keepdim=True)
    noise = noisy - gain * samples
    decibels = 10 * ((gain * samples).square().mean(1) / noise.square().mean(1)).log10()
    assert torch.allclose(decibels[:2], torch.full((2,), 10.0), atol=0.5)
    filtered = disturb(samples, lengths, Disturbances(channel=1.0, noise=0.0), torch.Generator().manual_seed(3))
    assert filtered.isfinite().all()
    assert (filtered - samples).abs().max() > 0.01


def test_ctc_loss_is_that_of_the_alignments() -> None:
    """Of two frames, three paths spell "a": aa, a-, -a (Eq. 1)."""
    log_probs = torch.randn(1, 2, CLASSES, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    blank, a = log_probs[0, :, BLANK].exp(), log_probs[0, :, spell("a")[0]].exp()
    wanted = -math.log(float(a[0] * a[1] + a[0] * blank[1] + blank[0] * a[1]))
    assert float(ctc_loss(log_probs, torch.tensor([1]), ["a"])) == pytest.approx(wanted, abs=1e-5)


def test_training_learns_and_resumes(sentences: list[Utterance], tmp_path: Path) -> None:
    states = []
    for steps in (3, 5):
        recipe = RECIPE.model_copy(update={"steps": steps})
        parts, _ = train_parts(tmp_path, "cpu", 0, recipe, sentences, {"chirps": sentences[:4]}, seconds=8.0)
        states.append({name: weight.clone() for name, weight in parts.state_dict().items()})
    before, after = states
    for name in ("encoder.head.weight", "projector.enter.weight", "lm.model.layers.0.mlp.up_proj.weight"):
        assert not torch.equal(before[name], after[name]), name
    rows = read_log(tmp_path / "recogniser.jsonl")
    assert [row["step"] for row in rows] == [3, 5]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert {"ctc_loss", "lm_loss", "held_out_chirps_ctc_wer", "held_out_chirps_wer"} <= rows[0].keys()


def test_the_recipe_goes_from_a_corpus_to_a_recogniser_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ESPEAK_SENTENCES", 6), ("CODEC_SHARE", 0.5)):
        monkeypatch.setattr(f"pcg.training.speech.{name}", value)
    rng = np.random.default_rng(0)
    for split in ("train", "held_out_sentences", "held_out_words"):
        texts = [f"{WORDS[i % 6]} {WORDS[i % 5]}." for i in range(12)]
        spoken = [spoken_utterance("heart", text, 0.1 * rng.standard_normal(16_000)) for text in texts]
        write_shard(tmp_path / "work" / "corpus" / split / "heart" / "00000.npy", spoken)
    asked = (tmp_path / "work", tmp_path / "out", "cpu", 0, 1, RECIPE)
    train_recogniser(*asked)
    recogniser = load_recogniser(tmp_path / "out")
    listed = {line.split("  ")[1] for line in (tmp_path / "out" / LIST).read_text().splitlines()}
    assert {"MODEL_CARD.md", "encoder/model.safetensors", "subwords.json"} <= listed
    made = {p.parent.name for p in (tmp_path / "work" / "recogniser_corpus" / "train").glob("*/*.npy")}
    assert made == {"espeak", "codec_heart"}
    rows = read_log(tmp_path / "work" / "recogniser.jsonl")
    assert {f"held_out_{name}_wer" for name in ("sentences", "words", "codec")} <= rows[0].keys()
    assert len(transcribe(recogniser, [torch.zeros(8000)], PRESETS["ar"])) == 1
    train_recogniser(*asked)
    assert len(read_log(tmp_path / "work" / "recogniser.jsonl")) == 1, "a second run finds all done"
