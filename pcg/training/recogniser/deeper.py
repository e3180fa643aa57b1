"""Stage `recogniser_deeper`: a language model of several times the layers behind the same encoder.

The paper's language model is most of the work (arXiv:2603.11243, section 4), and the published one is not: what its steps save
can be asked of a larger one only. The deeper model begins by saying what the published one says (`pcg.training.growth`), and
the added layers alone learn (LLaMA Pro, arXiv:2401.02415, section 3.2).
"""

from collections.abc import Sequence
from pathlib import Path

from torch import nn
from transformers import LlamaForCausalLM

from pcg.asr.embedded import Parts
from pcg.training.data.augment import Disturbances
from pcg.training.growth import deepened
from pcg.training.recogniser.hearings import Hearing, HearingBatches
from pcg.training.recogniser.stages import learn_to_read

DEEPER = "recogniser_deeper"


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
    lm = deepened(published.lm, times).requires_grad_(False)
    for index, layer in enumerate(lm.model.layers):
        layer.requires_grad_(index % times > 0)
    reader = nn.ModuleDict({"projector": published.projector.requires_grad_(False), "lm": lm})
    batches = HearingBatches(train, seconds, seed + 4, Disturbances(), easy=0)
    pace = {"warmup": 40, "every": 20, "untrained": True}
    encoder, subwords = published.encoder, published.subwords
    learn_to_read(DEEPER, directory, encoder, reader, subwords, batches, held_out, steps, seed, device, 1e-3, **pace)
    return lm.eval()
