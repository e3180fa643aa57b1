"""A Voice is what speaks: target, draft, codec, prompt reader and reference voices, loaded from one folder.

A folder of our own holds `voice.json` (symbols, durations, reference voices), `usage.safetensors` (how often the corpus used
each code, and the phone that it is heard in most) and, each as `config.json` and `model.safetensors`, `target/`, `draft/` and
`codec/`; a map of the codes may lie beside them (`atlas-*.safetensors`), and further drafts by name (`draft-NAME/`). Target and
drafts are transformers checkpoints, read as a checkpoint from the hub is; but a draft may be a feature draft
(`pcg.models.feature_draft`), too.

Where a folder has a list of checksums (`pcg.files.checksums`), its files are compared with that before anything is read.

The folder of a LLaSA or a NeuTTS is what its repository on the hub holds: `config.json`, weights and tokenizer. Its codec may
lie beside them in `codec/`, and a trained draft in `draft/`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pcg.codec.codec import Codec
from pcg.codec.embedded import CodecConfig, EmbeddedCodec
from pcg.decode.runners import AnyDraft
from pcg.errors import AssetError, InputError, PCGError, first_line
from pcg.files.checksums import check_checksums
from pcg.models.checkpoint import Checkpoint
from pcg.models.hub import codec_folder, is_from_hub, is_neutts, model_folder, model_name
from pcg.models.kernel.packing import lanes_here, words_here
from pcg.models.llama import DecodingLlama
from pcg.models.memory_check import check_memory, free_memory
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import count_weights, load_llama, read_checkpoint, read_tensors
from pcg.places import ASSETS
from pcg.synthesis.cloning import read_recording
from pcg.synthesis.drafts import choose_draft
from pcg.text import llasa, neutts
from pcg.text.llasa import OWN_VOICE, load_reader
from pcg.text.prompt import PhonemeReader, PromptReader, Reference

FORMAT = 2
DEVICES = ("cpu", "cuda")
AUTO, FLOAT32, BFLOAT16 = PRECISIONS = ("auto", "float32", "bfloat16")
EMBEDDED = ASSETS / "voice"
REFERENCE_SECONDS = (1.0, 10.0)
CHUNK_SECONDS = 9.6
"""A text that takes longer is said in pieces: the embedded voice learned from shorter ones."""
NO_BFLOAT16 = "bfloat16 takes CUDA or a CPU with AVX512-BF16 or AMX, and weights that are exact in it"
CODES = 65_536
"""Of X-codec2 and of NeuCodec."""


@dataclass(frozen=True)
class Voice:
    """Everything that speaks. `references` are the voices it knows by name; `usage [codes]` counts the corpus's codes; `folder`
    is where it was loaded from; `phones [codes]` numbers the phone of each code (`pcg.groups.phones`), where that is known.

    licence: of the weights, and so of what is made with them, as its SPDX identifier. reference_seconds: how long a recording
    may be whose voice is to be taken. notice: what whoever listens has to know beforehand, one sentence, or nothing.
    codec_folder: where the codec was loaded
    from, if not from `folder`. draft_kind: what drafts, as `pcg.synthesis.drafts.Draft.kind` names it.
    """

    name: str
    target: DecodingLlama
    draft: AnyDraft | None
    codec: Codec
    reader: PromptReader
    references: Mapping[str, Reference]
    usage: Tensor
    folder: Path
    licence: str = "Apache-2.0"
    reference_seconds: tuple[float, float] = REFERENCE_SECONDS
    notice: str = ""
    draft_kind: str = "trained"
    codec_folder: Path | None = None
    phones: Tensor | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        return self.target.vocabulary

    @property
    def device(self) -> str:
        return self.target.device.type

    @property
    def precision(self) -> str:
        """Of the target's matrix products: "float32" or "bfloat16"."""
        return self.target.precision

    @property
    def draft_speaks_alone(self) -> bool:
        """Whether the draft needs no other to speak: a feature draft reads its target, and lookup is no model."""
        return isinstance(self.draft, DecodingLlama)

    @property
    def target_folder(self) -> Path:
        """Where the target lies as a checkpoint of transformers."""
        return self.folder if is_from_hub(self.folder) else self.folder / "target"

    @property
    def code_embedding(self) -> Tensor:
        """The target's token embedding of every speech code, `[codes, D]` (PCG section 2.1)."""
        first = self.vocabulary.first_code
        return self.target.embedding[first : first + self.vocabulary.codes].float().cpu()

    def reference(self, name: str) -> Reference:
        if name not in self.references:
            raise InputError("voice", name, "one of " + ", ".join(self.references))
        return self.references[name]

    def reference_from_audio(self, path: Path, text: str, transcribe: Callable[[np.ndarray], str] | None = None) -> Reference:
        """A reference from a recording as long as `reference_seconds` allow and its transcript; see `read_recording`."""
        return read_recording(path, self.codec, self.reference_seconds, text, transcribe)


def auto_precision(device: str) -> str:
    """What "auto" stands for, where the weights are exact in it (`load_voice`)."""
    return BFLOAT16 if device == "cuda" or words_here(lanes_here(), []) is not None else FLOAT32


def load_voice(model: str = "embedded", device: str = "cpu", draft: str = "auto", precision: str = AUTO) -> Voice:
    """Load a voice: the shipped one ("embedded"), one in a folder, or a LLaSA or a NeuTTS in a folder or from the hub.

    model: see `pcg.models.hub`. device: "cpu" or "cuda". draft: see `drafts.choose_draft`. precision: of the products of target
    and draft, "float32", "bfloat16" or "auto": bfloat16 on CUDA, on a CPU that multiplies such numbers (AVX512-BF16), and where
    a model from the hub does not fit into memory in float32; float32 elsewhere. The same take has other tokens in another
    precision. Raises InputError or AssetError where something is missing, damaged or of another kind, and PCGError where memory
    or disk have no room for it.
    """
    if device not in DEVICES or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))
    if precision not in PRECISIONS:
        raise InputError("precision", precision, "one of " + ", ".join(PRECISIONS))
    folder = model_folder(model, EMBEDDED, device)
    check_checksums(folder)
    try:
        voice = (_load_from_hub if is_from_hub(folder) else _load_embedded)(folder, device, draft, precision)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise PCGError(f"Memory ran out on the {device} while {model} was loaded: choose a smaller model.") from error
    if precision not in (AUTO, voice.precision):
        raise InputError("precision", precision, f"auto or {voice.precision} ({NO_BFLOAT16})")
    return voice


def _load_embedded(folder: Path, device: str, draft: str, precision: str) -> Voice:
    card = _card(folder / "voice.json")
    try:
        reader = PhonemeReader(tuple(card["symbols"]), tuple(card["durations"]))
        references = {name: Reference(r["text"], torch.tensor(r["codes"])) for name, r in card["voices"].items()}
        if len(reader.symbols) != len(reader.durations) or not references:
            raise ValueError("symbols, durations and voices do not fit together")
    except (KeyError, TypeError, ValueError) as error:
        raise AssetError(f"The voice file {folder / 'voice.json'} is damaged ({error}).") from error
    codec = _read_codec(folder / "codec").to(device)
    reader = replace(reader, chunk_tokens=round(CHUNK_SECONDS * codec.sample_rate / codec.hop))
    vocabulary = Vocabulary(codec.codebook_size, reader.first_code, reader.end)
    dtype = torch.bfloat16 if device == "cuda" and precision != FLOAT32 else torch.float32
    model = read_checkpoint(folder / "target", vocabulary, dtype).to(device)
    chosen = choose_draft(draft, model, vocabulary, folder / "draft", precision != FLOAT32)
    counted = read_tensors(folder / "usage.safetensors")
    return Voice(
        name=str(card["name"]),
        target=DecodingLlama(model, vocabulary, rounded=precision != FLOAT32),
        draft=chosen.model,
        codec=codec,
        reader=reader,
        references=references,
        usage=counted["usage"],
        phones=counted.get("phones"),
        folder=folder,
        notice=chosen.notice,
        draft_kind=chosen.kind,
    )


def _load_from_hub(folder: Path, device: str, draft: str, precision: str) -> Voice:
    """The language model before the codec, because it is held twice while its weights are fused."""
    from pcg.codec.neucodec import load_neucodec  # transformers' codecs take a second to import
    from pcg.codec.xcodec2 import load_xcodec2

    name, codec_at = model_name(folder), codec_folder(folder, device)
    if is_neutts(folder):
        reader, load, licence = neutts.load_reader(folder, CODES), load_neucodec, neutts.licence_of(folder)
        reference_seconds = neutts.REFERENCE_SECONDS
    else:
        reader, load, licence = load_reader(folder, CODES), load_xcodec2, llasa.LICENCE
        reference_seconds = llasa.REFERENCE_SECONDS
    vocabulary = Vocabulary(CODES, reader.first_code, reader.end)
    model = Checkpoint.of(load_llama(folder, vocabulary, _weights_type(name, folder, device, precision)).to(device))
    chosen = choose_draft(draft, model, vocabulary, folder / "draft", precision != FLOAT32)
    target = DecodingLlama(model, vocabulary, rounded=precision != FLOAT32)
    del model
    codec = load(codec_at, device)
    if codec.codebook_size != vocabulary.codes:
        raise AssetError(f"The codec in {codec_at} has {codec.codebook_size:,} codes, but {name} speaks {CODES:,}.")
    return Voice(
        name=name,
        target=target,
        draft=chosen.model,
        codec=codec,
        reader=reader,
        references={OWN_VOICE: Reference("", torch.empty(0, dtype=torch.int64))},
        usage=torch.ones(vocabulary.codes, dtype=torch.int32),
        folder=folder,
        licence=licence,
        reference_seconds=reference_seconds,
        notice=chosen.notice,
        draft_kind=chosen.kind,
        codec_folder=None if codec_at.is_relative_to(folder) else codec_at,
    )


def _weights_type(name: str, folder: Path, device: str, precision: str) -> torch.dtype:
    """The type that the weights of a model from the hub are held in, if they fit twice: as they were loaded, and fused."""
    weights = count_weights(folder)
    if precision != FLOAT32 and device == "cpu" and 2 * torch.float32.itemsize * weights <= free_memory("cpu"):
        return torch.float32  # from which the kernel rounds, where it can
    kind = torch.float32 if precision == FLOAT32 else torch.bfloat16
    for each in {"cpu", device}:
        check_memory(name, 2 * kind.itemsize * weights, each)
    return kind


def load_codec(folder: Path) -> EmbeddedCodec:
    """The embedded codec in `folder`; raises AssetError where it is missing or damaged."""
    check_checksums(folder)
    return _read_codec(folder)


def _read_codec(folder: Path) -> EmbeddedCodec:
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        codec = EmbeddedCodec(CodecConfig(**{**values, "levels": tuple(values["levels"])}))
        tensors = read_tensors(folder / "model.safetensors")
        codec.load_state_dict({k: t.float() for k, t in tensors.items()})
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise AssetError(f"The codec in {folder} is missing or damaged ({first_line(error)}).") from error
    return codec.eval()


def _card(path: Path) -> dict[str, object]:
    if not path.is_file():
        raise AssetError(f"The voice file {path} is missing.")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        version = card["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"The voice file {path} is damaged ({first_line(error)}).") from error
    if version != FORMAT:
        raise AssetError(f"The voice file {path} has format {version!r}, but this version reads format {FORMAT}.")
    return card
