"""DNSMOS: a predicted opinion score of the sound."""

from collections.abc import Sequence

import numpy as np

from pcg.metrics.recording import JUDGE_RATE, Sample, for_judges

WORST_MOS = 1.0


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

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        return [self.score(sample.samples, sample.sample_rate) for sample in batch]

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
