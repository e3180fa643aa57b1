"""Stage `recogniser_phones`: before it learns to spell, the encoder learns which sound is spoken when."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW

from pcg.asr.network.conformer import LABELS_PER_FRAME, ConformerCTC
from pcg.asr.network.features import LogMel
from pcg.groups.phones import PHONES
from pcg.training.data.alignments import read_phones
from pcg.training.data.augment import Disturbances, disturb, mask_features
from pcg.training.data.corpus import SAMPLE_RATE, read_index
from pcg.training.data.sequences import IGNORED
from pcg.training.loop import Stage, generator, make_optimizers, run, update

STAGE = "recogniser_phones"
POOL = 1024


class TimedBatches:
    """Batches of about `seconds` of padded speech, shuffled: samples `[B, N]`, lengths `[B]` and segments `[B, ceil(N / HOP)]`,
    IGNORED behind a row's end. Nothing is said faster or slower than it was timed."""

    def __init__(self, shards: Sequence[Path], alignments: Path, seconds: float, seed: int, ways: Disturbances) -> None:
        self._seconds, self._seed, self._ways = seconds, seed, ways
        self._spoken = [
            (np.load(shard, mmap_mode="r", allow_pickle=False)[u.start : u.start + u.length], phones)
            for shard in shards
            for u, phones in zip(read_index(shard), read_phones(shard, alignments), strict=True)
        ]
        self._epoch, self._plan = -1, self._planned(0)
        self.per_epoch = len(self._plan)

    def batch(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        epoch, place = divmod(index, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._plan = epoch, self._planned(epoch)
        rows = [self._spoken[i] for i in self._plan[place % len(self._plan)]]
        samples = [torch.from_numpy(s.astype(np.float32) / 32768.0) for s, _ in rows]
        labels = [torch.from_numpy(phones.astype(np.int64)) for _, phones in rows]
        pad = nn.utils.rnn.pad_sequence
        lengths = torch.tensor([len(s) for s in samples])
        heard = disturb(pad(samples, batch_first=True), lengths, self._ways, generator(self._seed, index))
        return heard, lengths, pad(labels, batch_first=True, padding_value=IGNORED)

    def _planned(self, epoch: int) -> list[list[int]]:
        rng = random.Random(self._seed * 7919 + epoch)
        order = list(range(len(self._spoken)))
        rng.shuffle(order)
        batches = []
        for first in range(0, len(order), POOL):
            batch: list[int] = []
            for i in sorted(order[first : first + POOL], key=lambda i: len(self._spoken[i][0])):
                if batch and (len(batch) + 1) * len(self._spoken[i][0]) > self._seconds * SAMPLE_RATE:
                    batches.append(batch)
                    batch = []
                batch.append(i)
            batches.append(batch)
        rng.shuffle(batches)
        return batches


def train_recogniser_phones(
    directory: Path,
    encoder: ConformerCTC,
    shards: Sequence[Path],
    alignments: Path,
    steps: int,
    seed: int,
    device: str,
    seconds: float = 80.0,
) -> ConformerCTC:
    """Cross-entropy of the segments in the middle of the encoder and at its end; logs it, and the share of frames that are
    right at the end. The two heads are not kept."""
    torch.manual_seed(seed)
    encoder, mel = encoder.to(device), LogMel().to(device)
    heads = nn.ModuleList([nn.Linear(encoder.config.width, LABELS_PER_FRAME * len(PHONES)) for _ in range(2)]).to(device)
    module = nn.ModuleDict({"encoder": encoder, "heads": heads})
    batches = TimedBatches(shards, alignments, seconds, seed, Disturbances())
    optimizers = make_optimizers(encoder, lr=3e-3, muon_lr=3e-3) | {"heads_adamw": AdamW(heads.parameters(), lr=3e-3)}
    middle: list[Tensor] = []
    hook = encoder.draft_norm.register_forward_hook(lambda _, __, frames: middle.append(frames))

    def step(index: int) -> dict[str, float]:
        module.train()
        samples, lengths, labels = batches.batch(index)
        features, counts = mel(samples.to(device), lengths.to(device))
        features = mask_features(features.cpu(), counts.cpu(), generator(seed + 1, index)).to(device)
        middle.clear()
        with torch.autocast(device, torch.bfloat16):
            end = encoder(features, counts).frames
            logits = [_labelled(head(frames)) for head, frames in zip(heads, (middle[0], end), strict=True)]
        wanted = F.pad(labels, (0, logits[0].shape[1]), value=IGNORED)[:, : logits[0].shape[1]].to(device)
        losses = [F.cross_entropy(each.transpose(1, 2), wanted, ignore_index=IGNORED) for each in logits]
        update(sum(losses), module, optimizers.values())
        timed = wanted != IGNORED
        right = (logits[1].argmax(-1)[timed] == wanted[timed]).float().mean()
        return {"loss": losses[1].item(), "middle_loss": losses[0].item(), "right": right.item()}

    run(Stage(STAGE, directory, steps, {"encoder": encoder, "heads": heads}, optimizers, step, warmup=100, every=50), seed)
    hook.remove()
    return encoder.eval()


def _labelled(logits: Tensor) -> Tensor:
    """`[B, S, 2 P]` -> one row of logits a label, `[B, 2 S, P]` float32."""
    return logits.unflatten(-1, (LABELS_PER_FRAME, -1)).flatten(1, 2).float()
