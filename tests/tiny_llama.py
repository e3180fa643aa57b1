"""Small models of transformers with random weights, large enough that every layer matters."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

SIZES = {
    "vocab_size": 11,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


def tiny_llama(gain: float = 5.0, seed: int = 3, qwen2: bool = False, **sizes: object) -> PreTrainedModel:
    """A Llama, or a Qwen2 with biases as large as what they are added to; the matrices of transformers times `gain`."""
    torch.manual_seed(seed)
    config, model = (Qwen2Config, Qwen2ForCausalLM) if qwen2 else (LlamaConfig, LlamaForCausalLM)
    made = model(config(**SIZES | sizes)).eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            weight.mul_(gain if weight.ndim == 2 else 1.0)
            if name.endswith("bias"):
                weight.normal_()
    return made
