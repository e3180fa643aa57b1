"""The sampling schemes of MSpoofTTS (Zhao et al., arXiv 2603.05373) and a control."""

from dataclasses import dataclass

from explorers.shared.terms import TERMS
from pcg.settings import Settings


@dataclass(frozen=True)
class Way:
    """A sampling scheme by the paper's settings (section 3.2); method, temperature and seed are a request's."""

    key: str
    name: str
    note: str
    settings: Settings


def _way(key: str, name: str, note: str, **sampling: object) -> Way:
    return Way(key, name, note, Settings("ar", temperature=1.0, top_k=50, **sampling))


WAYS = {
    way.key: way
    for way in (
        _way("original", "Original", "Plain sampling, the 50 likeliest tokens."),
        _way("top_p", "top-p", "A control: Original with the top-p of RAS and EAS, and nothing else of theirs.", top_p=0.8),
        _way("ras", "RAS", TERMS["ras"].meaning, sampler="ras", top_p=0.8),
        _way("eas", "EAS", TERMS["eas"].meaning, sampler="eas", top_p=0.8),
        _way(
            "hierras", "HierRAS", "RAS in beams, pruned by the spoof detectors.",
            sampler="ras", top_p=0.8, hierarchical=True,
        ),
        _way(
            "hiereas", "HierEAS", "EAS in beams, pruned by the spoof detectors: the paper's MSpoofTTS.",
            sampler="eas", top_p=0.8, hierarchical=True,
        ),
    )
}  # fmt: skip
SEARCHED = tuple(key for key, way in WAYS.items() if way.settings.hierarchical)
