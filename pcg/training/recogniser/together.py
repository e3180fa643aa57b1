"""Stage `recogniser_together`: encoder and language model learn on side by side, from where their own stages left them.

One pass of the encoder serves both, which makes a step cheaper than one of each stage; no gradient of the language model
reaches the encoder, which learns to spell and nothing else. At any step the two fit each other.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from pcg.asr.embedded import EmbeddedRecogniser, load_parts
from pcg.asr.network.conformer import ConformerCTC
from pcg.asr.network.features import LogMel
from pcg.asr.network.subwords import Subwords
from pcg.files import replacing
from pcg.training import checkpoint
from pcg.training.data.augment import Disturbances
from pcg.training.loop import Stage, generator, make_optimizers, run, update
from pcg.training.recogniser.hearings import Hearing, HearingBatches, in_order
from pcg.training.recogniser.stages import (
    CTC,
    DRAFT_SHARE,
    LM,
    TOGETHER,
    autoregressive_wer,
    greedy_wer,
    loss_of_reading,
    losses_of_spelling,
    masked_mel,
    spread,
)

CHECKED = 24


def train_recogniser_together(
    directory: Path,
    encoder: ConformerCTC,
    reader: nn.ModuleDict,
    subwords: Subwords,
    train: Sequence[Hearing],
    held_out: dict[str, Sequence[Hearing]],
    steps: int,
    seed: int,
    device: str,
    seconds: float = 80.0,
    every: int = 100,
) -> None:
    """Train `encoder` and `reader` (its `projector` and `lm`) in place; logs the losses, and of each held-out set the WER of
    the best path and of the language model."""
    encoder, reader, mel = encoder.to(device), reader.to(device), LogMel().to(device)
    # On a CPU the fused kernel's backward pass is the slower one.
    reader["lm"].set_attn_implementation("eager" if device == "cpu" else "sdpa")
    batches = HearingBatches(train, seconds, seed + 3, Disturbances(), easy=0)
    checks = {name: spread(heard, CHECKED) for name, heard in held_out.items()}
    hearing, reading = make_optimizers(encoder, lr=1e-3, muon_lr=1e-3), make_optimizers(reader, lr=2e-3, muon_lr=2e-3)
    print(f"{TOGETHER}: {batches.per_epoch} batches an epoch", flush=True)

    def step(index: int) -> dict[str, float]:
        encoder.train()
        reader.train()
        batch = batches.batch(index)
        with torch.autocast(device, torch.bfloat16):
            encoded = encoder(*masked_mel(mel, batch, device, generator(seed + 1, index)))
            read = loss_of_reading(reader, subwords, encoded, batch.texts)
        final, draft = losses_of_spelling(encoded, batch.texts)
        update((1 - DRAFT_SHARE) * final + DRAFT_SHARE * draft, encoder, hearing.values())
        update(read, reader, reading.values())
        return {"ctc_loss": final.item(), "draft_loss": draft.item(), "lm_loss": read.item()}

    def evaluate() -> dict[str, float]:
        encoder.eval()
        heard = EmbeddedRecogniser("in training", encoder.cpu(), reader["projector"].cpu(), reader["lm"].cpu().eval(), subwords)
        figures = {f"{name}_wer": autoregressive_wer(heard, check) for name, check in checks.items()}
        encoder.to(device)
        reader.to(device)
        spelled = {f"{name}_ctc_wer": greedy_wer(encoder, mel, in_order(c, seconds), device) for name, c in checks.items()}
        return figures | spelled

    modules = {"encoder": encoder, "projector": reader["projector"], "lm": reader["lm"]}
    optimizers = {f"encoder_{k}": o for k, o in hearing.items()} | {f"reader_{k}": o for k, o in reading.items()}
    run(Stage(TOGETHER, directory, steps, modules, optimizers, step, evaluate, 100, 0.6, every), seed)


def unpack_recogniser(directory: Path, published: Path, steps: dict[str, int], seed: int) -> None:
    """Checkpoints of the recogniser in `published`, as if the stages before this one had just ended in `directory` after as
    many `steps`."""
    parts = load_parts(published)
    with replacing(directory / "recogniser_subwords.json") as temporary:
        temporary.write_text(parts.subwords.to_json(), encoding="utf-8")
    for name, modules in {CTC: {"encoder": parts.encoder}, LM: {"projector": parts.projector, "lm": parts.lm}}.items():
        meta = {"step": steps[name], "seconds": 0.0, "seed": seed, "steps": steps[name]}
        checkpoint.save(directory / f"{name}.safetensors", modules, {}, meta)
