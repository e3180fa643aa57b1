"""A Llama of several times the layers that begins by computing what it computed.

Each layer is followed by copies of itself whose outputs are zero (LLaMA Pro, arXiv:2401.02415, section 3.2).
"""

import copy
import re

import torch
from transformers import LlamaForCausalLM

LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
OUTPUTS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")


def deepened(lm: LlamaForCausalLM, times: int) -> LlamaForCausalLM:
    """`lm` with `times` its layers, which computes the same: layer i is now layer `times` i, counted from 0."""
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
    return deeper
