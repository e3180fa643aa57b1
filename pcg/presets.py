"""The settings of the papers, by name."""

from dataclasses import dataclass

from pcg.settings import Settings


@dataclass(frozen=True)
class Preset:
    """Settings with a name. source: where the values stand. note: what differs with the embedded voice."""

    name: str
    settings: Settings
    source: str
    note: str = ""


PAPERS = (
    Preset(
        "PCG, as published",
        Settings("pcg", theta=0.4, lookahead=3, temperature=0.8),
        "arXiv 2511.13732: temperature and lookahead in section 3.1; theta of 0.38 to 0.45 was best (section 2.1)",
        "For LLaSA's 65,536 codes. The line under theta says how large this voice's groups are.",
    ),
    Preset(
        "SSD, as published",
        Settings("ssd", beta=0.4, lookahead=3, temperature=0.8),
        "arXiv 2505.15380, section 3.1: beta and lookahead; no temperature is named there, 0.8 is the PCG paper's",
        "For CosyVoice 2. For this voice see Evidence.",
    ),
    Preset(
        "SSD, beside PCG",
        Settings("ssd", beta=0.3, lookahead=3, temperature=0.8),
        "arXiv 2511.13732, section 4: the bias at which SSD is as fast as PCG",
        "With the embedded voice the two were not matched in speed.",
    ),
    Preset(
        "SD, as published",
        Settings("sd", lookahead=3, temperature=0.8),
        "arXiv 2511.13732, section 3.1",
        "Its probabilities are AR's, at any lookahead.",
    ),
    Preset("AR, as published", Settings("ar", temperature=0.8), "arXiv 2511.13732, section 3.1"),
    Preset(
        "PCG, this voice",
        Settings(),
        "The defaults: the papers' temperature and lookahead",
    ),
)
