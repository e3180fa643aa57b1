"""Stage `target`: a deep and narrow Llama learns to speak from nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.codec.fsq import FSQ
from pcg.errors import InputError
from pcg.models.vocabulary import Vocabulary
from pcg.text.prompt import PhonemeReader
from pcg.training.data.sequences import IGNORED, Batch, Epochs
from pcg.training.data.tokens import TokenizedUtterance
from pcg.training.llama import hidden_states
from pcg.training.loop import Stage, learn, make_optimizers, run
from pcg.training.workers import Workers


@dataclass(frozen=True)
class Shape:
    """Size of the target."""

    layers: int = 12
    width: int = 256
    heads: int = 4
    feed_forward: int = 768


def new_target(reader: PhonemeReader, vocabulary: Vocabulary, shape: Shape, seed: int) -> LlamaForCausalLM:
    """A random LlamaForCausalLM with tied embeddings over specials, phoneme symbols and speech codes."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=reader.first_code + vocabulary.codes,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=vocabulary.end,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


@torch.no_grad()
def start_from_digits(model: LlamaForCausalLM, fsq: FSQ, vocabulary: Vocabulary, seed: int) -> None:
    """Give codes that are close in FSQ digits close embeddings: random Fourier features of the digits (Rahimi and Recht, 2007).

    A head start only; training moves them freely.
    """
    generator = torch.Generator().manual_seed(seed)
    values = fsq.values(torch.arange(vocabulary.codes))
    width = model.config.hidden_size
    frequencies = 2.0 * torch.randn(values.shape[1], width, generator=generator)
    phases = 2 * torch.pi * torch.rand(width, generator=generator)
    features = (values @ frequencies + phases).cos() * 2**0.5 * model.config.initializer_range
    first = vocabulary.first_code
    model.get_input_embeddings().weight[first : first + vocabulary.codes] = features


def speech_logits(model: LlamaForCausalLM, batch: Batch, vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """Logits `[S, V]` at the S positions that have a label, and those labels `[S]`.

    The all-ones mask keeps transformers from reading our overlapping positions as several packed sequences.
    """
    mask = torch.ones_like(batch.ids)
    hidden = model.model(batch.ids, attention_mask=mask, position_ids=batch.positions, use_cache=False).last_hidden_state
    return _head(model, hidden, batch, vocabulary)


def _head(model: LlamaForCausalLM, hidden: Tensor, batch: Batch, vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    learned = batch.labels != IGNORED
    head = model.get_output_embeddings().weight[vocabulary.model_ids().to(batch.ids.device)]
    return nn.functional.linear(hidden[learned], head.to(hidden.dtype)), batch.labels[learned]


def train_target(
    directory: Path,
    model: LlamaForCausalLM,
    train: list[TokenizedUtterance],
    held_out: dict[str, list[TokenizedUtterance]],
    reader: PhonemeReader,
    vocabulary: Vocabulary,
    steps: int,
    seed: int,
    workers: Workers,
    listen: Callable[[LlamaForCausalLM], dict[str, float]] | None = None,
    budget: int = 8192,
    longest: int = 720,
    decay_share: float = 0.4,
) -> None:
    """Cross-entropy on the speech codes of `train`; logs loss and top-1 of each `held_out` set, and what `listen` finds.
    The `workers` share the `budget`, positions of a step."""
    device = workers.device
    model.to(device)
    epochs = Epochs(train, reader, vocabulary.codes, budget // workers.count, seed, longest)
    checks = {name: Epochs(spoken, reader, vocabulary.codes, budget, 0, longest) for name, spoken in held_out.items()}
    for name, each in {"train": epochs, **checks}.items():
        if not each.per_epoch:
            raise InputError(f"the corpus's split {name}", "too small", "at least two utterances of one voice")
    optimizers = make_optimizers(model, lr=3e-3, muon_lr=3e-3, weight_decay=0.1)
    print(f"target: {sum(p.numel() for p in model.parameters())} parameters, {epochs.per_epoch} batches an epoch", flush=True)

    def logits_of(batch: Batch) -> tuple[Tensor, Tensor]:
        if workers.kind == "cpu":
            return _head(model, hidden_states(model, batch.ids, batch.positions), batch, vocabulary)
        with torch.autocast(workers.kind, torch.bfloat16):
            return speech_logits(model, batch, vocabulary)

    def losses(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        logits, labels = logits_of(batch)
        loss = nn.functional.cross_entropy(logits.float(), labels, reduction="sum")
        return loss, {"loss": loss.detach()}

    def step(index: int) -> dict[str, float]:
        batch = epochs.batch(index * workers.count + workers.rank).to(device)
        return learn([batch], losses, model, optimizers, workers)

    @torch.inference_mode()
    def evaluate() -> dict[str, float]:
        figures = {}
        for name, check in checks.items():
            total = right = count = 0.0
            for index in range(min(4, check.per_epoch)):
                logits, labels = logits_of(check.batch(index).to(device))
                total += float(nn.functional.cross_entropy(logits.float(), labels, reduction="sum"))
                right += float((logits.argmax(-1) == labels).sum())
                count += len(labels)
            figures |= {f"{name}_loss": total / count, f"{name}_top1": right / count}
        return figures | (listen(model) if listen else {})

    pace = {"decay_share": decay_share, "every": 50, "leads": workers.leads}
    run(Stage("target", directory, steps, {"target": model}, optimizers, step, evaluate, **pace), seed)
