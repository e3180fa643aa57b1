"""X-codec2 (Ye et al., arXiv 2502.04128), the codec of LLaSA: 16 kHz, 50 codes a second, one FSQ codebook of 65,536 codes.

It is read by transformers' `Xcodec2Model`, from the checkpoint `HKUSTAudio/xcodec2-hf`. The package `xcodec2` cannot live
beside it: 0.1.5 pins torch 2.5.0, torchaudio 2.5.0 and vector-quantize-pytorch 1.17.8, of which later versions give other
codes from the same weights, and with transformers 5 its `from_pretrained` leaves the quantizer's buffers as they were in
memory, without an error. With equal random weights both gave equal codes, and samples within 1e-7.

What can go wrong without an error is checked when a checkpoint is loaded: weights that are missing, buffers that no file
holds, attention that looks one way, sound that is no sound.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import NeuCodecModel, PreTrainedModel, SeamlessM4TFeatureExtractor, Xcodec2Model
from transformers.utils import logging

from pcg.codec.codec import Anchor
from pcg.codec.embedded import FSQ
from pcg.errors import AssetError, InputError, first_line

XCODEC2_CHECKPOINT = "HKUSTAudio/xcodec2-hf"
MEL_BINS = 80
PROBE_CODES = 16
QUIETEST = 1e-5


class XCodec2:
    """The `Codec` over transformers' model, in float32: in half precision the window of its vocoder, and codes near a border
    between two levels, would change.

    past_tokens, future_tokens: what a chunk of a stream is decoded between (see `pcg.codec.streaming`). The decoder's
    convolutions reach 11 codes and its window 2; its attention and its group norms, which see the whole utterance, want a long
    past: about three seconds.
    """

    past_tokens = 150
    future_tokens = 13

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self.fsq = FSQ(list(model.config.quantization_levels))
        # Xcodec2FeatureExtractor computes the same, but by torchaudio, which cannot be imported beside a CPU build of torch.
        self._extractor = SeamlessM4TFeatureExtractor(
            feature_size=MEL_BINS, num_mel_bins=MEL_BINS, sampling_rate=self.encoder_rate, stride=2, padding_value=1.0
        )

    @property
    def sample_rate(self) -> int:
        return self._model.config.sampling_rate

    @property
    def encoder_rate(self) -> int:
        """Samples a second of what the encoder hears."""
        return self.sample_rate

    @property
    def hop(self) -> int:
        return self._model.config.hop_length

    @property
    def codebook_size(self) -> int:
        return self.fsq.codebook_size

    @property
    def device(self) -> torch.device:
        return self._model.device

    @torch.inference_mode()
    def encode(self, wave: Tensor) -> Tensor:
        """Samples `[N]` in -1..1 at `sample_rate` -> codes `[ceil(N / hop)]`, int64."""
        if not len(wave):
            return torch.zeros(0, dtype=torch.int64)
        wanted = -(-len(wave) // self.hop)
        padded = self._pad(wave.float().cpu())
        features = self._extractor(self._heard(padded).numpy(), sampling_rate=self.encoder_rate, return_tensors="pt")
        inputs = padded[None, None].to(self.device), features["input_features"].to(self.device)
        return self._model.encode(*inputs).audio_codes[0, 0, :wanted].long().cpu()

    def decode(self, codes: Tensor) -> Tensor:
        """Codes `[T]` -> samples `[T * hop]`, float32 within -1..1."""
        return self.decode_batch(codes[None])[0]

    @torch.inference_mode()
    def decode_batch(self, codes: Tensor) -> Tensor:
        """Codes `[B, T]` -> samples `[B, T * hop]`, every row an utterance of its own."""
        if not codes.shape[1]:
            return torch.zeros(len(codes), 0)
        latents = self._model.quantizer.from_codes(codes[..., None].to(self.device))
        return self._model.acoustic_decoder(latents)[:, 0].clamp(-1, 1).cpu()

    def render(self, codes: Tensor, anchor: Anchor) -> tuple[Tensor, Tensor]:
        """`decode`, and zeros `[T + 1]`: there is no oscillator."""
        return self.decode(codes), torch.zeros(len(codes) + 1)

    def _pad(self, wave: Tensor) -> Tensor:
        """Pad to whole hops, by one sample at least, as in training."""
        return nn.functional.pad(wave, (0, self.hop - len(wave) % self.hop))

    def _heard(self, padded: Tensor) -> Tensor:
        """Pad the input of the filter banks, two frames a code: half a hop around whole hops `[T * hop]`."""
        return nn.functional.pad(padded, (self.hop // 2, self.hop // 2))


def load_xcodec2(source: str | Path = XCODEC2_CHECKPOINT, device: str = "cpu") -> XCodec2:
    """Load X-codec2 from a folder or from the hub, in float32. Raises AssetError if the checkpoint is not whole."""
    return XCodec2(load_checked(Xcodec2Model, source, device))


def load_checked(kind: type[PreTrainedModel], source: str | Path, device: str) -> PreTrainedModel:
    """Load a checkpoint of X-codec2's family as `kind`, in float32; refuse it unless every weight came from the file."""
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu, or cuda where there is one")
    # What is wrong with the weights is reported here: a mismatch, too, comes back as a name.
    told = {"dtype": torch.float32, "use_safetensors": True, "ignore_mismatched_sizes": True, "output_loading_info": True}
    # No bar and no table of weights before the one sentence that says what is wrong.
    level = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        # transformers would read another model's config as this one's defaults, and fill the weights in at random.
        config, wanted = kind.config_class.get_config_dict(str(source))[0], kind.config_class.model_type
        if "XCodec2Model" in (config.get("architectures") or ()):
            raise AssetError(f"The codec {source} is the original X-codec2, which cannot be read: use {XCODEC2_CHECKPOINT}.")
        if config.get("model_type") != wanted:
            raise AssetError(f"The codec {source} has a config of {config.get('model_type')!r}, but must be of {wanted!r}.")
        model, info = kind.from_pretrained(str(source), **told)
    except (AssetError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise AssetError(f"The codec {source} is missing or damaged ({first_line(error)}).") from error
    finally:
        logging.set_verbosity(level)
    # Buffers are computed here; a file may hold them all the same.
    strange = set(info["unexpected_keys"]) - {name for name, _ in model.named_buffers()}
    misshapen = {key if isinstance(key, str) else key[0] for key in info["mismatched_keys"]}
    faults = {"lacks weights": info["missing_keys"], "has weights of other shapes": misshapen, "has unknown weights": strange}
    for fault, names in faults.items():
        if names:
            raise AssetError(f"The codec {source} {fault}: {', '.join(sorted(names)[:3])}.")
    model = model.eval().to(device)
    self_check(model, str(source))
    return model


@torch.inference_mode()
def self_check(model: PreTrainedModel, source: str) -> None:
    """Raise AssetError where a loaded model of X-codec2's family cannot be right, whatever its weights are.

    Buffers that no file holds have the values that their definition gives, attention looks both ways (the first position of a
    layer hears a change in the last), and some codes become a sound: finite, not silent.
    """
    fsq, quantizer, decoder = FSQ(list(model.config.quantization_levels)), model.quantizer.quantizer, model.acoustic_decoder
    table = fsq.values(torch.arange(fsq.codebook_size))
    window = torch.hann_window(model.config.n_fft)
    if not torch.equal(quantizer.codebook.cpu(), table) or not torch.allclose(decoder.head.window.cpu(), window, atol=1e-6):
        raise AssetError(f"The codec {source} was loaded with a code table or a window of its own: it would make noise.")
    hidden = torch.randn(1, PROBE_CODES, model.config.hidden_size, generator=torch.Generator().manual_seed(0)).to(model.device)
    changed = hidden.clone()
    changed[:, -1] = -changed[:, -1]
    heads = torch.arange(decoder.num_attention_heads, device=model.device)[None]
    rotary = decoder.rotary_emb(hidden, heads)
    first, other = (decoder.layers[0].self_attn(h, position_embeddings=rotary)[0][0, 0] for h in (hidden, changed))
    if torch.equal(first, other):
        raise AssetError(f"The attention of the codec {source} does not look ahead: its sound would be wrong.")
    codes = torch.linspace(0, fsq.codebook_size - 1, PROBE_CODES).long().to(model.device)
    sound = decoder(model.quantizer.from_codes(codes[None, :, None]))
    if not torch.isfinite(sound).all() or sound.abs().max() < QUIETEST:
        raise AssetError(f"The codec {source} decodes to silence or to no numbers: its weights are damaged.")


NEUCODEC_CHECKPOINT = "neuphonic/neucodec"


class NeuCodec(XCodec2):
    """The `Codec` at the rate at which it speaks: what it is to encode is given at 24 kHz, too, and brought down here."""

    @property
    def sample_rate(self) -> int:
        return self._model.config.output_sampling_rate

    @property
    def encoder_rate(self) -> int:
        return self._model.config.input_sampling_rate

    def _pad(self, wave: Tensor) -> Tensor:
        """Whole hops at the encoder's rate, and one of silence: its filter banks end one code before its samples do."""
        import librosa

        whole = nn.functional.pad(wave, (0, -len(wave) % self.hop)).numpy()
        heard = librosa.resample(whole, orig_sr=self.sample_rate, target_sr=self.encoder_rate)
        return nn.functional.pad(torch.from_numpy(heard.astype(np.float32)), (0, self._model.config.encoder_hop_length))

    def _heard(self, padded: Tensor) -> Tensor:
        """Return the samples themselves, without the half hop around them that X-codec2 has."""
        return padded


def load_neucodec(source: str | Path = NEUCODEC_CHECKPOINT, device: str = "cpu") -> NeuCodec:
    """Load NeuCodec from a folder or from the hub, as `pcg.codec.hub.load_xcodec2` does."""
    return NeuCodec(load_checked(NeuCodecModel, source, device))
