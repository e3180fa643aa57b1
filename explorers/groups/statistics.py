"""Group statistics: how large the groups are, how they overlap, and how theta changes them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from html import escape

import gradio as gr
import numpy as np
from gradio.events import Dependency
from torch import Tensor

from explorers.errors import showing_errors
from explorers.shared.figures import distribution_figure, mean_size_figure
from explorers.shared.terms import titled_html
from pcg.errors import InputError
from pcg.groups.groups import Groups, GroupStatistics
from pcg.groups.pairs.neighbours import Neighbours
from pcg.groups.similarities import theta_for
from pcg.settings import bounds
from pcg.synthesis.synthesizer import Synthesizer

HEADING = """<header class="title"><h2>Group statistics<small>the groups of this voice at theta</small></h2>
<p>|G| is the number of tokens in a group, N(t) the number of groups that contain token t.</p></header>"""
PAPERS_RANGE = (0.38, 0.45)
PAPERS_SIMILARITY = "cosine"
WANTED_SIZE = 20
THETA_DIGITS = 4


@dataclass(frozen=True, eq=False)
class MeanSizes:
    """Mean |G(t)| at each of `thetas`: `plain` over all tokens t, `weighted` by how often each is used; all `[T]`."""

    thetas: np.ndarray
    plain: np.ndarray
    weighted: np.ndarray


def mean_sizes(neighbours: Neighbours, usage: Tensor) -> MeanSizes:
    """The whole curve over theta's range, as far as the lists reach. `usage [V - 1]` counts the speech codes."""
    allowed = bounds("theta")
    count = round((allowed.high - allowed.low) / allowed.step) + 1
    # Rounded as the slider does it, or a similarity that equals a theta would fall on its wrong side.
    thetas = (allowed.low + allowed.step * np.arange(count)).round(6)
    thetas = thetas[thetas >= neighbours.floor]
    weights = np.zeros(neighbours.vocabulary)
    weights[: len(usage)] = usage.numpy()
    bits = neighbours.similarity.numpy().view(np.uint16)
    # A float16 has 2^16 values: one count for each of them costs a fraction of sorting the pairs.
    weight_of = np.bincount(bits, weights.repeat(neighbours.indptr.diff().numpy()), minlength=2**16)
    weight_of[np.float16(1).view(np.uint16)] -= weights.sum()
    values = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    plain = [neighbours.mean_size_at(theta) for theta in thetas.tolist()]
    weighted = [1 + weight_of[values > theta].sum() / weights.sum() for theta in thetas.tolist()]
    return MeanSizes(thetas, np.array(plain), np.array(weighted))


def create_statistics(synthesizer: Synthesizer, theta: gr.Slider, similarity: gr.Dropdown, seen: Dependency) -> Dependency:
    """Lay the section out within the Blocks that is being built; it follows `theta` and `similarity` after the event `seen`.
    What is returned is the event that moves theta to a wanted mean size."""
    describe, fit = _describer(synthesizer), _fitter(synthesizer)
    sizes, means, overlaps, figures = describe(theta.value, similarity.value)
    gr.HTML(HEADING, apply_default_css=False)
    with gr.Row():
        places = [
            gr.Plot(figure, show_label=False, min_width=310, elem_id=f"statistics-{name}")
            for name, figure in (("sizes", sizes), ("means", means), ("overlaps", overlaps))
        ]
    places.append(gr.HTML(figures, apply_default_css=False, elem_id="statistics-figures"))
    with gr.Row(elem_classes="lab-seed"):
        wanted = gr.Number(WANTED_SIZE, label="Mean size wanted", minimum=1, elem_id="wanted-size", scale=0, min_width=180)
        button = gr.Button("Set theta for this size", elem_id="set-theta", size="md", scale=0, min_width=150)
    seen.then(
        describe, [theta, similarity], places, trigger_mode="always_last", show_progress="hidden",
        api_name="group_statistics", api_description="Describe the groups at a theta: three figures, and a table as HTML.",
    )  # fmt: skip
    return button.click(
        fit, [wanted, similarity], theta, show_progress="hidden",
        api_name="theta_for_mean_size", api_description="The theta at which groups have a given mean size.",
    )  # fmt: skip


def _describer(synthesizer: Synthesizer) -> Callable[[float, str], list[object]]:
    curve = lru_cache(maxsize=8)(
        lambda similarity: mean_sizes(synthesizer.library.neighbours(similarity), synthesizer.voice.usage)
    )

    def describe(theta: float, similarity: str) -> list[object]:
        with showing_errors():
            bounds("theta").check("theta", theta)
            groups, means = synthesizer.library.groups(theta, similarity), curve(similarity)
        band = PAPERS_RANGE if similarity == PAPERS_SIMILARITY else None
        return [
            distribution_figure(groups.sizes[groups.group_of_centre].numpy(), "Group size |G|", "tokens in the group"),
            mean_size_figure(means.thetas, means.plain, means.weighted, theta, band),
            distribution_figure(groups.count.numpy(), "Overlap N(t)", "groups that contain the token"),
            _table(groups, groups.statistics(synthesizer.voice.usage), theta, similarity),
        ]

    return describe


def _fitter(synthesizer: Synthesizer) -> Callable[[float, str], float]:
    def fit(mean_size: float | None, similarity: str) -> float:
        with showing_errors():
            if mean_size is None:
                raise InputError("mean size", mean_size, "a number of tokens")
            return round(theta_for(synthesizer.library.neighbours(similarity), mean_size), THETA_DIGITS)

    return fit


def _table(groups: Groups, figures: GroupStatistics, theta: float, similarity: str) -> str:
    weighted = figures.usage_weighted_mean_size
    rows = (
        ("groups M", f"{figures.groups:,}"),
        ("mean |G|", f"{figures.mean_size:.2f}"),
        ("mean |G| by use", "–" if weighted is None else f"{weighted:.2f}"),
        ("largest |G|", f"{figures.max_size:,}"),
        ("singletons", f"{figures.singletons:,}"),
        ("tokens with neighbours", f"{figures.multi_member_share:.2%}"),
        ("mean N(t)", f"{float(groups.count.mean()):.2f}"),
        ("memory", f"{figures.bytes:,} B"),
    )
    entries = "".join(f"<div><dt>{titled_html(name)}</dt><dd>{value}</dd></div>" for name, value in rows)
    caption = f"At theta {theta:g} ({escape(similarity)}), of {figures.vocab:,} tokens"
    return f'<div class="readout"><p class="notes" role="status">{caption}</p><dl>{entries}</dl></div>'
