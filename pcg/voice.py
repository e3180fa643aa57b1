"""A Voice is what speaks: target, draft, codec, prompt reader and reference voices, loaded from one folder.

The folder holds `voice.json` (symbols, durations, reference voices), `usage.safetensors` (how often the corpus used each
code) and, each as `config.json` and `model.safetensors`, `target/`, `draft/` and `codec/`; a map of the
codes may lie beside them (`atlas-*.safetensors`). Target and draft are transformers checkpoints, read as a checkpoint from the
hub is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaForCausalLM
from transformers.utils import logging

from pcg.audio import load_audio, normalise_loudness, trim
from pcg.codec.codec import Codec
from pcg.codec.embedded import CodecConfig, EmbeddedCodec
from pcg.decoding.llama import DecodingLlama
from pcg.errors import AssetError, InputError
from pcg.prompt import PhonemeReader, Reference
from pcg.text import check_text
from pcg.vocabulary import Vocabulary

FORMAT = 2
DEVICES = ("cpu", "cuda")
EMBEDDED = Path(__file__).parent.parent / "assets" / "voice"
REFERENCE_SECONDS = (1.0, 10.0)


@dataclass(frozen=True)
class Voice:
    """Everything that speaks. `references` are the voices it knows by name; `usage [codes]` counts the corpus's codes; `folder`
    is where it was loaded from."""

    name: str
    target: DecodingLlama
    draft: DecodingLlama
    codec: Codec
    reader: PhonemeReader
    references: Mapping[str, Reference]
    usage: Tensor
    folder: Path

    @property
    def vocabulary(self) -> Vocabulary:
        return self.target.vocabulary

    @property
    def code_embedding(self) -> Tensor:
        """The target's token embedding of every speech code, `[codes, D]` (PCG section 2.1)."""
        first = self.vocabulary.first_code
        return self.target.embedding[first : first + self.vocabulary.codes].float().cpu()

    def reference(self, name: str) -> Reference:
        if name not in self.references:
            raise InputError("voice", name, "one of " + ", ".join(self.references))
        return self.references[name]

    def reference_from_audio(self, path: Path, text: str) -> Reference:
        """A reference from a recording of 1 to 10 seconds and its transcript."""
        check_text(text)
        samples = load_audio(path, self.codec.sample_rate)
        speech = normalise_loudness(trim(samples, self.codec.sample_rate))
        seconds = len(speech) / self.codec.sample_rate
        low, high = REFERENCE_SECONDS
        if not low <= seconds <= high:
            raise InputError("reference", f"{seconds:.1f} seconds of speech", f"{low:g} to {high:g} seconds of speech")
        return Reference(text, self.codec.encode(torch.from_numpy(speech)))


def load_voice(model: str = "embedded", device: str = "cpu") -> Voice:
    """Load the shipped voice ("embedded") or the voice in a folder; raise AssetError if a file is missing or damaged.

    device: "cpu", where the models run in float32, or "cuda", where they run in bfloat16.
    """
    if device not in DEVICES or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))
    folder = EMBEDDED if model == "embedded" else Path(model)
    if model != "embedded" and not folder.is_dir():
        raise InputError("model", model, "'embedded' or a folder that holds voice.json")
    card = _card(folder / "voice.json")
    try:
        reader = PhonemeReader(tuple(card["symbols"]), tuple(card["durations"]))
        references = {name: Reference(r["text"], torch.tensor(r["codes"])) for name, r in card["voices"].items()}
        if len(reader.symbols) != len(reader.durations) or not references:
            raise ValueError("symbols, durations and voices do not fit together")
    except (KeyError, TypeError, ValueError) as error:
        raise AssetError(f"The voice file {folder / 'voice.json'} is damaged ({error}).") from error
    codec = load_codec(folder / "codec").to(device)
    vocabulary = Vocabulary(codec.codebook_size, reader.first_code, reader.end)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    parts = [load_llama(folder / part, vocabulary).to(device, dtype) for part in ("target", "draft")]
    known = [part.config.vocab_size for part in parts]
    if known[0] != known[1]:
        raise InputError("draft", f"a model of {known[1]} ids", f"one of {known[0]}, as the target")
    target, draft = (DecodingLlama(part, vocabulary) for part in parts)
    usage = _tensors(folder / "usage.safetensors")["usage"]
    return Voice(str(card["name"]), target, draft, codec, reader, references, usage, folder)


def load_llama(folder: Path, vocabulary: Vocabulary) -> LlamaForCausalLM:
    """Load a transformers checkpoint in float32 and check that it is whole and speaks the vocabulary."""
    _check_llama_config(folder / "config.json")
    if not (folder / "model.safetensors").is_file():
        raise AssetError(f"The language model {folder / 'model.safetensors'} is missing.")
    # Its bar on stderr would stand before the one sentence that says what is wrong.
    logging.disable_progress_bar()
    try:
        model, info = LlamaForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:
        raise AssetError(f"The language model in {folder} is missing or damaged ({_first_line(error)}).") from error
    if info["missing_keys"] or info["mismatched_keys"]:
        raise AssetError(f"The language model in {folder} lacks weights: {sorted(info['missing_keys'])[:3]}.")
    if model.config.vocab_size < vocabulary.first_code + vocabulary.codes:
        raise AssetError(f"The language model in {folder} has {model.config.vocab_size} ids, too few for this voice.")
    return model.eval()


def load_codec(folder: Path) -> EmbeddedCodec:
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        codec = EmbeddedCodec(CodecConfig(**{**values, "levels": tuple(values["levels"])}))
        tensors = _tensors(folder / "model.safetensors")
        codec.load_state_dict({k: t.float() for k, t in tensors.items()})
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise AssetError(f"The codec in {folder} is missing or damaged ({_first_line(error)}).") from error
    return codec.eval()


def _check_llama_config(path: Path) -> None:
    """transformers reads a missing or odd config as its default, a model of seven billion parameters in random weights."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["model_type"] != "llama" or not all(config[k] for k in ("hidden_size", "num_hidden_layers", "vocab_size")):
            raise ValueError("it is not a Llama's")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"The config {path} is missing or damaged ({type(error).__name__}).") from error


def _card(path: Path) -> dict[str, object]:
    if not path.is_file():
        raise AssetError(f"The voice file {path} is missing.")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        version = card["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"The voice file {path} is damaged ({_first_line(error)}).") from error
    if version != FORMAT:
        raise AssetError(f"The voice file {path} has format {version!r}, but this version reads format {FORMAT}.")
    return card


def _tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise AssetError(f"The weights file {path} is missing.")
    try:
        return load_file(path)
    except Exception as error:
        raise AssetError(f"The weights file {path} is damaged ({_first_line(error)}).") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")
