"""The token player of the Map: the anchor and another member of its group, alone and in the take in hand."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import gradio as gr
import numpy as np
import plotly.graph_objects as go
from gradio.components import Component

from explorers.errors import showing_errors
from explorers.session import Session, ShownTake, TakeView
from explorers.shared.blocks import pcm, player
from explorers.shared.figures import mel_figure
from explorers.zero_gpu import STARTING_SECONDS, on_gpu
from pcg.analysis.audition import FRAME_SECONDS, REPEATS, Audition, alone, band_frequencies, guarded, in_context
from pcg.errors import counted
from pcg.groups.groups import Groups
from pcg.settings import bounds
from pcg.synthesis.synthesizer import CONTEXT_TOKENS, Synthesizer

NAMES = ("A", "B")
HEADING = f"""<header class="title"><h2>Listen to a token<small>the anchor against a member of its group</small></h2>
<p>A single token is short: alone, it is repeated {REPEATS} times. In context, it replaces every member of the anchor's group
in the take in hand; the original sound is under Listen. A and B keep their loudness.</p></header>"""
PROMPT = "Choose a token, then listen."
NO_TAKE = "There is no take yet. Generate one under Listen to hear the tokens in it."
TITLES = {"alone": "alone", "context": "in the take in hand"}
# A player's clock counts whole seconds: for a token alone it would stand at 0:00.
CLOCKLESS = ("alone",)


@dataclass(frozen=True)
class Listening:
    """The result of one request: lines of text (HTML-safe), and the sounds of A and B, of A alone, or none."""

    words: tuple[str, ...]
    alone: tuple[Audition, ...] = ()
    context: tuple[Audition, ...] = ()


def audition(
    synthesizer: Synthesizer, take: ShownTake | None, anchor: int | None, other: int | None, theta: float, similarity: str
) -> Listening:
    """The sounds of `anchor` and of `other`, or of the nearest member of its group at `theta`: alone, and in `take`."""
    if anchor is None:
        return Listening((PROMPT,))
    bounds("theta").check("theta", theta)
    reading, codec = take and take.reading, synthesizer.voice.codec
    references = synthesizer.voice.references
    speaker = take.speaker(references) if take else next(iter(references.values()))
    anchor, context = _whole(anchor), speaker.codes[-CONTEXT_TOKENS:]
    heard = [alone(codec, anchor, context)]
    groups = synthesizer.library.groups(theta, similarity)
    if other is None:
        other = nearest_member(synthesizer, groups, anchor, similarity)
    tokens = [anchor] if other is None else [anchor, _whole(other)]
    heard += [alone(codec, token, context) for token in tokens[1:]]
    words = [_pair_line(groups, tokens, theta, similarity), _levels_line(heard)]
    if reading is None or not reading.tokens:
        return Listening((*words, NO_TAKE), guarded(heard))
    placed = [in_context(synthesizer, reading.tokens, groups, anchor, speaker, token) for token in tokens]
    words.append(_places_line(reading, anchor, placed))
    return Listening(tuple(words), guarded(heard), guarded(placed) if placed[0].positions else ())


def nearest_member(synthesizer: Synthesizer, groups: Groups, anchor: int, similarity: str) -> int | None:
    """The member of G(anchor) that is most like it, or None where it stands alone."""
    nearest, _ = synthesizer.library.neighbours(similarity).of(anchor)
    members = groups.members_of(int(groups.group_of_centre[anchor]))
    others = nearest[np.isin(nearest.numpy(), members.numpy()) & (nearest.numpy() != anchor)]
    return int(others[0]) if len(others) else None


def _whole(token: float) -> int | float:
    """A number box may send 7.0; anything that is no whole number is left for the refusal."""
    return int(token) if isinstance(token, float) and token.is_integer() else token


def _pair_line(groups: Groups, tokens: list[int], theta: float, similarity: str) -> str:
    k = int(groups.group_of_centre[tokens[0]])
    size = groups.size(k)
    first = f"A is token <b>{tokens[0]}</b>. At theta {theta:g} ({escape(similarity)}) its group G({tokens[0]}) contains "
    if len(tokens) == 1:
        return f"{first}nothing else, so there is no B."
    belongs = "also in the group" if bool((groups.members_of(k) == tokens[1]).any()) else "not in the group"
    return f"{first}{counted(size, 'token')}. B is token <b>{tokens[1]}</b>, {belongs}."


def _levels_line(heard: list[Audition]) -> str:
    levels = [f"{name} {'is silence' if a.silent else f'{a.level:.0f} dB'}" for name, a in zip(NAMES, heard, strict=False)]
    seconds = len(heard[0].samples) / heard[0].sample_rate
    return f"Alone: {seconds:.2f} s each. Level, full scale being 0 dB: {', '.join(levels)}."


def _places_line(reading: TakeView, anchor: int, placed: list[Audition]) -> str:
    count, length = len(placed[0].positions), len(reading.tokens)
    take = f"the {reading.method.upper()} take"
    if not count:
        return f"None of the {counted(length, 'token')} of {take} belongs to G({anchor}): there is nothing to replace."
    spoken = " and ".join(f"by {a.token} in {name}" for name, a in zip(NAMES, placed, strict=False))
    return f"{count} of {counted(length, 'token')} of {take} belong{'s' * (count == 1)} to G({anchor}): replaced {spoken}."


def create_listen(
    synthesizer: Synthesizer,
    session: gr.State,
    anchor: Component,
    other: Component | None,
    theta: gr.Slider,
    similarity: gr.Dropdown,
    in_hand: gr.Radio,
) -> None:
    """Lay the section out within the Blocks that is being built. `anchor` and `other` hold token ids, or None; `session` and
    `in_hand` tell which take is in hand."""
    gr.HTML(HEADING, apply_default_css=False)
    with gr.Row():
        button = gr.Button("Listen", variant="primary", elem_id="listen", size="md", scale=0, min_width=140)
    words = gr.HTML(_lines((PROMPT,)), apply_default_css=False, elem_id="listen-words")
    with gr.Row(equal_height=True, elem_classes="lab-pair"):
        players = [_players(synthesizer, name) for name in NAMES]
    pictures = [gr.Plot(show_label=False, visible=False, elem_id=f"listen-{place}") for place in TITLES]
    button.click(
        on_gpu(_handler(synthesizer, with_other=other is not None), lambda *_: STARTING_SECONDS),
        [anchor, *([other] if other else []), theta, similarity, in_hand, session],
        [words, *(pair[i] for i in range(len(TITLES)) for pair in players), *pictures],
        api_name="listen",
        api_description="Hear a token against another member of its group: what was done, A and B alone, A and B in the take "
        "in hand, and their log-mel pictures.",
    )


def _players(synthesizer: Synthesizer, name: str) -> list[gr.Audio]:
    with gr.Column(min_width=300, elem_classes="lab-card"):
        return [_player(synthesizer, name, place) for place in TITLES]


def _player(synthesizer: Synthesizer, name: str, place: str) -> gr.Audio:
    gr.HTML(f'<p class="groups"><b>{name}</b> {TITLES[place]}</p>', apply_default_css=False)
    classes = "lab-clockless" if place in CLOCKLESS else None
    return player(synthesizer, f"{name} {TITLES[place]}", f"listen-{name.lower()}-{place}", elem_classes=classes)


def _handler(synthesizer: Synthesizer, with_other: bool) -> Callable[..., list[object]]:
    """`audition` as gradio calls it, one update a place on the page."""

    def listen(
        anchor: int | None, other: int | None, theta: float, similarity: str, method: str, session: Session
    ) -> list[object]:
        with showing_errors():
            shown = session.in_hand(method)
            heard = audition(synthesizer, shown, anchor, other, theta, similarity)
        sounds = [_sound(a) for pair in (heard.alone, heard.context) for a in (*pair, None, None)[: len(NAMES)]]
        pictures = [_picture(heard.alone, False), _picture(heard.context, True)]
        return [_lines(heard.words), *sounds, *(gr.update(value=p, visible=p is not None) for p in pictures)]

    def listen_without(anchor: int | None, theta: float, similarity: str, method: str, session: Session) -> list[object]:
        return listen(anchor, None, theta, similarity, method, session)

    return listen if with_other else listen_without


def _lines(words: tuple[str, ...]) -> str:
    lines = "".join(f'<p class="groups">{line}</p>' for line in words)
    return f'<div role="status">{lines}</div>'


def _sound(heard: Audition | None) -> tuple[int, np.ndarray] | None:
    return heard and pcm(heard.samples, heard.sample_rate)


def _picture(pair: tuple[Audition, ...], stacked: bool) -> go.Figure | None:
    if not pair:
        return None
    where = "where marked" if stacked else "alone"
    titles = [f"{name}: {a.token} {where}" for name, a in zip(NAMES, pair, strict=False)]
    frequencies = band_frequencies(pair[0].sample_rate)
    return mel_figure([a.mel for a in pair], titles, frequencies, FRAME_SECONDS, stacked, pair[0].stretches)
