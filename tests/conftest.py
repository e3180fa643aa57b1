"""A whole voice and a recogniser with random weights, small enough for every test, in the real formats on disk."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
import torch
from filelock import FileLock
from torch import Tensor

if TYPE_CHECKING:
    from pcg.asr.embedded import Recogniser
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import Voice

TEMPORARY = TemporaryDirectory(prefix="gradio-")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
# Files are named by their content, and a page that closes removes its own: two processes with one folder would lose theirs.
os.environ["GRADIO_TEMP_DIR"] = TEMPORARY.name

SENTENCES = (
    "the quick brown fox jumps over a lazy dog",
    "don't the boats move slowly along the river",
    "a warm bright morning sun",
)


def built_once(tmp_path_factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """The folder `name` that `build` fills, once for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            unfinished.mkdir()
            build(unfinished)
            unfinished.rename(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_voice_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A voice of 64 codes that babbles: everything works as in the shipped one, in milliseconds."""
    from pcg.codec.embedded import CodecConfig, EmbeddedCodec
    from pcg.models.weights import Vocabulary, layer_subset
    from pcg.text.prompt import PhonemeReader, Reference
    from pcg.text.reading import phonemise
    from pcg.training.models import Shape, new_target, write_voice

    torch.manual_seed(0)
    config = CodecConfig(
        frames_per_token=4,
        levels=(4, 4, 4),
        encoder_width=16,
        encoder_depth=1,
        decoder_width=16,
        decoder_depth=1,
        wave_width=16,
        wave_depth=1,
    )
    codec = EmbeddedCodec(config).eval()
    symbols = tuple(sorted(set(phonemise("the quick brown fox jumps over a lazy dog. hello, is this one sentence? yes!"))))
    reader = PhonemeReader(symbols, tuple(1.5 for _ in symbols))
    vocabulary = Vocabulary(codec.codebook_size, reader.first_code, reader.end)
    target = new_target(vocabulary, Shape(layers=3, width=32, heads=2, feed_forward=48), seed=0)
    with torch.no_grad():
        # Far from the tiny initial weights, so that layers matter and the draft's law differs from the target's.
        for weight in target.parameters():
            weight.mul_(8.0 if weight.ndim == 2 else 1.0)
        draft = layer_subset(target, (0, 2))
        for weight in draft.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    references = {
        "one": Reference("hello", torch.randint(codec.codebook_size, (20,))),
        "two": Reference("yes", torch.randint(codec.codebook_size, (25,))),
    }
    usage = torch.ones(codec.codebook_size, dtype=torch.int32)
    usage[-3:] = 0
    folder = tmp_path_factory.mktemp("voice")
    write_voice(folder, "tiny", target, draft, codec, reader, references, usage)
    return folder


@pytest.fixture(scope="session")
def voice(tiny_voice_folder: Path) -> "Voice":
    """The voice of `tiny_voice_folder`."""
    from pcg.synthesis.voice import load_voice

    return load_voice(str(tiny_voice_folder))


@pytest.fixture(scope="session")
def synthesizer(voice: "Voice", tmp_path_factory: pytest.TempPathFactory) -> "Synthesizer":
    from pcg.synthesis.synthesizer import Synthesizer

    return Synthesizer(voice, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> "Synthesizer":
    """The voice in assets/."""
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    return Synthesizer(load_voice(), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def llasa_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LLaSA that babbles, with its codec, as its repository on the hub would hold them."""
    from tiny_llasa import save_tiny_llasa

    return built_once(tmp_path_factory, "llasa", save_tiny_llasa)


@pytest.fixture(scope="session")
def with_flat_map() -> Callable[["Synthesizer"], "Synthesizer"]:
    """Gives a synthesizer a map without UMAP, which would take half a minute to compile, and as long for many points."""

    def flatten(synthesizer: "Synthesizer") -> "Synthesizer":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pcg.groups.atlas._umap", lambda plane, *_: plane)
            synthesizer.library.atlas()
        return synthesizer

    return flatten


@pytest.fixture(scope="session")
def llasa(
    llasa_folder: Path, with_flat_map: Callable[["Synthesizer"], "Synthesizer"], tmp_path_factory: pytest.TempPathFactory
) -> "Synthesizer":
    """A synthesizer over `llasa_folder`."""
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    return with_flat_map(Synthesizer(load_voice(str(llasa_folder)), tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def neutts_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A NeuTTS Air that babbles, with its codec, as its repository on the hub would hold them."""
    from tiny_neutts import save_tiny_neutts

    return built_once(tmp_path_factory, "neutts", save_tiny_neutts)


@pytest.fixture(scope="session")
def neutts(neutts_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Synthesizer":
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    return Synthesizer(load_voice(str(neutts_folder)), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def recogniser_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recogniser with random weights: it spells nonsense, but everything works as in the shipped one."""
    from pcg.asr.embedded import save_recogniser
    from pcg.asr.network import EncoderConfig, Subwords
    from pcg.training.recogniser import ReaderShape, RecogniserRecipe, new_parts

    config = EncoderConfig(layers=2, width=16, heads=2, feed_forward=32, kernel=7)
    shape = ReaderShape(subwords=48, layers=2, width=32, heads=2, feed_forward=48)
    subwords = Subwords.learn(SENTENCES, shape.subwords)
    parts = new_parts(RecogniserRecipe(encoder=config, reader=shape), subwords, 0).eval()
    with torch.no_grad():
        # Far from the tiny initial weights, so that layers, frames and positions matter.
        for weight in parts["lm"].parameters():
            weight.mul_(8.0 if weight.ndim == 2 else 1.0)
        parts["encoder"].head.weight.mul_(8.0)
        parts["encoder"].head.bias.zero_()
    folder = tmp_path_factory.mktemp("recogniser")
    save_recogniser(folder, "tiny", *parts.values(), subwords, torch.float32)
    return folder


@pytest.fixture(scope="session")
def recogniser(recogniser_folder: Path) -> "Recogniser":
    from pcg.asr.embedded import load_recogniser

    return load_recogniser(recogniser_folder)


@pytest.fixture(scope="session")
def little_room() -> Callable[[], AbstractContextManager[None]]:
    """`with little_room():` no file can grow beyond 5,000 bytes, as on a disk that is full."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited() -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.fixture(scope="session")
def babble() -> Callable[[int, int], list[Tensor]]:
    """`babble(count, seed)`: utterances of 0.4 to 1.2 seconds, chirps whose pitch and loudness move."""

    def make(count: int, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        utterances = []
        for _ in range(count):
            seconds, low, bend = torch.rand(3, generator=generator).tolist()
            time = torch.arange(int((0.4 + 0.8 * seconds) * 16_000)) / 16_000
            tone = torch.sin(2 * torch.pi * (200 + 1500 * low) * time * (1 + bend * time))
            noise = torch.randn(len(time), generator=generator)
            utterances.append(0.2 * tone * (1.2 + torch.sin(25 * time)) + 0.02 * noise)
        return utterances

    return make
