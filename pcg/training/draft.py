"""Stage `draft`: a layer subset of the target, distilled on the target's own samples and on the corpus."""

import random
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn
from transformers import LlamaForCausalLM

from pcg.decoding.llama import DecodingLlama
from pcg.prompt import PhonemeReader
from pcg.training.loop import Stage, make_optimizers, run, update
from pcg.training.samples import sample
from pcg.training.sequences import Epochs
from pcg.training.target import speech_logits
from pcg.training.tokens import Spoken
from pcg.vocabulary import Vocabulary


def layer_subset(target: LlamaForCausalLM, layers: Sequence[int]) -> LlamaForCausalLM:
    """A model of the target's `layers` (in order), its embedding, its final norm and its head (PCG section 3.1)."""
    config = deepcopy(target.config)
    config.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[i] for i in layers]
    draft = LlamaForCausalLM(config)
    state = {k: v for k, v in target.state_dict().items() if ".layers." not in k}
    for place, index in enumerate(layers):
        prefix = f"model.layers.{index}."
        for key, value in target.state_dict().items():
            if key.startswith(prefix):
                state[f"model.layers.{place}.{key[len(prefix) :]}"] = value
    draft.load_state_dict(state)
    return draft


def own_samples(
    target: LlamaForCausalLM,
    spoken: Sequence[Spoken],
    reader: PhonemeReader,
    vocabulary: Vocabulary,
    count: int,
    temperature: float,
    seed: int,
    batch: int = 64,
) -> list[Spoken]:
    """Let the target say `count` training texts after references of the same voice; utterances that never end are left out.

    References and samples alternate in the list, voice by voice, so that `Epochs` chains them as it chains the corpus.
    """
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    model = DecodingLlama(target.eval(), vocabulary)
    by_voice: dict[str, list[Spoken]] = {}
    for utterance in spoken:
        by_voice.setdefault(utterance.voice, []).append(utterance)
    samples: list[Spoken] = []
    while len(samples) < count:
        pairs = [rng.sample(by_voice[rng.choice(sorted(by_voice))], 2) for _ in range(4 * batch)]
        pairs = sorted(pairs, key=lambda pair: sum(len(u.codes) for u in pair))
        for first in range(0, len(pairs), batch):
            group = pairs[first : first + batch]
            prompts = [reader.assemble(a.symbols, a.codes, b.symbols) for a, b in group]
            limit = int(1.5 * max(len(b.codes) for _, b in group)) + 20
            for (_, b), codes in zip(group, sample(model, prompts, limit, temperature, generator), strict=True):
                if codes is not None and len(codes) > 5:
                    samples.append(Spoken(b.voice, b.text, b.symbols, codes))
        print(f"samples {len(samples)}/{count}", flush=True)
    return samples


def train_draft(
    directory: Path,
    draft: LlamaForCausalLM,
    target: LlamaForCausalLM,
    samples: Sequence[Spoken],
    corpus: Sequence[Spoken],
    reader: PhonemeReader,
    vocabulary: Vocabulary,
    steps: int,
    seed: int,
    device: str,
    budget: int = 4096,
) -> None:
    """Forward KL from the target's speech laws, three steps on its own samples for one on the corpus."""
    draft.to(device)
    target.to(device).eval()
    own, given = (Epochs(spoken, reader, vocabulary.codes, budget, seed) for spoken in (samples, corpus))
    optimizers = make_optimizers(draft, lr=2e-3, muon_lr=3e-3, weight_decay=0.0)

    def step(index: int) -> dict[str, float]:
        batch = (given if index % 4 == 3 else own).batch(index).to(device)
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                wanted, _ = speech_logits(target, batch, vocabulary)
            logits, _ = speech_logits(draft, batch, vocabulary)
        q, log_p = wanted.float().softmax(-1), logits.float().log_softmax(-1)
        loss = nn.functional.kl_div(log_p, q, reduction="batchmean")
        update(loss, draft, optimizers.values())
        overlap = torch.minimum(q, log_p.detach().exp()).sum(-1).mean()
        return {"kl": loss.item(), "expected_acceptance": overlap.item()}

    run(Stage("draft", directory, steps, {"draft": draft}, optimizers, step, every=50), seed)
