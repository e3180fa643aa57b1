"""Granite Speech from the hub (Saon et al., arXiv:2505.08699) as a `Recogniser`: Conformer CTC encoder, q-former, Granite LM.

The CTC head is `encoder.out` on the encoder's last hidden state. arXiv:2603.11243 (section 3.1) says of its 348 classes: the
first 256 characters, and 92 for katakana. Blank is taken to be class 0 (the NUL, which no text has), and katakana to follow
Unicode, whose letters U+30A1..U+30FC are 92 as well. Checkpoints with other heads are refused: their spelling is unknown.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import librosa
import torch
from torch import Tensor
from transformers import AutoTokenizer, DynamicCache, GraniteSpeechForConditionalGeneration, PreTrainedTokenizerBase
from transformers.utils import logging

from pcg.asr.self_speculative import Heard, Reading, continue_greedily, reading, weights_digest
from pcg.errors import AssetError, InputError, first_line

CHECKPOINT = "ibm-granite/granite-4.0-1b-speech"
CLASSES = 348
_LATIN, _KATAKANA = 256, 0x30A1
_INSTRUCTION = "can you transcribe the speech into a written format?"
_AUDIO = "<|audio|>"
_FFT, _WINDOW, _HOP, _BANDS = 512, 400, 160, 80


class GraniteRecogniser:
    """Runs on the model's own device and in its precision. Its encoder knows no padding, so it hears one utterance at a time;
    its language model reads batches."""

    sample_rate = 16_000

    def __init__(self, name: str, model: GraniteSpeechForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> None:
        if model.config.encoder_config.output_dim != CLASSES:
            raise InputError("CTC classes", model.config.encoder_config.output_dim, f"{CLASSES}, whose characters are known")
        self.name, self._model, self._tokenizer = name, model.eval(), tokenizer
        self._lm = model.model.language_model
        bank = librosa.filters.mel(sr=self.sample_rate, n_fft=_FFT, n_mels=_BANDS, fmin=0.0, htk=True, norm=None)
        self._bank = torch.from_numpy(bank).T.to(model.device)
        asked = _AUDIO + _INSTRUCTION
        if tokenizer.chat_template:
            message = [{"role": "user", "content": asked}]
            prompt = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        else:
            prompt = f"USER: {asked}\n ASSISTANT:"
        before, after = prompt.split(_AUDIO)
        self._before, self._after = (
            self._embed(tokenizer(part, add_special_tokens=False).input_ids) for part in (before, after)
        )
        # transformers' Granite Speech leaves out this division of the Granite LM; likelihoods need it, the likeliest does not.
        self._scaling = float(getattr(model.config.text_config, "logits_scaling", 1.0))

    @property
    def end(self) -> int:
        return int(self._tokenizer.eos_token_id)

    def tokens(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False).input_ids

    def text(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True).strip()

    @torch.inference_mode()
    def hear(self, samples: Sequence[Tensor]) -> list[Heard]:
        heard = []
        for utterance in samples:
            frames = self._model.model.encoder(self._features(utterance)).last_hidden_state
            log_probs = self._model.model.encoder.out(frames)[0].float().log_softmax(-1)
            embeddings = self._model.model.projector(frames)[0]
            heard.append(Heard(log_probs, read_characters(log_probs.argmax(-1).tolist()), embeddings))
        return heard

    @torch.inference_mode()
    def read(self, heard: Sequence[Heard], hypotheses: Sequence[Sequence[int]]) -> list[Reading]:
        prompts = [torch.cat([self._before, h.embeddings, self._after]) for h in heard]
        rows = [torch.cat([p, self._embed(tokens)]) for p, tokens in zip(prompts, hypotheses, strict=True)]
        lengths = torch.tensor([len(row) for row in rows], device=self._model.device)
        cache = DynamicCache()
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        slots = torch.arange(padded.shape[1], device=padded.device).expand(len(rows), -1)
        hidden = self._run(padded, slots < lengths[:, None], slots, cache)
        readings = []
        for row, (prompt, tokens) in enumerate(zip(prompts, hypotheses, strict=True)):
            length = len(prompt) + len(tokens)
            logits = self._logits(hidden[row, len(prompt) - 1 : length])
            keys, values = (
                torch.stack([getattr(x, kind)[row, :, :length] for x in cache.layers]) for kind in ("keys", "values")
            )
            readings.append(reading(logits, tokens, len(prompt), keys, values))
        return readings

    @torch.inference_mode()
    def go_on(self, heard: Sequence[Heard], readings: Sequence[Reading], prefixes: Sequence[Sequence[int]]) -> list[list[int]]:
        # A cache whose rows are padded on the right, and which of its slots are real, [B, T].
        cropped = [r.crop(len(p)) for r, p in zip(readings, prefixes, strict=True)]
        lengths = torch.tensor([keys.shape[2] for keys, _ in cropped], device=self._model.device)
        longest, cache = int(lengths.max()), DynamicCache()
        padded = [[torch.nn.functional.pad(part, (0, 0, 0, longest - part.shape[2])) for part in row] for row in cropped]
        keys, values = (torch.stack(part, 1) for part in zip(*padded, strict=True))
        for layer, (k, v) in enumerate(zip(keys, values, strict=True)):
            cache.update(k, v, layer)
        known = torch.arange(longest, device=lengths.device) < lengths[:, None]
        positions = known.sum(1, keepdim=True)

        def step(rows: list[int], tokens: list[int]) -> list[int]:
            nonlocal known, positions
            # A row that has ended reads its end again and again: the batch stays one block, and the row's output is not used.
            newest = [self.end] * len(heard)
            for row, token in zip(rows, tokens, strict=True):
                newest[row] = token
            known = torch.cat([known, torch.ones_like(known[:, :1])], 1)
            hidden = self._run(self._embed(newest)[:, None], known, positions, cache)
            positions = positions + 1
            return self._logits(hidden[rows, -1]).argmax(-1).tolist()

        first = [r.choices[len(p)] for r, p in zip(readings, prefixes, strict=True)]
        return continue_greedily(first, self.end, [h.most_tokens for h in heard], step)

    def _run(self, embeddings: Tensor, known: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        output = self._lm(
            inputs_embeds=embeddings, attention_mask=known.long(), position_ids=positions, past_key_values=cache, use_cache=True
        )
        return output.last_hidden_state

    def _logits(self, hidden: Tensor) -> Tensor:
        return self._model.lm_head(hidden).float() / self._scaling

    def _embed(self, tokens: Sequence[int]) -> Tensor:
        return self._lm.get_input_embeddings()(torch.tensor(tokens, dtype=torch.int64, device=self._model.device))

    def _features(self, samples: Tensor) -> Tensor:
        """Log-mel frames, two side by side, `[1, T, 160]`: what the checkpoint's feature extractor computes with torchaudio."""
        window = torch.hann_window(_WINDOW, device=self._bank.device)
        wave = samples.to(self._bank.device).float()
        # The reflected edge needs more samples than it mirrors.
        wave = torch.nn.functional.pad(wave, (0, max(0, _FFT - len(wave))))
        spectrum = torch.stft(wave, _FFT, _HOP, _WINDOW, window, center=True, return_complex=True)
        mels = (spectrum.abs().square().T @ self._bank).clamp_min(1e-10).log10()
        scaled = torch.maximum(mels, mels.max() - 8.0) / 4 + 1
        return scaled[: len(scaled) // 2 * 2].reshape(1, -1, 2 * _BANDS).to(self._model.dtype)


def read_characters(path: Sequence[int]) -> str:
    """The text of an alignment path over Granite's CTC classes; runs of spaces become one."""
    merged = (label for label, _ in groupby(path) if label)
    return " ".join("".join(chr(c) if c < _LATIN else chr(_KATAKANA + c - _LATIN) for c in merged).split())


def load_granite(checkpoint: str = CHECKPOINT, device: str = "cpu") -> GraniteRecogniser:
    """Load a Granite Speech checkpoint, from a folder or from the hub; bfloat16 on a GPU, float32 elsewhere."""
    logging.disable_progress_bar()
    try:
        model, info = GraniteSpeechForConditionalGeneration.from_pretrained(  # nosec B615 # safetensors, by digest
            checkpoint,
            dtype=torch.bfloat16 if device == "cuda" else torch.float32,
            use_safetensors=True,
            output_loading_info=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)  # nosec B615 # no code is fetched with it
    except Exception as error:
        raise AssetError(f"The Granite Speech checkpoint {checkpoint} is missing or damaged ({first_line(error)}).") from error
    if info["missing_keys"] or info["mismatched_keys"]:
        raise AssetError(f"The Granite Speech checkpoint {checkpoint} lacks weights: {sorted(info['missing_keys'])[:3]}.")
    if model.config.has_lora_adapter and not getattr(model, "_hf_peft_config_loaded", False):
        raise AssetError(f"The Granite Speech checkpoint {checkpoint} needs its LoRA adapter, and so the package peft.")
    name = f"{Path(checkpoint).name} (weights {weights_digest(model)})"
    return GraniteRecogniser(name, model.to(device), tokenizer)
