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

from pcg.recognition.embedded import Parts
from pcg.training.data.augment import Disturbances
from pcg.training.recogniser.hearings import Hearing, HearingBatches
from pcg.training.recogniser.stages import learn_to_read

DEEPER = "recogniser_deeper"
LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
OUTPUTS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")


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
    """Train the copies alone (see `learn_to_read`). The log begins with the errors of the published model."""
    lm = deepened(published.lm, times)
    reader = nn.ModuleDict({"projector": published.projector.requires_grad_(False), "lm": lm})
    batches = HearingBatches(train, seconds, seed + 4, Disturbances(), easy=0)
    pace = {"warmup": 40, "every": 20, "untrained": True}
    encoder, subwords = published.encoder, published.subwords
    learn_to_read(DEEPER, directory, encoder, reader, subwords, batches, held_out, steps, seed, device, 1e-3, **pace)
    return lm.eval()
