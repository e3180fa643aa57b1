"""The target's own speech, in batches: what the draft is distilled on, and what the stopping figures are counted from."""

from collections.abc import Sequence

import torch

from pcg.decoding.laws import law
from pcg.decoding.llama import DecodingLlama
from pcg.prompt import Prompt


@torch.inference_mode()
def sample(
    model: DecodingLlama, prompts: Sequence[Prompt], limit: int, temperature: float, generator: torch.Generator
) -> list[torch.Tensor | None]:
    """Speak all `prompts` at once; return the codes of each `[T]`, or None where no end of speech came within `limit`."""
    device = model.embedding.device
    eos, ids_of = model.vocabulary.eos, model.vocabulary.model_ids().to(device)
    longest = max(len(p.ids) for p in prompts)
    padding = torch.tensor([longest - len(p.ids) for p in prompts], device=device)
    ids = torch.stack([torch.nn.functional.pad(p.ids, (longest - len(p.ids), 0)) for p in prompts]).to(device)
    positions = torch.stack([torch.nn.functional.pad(p.positions, (longest - len(p.ids), 0)) for p in prompts]).to(device)
    following = torch.tensor([[p.next_position] for p in prompts], device=device)
    cache = model.cache(len(prompts), longest + limit)
    spoken = torch.full((len(prompts), limit), eos, device=device)
    for step in range(limit):
        q = law(model.forward(ids, positions, cache, last=1, padding=padding)[:, -1], temperature)
        noise = torch.empty(q.shape, dtype=torch.float64).exponential_(generator=generator).to(q.device)
        token = (q / noise).argmax(-1)
        ended = (spoken[:, :step] == eos).any(1)
        spoken[:, step] = token.masked_fill(ended, eos)
        if bool((spoken[:, : step + 1] == eos).any(1).all()):
            break
        ids, positions = ids_of[token][:, None], following + step
    ends = [(row == eos).nonzero() for row in spoken[:, : step + 1].cpu()]
    return [row[: int(end[0])] if len(end) else None for row, end in zip(spoken.cpu(), ends, strict=True)]
