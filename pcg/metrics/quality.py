"""Sound as judges hear it, and judges of sound: DNSMOS and DistillMOS, predicted opinion scores, and the cosine of speaker
embeddings.

By Resemblyzer two utterances of one voice have about .92, a male and a female voice about .62.
"""

import sys
import warnings
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from types import ModuleType

import numpy as np

from pcg.errors import InputError, PCGError

JUDGE_RATE = 16_000
RATES = (4_000, 384_000)
WORST_MOS = 1.0


def for_judges(samples: np.ndarray, sample_rate: int, wanted_rate: int = JUDGE_RATE) -> np.ndarray:
    """Resample `samples [N]`, floats, to float32 `[M]` at `wanted_rate`, clipped to -1..1 as a player would. Raises InputError
    if it is no audio of one channel."""
    if not RATES[0] <= sample_rate <= RATES[1]:
        raise InputError("sample rate", sample_rate, f"{RATES[0]} to {RATES[1]} Hz")
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        raise InputError("audio", f"{samples.dtype} of shape {samples.shape}", "one channel of samples, as floats")
    if not np.isfinite(samples).all():
        raise InputError("audio", f"{int((~np.isfinite(samples)).sum())} samples that are no finite numbers", "finite samples")
    speech = samples.astype(np.float32)
    if sample_rate != wanted_rate and len(speech):
        import librosa

        speech = librosa.resample(speech, orig_sr=sample_rate, target_sr=wanted_rate)
    return np.clip(speech, -1.0, 1.0)


class DNSMOS:
    """DNSMOS P.835, overall quality from 1 to 5. It punishes noise and does not punish a robotic voice."""

    SEGMENT = int(9.01 * JUDGE_RATE)
    CALIBRATION = (-0.06766283, 1.11546468, 0.04602535)

    def __init__(self) -> None:
        from importlib.metadata import version
        from importlib.resources import files

        import onnxruntime

        self.name = f"DNSMOS P.835 overall (speechmos {version('speechmos')})"
        options = onnxruntime.SessionOptions()
        # Idle worker threads spin for a while and would slow down the next timing.
        options.intra_op_num_threads = 1
        model = str(files("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx")
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        """Return the mean over windows of nine seconds, a second apart; a short utterance is repeated to fill them.

        The number is that of the package's own `run`, without its second model. Silence gets the bottom of the scale.
        """
        heard = for_judges(samples, sample_rate)
        if not np.any(heard):
            return WORST_MOS
        while len(heard) < self.SEGMENT:
            heard = np.tile(heard, 2)
        count = max(1, len(heard) // JUDGE_RATE - 9)
        windows = [heard[i * JUDGE_RATE : i * JUDGE_RATE + self.SEGMENT] for i in range(count)]
        raw = [self._session.run(None, {"input_1": window[None]})[0][0][2] for window in windows]
        return float(np.mean(np.polyval(self.CALIBRATION, np.array(raw, dtype=float))))


class DistillMOS:
    """DistillMOS (Stahl and Gamper, arXiv 2502.05356), from 1 to 5: it also hears what is robotic. Optional."""

    def __init__(self) -> None:
        from importlib.metadata import version

        # It imports torchaudio, of which not every torch has a build, to read files; and prints where its weights lie.
        missing = [name for name in ("torchaudio", "torchaudio.transforms") if name not in sys.modules]
        sys.modules.update({name: ModuleType(name) for name in missing})
        sys.modules["torchaudio.transforms"].MFCC = getattr(sys.modules["torchaudio.transforms"], "MFCC", None)
        with redirect_stdout(StringIO()):
            from distillmos import ConvTransformerSQAModel

            self._model = ConvTransformerSQAModel().eval()
        for name in missing:  # transformers would ask which torchaudio this is
            del sys.modules[name]
        self.name = f"DistillMOS (distillmos {version('distillmos')})"

    @staticmethod
    def is_here() -> bool:
        """Tell whether its packages are installed: `pip install --no-deps distillmos==0.9.1 xls-r-sqa==0.1.0`."""
        return bool(find_spec("distillmos") and find_spec("xls_r_sqa"))

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        import torch

        heard = for_judges(samples, sample_rate)
        if not np.any(heard):
            return WORST_MOS
        with torch.inference_mode():
            return float(self._model(torch.from_numpy(heard)[None]))


class Resemblyzer:
    """The GE2E speaker encoder, with the weights from inside the package, on the CPU."""

    def __init__(self) -> None:
        from importlib.metadata import version

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from resemblyzer import VoiceEncoder
        except ImportError as error:
            raise PCGError("Speakers cannot be compared: pip install --no-deps resemblyzer==0.1.4 first.") from error

        self.name = f"resemblyzer {version('resemblyzer')} (GE2E)"
        self._encoder = VoiceEncoder("cpu", verbose=False)

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Return a unit vector `[256]`, or zeros where no voice is found."""
        from resemblyzer import preprocess_wav

        heard = for_judges(samples, sample_rate)
        voiced = preprocess_wav(heard, JUDGE_RATE) if np.any(heard) else heard[:0]
        return self._encoder.embed_utterance(voiced) if len(voiced) else np.zeros(256, np.float32)


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Return the cosine of two embeddings as `Resemblyzer.embed` returns them."""
    return float(np.dot(left, right))
