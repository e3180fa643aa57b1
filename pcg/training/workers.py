"""The processes that train one model together: one alone, or those that `accelerate launch` or torchrun started."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pcg.errors import PCGError


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _at_once() -> None:
    return None


@dataclass(frozen=True)
class Workers:
    """One process of a run. device: where it computes; rank: its number among `count`; add: the sum of all processes' tensors,
    known to each; wait: until all are here."""

    device: str = "cpu"
    rank: int = 0
    count: int = 1
    add: Callable[[Tensor], Tensor] = _as_it_is
    wait: Callable[[], None] = _at_once

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files."""
        return self.rank == 0

    @property
    def kind(self) -> str:
        """The kind of the device: "cpu" or "cuda"."""
        return self.device.partition(":")[0]


def launched(device: str) -> Workers:
    """This process among those that were started together; each has a GPU of its own where `device` is "cuda"."""
    try:
        from accelerate import Accelerator
    except ImportError as error:
        how = 'pip install -r requirements-train.txt in a checkout, pip install "pcg-lab[train] @ git+URL" elsewhere'
        raise PCGError(f"accelerate is not installed: {how}.") from error
    accelerator = Accelerator(cpu=device == "cpu")
    return Workers(
        str(accelerator.device),
        accelerator.process_index,
        accelerator.num_processes,
        partial(accelerator.reduce, reduction="sum"),
        accelerator.wait_for_everyone,
    )
