"""A LLaSA with random weights in the real format: its tokens behind a small text vocabulary, and all 65,536 speech codes."""

from pathlib import Path

import torch
from tiny_xcodec2 import save_tiny_xcodec2
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CODES = 65_536
SPECIALS = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
MARKS = tuple(
    f"<|{kind}_{what}_{end}|>"
    for kind, what in (("TEXT", "GENERATION"), ("TEXT", "UNDERSTANDING"), ("SPEECH", "GENERATION"), ("SPEECH", "UNDERSTANDING"))
    for end in ("START", "END")
)
TEXT = 256
FIRST_MARK = TEXT + len(SPECIALS)
FIRST_CODE = FIRST_MARK + len(MARKS)
END = FIRST_MARK + MARKS.index("<|SPEECH_GENERATION_END|>")
# As in Llama 3: a system turn with a date, which is today's unless one is given.
TEMPLATE = """{{- bos_token }}
{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif -%}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday: " + date_string + "<|eot_id|>" }}
{%- for message in messages -%}
{{- "<|start_header_id|>" + message["role"] + "<|end_header_id|>\\n\\n" + message["content"] | trim + "<|eot_id|>" }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}{% endif -%}
"""
ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
WIDTH = 64
SPOKEN_EVERY, ALIKE = 16, 4
"""One code in so many has an embedding, the others' are zero: a search among 65,536 random ones would take a test a minute. So
many of them in a row are alike, so that there are groups."""


def save_tiny_llasa(folder: Path, tied: bool = True, shard: str = "1GB", codec: bool = True) -> None:
    """Write what a repository of LLaSA holds, by the calls that wrote the real ones, and X-codec2 into `codec/`.

    shard: the largest size of a weights file.
    """
    save_tokenizer(folder)
    new_model(tied).save_pretrained(folder, max_shard_size=shard)
    if codec:
        save_tiny_xcodec2(folder / "codec")


def save_tokenizer(folder: Path, template: str = TEMPLATE, codes: int = CODES, marks: tuple[str, ...] = MARKS) -> None:
    """Bytes as text, then Llama 3's special tokens, then LLaSA's marks and codes, added as its authors added them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(list(SPECIALS))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=SPECIALS[0], eos_token=SPECIALS[-1])
    tokenizer.add_tokens([*marks, *(f"<|s_{code}|>" for code in range(codes))])
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)


def new_model(tied: bool = True, seed: int = 0) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=FIRST_CODE + CODES,
        hidden_size=WIDTH,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=131_072,
        rope_parameters=ROPE,
        tie_word_embeddings=tied,
        bos_token_id=TEXT,
        eos_token_id=END,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).eval()
        with torch.no_grad():
            # Far from the tiny initial weights, so that layers matter and a draft's law differs from the target's.
            for weight in model.model.layers.parameters():
                weight.mul_(8.0 if weight.ndim == 2 else 1.0)
            model.model.embed_tokens.weight.copy_(_rows())
            if not tied:
                model.lm_head.weight.copy_(_rows())
    return model


def _rows() -> Tensor:
    """Embeddings `[ids, WIDTH]` of length about 3, so that at most a few dozen codes are likely at any time."""
    centres = torch.randn(CODES // SPOKEN_EVERY // ALIKE, WIDTH).repeat_interleave(ALIKE, 0)
    codes = torch.zeros(CODES, WIDTH)
    codes[::SPOKEN_EVERY] = 0.4 * (centres + 0.6 * torch.randn(centres.shape))
    return torch.cat([0.4 * torch.randn(FIRST_CODE, WIDTH), codes])
