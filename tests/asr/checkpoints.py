"""Checkpoints of transformers models in the format of the hub, tiny and with random weights."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers import decoders as text_decoders
from transformers import (
    Blip2QFormerConfig,
    GraniteConfig,
    GraniteSpeechConfig,
    GraniteSpeechEncoderConfig,
    GraniteSpeechForConditionalGeneration,
    HubertConfig,
    HubertForCTC,
    PreTrainedTokenizerFast,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2Processor,
)

TEMPLATE = "{% for m in messages %}user: {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"


def granite(folder: Path, classes: int = 348) -> Path:
    """Granite Speech: encoder, q-former, Granite LM, and a byte-level tokenizer with a chat template."""
    torch.manual_seed(0)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = text_decoders.ByteLevel()
    special = ["<|end_of_text|>", "<|audio|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(["can you transcribe the speech into a written format?"], trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special[0], additional_special_tokens=special[1:])
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)
    text = GraniteConfig(
        vocab_size=len(wrapped), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, logits_scaling=4.0, embedding_multiplier=3.0, pad_token_id=None, bos_token_id=None,
        eos_token_id=wrapped.eos_token_id, tie_word_embeddings=True,
    )  # fmt: skip
    encoder = GraniteSpeechEncoderConfig(
        input_dim=160, num_layers=2, hidden_dim=16, feedforward_mult=2, num_heads=2, output_dim=classes, context_size=20,
        max_pos_emb=32, conv_kernel_size=5,
    )  # fmt: skip
    projector = Blip2QFormerConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, encoder_hidden_size=16
    )
    config = GraniteSpeechConfig(
        text_config=text, encoder_config=encoder, projector_config=projector, has_lora_adapter=False,
        audio_token_index=wrapped.convert_tokens_to_ids("<|audio|>"),
    )  # fmt: skip
    model = GraniteSpeechForConditionalGeneration(config).eval()
    with torch.no_grad():
        # Far from the tiny initial weights, so that layers and frames matter.
        for weight in model.model.language_model.parameters():
            weight.mul_(8.0 if weight.ndim == 2 else 1.0)
        model.model.encoder.out.weight.normal_(std=2.0)
    model.save_pretrained(folder)
    return folder


def hubert(folder: Path) -> Path:
    torch.manual_seed(0)
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(letters)}))
    tokenizer = Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    features = Wav2Vec2FeatureExtractor(feature_size=1, sampling_rate=16_000, do_normalize=True, return_attention_mask=True)
    Wav2Vec2Processor(features, tokenizer).save_pretrained(folder)
    config = HubertConfig(
        vocab_size=len(letters), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        conv_dim=(16, 16), conv_kernel=(10, 8), conv_stride=(20, 16), num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True,
    )  # fmt: skip
    HubertForCTC(config).save_pretrained(folder)
    return folder
