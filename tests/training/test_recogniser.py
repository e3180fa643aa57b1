"""The recogniser's stages on a corpus of chirps: batches, disturbances, both losses, resuming and publishing."""

import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pcg.asr.embedded import load_recogniser
from pcg.asr.network import BLANK, CLASSES, EncoderConfig, LogMel, spell
from pcg.asr.self_speculative import PRESETS, transcribe
from pcg.errors import AssetError, PCGError
from pcg.files import LIST, check_checksums, write_checksums
from pcg.training.corpus import SAMPLE_RATE, write_shard
from pcg.training.loop import read_log
from pcg.training.recogniser import (
    CTC,
    ReaderShape,
    RecogniserRecipe,
    RecogniserTraining,
    ctc_loss,
    loss_of_reading,
    publish_words,
    train_recogniser,
)
from pcg.training.speech import Disturbances, SpeechBatches, SpokenSentence, disturb, read_spoken

ENCODER = EncoderConfig(layers=2, width=16, heads=2, feed_forward=32, kernel=5)
READER = ReaderShape(subwords=40, layers=2, width=32, heads=2, feed_forward=48)
RECIPE = RecogniserRecipe(encoder=ENCODER, reader=READER, ctc_steps=3, lm_steps=3, together_steps=4)
WORDS = ("up", "down", "low", "high", "don't", "stop")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> list[SpokenSentence]:
    """Two dozen sentences of random words, spoken as chirps, read back from a shard on disk."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("corpus")
    spoken = []
    for _ in range(24):
        text, time = " ".join(rng.choice(WORDS, 3)) + ".", np.arange(int(rng.uniform(0.8, 1.6) * SAMPLE_RATE)) / SAMPLE_RATE
        spoken.append((text, 0.25 * np.sin(2 * np.pi * rng.uniform(200, 900) * time * (1 + time))))
    write_shard(folder / "train" / "chirp" / "00000.npy", spoken)
    return read_spoken([folder], "train")


def test_hearings_hold_the_recognisers_characters(sentences: list[SpokenSentence]) -> None:
    assert len(sentences) == 24
    assert all(spell(h.text) and not h.text.endswith(".") for h in sentences)
    assert all(len(h.samples()) == h.length for h in sentences)


def test_batches_depend_on_the_seed_alone_and_fit(sentences: list[SpokenSentence]) -> None:
    one, other = (SpeechBatches(sentences, 8.0, seed, Disturbances()) for seed in (3, 4))
    again = SpeechBatches(sentences, 8.0, 3, Disturbances())
    for index in (0, one.per_epoch, one.per_epoch + 1):
        batch, repeat = one.batch(index), again.batch(index)
        assert batch.texts == repeat.texts
        assert torch.equal(batch.samples, repeat.samples)
        assert batch.samples.numel() <= 8.0 * SAMPLE_RATE * 1.2
        for row, length in zip(batch.samples, batch.lengths, strict=True):
            assert not row[length:].any()
    assert one.batch(one.per_epoch).texts != other.batch(other.per_epoch).texts


def test_disturbances_keep_speech_finite_and_in_its_place() -> None:
    always = Disturbances(channel=1.0, room=1.0, noise=1.0, babble=0.5, few_bits=1.0)
    rng = torch.Generator().manual_seed(0)
    samples, lengths = 0.1 * torch.randn(4, 9000, generator=rng), torch.tensor([9000, 8000, 100, 4000])
    samples *= torch.arange(9000) < lengths[:, None]
    disturbed = disturb(samples.clone(), lengths, always, rng)
    assert disturbed.isfinite().all()
    assert not (disturbed * (torch.arange(9000) >= lengths[:, None])).any()
    assert (disturbed - samples)[0].abs().max() > 0.01


def test_noise_has_the_ratio_that_was_drawn() -> None:
    only = Disturbances(channel=0, room=0, noise=1.0, babble=0.0, few_bits=0, snr=(10.0, 10.0))
    samples = 0.1 * torch.randn(3, 16_000, generator=torch.Generator().manual_seed(1))
    lengths = torch.full((3,), 16_000)
    noisy = disturb(samples, lengths, only, torch.Generator().manual_seed(2))
    # The gain at the end is unknown: the part of the result that is the speech tells it.
    gain = (noisy * samples).sum(1, keepdim=True) / samples.square().sum(1, keepdim=True)
    noise = noisy - gain * samples
    decibels = 10 * ((gain * samples).square().mean(1) / noise.square().mean(1)).log10()
    assert torch.allclose(decibels, torch.full((3,), 10.0), atol=0.5)


def test_ctc_loss_is_that_of_the_alignments() -> None:
    """Of two frames, three paths spell "a": aa, a-, -a (Eq. 1)."""
    log_probs = torch.randn(1, 2, CLASSES, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    blank, a = log_probs[0, :, BLANK].exp(), log_probs[0, :, spell("a")[0]].exp()
    wanted = -math.log(float(a[0] * a[1] + a[0] * blank[1] + blank[0] * a[1]))
    assert float(ctc_loss(log_probs, torch.tensor([1]), ["a"])) == pytest.approx(wanted, abs=1e-5)


def training(work: Path, sentences: list[SpokenSentence], **steps: int) -> RecogniserTraining:
    recipe = RECIPE.model_copy(update=steps)
    return RecogniserTraining(work, "cpu", 0, recipe, sentences, {"chirps": sentences[:4]}, seconds=8.0)


def test_stages_learn_resume_and_publish(sentences: list[SpokenSentence], tmp_path: Path) -> None:
    training(tmp_path, sentences).spell()
    before = training(tmp_path, sentences).trained(CTC)[0].state_dict()
    training(tmp_path, sentences, ctc_steps=5).spell()
    rows = read_log(tmp_path / "recogniser_ctc.jsonl")
    assert [row["step"] for row in rows] == [3, 5]
    assert all(math.isfinite(row["ctc_loss"]) and "held_out_chirps_ctc_wer" in row for row in rows)
    after = training(tmp_path, sentences).trained(CTC)[0].state_dict()
    assert any(not torch.equal(t, after[key]) for key, t in before.items())
    with pytest.raises(PCGError, match=r"no recogniser_lm\.safetensors"):
        training(tmp_path, sentences).publish(tmp_path / "out")
    training(tmp_path, sentences).read()
    training(tmp_path, sentences).publish(tmp_path / "out")
    encoder = load_recogniser(tmp_path / "out")._encoder.state_dict()
    assert all(torch.equal(t.bfloat16(), encoder[key].bfloat16()) for key, t in after.items())
    listed = {line.split("  ")[1] for line in (tmp_path / "out" / LIST).read_text().splitlines()}
    assert {"MODEL_CARD.md", "encoder/model.safetensors", "subwords.json"} <= listed
    for steps in (4, 6):
        training(tmp_path, sentences, together_steps=steps).together()
    rows = read_log(tmp_path / "recogniser_together.jsonl")
    assert [row["step"] for row in rows] == [4, 6]
    assert all(math.isfinite(row["ctc_loss"] + row["lm_loss"]) for row in rows)
    training(tmp_path, sentences).publish(tmp_path / "out")
    recogniser = load_recogniser(tmp_path / "out")
    together = recogniser._encoder.state_dict()
    assert any(not torch.equal(t.bfloat16(), together[key].bfloat16()) for key, t in after.items())
    for preset in PRESETS.values():
        assert len(transcribe(recogniser, [h.samples() for h in sentences[:3]], preset)) == 3


def test_the_recipe_goes_from_a_corpus_to_a_recogniser_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ESPEAK_SENTENCES", 6), ("HELD_OUT_EACH", 2), ("CODEC_SHARE", 0.5)):
        monkeypatch.setattr(f"pcg.training.speech.{name}", value)
    rng = np.random.default_rng(0)
    for split in ("train", "held_out_sentences", "held_out_words"):
        spoken = [(f"{WORDS[i % 6]} {WORDS[i % 5]}.", 0.1 * rng.standard_normal(16_000)) for i in range(12)]
        write_shard(tmp_path / "work" / "corpus" / split / "heart" / "00000.npy", spoken)
    recipe = RECIPE.model_copy(update={"ctc_steps": 1, "lm_steps": 1, "together_steps": 1})
    asked = (tmp_path / "work", tmp_path / "out", "cpu", 0, 1, recipe)
    train_recogniser(*asked)
    recogniser = load_recogniser(tmp_path / "out")
    made = {p.parent.name for p in (tmp_path / "work" / "recogniser_corpus" / "train").glob("*/*.npy")}
    assert made == {"espeak", "codec_heart"}
    rows = read_log(tmp_path / "work" / "recogniser_together.jsonl")
    assert {f"held_out_{name}_wer" for name in ("sentences", "words", "codec", "espeak")} <= rows[0].keys()
    assert len(transcribe(recogniser, [torch.zeros(8000)], PRESETS["ar"])) == 1
    train_recogniser(*asked)
    assert (tmp_path / "work" / "recogniser_ctc.jsonl").read_text().count("\n") == 1, "a second run finds all done"


def test_another_list_of_words_is_listed_anew_and_nothing_else_is(
    recogniser_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, prose = shutil.copytree(recogniser_folder, tmp_path / "recogniser"), tmp_path / "prose.txt"
    write_checksums(folder)
    prose.write_text("the old boat\n")
    pool = SimpleNamespace(train=["the old boat", "the red boat"])
    monkeypatch.setattr("pcg.training.recogniser.build_pool", lambda *_: pool)
    monkeypatch.setattr("pcg.training.recogniser.dictionary", lambda _: ["horse"])
    publish_words(prose, folder, 0)
    check_checksums(folder)
    (folder / "subwords.json").write_text("{}")
    publish_words(prose, folder, 0)
    with pytest.raises(AssetError, match=r"subwords\.json is damaged"):
        load_recogniser(folder)


def test_reading_sends_no_gradient_to_the_encoder(sentences: list[SpokenSentence], tmp_path: Path) -> None:
    run = training(tmp_path, sentences)
    encoder, reader = run.trained(None)
    batch = SpeechBatches(sentences, 20.0, 0, Disturbances()).batch(0)
    encoded = encoder(*LogMel()(batch.samples, batch.lengths))
    loss_of_reading(reader, run.subwords, encoded, batch.texts).backward()
    assert all(p.grad is None for p in encoder.parameters())
    assert all(p.grad is not None for p in reader["projector"].parameters())
