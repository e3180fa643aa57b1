"""Settings by name: those of the papers, and a visitor's own."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcg.errors import InputError, PCGError
from pcg.settings import Settings

MOST_OWN = 40
LONGEST_NAME = 40
OWN = "Kept by you"


@dataclass(frozen=True)
class Preset:
    """`source`: where the values stand; `note`: what differs with the embedded voice. The seed of a preset means nothing."""

    name: str
    settings: Settings
    source: str = OWN
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isprintable() or not 0 < len(self.name.strip()) <= LONGEST_NAME:
            shown = self.name[:LONGEST_NAME] if isinstance(self.name, str) else f"a {type(self.name).__name__}"
            raise InputError("preset name", shown, f"1 to {LONGEST_NAME} printable characters")

    def over(self, settings: Settings) -> Settings:
        """These settings, with the seed of `settings`: a preset is about odds, not about one take."""
        return self.settings.with_(seed=settings.seed)


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


def read_presets(values: object) -> tuple[Preset, ...]:
    """A visitor's own presets, from what `write_presets` wrote; a browser may hold anything, and bad ones are left out."""
    own: tuple[Preset, ...] = ()
    for value in values[:MOST_OWN] if isinstance(values, list) else ():
        try:
            own = keep(own, Preset(value["name"], Settings.from_dict(value["settings"])))
        except (PCGError, TypeError, KeyError):
            continue
    return own


def write_presets(own: Sequence[Preset]) -> list[dict[str, object]]:
    """Ready for JSON."""
    return [{"name": preset.name, "settings": preset.settings.as_dict()} for preset in own]


def keep(own: Sequence[Preset], preset: Preset) -> tuple[Preset, ...]:
    """`own` with `preset` last, in place of one of its name; raise InputError for a paper's name, or for one too many."""
    if any(paper.name == preset.name for paper in PAPERS):
        raise InputError("preset name", preset.name, "another than those of the papers")
    others = forget(own, preset.name)
    if len(others) >= MOST_OWN:
        raise InputError("presets", f"{len(others) + 1} of your own", f"at most {MOST_OWN}")
    return (*others, preset)


def forget(own: Sequence[Preset], name: str) -> tuple[Preset, ...]:
    return tuple(preset for preset in own if preset.name != name)


def find_preset(own: Sequence[Preset], name: str) -> Preset:
    for preset in (*PAPERS, *own):
        if preset.name == name:
            return preset
    raise InputError("preset", name[:LONGEST_NAME], "one of " + ", ".join(preset.name for preset in (*PAPERS, *own)))
