"""transformers' own `generate` on the same weights, the same probabilities and the same prompt."""

from pathlib import Path

import torch
from transformers import LlamaForCausalLM, LogitsProcessor, LogitsProcessorList
from transformers.utils import logging

from pcg.bench.timing import medians
from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.speculative import Drafting, Request
from pcg.models.feature_draft import FeatureDraft, is_feature_draft
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import layer_subset, load_llama
from pcg.rules import exact
from pcg.sampling import Plain
from pcg.settings import Settings
from pcg.synthesis.voice import AUTO, Voice, find_draft, named_draft, names_beside, untrained_layers
from pcg.text.prompt import Prompt

TOKENS = 96


class SpeechOnly(LogitsProcessor):
    """Mask everything but speech codes, the end of speech included, so that lengths are equal."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._codes = slice(vocabulary.first_code, vocabulary.first_code + vocabulary.codes)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        allowed = torch.full_like(scores, -torch.inf)
        allowed[:, self._codes] = scores[:, self._codes]
        return allowed


def against_generate(
    voice: Voice, folder: Path, text: str, name: str, settings: Settings, repeats: int, draft: str = AUTO
) -> dict[str, float]:
    """Return milliseconds for `TOKENS` tokens behind one prompt, prompt included: ours and theirs, medians of runs in turns.

    "generate" has a dynamic cache, "generate_static" a static one, "assisted" the draft as its assistant, with as
    many tokens. draft: how the voice's was chosen (`pcg.synthesis.voice.choose_draft`).
    """
    logging.set_verbosity_error()
    target = load_llama(voice.target_folder, voice.vocabulary).to(voice.target.device)
    assistance = _assistance(voice, target, folder / "draft", draft, settings.lookahead)
    # transformers gives ids the positions 0, 1, 2, ...
    ids = voice.reader.prompt(text, voice.reference(name)).ids
    prompt = Prompt(ids, torch.arange(len(ids), dtype=torch.float32), float(len(ids)))
    ids = prompt.ids[None].to(voice.target.device)
    pool = DevicePool() if voice.device == "cuda" else None  # takes on a GPU use it, too
    common = {
        "attention_mask": torch.ones_like(ids),
        "do_sample": True,
        "temperature": settings.temperature,
        "top_k": 0,
        "max_new_tokens": TOKENS,
        "min_new_tokens": TOKENS,
        "pad_token_id": 0,
        "logits_processor": LogitsProcessorList([SpeechOnly(voice.vocabulary)]),
    }
    works = {
        "ar": lambda: _ours(voice, prompt, "ar", settings, pool),
        "sd": lambda: _ours(voice, prompt, "sd", settings, pool),
        "generate": lambda: target.generate(ids, **common),
        "generate_static": lambda: target.generate(ids, cache_implementation="static", **common),
        "assisted": lambda: target.generate(ids, **assistance, **common),
    }
    with torch.inference_mode():
        return medians(works, repeats)


def _assistance(voice: Voice, target: LlamaForCausalLM, folder: Path, choice: str, lookahead: int) -> dict[str, object]:
    """Return the options by which `generate` drafts `lookahead` tokens with the voice's draft."""
    layers = target.config.num_hidden_layers
    origin = find_draft(AUTO if isinstance(voice.draft, FeatureDraft) else choice, layers, folder)
    if isinstance(origin, Path) and is_feature_draft(origin):
        # transformers knows no drafts that read the target's hidden states: a trained one of the usual kind is its best.
        usual = (each for name in names_beside(folder) if not is_feature_draft(each := named_draft(name, folder)))
        origin = next(usual, untrained_layers(layers))
    draft = load_llama(origin, voice.vocabulary) if isinstance(origin, Path) else layer_subset(target, origin)
    draft = draft.to(target.device).eval()
    draft.generation_config.num_assistant_tokens = lookahead
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    return {"assistant_model": draft}


def _ours(voice: Voice, prompt: Prompt, method: str, settings: Settings, pool: DevicePool | None) -> int:
    """Decode `TOKENS` tokens; a take that ends early continues from the prompt, so that lengths are equal."""
    spoken, generator = 0, torch.Generator().manual_seed(settings.seed)
    while spoken < TOKENS:
        chosen = (None, None) if method == "ar" else (exact, Drafting(settings.lookahead))
        request = Request(prompt, TOKENS - spoken, generator, Plain(settings.temperature), *chosen)
        spoken += sum(len(step[0].tokens) for step in decode(voice.target, voice.draft, [request], pool))
    return spoken
