"""Stage `recogniser_deeper`: a language model of several times the layers behind the same encoder.

The paper's language model is most of the work (arXiv:2603.11243, section 4), and the published one is not: what its steps save
can be asked of a larger one only. Here each layer is followed by copies of itself whose outputs are zero, so that the deeper
model begins by saying what the published one says, and the copies alone learn (LLaMA Pro, arXiv:2401.02415, section 3.2).
"""

import copy
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from transformers import LlamaForCausalLM

from pcg.recognition.embedded import EmbeddedRecogniser, Parts
from pcg.recognition.network.features import LogMel
from pcg.training.data.augment import Disturbances
from pcg.training.loop import Stage, make_optimizers, run, update
from pcg.training.recogniser.hearings import Hearing, HearingBatches
from pcg.training.recogniser.stages import autoregressive_wer, loss_of_reading, spread

DEEPER = "recogniser_deeper"
LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
OUTPUTS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
CHECKED = 24


def deepened(lm: LlamaForCausalLM, times: int) -> LlamaForCausalLM:
    """`lm` with `times` its layers, which computes what it computes; only what was added asks for gradients."""
    config = copy.deepcopy(lm.config)
    config.num_hidden_layers *= times
    deeper, state = LlamaForCausalLM(config), {}
    for name, tensor in lm.state_dict().items():
        if (place := LAYER.fullmatch(name)) is None:
            state[name] = tensor
            continue
        layer, part = int(place[1]), place[2]
        state[f"model.layers.{times * layer}.{part}"] = tensor
        for added in range(1, times):
            copied = torch.zeros_like(tensor) if part in OUTPUTS else tensor
            state[f"model.layers.{times * layer + added}.{part}"] = copied
    deeper.load_state_dict(state)
    deeper.requires_grad_(False)
    for index, layer in enumerate(deeper.model.layers):
        layer.requires_grad_(index % times > 0)
    return deeper


def train_recogniser_deeper(
    directory: Path,
    published: Parts,
    times: int,
    train: Sequence[Hearing],
    held_out: dict[str, Sequence[Hearing]],
    steps: int,
    seed: int,
    device: str,
    seconds: float = 80.0,
) -> LlamaForCausalLM:
    """Cross-entropy of the text behind the frozen encoder's frames, as in stage `recogniser_lm`; logs the autoregressive WER of
    each held-out set, that of the published model first."""
    encoder, projector = published.encoder.eval().requires_grad_(False), published.projector.requires_grad_(False)
    lm = deepened(published.lm, times)
    # On a CPU the fused kernel's backward pass is the slower one.
    lm.set_attn_implementation("eager" if device == "cpu" else "sdpa")
    reader = nn.ModuleDict({"projector": projector, "lm": lm}).to(device)
    encoder, mel, subwords = encoder.to(device), LogMel().to(device), published.subwords
    batches = HearingBatches(train, seconds, seed + 4, Disturbances(), easy=0)
    optimizers = make_optimizers(reader, lr=1e-3, muon_lr=1e-3)
    learned = sum(p.numel() for p in lm.parameters() if p.requires_grad)
    print(f"{DEEPER}: {len(lm.model.layers)} layers, {learned} parameters to learn", flush=True)

    def step(index: int) -> dict[str, float]:
        batch = batches.batch(index)
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                encoded = encoder(*mel(batch.samples.to(device), batch.lengths.to(device)))
            loss = loss_of_reading(reader, subwords, encoded, batch.texts)
        update(loss, reader, optimizers.values())
        return {"loss": loss.item()}

    def evaluate() -> dict[str, float]:
        heard = EmbeddedRecogniser("in training", encoder.cpu(), projector.cpu(), lm.cpu().eval(), subwords)
        figures = {f"{name}_wer": autoregressive_wer(heard, spread(check, CHECKED)) for name, check in held_out.items()}
        encoder.to(device)
        reader.to(device).train()
        return figures

    run(Stage(DEEPER, directory, steps, {"lm": lm}, optimizers, step, evaluate, warmup=40, every=20, untrained=True), seed)
    return lm.eval()
