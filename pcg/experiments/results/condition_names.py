"""What conditions are called: the curve that each is a point of, where on it, and the papers' own names."""

from functools import lru_cache

from pcg.experiments.unit import Condition, Unit, Utterance
from pcg.settings import Settings

# Plain sampling with the top-p of RAS and EAS, which the paper does not have.
CONTROL = "top-p"
# Names of `sampler_name`, and MSpoofTTS's own.
SCHEMES = {"truncated": "Original", CONTROL: CONTROL, "RAS": "RAS", "EAS": "EAS", "HierRAS": "HierRAS", "HierEAS": "HierEAS"}
_NAMES = {"ar": "AR", "sd": "SD", "ssd": "SSD", "cosine": "cosine", "mel": "Mel", "fsq": "FSQ", "both": "both"}


@lru_cache(maxsize=1024)
def identity(condition: Condition) -> str:
    """What tells `condition` from others: neither its name nor its seed, nor settings that its method does not read."""
    return Unit(Utterance("", ""), condition, 0).key("")


def sampler_name(settings: Settings) -> str:
    """What MSpoofTTS calls the sampler: RAS, EAS, HierRAS, HierEAS; of a plain one "top-p" where it has one, "truncated" with
    top-k or a penalty alone, and nothing for the softmax alone."""
    name = settings.sampler.upper() if settings.sampler != "plain" else _plain_name(settings)
    return f"Hier{name}" if settings.hierarchical else name


def _plain_name(settings: Settings) -> str:
    if 0 < settings.top_p < 1:
        return CONTROL
    return "truncated" if settings.top_k or settings.repetition_penalty > 1 else ""


def method(condition: Condition) -> str:
    """The curve that a condition is a point of: figures give each its colour."""
    acceptance, sampled = acceptance_name(condition), sampler_name(condition.settings)
    if not sampled:
        return acceptance
    return sampled if acceptance == "AR" else f"{acceptance}, {sampled}"


def knob(condition: Condition) -> float:
    """The relaxation of a condition on its method's own scale, growing with speed: beta, 1 - theta, or k."""
    if condition.swap:
        return 1 - condition.swap.theta
    if condition.rule.startswith("membership:"):
        return float(condition.rule.partition(":")[2])
    settings = condition.settings
    return {"ssd": settings.beta, "pcg": 1 - settings.theta}.get(settings.method, 0.0)


def acceptance_name(condition: Condition) -> str:
    """How a condition accepts, whatever sampler it has from."""
    if condition.swap:
        return "random swap" if condition.swap.replacement == "random" else f"swap {_NAMES[condition.swap.similarity]}"
    if condition.model != "target":
        return condition.model
    if condition.rule:
        rule = condition.rule.partition(":")[0]
        return rule if rule in ("membership", "typical") else f"PCG {rule}"
    settings = condition.settings
    drafting = "block" if settings.verification == "block" else "adaptive" if settings.adaptive else ""
    if drafting and settings.method != "ar":
        return f"{settings.method.upper()} {drafting}"
    return f"PCG {_NAMES[settings.similarity]}" if settings.method == "pcg" else _NAMES[settings.method]
