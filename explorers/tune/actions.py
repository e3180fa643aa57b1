"""What is shown of the take in hand: its tokens and tests, the curves of the detectors, and what other settings would have
accepted. Knows nothing of gradio."""

from dataclasses import dataclass, replace

from explorers.session import CARDS, Session, ShownTake
from explorers.shared.scripts import packed
from explorers.tune.measured import Bench, Measured
from explorers.tune.strip import cluster_prop, run_prop, sound_prop, spoof_prop
from pcg.analysis.whatif import WhatIf, what_if
from pcg.errors import InputError, PCGError
from pcg.spoof.detector import RESOLUTIONS
from pcg.synthesis.costs import step_costs
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Take
from pcg.text.prompt import Reference

COST_REPEATS = 3
NO_TAKE = "There is no take yet: press Generate."


@dataclass(frozen=True)
class Shown:
    """The take in hand as the strip shows it, and the `bench` with its figures."""

    run: dict[str, object]
    sound: dict[str, object]
    bench: Bench


@dataclass(frozen=True)
class Studied:
    """What takes a second to find out: the curves of the detectors, where they fit the voice, and the `bench` with its
    estimates."""

    spoof: dict[str, object] | None
    bench: Bench


def take_in_hand(session: Session, key: str) -> ShownTake | None:
    """See `Session.in_hand`; raise InputError for a card that there cannot be."""
    if key not in CARDS:
        raise InputError("take", str(key)[:40], "one of " + ", ".join(CARDS))
    return session.in_hand(key)


def show(synthesizer: Synthesizer, session: Session, key: str, bench: Bench, number: int) -> Shown | None:
    """The take in hand as the run `number`; None without a take."""
    shown = take_in_hand(session, key)
    if shown is None:
        return None
    take, draft = shown.take(), synthesizer.voice.draft_kind
    bench = bench.spoken(Measured.of(take, draft), _baseline(session, shown, draft), shown.baseline == "last run")
    run = run_prop(number, take)
    return Shown(run, sound_prop(number, [packed(take.audio)]), bench)


def study(synthesizer: Synthesizer, session: Session, key: str, bench: Bench, number: int) -> Studied | None:
    """Run the detectors over the take in hand, and estimate what other settings would have accepted; None without a take."""
    shown = take_in_hand(session, key)
    if shown is None:
        return None
    take, spoof = shown.take(), None
    if detectors := synthesizer.decoder.detectors:
        curves = {r.name: detectors.curve(take.tokens, r).tolist() for r in RESOLUTIONS}
        spoof = spoof_prop(number, detectors.name, curves)
    return Studied(spoof, replace(bench, estimate=_estimate(synthesizer, take, shown.reference)))


def group_of(synthesizer: Synthesizer, session: Session, key: str, group: object) -> dict[str, object]:
    """The tokens of a group that a test of the take in hand drew, on a small map; raise InputError for another number."""
    shown = take_in_hand(session, key)
    if shown is None:
        raise PCGError(NO_TAKE)
    settings, atlas = shown.reading.settings, synthesizer.atlas()
    groups = synthesizer.groups(settings.theta, settings.similarity)
    if isinstance(group, bool) or not isinstance(group, int) or not 0 <= group < len(groups):
        raise InputError("group", str(group)[:40], f"a whole number from 0 to {len(groups) - 1}")
    codes = len(atlas.x)
    return cluster_prop(group, [t for t in groups.members_of(group).tolist() if t < codes], atlas.x, atlas.y)


def time_steps(synthesizer: Synthesizer, session: Session, key: str, bench: Bench) -> Bench:
    """Time the steps of a round alone, at the settings of the take in hand: the bound on its speed-up follows from them."""
    shown = take_in_hand(session, key)
    if shown is None:
        raise PCGError(NO_TAKE)
    reading, voice = shown.reading, synthesizer.voice
    measured = Measured.of(shown.take(), voice.draft_kind)
    if bench.last != measured:
        bench = bench.spoken(measured, _baseline(session, shown, voice.draft_kind), shown.baseline == "last run")
    speaker = shown.speaker(voice.references)
    prompt = voice.reader.prompt(synthesizer.chunks(reading.text)[0], speaker)
    lookahead, temperature = reading.settings.lookahead, reading.settings.temperature
    return bench.timed(lookahead, step_costs(voice, prompt, lookahead, temperature, COST_REPEATS))


def _baseline(session: Session, shown: ShownTake, draft: str) -> Measured | None:
    """The AR take that the page compares the take in hand with."""
    if shown.speed_up is None or "ar" not in session.cards:
        return None
    same = next((ar for ar in session.cards["ar"].takes if ar.packed and ar.task == shown.task), None)
    return same and Measured.of(same.take(), draft)


def _estimate(synthesizer: Synthesizer, take: Take, reference: Reference | None) -> WhatIf | None:
    try:
        return what_if(synthesizer, take, reference)
    except InputError:  # a long text that was cut somewhere: the take stands, without estimates
        return None
