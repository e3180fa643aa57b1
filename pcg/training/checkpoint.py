"""Checkpoints that survive a kill: modules and optimizer state as one safetensors file, written whole or not at all."""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from torch.optim import Optimizer

from pcg.errors import AssetError, first_line
from pcg.files import write_safetensors


def save(path: Path, modules: dict[str, nn.Module], optimizers: dict[str, Optimizer], meta: dict[str, object]) -> None:
    """Write every module, every optimizer's tensors and `meta` (JSON) to `path`. No name may stand for both kinds."""
    if shared := modules.keys() & optimizers.keys():
        raise ValueError(f"a module and an optimizer are both called {min(shared)}")
    tensors = {f"{name}/{key}": t for name, m in modules.items() for key, t in m.state_dict().items()}
    for name, optimizer in optimizers.items():
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{name}/{index}/{key}": torch.as_tensor(value) for key, value in state.items()}
    write_safetensors(path, {k: t.detach().clone().contiguous() for k, t in tensors.items()}, {"meta": json.dumps(meta)})


def load(path: Path, modules: dict[str, nn.Module], optimizers: dict[str, Optimizer]) -> dict[str, object]:
    """Restore what `save` wrote, in place; return its `meta`. Raises AssetError for a file that is damaged or does not fit."""
    try:
        return _restored(path, modules, optimizers)
    except Exception as error:
        how = "damaged, or of another shape than is asked for: remove it, or ask for what it was made with"
        raise AssetError(f"The checkpoint {path} is {how} ({first_line(error)}).") from error


def _restored(path: Path, modules: dict[str, nn.Module], optimizers: dict[str, Optimizer]) -> dict[str, object]:
    with safe_open(path, framework="pt") as file:
        names = file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
        meta = json.loads(file.metadata()["meta"])
    for name, module in modules.items():
        prefix = f"{name}/"
        module.load_state_dict({k[len(prefix) :]: t for k, t in tensors.items() if k.startswith(prefix)})
    for name, optimizer in optimizers.items():
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in tensors.items():
            if key.startswith(f"{name}/"):
                _, index, field = key.split("/")
                state.setdefault(int(index), {})[field] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return meta
