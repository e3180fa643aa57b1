"""A Voice: target, draft, codec, reader and references, loaded from a folder or from the hub.

A voice by example is a recording's words and speech codes. The codes go before those that the model speaks, and are decoded
with them; the synthesizer cuts their samples from the sound, `hop` for each code.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os.path import isdir
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pcg.audio import load_audio, normalise_loudness, raised, trim
from pcg.codec.codec import Codec
from pcg.codec.embedded import CodecConfig, EmbeddedCodec
from pcg.decode.runners import AnyDraft
from pcg.errors import AssetError, InputError, PCGError, first_line
from pcg.files import check_checksums, write_safetensors
from pcg.models.feature_draft import FeatureDraft, is_feature_draft, read_feature_draft
from pcg.models.hub import (
    check_memory,
    codec_folder,
    content_digest,
    free_memory,
    is_from_hub,
    is_neutts,
    model_folder,
    model_name,
)
from pcg.models.kernel.packing import lanes_here, words_here
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary, check_device, count_weights, load_llama, read_checkpoint, read_tensors
from pcg.places import ASSETS
from pcg.text import llasa, neutts
from pcg.text.llasa import OWN_VOICE, load_reader
from pcg.text.prompt import PhonemeReader, PromptReader, Reference
from pcg.text.reading import check_text, without_pauses

LONGEST_FILE_SECONDS = 60.0
FRAME_SECONDS = 0.02
PAUSE_SECONDS = 0.2
PAUSE_LEVEL = 0.1


def read_recording(
    path: Path,
    codec: Codec,
    seconds: tuple[float, float],
    transcript: str,
    transcribe: Callable[[np.ndarray], str] | None = None,
) -> Reference:
    """Read the first minute of a recording in any format that `load_audio` knows: mono, at the codec's rate, without silence
    around it, as loud as every reference, as codes.

    seconds: the least and the most that may be left. A longer recording is refused if it comes with its `transcript`, which
    would not fit a part of it; without, it is cut at its last pause. transcribe: `[N]` samples at the codec's rate -> the
    words, asked where `transcript` is blank; None without a recogniser. Raises PCGError.
    """
    known = without_pauses(check_text(transcript, "transcript")).strip() if transcript.strip() else ""
    if not known and transcribe is None:
        raise InputError("transcript", transcript, "the words in the recording")
    rate, (low, high) = codec.sample_rate, seconds
    speech = trim(raised(load_audio(path, rate, LONGEST_FILE_SECONDS), rate), rate)
    if not known and len(speech) > high * rate:
        speech = trim(speech[: last_pause(speech, rate, low, high)], rate)
    length = len(speech) / rate
    if not low <= length <= high:
        hint = " (a longer one is cut if its words are left blank)" if length > high and transcribe else ""
        raise InputError("recording", f"{length:.1f} seconds of speech", f"{low:g} to {high:g} seconds of speech{hint}")
    speech = normalise_loudness(speech).astype(np.float32)
    if not known:
        known = transcribe(speech)
        if not known.strip():
            raise PCGError("No word was understood in the recording: type its words.")
    return Reference(check_text(known), codec.encode(torch.from_numpy(speech)))


def last_pause(speech: np.ndarray, sample_rate: int, low: float, high: float) -> int:
    """Return the sample at which to cut `speech [N]`: amid its last pause between `low` and `high` seconds (N is no less).

    A pause is a fifth of a second 20 dB below the whole; where there is none, the quietest fifth of a second of the later half.
    """
    frame = int(FRAME_SECONDS * sample_rate)
    power = np.square(speech[: len(speech) // frame * frame], dtype=np.float64).reshape(-1, frame).mean(axis=1)
    width = round(PAUSE_SECONDS / FRAME_SECONDS)
    # Number i is the power from frame i on, as long as a pause: all of it has to lie within the span.
    smooth = np.convolve(power, np.full(width, 1 / width), mode="valid")
    first, end = round(low / FRAME_SECONDS), int(high / FRAME_SECONDS) - width + 1
    pauses = np.flatnonzero(smooth[first:end] < PAUSE_LEVEL**2 * power.mean()) + first
    middle = max(first, end // 2)
    start = int(pauses[-1]) if len(pauses) else middle + int(np.argmin(smooth[middle:end]))
    return (start + width // 2) * frame


AUTO, TRAINED, NONE = "auto", "trained", "none"
LAYERS, FOLDER = "layers:", "folder:"
LONGEST_SHOWN = 60
NO_DRAFT = "No draft is loaded, so only AR can speak."


@dataclass(frozen=True)
class Draft:
    """Who drafts.

    kind: its name wherever it is noted, and never a path: "trained" (the one that belongs to the voice), "layers:0,1,27" (of
    the target, untrained), "none", or "folder:" and the start of the SHA-256 of another trained one. model: None
    where nothing drafts, so that only AR can speak. notice: what a listener has to know, one sentence, or "".
    """

    kind: str
    model: DecodingLlama | FeatureDraft | None
    notice: str


def choose_draft(
    choice: str, target: Checkpoint, vocabulary: Vocabulary, folder: Path | None, rounded: bool = False, int8: bool = False
) -> Draft:
    """Return the draft that `choice` asks for, on the device and in the type of `target`. rounded, int8: see `DecodingLlama`.

    choice: "auto" (the trained draft in `folder` if that is there, else three layers of the target), "layers:0,1,27", "none",
    or a folder that holds a trained draft. Raises InputError for anything else
    and for a draft of other ids or of another shape than the target's, AssetError for a damaged one.
    """
    if choice == NONE:
        return Draft(NONE, None, NO_DRAFT)
    products = {"rounded": rounded, "int8": int8}
    origin = find_draft(choice, target.layers, folder)
    if not isinstance(origin, Path):
        kind, numbers = LAYERS + ",".join(map(str, origin)), ", ".join(map(str, origin))
        notice = f"The draft is untrained (of the target's layers: {numbers}), so few of its tokens pass: train one for speed."
        return Draft(kind, DecodingLlama(target.subset(origin), vocabulary, **products), notice)
    kind = TRAINED if origin == folder else FOLDER + _digest(origin)
    if kind.startswith(FOLDER):  # the voice's own came with it
        check_checksums(origin)
    if is_feature_draft(origin):
        return Draft(kind, read_feature_draft(origin, target, vocabulary, rounded), "")
    draft = read_checkpoint(origin, vocabulary, target.embedding.dtype)
    known, wanted = len(draft.embedding), len(target.embedding)
    if known != wanted:
        raise InputError("draft", f"a model of {known} ids", f"one of {wanted}, as the target")
    return Draft(kind, DecodingLlama(draft.to(target.embedding.device), vocabulary, **products), "")


def find_draft(choice: str, depth: int, folder: Path | None) -> Path | tuple[int, ...]:
    """Find the model of a draft, chosen as by `choose_draft`: a folder, or layers of a target of `depth`."""
    if choice == AUTO and folder is not None and folder.is_dir():
        return folder
    if choice == AUTO:
        return untrained_layers(depth)
    if choice.startswith(LAYERS):
        numbers = choice.removeprefix(LAYERS)
        # Longer numbers than any depth could ever have would not even be read.
        layers = [int(n) for n in numbers.split(",")] if re.fullmatch("[0-9]{1,4}(,[0-9]{1,4})*", numbers) else []
        if not layers or sorted(set(layers)) != layers or layers[-1] >= depth:
            allowed = f"{LAYERS} and numbers from 0 to {depth - 1}, rising, with commas between them"
            raise InputError("draft", choice[:LONGEST_SHOWN], allowed)
        return tuple(layers)
    if not isdir(choice):  # which, unlike Path's, accepts a name of any length
        allowed = f"{AUTO}, {NONE}, some of the target's layers as in {LAYERS}0,{depth - 1}, or a folder that holds a draft"
        raise InputError("draft", choice[:LONGEST_SHOWN], allowed)
    return Path(choice)


def untrained_layers(depth: int) -> tuple[int, ...]:
    """Return the layers of a target of `depth` layers that draft untrained: the first two, or fewer, and the last."""
    return (*range(min(2, depth - 2)), depth - 1)


def _digest(folder: Path) -> str:
    """Return the start of the SHA-256 of what a draft is read from, wherever it lies."""
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("config.json"), *folder.glob("*.safetensors")]):
        try:
            digest.update(f"{file.name} {content_digest(file)}\n".encode())
        except OSError as error:
            raise AssetError(f"The draft's file {file} cannot be read ({error.strerror}).") from error
    return digest.hexdigest()[:16]


FORMAT = 2
REFERENCE_SUFFIX = ".safetensors"
FLOAT32, BFLOAT16, INT8 = "float32", "bfloat16", "int8"
PRECISIONS = (AUTO, FLOAT32, BFLOAT16, INT8)
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
    is where it was loaded from.

    licence: of the weights, and so of what is made with them, as its SPDX identifier. reference_seconds: how long a recording
    may be whose voice is to be taken. notice: what a listener has to know beforehand, one sentence, or nothing. codec_folder:
    where the codec was loaded from, if not from `folder`. draft_kind: what drafts, as `Draft.kind` names it.
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

    @property
    def vocabulary(self) -> Vocabulary:
        return self.target.vocabulary

    @property
    def device(self) -> str:
        return self.target.device.type

    @property
    def precision(self) -> str:
        """Of the target's matrix products: "float32", "bfloat16", or "int8" where its weights have 8 bits."""
        return self.target.precision

    @property
    def draft_speaks_alone(self) -> bool:
        """Whether the draft needs no other to speak: a feature draft reads its target."""
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

    def reference_from_audio(
        self, path: Path | str, text: str, transcribe: Callable[[np.ndarray], str] | None = None
    ) -> Reference:
        """Return a reference from a recording (see `read_recording`), or from what `write_reference` wrote."""
        path = Path(path)
        if path.suffix == REFERENCE_SUFFIX:
            return self.read_reference(path)
        return read_recording(path, self.codec, self.reference_seconds, text, transcribe)

    def write_reference(self, path: Path, reference: Reference) -> None:
        """Write a reference as safetensors: its codes, and its text and the name of this voice as metadata."""
        write_safetensors(path, {"codes": reference.codes}, {"text": reference.text, "model": self.name})

    def read_reference(self, path: Path) -> Reference:
        """Read what `write_reference` wrote; raise PCGError for any other file, and for one of another model."""
        try:
            with safe_open(path, "pt") as file:
                codes, notes = file.get_tensor("codes"), file.metadata() or {}
            text, model = check_text(notes["text"]), notes["model"]
            if codes.ndim != 1 or codes.dtype != torch.int64 or not len(codes):
                raise ValueError("no row of codes")
            if int(codes.min()) < 0 or int(codes.max()) >= self.codec.codebook_size:
                raise ValueError("codes of another codec")
        except (OSError, SafetensorError, KeyError, ValueError, InputError) as error:
            raise InputError("voice file", path.name, "one that `pcg export-voice` wrote") from error
        if model != self.name:
            raise InputError("voice file", path.name, f"one of the model {self.name}, and not of {model[:LONGEST_SHOWN]}")
        return Reference(text, codes)


def auto_precision(device: str) -> str:
    """Return what "auto" stands for, where the weights are exact in it (`load_voice`)."""
    return BFLOAT16 if device == "cuda" or words_here(lanes_here(), []) is not None else FLOAT32


def load_voice(model: str = "embedded", device: str = "cpu", draft: str = "auto", precision: str = AUTO) -> Voice:
    """Load a voice: the shipped one ("embedded"), one in a folder, or a LLaSA or a NeuTTS in a folder or from the hub.

    model: see `pcg.models.hub`. device: "cpu" or "cuda". draft: see `choose_draft`. precision: of the products of target
    and draft, "float32", "bfloat16", "int8" (bfloat16, and weights of 8 bits), or "auto": bfloat16 on CUDA, on a CPU that
    multiplies such numbers (AVX512-BF16), and where a model from the hub does not fit into memory in float32; else float32.
    The same take has other tokens in another precision. Raises InputError or AssetError where something is missing, damaged or
    of another kind, and PCGError where memory or disk have no room for it, or torchao is missing for 8 bits.
    """
    check_device(device)
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
    path = folder / "voice.json"
    if not path.is_file():
        raise AssetError(f"The voice file {path} is missing.")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        if card["format"] != FORMAT:
            raise AssetError(f"The voice file {path} has format {card['format']!r}, but this version reads format {FORMAT}.")
        reader = PhonemeReader(tuple(card["symbols"]), tuple(card["durations"]))
        references = {name: Reference(r["text"], torch.tensor(r["codes"])) for name, r in card["voices"].items()}
        if len(reader.symbols) != len(reader.durations) or not references:
            raise ValueError("symbols, durations and voices do not fit together")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise AssetError(f"The voice file {path} is damaged ({first_line(error)}).") from error
    codec = load_codec(folder / "codec").to(device)
    reader = replace(reader, chunk_tokens=round(CHUNK_SECONDS * codec.sample_rate / codec.hop))
    vocabulary = Vocabulary(codec.codebook_size, reader.first_code, reader.end)
    dtype = torch.bfloat16 if precision == INT8 or (device == "cuda" and precision != FLOAT32) else torch.float32
    products = {"rounded": precision in (AUTO, BFLOAT16), "int8": precision == INT8}
    model = read_checkpoint(folder / "target", vocabulary, dtype).to(device)
    chosen = choose_draft(draft, model, vocabulary, folder / "draft", **products)
    counted = read_tensors(folder / "usage.safetensors")
    return Voice(
        name=str(card["name"]),
        target=DecodingLlama(model, vocabulary, **products),
        draft=chosen.model,
        codec=codec,
        reader=reader,
        references=references,
        usage=counted["usage"],
        folder=folder,
        notice=chosen.notice,
        draft_kind=chosen.kind,
    )


def _load_from_hub(folder: Path, device: str, draft: str, precision: str) -> Voice:
    """Load the language model before the codec, because it is held twice while its weights are fused."""
    from pcg.codec.hub import load_neucodec, load_xcodec2  # transformers' codecs take a second to import

    name, codec_at = model_name(folder), codec_folder(folder, device)
    if is_neutts(folder):
        reader, load, licence = neutts.load_reader(folder, CODES), load_neucodec, neutts.licence_of(folder)
        reference_seconds = neutts.REFERENCE_SECONDS
    else:
        reader, load, licence = load_reader(folder, CODES), load_xcodec2, llasa.LICENCE
        reference_seconds = llasa.REFERENCE_SECONDS
    vocabulary = Vocabulary(CODES, reader.first_code, reader.end)
    products = {"rounded": precision in (AUTO, BFLOAT16), "int8": precision == INT8}
    model = Checkpoint.of(load_llama(folder, vocabulary, _weights_type(name, folder, device, precision)).to(device))
    chosen = choose_draft(draft, model, vocabulary, folder / "draft", **products)
    target = DecodingLlama(model, vocabulary, **products)
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
    """Return the type of the weights of a model from the hub, if they fit twice: as they were loaded, and fused."""
    weights = count_weights(folder)
    if precision in (AUTO, BFLOAT16) and device == "cpu" and 2 * torch.float32.itemsize * weights <= free_memory("cpu"):
        return torch.float32  # from which the kernel rounds, where it can
    kind = torch.float32 if precision == FLOAT32 else torch.bfloat16
    for each in {"cpu", device}:
        check_memory(name, 2 * kind.itemsize * weights, each)
    return kind


def load_codec(folder: Path) -> EmbeddedCodec:
    """Load the embedded codec in `folder`; raises AssetError where it is missing or damaged."""
    check_checksums(folder)
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        codec = EmbeddedCodec(CodecConfig(**{**values, "levels": tuple(values["levels"])}))
        tensors = read_tensors(folder / "model.safetensors")
        codec.load_state_dict({k: t.float() for k, t in tensors.items()})
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise AssetError(f"The codec in {folder} is missing or damaged ({first_line(error)}).") from error
    return codec.eval()


def open_codec(source: str, device: str) -> Codec:
    """Load the shipped voice's codec ("embedded"), or one of our kind, X-codec2 or NeuCodec from a folder or from the hub."""
    from transformers import PretrainedConfig

    from pcg.codec.hub import load_neucodec, load_xcodec2

    folder = EMBEDDED / "codec" if source == "embedded" else Path(source)
    try:
        config = PretrainedConfig.get_config_dict(str(folder))[0]
    except (OSError, ValueError):
        config = {}
    kind, loaders = config.get("model_type"), {"xcodec2": load_xcodec2, "neucodec": load_neucodec}
    if kind is None and "levels" in config:
        return load_codec(folder).to(device)
    if kind not in loaders:
        raise InputError("codec", source, "'embedded', or a folder or a name on the hub of xcodec2 or neucodec")
    return loaders[kind](source, device)
