"""NeuTTS Air and Nano with random weights in the real format: their tokens behind a small text vocabulary, all 65,536 codes."""

from pathlib import Path

import torch
from tiny_llasa import ALIKE, CODES, ROPE, SPOKEN_EVERY, WIDTH
from tiny_xcodec2 import save_tiny_neucodec
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)

TEXT = 256
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
BEGIN = "<|begin_of_text|>"
MARKS = (
    *("<|TEXT_REPLACE|>", "<|TEXT_PROMPT_START|>", "<|TEXT_PROMPT_END|>", "<|SPEECH_REPLACE|>"),
    *("<|SPEECH_GENERATION_START|>", "<|SPEECH_GENERATION_END|>", "<|EN|>", "<|ZH|>"),
)
FIRST_MARK = TEXT + len(SPECIALS)
FIRST_CODE = FIRST_MARK + len(MARKS)
END = FIRST_MARK + MARKS.index("<|SPEECH_GENERATION_END|>")
AIR_CARD = "---\nlicense: apache-2.0\npipeline_tag: text-to-speech\n---\n# NeuTTS Air\n"
SHAPE = {
    "vocab_size": FIRST_CODE + CODES,
    "hidden_size": WIDTH,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32_768,
    "eos_token_id": END,
}


def save_tiny_neutts(folder: Path, nano: bool = False) -> None:
    """Write what a repository of NeuTTS holds, and NeuCodec into `codec/`. Nano is a Llama, and its card states no licence by
    a name that a list has."""
    (save_nano_tokenizer if nano else save_tokenizer)(folder)
    new_model(nano).save_pretrained(folder)
    card = AIR_CARD.replace("apache-2.0", "other") if nano else AIR_CARD
    (folder / "README.md").write_text(card, encoding="utf-8")
    save_tiny_neucodec(folder / "codec")


def save_tokenizer(folder: Path, codes: int = CODES, marks: tuple[str, ...] = MARKS) -> None:
    """Qwen2's: bytes as text, then its special tokens, then NeuTTS's, added as its authors added them."""
    tokenizer = Qwen2Tokenizer(vocab=_bytes(), merges=[])
    tokenizer.add_tokens(list(SPECIALS[1:]), special_tokens=True)
    _save(tokenizer, folder, codes, marks)


def save_nano_tokenizer(folder: Path, codes: int = CODES, behind: str = "") -> None:
    """Llama 3's, which begins every text with a mark of its own. behind: one that would end them."""
    bpe = Tokenizer(models.BPE(_bytes(), []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([BEGIN, *SPECIALS[1:]])
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {behind}".strip(), special_tokens=[(BEGIN, TEXT), (SPECIALS[2], TEXT + 2)]
    )
    _save(PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BEGIN, eos_token=SPECIALS[2]), folder, codes)


def new_model(nano: bool = False, seed: int = 0) -> LlamaForCausalLM | Qwen2ForCausalLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if nano:
            model = LlamaForCausalLM(LlamaConfig(**SHAPE, rope_parameters=ROPE, tie_word_embeddings=True))
        else:
            model = Qwen2ForCausalLM(Qwen2Config(**SHAPE, tie_word_embeddings=True))
        with torch.no_grad():
            # Far from the tiny initial weights, so that layers matter, and biases that are not zero, as a trained model's.
            for name, weight in model.model.layers.named_parameters():
                if name.endswith("bias"):
                    weight.normal_()
                elif weight.ndim == 2:
                    weight.mul_(8.0)
            model.model.embed_tokens.weight.copy_(_rows())
    return model.eval()


def _bytes() -> dict[str, int]:
    return {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def _save(tokenizer: PreTrainedTokenizerBase, folder: Path, codes: int, marks: tuple[str, ...] = MARKS) -> None:
    tokenizer.add_tokens([*marks, *(f"<|speech_{code}|>" for code in range(codes))])
    tokenizer.save_pretrained(folder)


def _rows() -> Tensor:
    """Embeddings `[ids, WIDTH]`, few of them spoken and those in likes, as `tiny_llasa` has them."""
    centres = torch.randn(CODES // SPOKEN_EVERY // ALIKE, WIDTH).repeat_interleave(ALIKE, 0)
    codes = torch.zeros(CODES, WIDTH)
    codes[::SPOKEN_EVERY] = 0.4 * (centres + 0.6 * torch.randn(centres.shape))
    return torch.cat([0.4 * torch.randn(FIRST_CODE, WIDTH), codes])
