"""From the encoder's frames to embeddings of the language model: neighbours side by side, through two layers."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pcg.asr.network.alphabet import BLANK


@dataclass(frozen=True)
class ProjectorConfig:
    """stack: frames that become one embedding. frame: width of a frame, labels: CTC labels that one spells."""

    stack: int = 2
    frame: int = 192
    labels: int = 2
    width: int = 256


class Projector(nn.Module):
    """frames `[..., S, frame]` -> embeddings `[..., ceil(S / stack), width]`."""

    def __init__(self, config: ProjectorConfig) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Linear(config.stack * config.frame, 2 * config.width)
        self.leave = nn.Linear(2 * config.width, config.width)

    def forward(self, frames: Tensor) -> Tensor:
        short = -frames.shape[-2] % self.config.stack
        stacked = F.pad(frames, (0, 0, 0, short)).unflatten(-2, (-1, self.config.stack)).flatten(-2)
        return self.leave(F.silu(self.enter(stacked)))

    def positions(self, path: Tensor) -> Tensor:
        """Where the embeddings of an alignment path `[..., labels S]` stand, `[..., ceil(S / stack)]`: at the number of
        characters that the path has spelled by then.

        The language model counts the characters that it has written in the same way, so what it has to listen to next stands
        where it stands, at any speed of speech.
        """
        before = F.pad(path[..., :-1], (1, 0), value=BLANK)
        spelled = ((path != BLANK) & (path != before)).cumsum(-1)
        step = self.config.labels * self.config.stack
        short = -path.shape[-1] % step
        return torch.cat([spelled, spelled[..., -1:].expand(*spelled.shape[:-1], short)], -1)[..., step - 1 :: step]
