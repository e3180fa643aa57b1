"""How clean is the sound? A predicted opinion score, and plain measurements of what goes wrong in synthetic audio."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcg.metrics.metric import Sample
from pcg.metrics.recording import JUDGE_RATE, for_judges

FULL_SCALE = 0.999
QUIET = 0.012
WORST_MOS = 1.0
CLICK_RATIO, CLICK_FLOOR = 4.0, 0.05
CLICK_NEAR_SECONDS, CLICK_FAR_SECONDS = 0.001, 0.015


class DNSMOS:
    """DNSMOS P.835, overall quality from 1 to 5. It punishes noise and does not punish a robotic voice."""

    key = "dnsmos"
    higher_is_better = True
    SEGMENT = int(9.01 * JUDGE_RATE)
    CALIBRATION = (-0.06766283, 1.11546468, 0.04602535)

    def __init__(self) -> None:
        from importlib.metadata import version
        from importlib.resources import files

        import onnxruntime

        self.name = f"DNSMOS P.835 overall (speechmos {version('speechmos')})"
        options = onnxruntime.SessionOptions()
        # Idle worker threads spin for a while, and would slow down whatever is timed next.
        options.intra_op_num_threads = 1
        model = str(files("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx")
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        return [self.score(sample.samples, sample.sample_rate) for sample in batch]

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        """The mean over windows of nine seconds, a second apart; a short utterance is repeated to fill them.

        The same number as the package's own `run` gives, without the second model that it runs beside. Silence from end to
        end, which no model was trained on, gets the bottom of the scale.
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


@dataclass(frozen=True)
class QualitySound:
    """Measurements of one utterance: seconds in all and of silence at either end, share of clipped samples, clicks."""

    seconds: float
    leading_silence: float
    trailing_silence: float
    clipped: float
    clicks: int


def measure(samples: np.ndarray, sample_rate: int) -> QualitySound:
    leading, trailing = silence(samples, sample_rate)
    return QualitySound(len(samples) / sample_rate, leading, trailing, clipped_share(samples), clicks(samples, sample_rate))


def clipped_share(samples: np.ndarray) -> float:
    """Share of samples at full scale."""
    return float(np.mean(np.abs(samples) >= FULL_SCALE)) if len(samples) else 0.0


def silence(samples: np.ndarray, sample_rate: int) -> tuple[float, float]:
    """Seconds before the first and after the last sample that is not quiet; an utterance that is all quiet is all leading."""
    loud = np.flatnonzero(np.abs(samples) > QUIET)
    if not len(loud):
        return len(samples) / sample_rate, 0.0
    return float(loud[0] / sample_rate), float((len(samples) - 1 - loud[-1]) / sample_rate)


def clicks(samples: np.ndarray, sample_rate: int) -> int:
    """Count single jumps: places where the second difference stands out from its own neighbourhood.

    It must be CLICK_FLOOR of full scale and CLICK_RATIO times the largest within 15 ms on either side, less the nearest
    1 ms. A glottal pulse has its like one period away and a burst goes on as noise, so speech rarely counts; of two clicks
    within 15 ms none may count. A start or an end away from zero is a jump too. Chosen on free synthesizers' recordings,
    where three voices of four have none.
    """
    from scipy.ndimage import maximum_filter1d

    bend = np.abs(np.diff(np.pad(samples.astype(np.float64), 2), 2))
    near, far = int(CLICK_NEAR_SECONDS * sample_rate), int(CLICK_FAR_SECONDS * sample_rate)
    width = (far - near) | 1
    shift = near + width // 2 + 1
    largest = maximum_filter1d(np.pad(bend, shift), width, mode="constant")
    level = np.maximum(largest[: len(bend)], largest[2 * shift :])
    jumps = np.flatnonzero((bend >= CLICK_FLOOR) & (bend >= CLICK_RATIO * level))
    return int(np.sum(np.diff(jumps, prepend=-shift) > near))
