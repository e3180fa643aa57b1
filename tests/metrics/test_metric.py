"""Judges of sound and of speakers."""

import sys

import numpy as np
import pytest

from pcg.metrics.quality import DNSMOS, WORST_MOS, DistillMOS, Resemblyzer, cosine

RATE = 16_000


def test_the_offline_judges_have_names_and_numbers() -> None:
    quality, ear = DNSMOS(), Resemblyzer()
    assert all(part in judge.name for judge, part in ((quality, "speechmos 0"), (ear, "resemblyzer 0")))
    noise = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    assert quality.score(np.zeros(RATE, np.float32), RATE) == WORST_MOS
    assert quality.score(noise, RATE) > 0
    voice = ear.embed(noise, RATE)
    assert np.linalg.norm(voice) == pytest.approx(1.0, abs=1e-5)
    for length in (0, 10, RATE):  # silence resembles nobody
        silent = ear.embed(np.zeros(length, np.float32), RATE)
        assert silent.shape == voice.shape
        assert cosine(voice, silent) == 0.0


@pytest.mark.slow
def test_mos_is_the_figure_of_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from speechmos import dnsmos

    # The package's second model needs features that take seconds to compile, and the overall score does not need it.
    monkeypatch.setattr(dnsmos.DNSMOS, "audio_melspec", lambda self, audio: np.zeros((900, 120)))
    samples = np.sin(np.arange(200_000) / 12).astype(np.float32) * np.random.default_rng(0).uniform(0.1, 0.5, 200_000)
    samples = samples.astype(np.float32)
    assert DNSMOS().score(samples, RATE) == pytest.approx(float(dnsmos.run(samples, RATE)["ovrl_mos"]), abs=1e-4)
    assert DNSMOS().score(np.zeros(0, np.float32), RATE) == WORST_MOS


@pytest.fixture
def distilled(tmp_path, monkeypatch):
    """The optional packages, with a network that answers with the loudness."""
    (tmp_path / "xls_r_sqa.py").touch()
    (tmp_path / "distillmos.py").write_text(
        "import torch\nfrom torchaudio.transforms import MFCC\n\n\n"
        "class ConvTransformerSQAModel(torch.nn.Module):\n"
        "    def forward(self, x):\n        return 10 * x.abs().mean(-1, keepdim=True)\n\n\nprint('weights lie here')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0")
    for name in ("distillmos", "xls_r_sqa", "torchaudio", "torchaudio.transforms"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_distillmos_is_asked_where_it_is_installed(distilled: None, capsys: pytest.CaptureFixture) -> None:
    assert DistillMOS.is_here()
    judge = DistillMOS()
    assert "distillmos 0" in judge.name
    assert judge.score(np.full(RATE, 0.25, np.float32), RATE) == pytest.approx(2.5)
    assert judge.score(np.zeros(RATE, np.float32), RATE) == WORST_MOS
    assert capsys.readouterr().out == ""
    for name in ("distillmos", "xls_r_sqa", "torchaudio", "torchaudio.transforms"):
        sys.modules.pop(name, None)
