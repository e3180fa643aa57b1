"""A whole voice with random weights, small enough for every test, in the real format on disk."""

import os
from pathlib import Path

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")


@pytest.fixture(scope="session")
def tiny_voice_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A voice of 64 codes that babbles: everything works as in the shipped one, in milliseconds."""
    from pcg.codec.embedded import CodecConfig, EmbeddedCodec
    from pcg.prompt import PhonemeReader, Reference
    from pcg.text import phonemise
    from pcg.training.draft import layer_subset
    from pcg.training.publish import write_voice
    from pcg.training.target import Shape, new_target
    from pcg.vocabulary import Vocabulary

    torch.manual_seed(0)
    config = CodecConfig(
        levels=(4, 4, 4), encoder_width=16, encoder_depth=1, decoder_width=16, decoder_depth=1, wave_width=16, wave_depth=1
    )
    codec = EmbeddedCodec(config).eval()
    symbols = tuple(sorted(set(phonemise("the quick brown fox jumps over a lazy dog. hello, is this one sentence? yes!"))))
    reader = PhonemeReader(symbols, tuple(1.5 for _ in symbols))
    vocabulary = Vocabulary(codec.codebook_size, reader.first_code, reader.end)
    target = new_target(reader, vocabulary, Shape(layers=3, width=32, heads=2, feed_forward=48), seed=0)
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
