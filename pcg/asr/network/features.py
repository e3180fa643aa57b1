"""Log-mel features of speech at 16 kHz: 80 bands, a frame every 10 ms, each band at zero mean and unit spread."""

import torch
from torch import Tensor, nn

SAMPLE_RATE = 16_000
HOP = 160
BANDS = 80
_WINDOW, _FFT = 400, 512
_FLOOR = 1e-6
# A band that a narrow channel left empty must not be blown up to the spread of speech.
_LEAST_SPREAD = 0.5


class LogMel(nn.Module):
    """Samples -> normalised log-mel frames. It has no weights, so nothing of it is saved."""

    def __init__(self) -> None:
        super().__init__()
        import librosa  # seconds to load, and most who load a voice hear nothing with it

        bank = librosa.filters.mel(sr=SAMPLE_RATE, n_fft=_FFT, n_mels=BANDS, fmin=20.0, fmax=7600.0)
        self.register_buffer("bank", torch.from_numpy(bank).T.contiguous(), persistent=False)
        self.register_buffer("window", torch.hann_window(_WINDOW), persistent=False)

    def forward(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """samples `[B, N]`, zero behind the `lengths [B]` that count -> frames `[B, T, 80]`, zero behind their counts `[B]`.

        Padding does not change a row's frames.
        """
        with torch.autocast(samples.device.type, enabled=False):
            spectrum = torch.stft(
                samples.float(), _FFT, HOP, _WINDOW, self.window, center=True, pad_mode="constant", return_complex=True
            )
            power = torch.view_as_real(spectrum).square().sum(-1).transpose(1, 2)
            mels = (power @ self.bank).clamp_min(_FLOOR).log()
            counts = lengths // HOP + 1
            real = (torch.arange(mels.shape[1], device=mels.device) < counts[:, None])[..., None]
            mean = (mels * real).sum(1, keepdim=True) / counts[:, None, None]
            centred = (mels - mean) * real
            spread = (centred.square().sum(1, keepdim=True) / counts[:, None, None]).sqrt()
            return centred / (spread + _LEAST_SPREAD), counts
