"""The grids that reproduce the papers' tables and figures. They share conditions and utterances, so each is said once.

The whole set has some 5,000 units, and the quick one some 300. Recordings need a synthesizer, so the grids with these stand
apart from the set.
"""

from collections.abc import Callable, Sequence

from pcg.analysis.swap import Swap
from pcg.errors import InputError
from pcg.experiments.grid import Grid, at_temperature
from pcg.experiments.results.condition_names import CONTROL
from pcg.experiments.unit import Condition, Utterance
from pcg.settings import Settings

TITLES = {
    "main": "AR, SD, SSD and PCG (PCG Table 1)",
    "tradeoff": "Words against speed (PCG Fig. 3 and Table 3; SSD Tables 1 and 3)",
    "lookahead": "Speed by lookahead (PCG Fig. 4; SSD Fig. 3)",
    "swap": "Swap test: tokens replaced within their group (PCG Table 2)",
    "ablations": "Variants of groups, drafting and verification",
    "temperature": "The methods at three temperatures",
    "relax": "Do takes sound synthetic before words are lost? (part of the trade-off)",
    "mspoof": "Samplers and hierarchical decoding (MSpoofTTS Tables 1 and 2)",
    "originals": "Recordings of the same sentences, as they are and through the codec",
    "paper": "The PCG paper's protocol, Tables 1 to 3 in one run (500 sentences with --libritts, else 200)",
}
APART = ("originals", "paper")
SET = tuple(name for name in TITLES if name not in APART)
# Utterances of a grid, full and quick; half of mspoof's are tongue twisters.
COUNTS = {
    "main": (200, 12), "tradeoff": (50, 12), "lookahead": (16, 6), "swap": (40, 6), "ablations": (40, 6), "relax": (50, 12),
    "temperature": (24, 3),
    "mspoof": (80, 2), "originals": (200, 12), "paper": (500, 12),
}  # fmt: skip
THETAS = (0.5, 0.4, 0.3)
# So far down that PCG's curve reaches the work of SSD at its usual beta.
MAIN_THETAS = (0.4, 0.3, 0.2)
MIDDLE_THETA, MAIN_BETA = 0.4, 0.3
TEMPERATURES = (0.6, 0.8, 1.0)
LOOKAHEADS = (1, 2, 4, 5, 6, 7, 8)
NAMES = {"mel": "Mel", "fsq": "FSQ"}

ThetaFor = Callable[[str, float], float]


def declared(name: str, utterances: Sequence[Utterance], quick: bool, theta_for: ThetaFor) -> Grid:
    """The grid `name` over the first of `utterances`, so that grids share them; `quick` takes few of them and few conditions.

    theta_for(similarity, theta): the theta at which the groups of `similarity` have the mean size of cosine groups at `theta`
    (`pcg.analysis.swap.same_size_theta`). A similarity that cannot have such groups on this voice (InputError) is left out.
    """
    if name not in TITLES:
        raise InputError("experiment", name, "one of " + ", ".join(TITLES))
    makers = {
        "main": _main, "tradeoff": _tradeoff, "lookahead": _lookahead, "swap": _swap, "ablations": _ablations,
        "temperature": _temperature, "relax": _relax, "mspoof": _mspoof, "originals": _originals, "paper": _paper,
    }  # fmt: skip
    count, conditions = COUNTS[name][quick], tuple(makers[name](quick, theta_for))
    chosen = _half_twisters(utterances, count) if name == "mspoof" else utterances[:count]
    return Grid(name, TITLES[name], conditions, tuple(chosen), (0,))


def ar() -> Condition:
    return Condition("AR", Settings("ar"))


def draft() -> Condition:
    """The draft speaks alone."""
    return Condition("draft alone", Settings("ar"), model="draft")


def sd(**knobs: float) -> Condition:
    return Condition("SD" + _lookahead_name(knobs), Settings("sd", **knobs))


def ssd(beta: float, **knobs: float) -> Condition:
    return Condition(f"SSD, beta {beta:g}" + _lookahead_name(knobs), Settings("ssd", beta=beta, **knobs))


def pcg(theta: float, similarity: str = "cosine", **knobs: float) -> Condition:
    kind = f"PCG {NAMES[similarity]}" if similarity in NAMES else "PCG"
    name = f"{kind}, theta {theta:.3g}" + _lookahead_name(knobs)
    return Condition(name, Settings("pcg", theta=theta, similarity=similarity, **knobs))


def variant(rule: str, theta: float) -> Condition:
    """PCG with other groups, weights or residuals (see `variants.py`)."""
    return Condition(f"PCG {rule}, theta {theta:g}", Settings("pcg", theta=theta), rule=rule)


def blockwise(method: str, **knobs: float) -> Condition:
    """Drafted tokens verified together (`pcg.rules`)."""
    return Condition(f"{method.upper()} block{_theta_name(knobs)}", Settings(method, verification="block", **knobs))


def adaptive(method: str, **knobs: float) -> Condition:
    """Rounds that stop drafting where the draft is unsure."""
    return Condition(f"{method.upper()} adaptive{_theta_name(knobs)}", Settings(method, adaptive=True, **knobs))


def membership(k: int) -> Condition:
    """Accept what is among the target's top k (LLaSA+)."""
    return Condition(f"target's top {k}", Settings("sd"), rule=f"membership:{k}")


def typical() -> Condition:
    """Typical acceptance (Medusa)."""
    return Condition("typical acceptance", Settings("sd"), rule="typical:.09:.3")


def swapped(theta: float, similarity: str = "cosine", replacement: str = "group") -> Condition:
    kind = "random swap" if replacement == "random" else f"swap {NAMES.get(similarity, similarity)}"
    return Condition(f"{kind}, theta {theta:.3g}", Settings("ar"), swap=Swap(theta, similarity, replacement))


def _main(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    rivals = [] if quick else [membership(50), typical()]
    return [ar(), sd(), ssd(0.2), ssd(MAIN_BETA), *(pcg(theta) for theta in (THETAS if quick else MAIN_THETAS)), *rivals]


def _tradeoff(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    rivals = [membership(10), *([typical()] if quick else [])]  # the others are in the main grid
    more = [ssd(beta) for beta in ((0.4,) if quick else (0.1, 0.4, 0.6))] + [
        pcg(theta) for theta in ((0.2,) if quick else (0.7, 0.6, 0.5, 0.25))
    ]
    sizes = (MIDDLE_THETA,) if quick else THETAS
    groups = [pcg(at, kind) for kind in NAMES for at in _equal_sizes(kind, sizes, theta_for)]
    return [draft(), *_main(quick, theta_for), *more, *groups, *rivals]


def _lookahead(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    others = [{"lookahead": at} for at in ((1, 6) if quick else LOOKAHEADS)]
    thetas = (MIDDLE_THETA,) if quick else THETAS
    conditions = [ar()]
    for knobs in [{}, *others]:
        conditions += [sd(**knobs), ssd(MAIN_BETA, **knobs), *(pcg(theta, **knobs) for theta in thetas)]
    return conditions


def _swap(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    thetas = (0.6, 0.3) if quick else (0.7, 0.6, 0.5, 0.4, 0.3)
    controls = (0.3,) if quick else THETAS
    mel = [swapped(at, "mel") for at in _equal_sizes("mel", controls, theta_for)]
    random = [swapped(theta, replacement="random") for theta in controls]
    spoken = [pcg(theta) for theta in thetas if theta in THETAS]
    return [ar(), *(swapped(theta) for theta in thetas), *random, *mel, *spoken]


def _temperature(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    usual = [ar(), sd(), ssd(MAIN_BETA), *(pcg(theta) for theta in ((0.3,) if quick else (0.4, 0.3)))]
    usual += [] if quick else [membership(50), typical()]
    return [at_temperature(condition, temperature) for temperature in TEMPERATURES for condition in usual]


def _ablations(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    thetas = (MIDDLE_THETA,) if quick else THETAS
    rules = ("weighted", "partition")
    exact = [sd(), blockwise("sd"), adaptive("sd")]
    others = [make("pcg", theta=theta) for theta in thetas for make in (blockwise, adaptive)]
    return [ar(), *exact, *(pcg(theta) for theta in thetas), *(variant(r, at) for at in thetas for r in rules), *others]


def _relax(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    """A part of the trade-off, whose results serve, too: their tokens are stored, and are judged as they are."""
    return [ar(), sd(), *(pcg(theta) for theta in ((*THETAS, 0.2) if quick else (0.7, 0.6, *THETAS, 0.25, 0.2)))]


def _mspoof(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    """The schemes of MSpoofTTS with its settings (section 3.2), and a control. An AR of theirs reads a token for each that it
    says. RAS and EAS differ from Original in a top-p of 0.8, too; the control differs in that alone."""
    usual = Settings("ar", temperature=1.0)
    samplers = {
        "Original": usual.with_(top_k=50),
        CONTROL: usual.with_(top_k=50, top_p=0.8),
        "RAS": usual.with_(sampler="ras"),
        "EAS": usual.with_(sampler="eas"),
        "HierRAS": usual.with_(sampler="ras", hierarchical=True),
        "HierEAS": usual.with_(sampler="eas", hierarchical=True),
    }
    return [Condition(name, settings) for name, settings in samplers.items()]


def _originals(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    """What the judges make of the voice that the model learned from (needs flite): no model can be asked for more."""
    return [Condition("original", Settings("ar"), model="original"), Condition("codec alone", Settings("ar"), model="codec")]


def _paper(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    """The command line says it on the papers' own sentences, too (`--libritts`)."""
    sizes = (MIDDLE_THETA,) if quick else THETAS
    others = [pcg(at, kind) for kind in NAMES for at in _equal_sizes(kind, sizes, theta_for)]
    return [*_originals(quick, theta_for), draft(), *_main(quick, theta_for), *others, *(swapped(theta) for theta in sizes)]


def _half_twisters(utterances: Sequence[Utterance], count: int) -> list[Utterance]:
    """`count` utterances, half of them tongue twisters and half everyday ones; where there are none of a kind, any others."""
    kinds = [[u for u in utterances if u.section == section] for section in ("everyday", "twisters")]
    halves = [u for kind in kinds for u in kind[: count // 2]]
    others = [u for u in utterances if u not in halves]
    return halves + others[: count - len(halves)]


def _equal_sizes(similarity: str, thetas: Sequence[float], theta_for: ThetaFor) -> list[float]:
    """The thetas of `similarity` with the sizes of cosine groups at `thetas`; each once, as a coarse scale may repeat one."""
    found: dict[float, None] = {}
    for theta in thetas:
        try:
            at = theta_for(similarity, theta)
            Settings(theta=at)
        except InputError:
            continue
        found[at] = None
    return list(found)


def _theta_name(knobs: dict[str, float]) -> str:
    return f", theta {knobs['theta']:g}" if knobs else ""


def _lookahead_name(knobs: dict[str, float]) -> str:
    return f", lookahead {knobs['lookahead']}" if knobs else ""
