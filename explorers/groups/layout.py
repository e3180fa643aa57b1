"""The Map panel: every speech token as a point, its group at theta, and why two tokens share a group or not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

import gradio as gr
from gradio.events import Dependency

from explorers.errors import showing_errors
from explorers.groups.actions import (
    check_token,
    equal_theta,
    group_sizes,
    groups_at,
    pack,
    phone_map,
    token_group,
    token_pair,
    utterances,
)
from explorers.groups.atlas import PICK, create_atlas
from explorers.session import Session
from explorers.shared.blocks import similarity_choice
from explorers.shared.terms import explained
from pcg.codec.codec import Codec
from pcg.codec.embedded import EmbeddedCodec
from pcg.groups.atlas import atlas_bytes
from pcg.settings import Settings, bounds
from pcg.synthesis.synthesizer import Synthesizer

THETA_INFO = explained("theta", "The highlighted group follows.")
EQUAL_SIZE_INFO = "A change also moves theta, so that the mean group size stays."
# A click must not wait for others', nor for a take that is being generated. Private: programs have `_endpoints`.
QUICK = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
# The button of explorers.groups.listen_token, which stands below the map.
LISTEN_AT = "#listen"


@dataclass(frozen=True)
class MapView:
    """What other sections may read, or listen to. `anchor` and `second` hold a token or None; before, moves: see
    `keep_mean_size`; `listen` is free room; `seen` is the event that shows another theta or similarity. What else follows these
    stands behind it: if two events wait for the last change of one slider, gradio 6.31 lets each start the other for ever."""

    anchor: gr.State
    second: gr.State
    theta: gr.Slider
    similarity: gr.Dropdown
    before: gr.Textbox
    moves: Dependency
    seen: Dependency
    atlas: gr.HTML
    listen: gr.Column


@dataclass(frozen=True)
class Scene:
    """What the map shows once a token, and perhaps a second one, are chosen."""

    anchor: int | None
    second: int | None
    prop: dict[str, object]


def look(synthesizer: Synthesizer, anchor: object, second: object, theta: float, similarity: str) -> Scene:
    """Look `anchor` up, and compare it with `second`, unless they are None; bad input raises InputError."""
    library, group, pair = synthesizer.library, None, None
    if anchor is not None:
        group = token_group(library, synthesizer.voice.usage, anchor, theta, similarity)
    if group is not None and second is not None:
        pair = token_pair(library, group.token, second, theta, similarity)
    prop = {"theta": theta, "similarity": similarity, "group": group and group.as_dict(), "pair": pair and pair.as_dict()}
    return Scene(group and group.token, pair and pair.second, prop)


def _pick_handler(synthesizer: Synthesizer) -> Callable[..., list[object]]:
    def pick(theta: float, similarity: str, event: gr.EventData) -> list[object]:
        chosen = event._data if isinstance(event._data, Mapping) else {}
        with showing_errors():
            scene = look(synthesizer, chosen.get("anchor"), chosen.get("second"), theta, similarity)
        return [gr.update(scene=scene.prop), scene.anchor, scene.second, scene.anchor]

    return pick


def _search_handler(synthesizer: Synthesizer) -> Callable[..., list[object]]:
    def search(token: float | None, theta: float, similarity: str) -> list[object]:
        with showing_errors():
            token = check_token("token", token, synthesizer.voice.codec.codebook_size)
            scene = look(synthesizer, token, None, theta, similarity)
        return [gr.update(scene=scene.prop), scene.anchor, None]

    return search


def _view_handler(synthesizer: Synthesizer) -> Callable[..., object]:
    def view(theta: float, similarity: str, anchor: int | None, second: int | None) -> object:
        with showing_errors():
            sizes = group_sizes(groups_at(synthesizer.library, theta, similarity))
            return gr.update(sizes=sizes, scene=look(synthesizer, anchor, second, theta, similarity).prop)

    return view


def keep_mean_size(synthesizer: Synthesizer, theta: gr.Slider, similarity: gr.Dropdown) -> tuple[gr.Textbox, Dependency]:
    """Move `theta` when a visitor chooses another `similarity`: each has a scale of its own, and groups as large as before are
    what can be compared. Returned are what holds the similarity that theta is of, and the event that moves it."""
    before = gr.Textbox(similarity.value, visible=False)

    def change(theta: float, similarity: str, before: str) -> list[object]:
        if similarity == before:  # a menu that is left says so, too
            return [gr.skip(), gr.skip()]
        with showing_errors():
            return [equal_theta(synthesizer.library, theta, before, similarity), similarity]

    moves = similarity.input(
        change, [theta, similarity, before], [theta, before],
        api_visibility="private", show_progress="minimal", concurrency_limit=None,
    )  # fmt: skip
    return before, moves


def _utterances_handler(synthesizer: Synthesizer, theta_at: str) -> Callable[..., object]:
    def spoken(session: Session, theta: float, similarity: str, anchor: int | None, second: int | None) -> object:
        with showing_errors():
            scene = look(synthesizer, anchor, second, theta, similarity).prop
            sizes = group_sizes(groups_at(synthesizer.library, theta, similarity))
        # All props: an update that comes before its tab was opened leaves the others out.
        props = {**_constant(synthesizer), "theta_at": theta_at, "theta": theta, "sizes": sizes, "scene": scene}
        return gr.update(utterances=utterances(session, synthesizer.voice.codec.codebook_size), **props)

    return spoken


def _constant(synthesizer: Synthesizer) -> dict[str, object]:
    """The props of the map that never change."""
    voice = synthesizer.voice
    return {
        "levels": list(_levels(voice.codec)),
        "usage": pack(voice.usage.numpy()),
        "phones": None if voice.phones is None else phone_map(voice.phones),
        "listen_at": LISTEN_AT,
    }


def _endpoints(synthesizer: Synthesizer) -> None:
    """The same functions as endpoints."""

    def group(token: int, theta: float = Settings().theta, similarity: str = "cosine") -> dict:
        with showing_errors():
            return token_group(synthesizer.library, synthesizer.voice.usage, token, theta, similarity).as_dict()

    def pair(first: int, second: int, theta: float = Settings().theta, similarity: str = "cosine") -> dict:
        with showing_errors():
            return token_pair(synthesizer.library, first, second, theta, similarity).as_dict()

    def sizes(theta: float = Settings().theta, similarity: str = "cosine") -> str:
        with showing_errors():
            return group_sizes(groups_at(synthesizer.library, theta, similarity))

    descriptions = {
        group: "The group of a token at theta: members, similarities, and the groups that overlap it.",
        pair: "Why two tokens do, or do not, share a group at theta, and how far theta would have to move.",
        sizes: "|G(t)| and |G(t)| - N(t) of all tokens: two columns of uint32, base64 of their deflated bytes, lowest first.",
    }
    for endpoint, description in descriptions.items():
        gr.api(endpoint, api_name=f"token_{endpoint.__name__}", api_description=description, queue=False)


@dataclass(frozen=True)
class MapControls:
    """The left-hand side."""

    theta: gr.Slider
    similarity: gr.Dropdown
    token: gr.Number
    find: gr.Button


def create_map(synthesizer: Synthesizer, session: gr.State) -> MapView:
    """Lay the panel out within the Blocks that is being built. `session` holds a Session, whose takes the map draws."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=0, min_width=380, elem_classes="lab-controls"):
            controls = _controls(synthesizer)
        with gr.Column(scale=1, min_width=360, elem_classes="lab-takes"):
            with gr.Column(elem_classes="lab-card"):
                atlas = _atlas(synthesizer, controls, session.value)
            with gr.Column(elem_id="map-listen") as listen:
                pass
    kept = keep_mean_size(synthesizer, controls.theta, controls.similarity)
    anchor, second = gr.State(), gr.State()
    seen = gr.on(
        [controls.theta.change, controls.similarity.change],
        _view_handler(synthesizer), [controls.theta, controls.similarity, anchor, second], atlas,
        trigger_mode="always_last", **QUICK,
    )  # fmt: skip
    view = MapView(anchor, second, controls.theta, controls.similarity, *kept, seen, atlas, listen)
    _wire(synthesizer, controls, view, session)
    _endpoints(synthesizer)
    return view


def _controls(synthesizer: Synthesizer) -> MapControls:
    allowed = bounds("theta")
    # The lists of a crowded embedding may end above the lowest theta.
    low = max(allowed.low, ceil(synthesizer.library.neighbours("cosine").floor / allowed.step) * allowed.step)
    last = synthesizer.voice.codec.codebook_size - 1
    with gr.Column(elem_classes="lab-form"):
        theta = gr.Slider(
            low, allowed.high, max(low, Settings().theta), step=allowed.step, label="Theta of the map", buttons=[],
            info=THETA_INFO, elem_id="map-theta",
        )  # fmt: skip
        similarity = similarity_choice(synthesizer, "map-", info=EQUAL_SIZE_INFO)
        with gr.Row(elem_classes="lab-seed"):
            token = gr.Number(None, label=f"Token, 0 to {last}", precision=0, scale=3, elem_id="map-token")
            find = gr.Button("Find", elem_id="map-find", size="md", scale=1, min_width=80)
    return MapControls(theta, similarity, token, find)


def _atlas(synthesizer: Synthesizer, controls: MapControls, session: Session) -> gr.HTML:
    voice, theta = synthesizer.voice, controls.theta.value
    return create_atlas(
        atlas_bytes(synthesizer.atlas()),
        **_constant(synthesizer),
        sizes=group_sizes(synthesizer.library.groups(theta, controls.similarity.value)),
        utterances=utterances(session, voice.codec.codebook_size),
        theta_at=f"#{controls.theta.elem_id}",
        theta=theta,
    )


def _levels(codec: Codec) -> tuple[int, ...]:
    return codec.config.levels if isinstance(codec, EmbeddedCodec) else ()


def _wire(synthesizer: Synthesizer, controls: MapControls, view: MapView, session: gr.State) -> None:
    chosen, asked = [view.atlas, view.anchor, view.second], [view.theta, view.similarity]
    # "multiple", as "always_last" would repeat the first event's data; the map itself asks one thing at a time.
    getattr(view.atlas, PICK)(_pick_handler(synthesizer), asked, [*chosen, controls.token], trigger_mode="multiple", **QUICK)
    gr.on(
        [controls.token.submit, controls.find.click],
        _search_handler(synthesizer), [controls.token, *asked], chosen, trigger_mode="always_last", **QUICK,
    )  # fmt: skip
    spoken = _utterances_handler(synthesizer, f"#{controls.theta.elem_id}")
    session.change(spoken, [session, *asked, view.anchor, view.second], view.atlas, **QUICK)
