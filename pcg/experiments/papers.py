"""The papers' own numbers, as printed: rates in percent, speaker similarity as each paper scales it, speed-ups over AR.

PCG: Yanuka et al., "Principled Coarse-Grained Acceptance for Speculative Decoding in Speech". SSD: Lin et al., "Accelerating
Autoregressive Speech Synthesis Inference With Speech Speculative Decoding" (Interspeech 2025). MSpoofTTS: Zhao et al., arXiv
2603.05373. What the papers show in figures without numbers is not here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Quoted:
    """A row of a paper's table; `spread` is the +- behind a value: a standard deviation, over seeds or, of a MOS, ratings."""

    name: str
    values: dict[str, float]
    spread: dict[str, float]


def _row(name: str, **cells: float | tuple[float, float]) -> Quoted:
    values = {key: cell[0] if isinstance(cell, tuple) else cell for key, cell in cells.items()}
    return Quoted(name, values, {key: cell[1] for key, cell in cells.items() if isinstance(cell, tuple)})


PCG_TABLE_1 = {
    row.name: row
    for row in (
        _row("draft", speedup=5.2, wer=(52.8, 1.6), cer=(41.4, 1.8), similarity=(36.3, 1.1)),
        _row("SD", speedup=0.98, wer=(11.1, 0.6), cer=(5.5, 0.5), similarity=(43.7, 0.3), mos=(4.38, 0.88)),
        _row("SSD", speedup=1.4, wer=(18.5, 1.9), cer=(11.6, 1.7), similarity=(42.5, 0.4), mos=(3.78, 1.21)),
        _row("PCG", speedup=1.4, wer=(13.8, 0.4), cer=(7.8, 0.3), similarity=(43.7, 0.1), mos=(4.09, 1.13)),
    )
}
# Differences of WER and Sim-O as fractions, as the paper prints them.
PCG_TABLE_2 = (
    _row("1.0", mean_size=1.0, swapped=0.0, wer=0.000, similarity=0.000, speedup=1.0),
    _row("4.5", mean_size=4.5, swapped=75.0, wer=0.004, similarity=-0.014, speedup=1.18),
    _row("10.3", mean_size=10.3, swapped=91.4, wer=0.007, similarity=-0.027, speedup=1.23),
)
PCG_SSD_BETA = 0.3
PCG_BEST_LOOKAHEAD = 3
PCG_MOST_TRIALS = 3.0

SSD_BETA = 0.4
SSD_TABLE_1 = {
    row.name: row
    for row in (
        _row("draft", wer=16.13, mos=3.95, similarity=0.61, lm_rtf=0.222),
        _row("AR", wer=3.67, mos=3.96, similarity=0.62, lm_rtf=0.504),
        _row("SSD", wer=5.70, mos=3.94, similarity=0.63, lm_rtf=0.360),
    )
}
# By beta. The similarity .50 at beta .1 stands so in the paper.
SSD_TABLE_3 = {
    0.0: _row("beta 0.0", wer=6.34, mos=3.86, similarity=0.62, lm_rtf=0.509),
    0.1: _row("beta 0.1", wer=5.71, mos=3.90, similarity=0.50, lm_rtf=0.444),
    0.2: _row("beta 0.2", wer=6.08, mos=3.92, similarity=0.62, lm_rtf=0.408),
    0.3: _row("beta 0.3", wer=6.29, mos=3.93, similarity=0.62, lm_rtf=0.386),
    0.4: _row("beta 0.4", wer=5.70, mos=3.94, similarity=0.63, lm_rtf=0.360),
}


def _mspoof(*rows: tuple[str, float, float, float, float]) -> dict[str, Quoted]:
    """WER, a fraction in the paper, in percent; SIM; NISQA; MOSNet."""
    names = ("wer", "similarity", "nisqa", "mosnet")
    return {name: _row(name, **dict(zip(names, (round(100 * wer, 2), *rest), strict=True))) for name, wer, *rest in rows}


MSPOOF_TABLE_1_LIBRISPEECH = _mspoof(
    ("Original", 0.0694, 0.894, 4.462, 4.3418),
    ("RAS", 0.0641, 0.905, 4.553, 4.2772),
    ("EAS", 0.0576, 0.902, 4.571, 4.3298),
    ("HierRAS", 0.0591, 0.902, 4.596, 4.3486),
    ("HierEAS", 0.0532, 0.901, 4.602, 4.4158),
)
# The text below the table says that EAS is best in words; the similarities of RAS and HierRAS stand so in the paper.
MSPOOF_TABLE_2 = _mspoof(
    ("Original", 0.1654, 0.871, 4.459, 3.8692),
    ("RAS", 0.1572, 0.820, 4.477, 3.8754),
    ("EAS", 0.1433, 0.876, 4.465, 3.9265),
    ("HierRAS", 0.1702, 0.802, 4.496, 3.9566),
    ("HierEAS", 0.1531, 0.877, 4.513, 3.9802),
)

_PCG_SETUP = (
    "Theirs (PCG): LLaSA-8B, a draft of three of its layers, an H100, temperature 0.8, 500 utterances of LibriTTS test-clean, "
    "three seeds; HuBERT-large judges words, WavLM speakers, four people the MOS."
)
_SSD_SETUP = (
    "Theirs (SSD): CosyVoice 2 (0.5B), a draft of eight of its layers, an A100, 500 utterances of LibriTTS test-clean; "
    "Whisper-large V3 judges words, ERes2Net speakers."
)
_MSPOOF_SETUP = (
    "Theirs (MSpoofTTS): NeuTTS with NeuCodec, temperature 1.0; Whisper-large V3 judges words, WavLM speakers, NISQA and "
    "MOSNet predict ratings, not on DNSMOS's scale; the paper does not say over how many utterances."
)
_OURS = "Ours: the model, sentences and judges of this report: compare directions, not levels."
DIFFERS = {
    "main": f"{_PCG_SETUP} {_OURS} DNSMOS predicts a rating and is none.",
    "equal": "The paper compares one setting of each method at the same speed-up.",
    "swap": "The paper's Sim-O is the change of the similarity to the reference voice; ours is the similarity to the same "
    "utterance before the swap.",
    "ssd": f"{_SSD_SETUP} {_OURS} LM-RTF depends on the machine.",
    "lookahead": "The papers draw these curves and print no numbers of them; PCG says that 3 tokens are the fastest, SSD that "
    f"speed first rises and then falls. {_OURS}",
    "acceptance": "The papers print no rates of acceptance; PCG says that thinning never takes more than 3 trials on average.",
    "sampling": _MSPOOF_SETUP,
    "claims": f"{_PCG_SETUP} {_SSD_SETUP} {_OURS} A claim holds or is contradicted where its 95 % interval lies wholly on one "
    "side; else, and on fewer than 20 utterances, it is open. No correction is made for asking several questions.",
}
