"""The map of the tokens: every token a point, its group at theta, and its sound. Drawn by plotly in `map.js`."""

import json
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr
import numpy as np
import plotly

from explorers.errors import check_whole, showing_errors
from explorers.session import Session, ShownTake
from explorers.shared.controls import event_values, pcm, player, setting
from explorers.shared.terms import explained, term_html
from explorers.zero_gpu import STARTING_SECONDS, on_gpu
from pcg.codec.embedded import EmbeddedCodec
from pcg.errors import counted
from pcg.groups.audition import REPEATS, Audition, alone, guarded, in_context
from pcg.groups.groups import Groups
from pcg.groups.library import GroupLibrary
from pcg.settings import Settings, bounds
from pcg.synthesis.synthesizer import CONTEXT_TOKENS, Synthesizer

HERE, PLOTLY = Path(__file__).parent, Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
MOST_MEMBERS = 3000
HEADING = f"""<header class="title"><h2>Map of the tokens<small>similar tokens form a {term_html("group")}</small></h2>
<p>Every point is a token; near points are similar. Click one: its group at theta lights up, and can be heard.</p></header>"""
PLAYERS = {"alone": "The token alone", "context": "In the sentence, for every member of its group"}
PROMPT = '<p class="map-note">Choose a token, then press “Hear it”.</p>'
NO_TAKE = "There is no take yet: generate one to hear the token in a sentence."
# A click does not wait for a take that is being generated.
QUICK = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
TEMPLATE = """
<div class="map" data-state="loading">
  <div class="map-bar" role="group" aria-label="How the map is drawn">
    <label>Colour <select data-part="colour"></select></label>
    <button type="button" data-part="closer" aria-label="Zoom in" title="Zoom in (+)">+</button>
    <button type="button" data-part="farther" aria-label="Zoom out" title="Zoom out (-)">−</button>
    <button type="button" data-part="whole" title="Show the whole map (0)">Whole map</button>
    <button type="button" data-part="lasso" aria-pressed="false" title="Draw around tokens (L)">Lasso</button>
  </div>
  <div class="map-body">
    <div class="map-plane" data-part="plane" tabindex="0" role="group"
      aria-label="Map of the tokens. Arrow keys go to the nearest token, Enter plays it, Escape clears the choice."></div>
    <div class="map-side">
      <p class="map-note" data-part="about"></p>
      <h3 data-part="title">No token chosen</h3>
      <p class="map-note" data-part="note">Arrow keys go to the nearest token, Enter plays it, Escape clears the choice.
        The wheel zooms.</p>
      <dl data-part="facts"></dl>
      <ol data-part="members" aria-label="Tokens of the group, the most similar first"></ol>
      <p class="map-note" data-part="news" role="status"></p>
    </div>
  </div>
</div>
"""


def groups_at(library: GroupLibrary, theta: float, similarity: str) -> Groups:
    """Return the groups of all tokens; raise InputError if theta or the similarity is unknown."""
    bounds("theta").check("theta", theta)
    return library.groups(theta, similarity)


def token_group(synthesizer: Synthesizer, token: object, theta: float, similarity: str) -> dict[str, object]:
    """Describe the group G(t) around a token t at theta; raise InputError for bad input.

    Returns:
        size: |G(t)|, the token included; count: N(t), the number of groups that hold it; usage: its uses in the corpus;
        members: the tokens of the group, `token` first, then by descending similarity, at most MOST_MEMBERS;
        similarities: of each member to the token.
    """
    groups = groups_at(synthesizer.library, theta, similarity)
    token = check_whole("token", token, 0, groups.vocabulary - 2)
    neighbours, values = (row.numpy() for row in synthesizer.library.neighbours(similarity).of(token))
    size = groups.size(int(groups.group_of_centre[token]))
    shown = min(size, MOST_MEMBERS)
    return {
        "token": token,
        "theta": theta,
        "similarity": similarity,
        "size": size,
        "count": int(groups.count[token]),
        "usage": int(synthesizer.voice.usage[token]),
        "members": neighbours[:shown].tolist(),
        # Six digits distinguish any two float16.
        "similarities": [round(float(value), 6) for value in values[:shown]],
    }


def take_tokens(shown: ShownTake | None, codes: int) -> dict[str, object] | None:
    """Return the tokens of a take, and its drafted tokens that were accepted and rejected, without the end of speech."""
    if shown is None:
        return None
    tests = [test for round_ in shown.take.rounds for test in round_.tests if test.token < codes]
    return {
        "method": shown.take.settings.method.upper(),
        "tokens": [token for token in shown.take.tokens if token < codes],
        "accepted": [test.token for test in tests if test.accepted],
        "rejected": [test.token for test in tests if not test.accepted],
    }


def write_points(synthesizer: Synthesizer, path: Path) -> None:
    """Write what never changes on the map: the places of all codes, and the FSQ levels."""
    atlas, voice = synthesizer.library.atlas(), synthesizer.voice
    places = np.stack([atlas.x.numpy(), atlas.y.numpy()])
    # Unused codes are their own nearest, and lie on a wide ring: here, on the border.
    used = places[:, atlas.nearest[:, 0].numpy() != np.arange(places.shape[1])]
    low, side = (used.min(1, keepdims=True), float(np.ptp(used, axis=1).max()) or 1.0) if used.size else (0.0, 1.0)
    x, y = np.rint((places - low) / side * 65535).clip(0, 65535).astype(int).tolist()
    levels = list(voice.codec.config.levels) if isinstance(voice.codec, EmbeddedCodec) else []
    path.write_text(json.dumps({"x": x, "y": y, "levels": levels, "count": len(x)}))


def whole_view(
    synthesizer: Synthesizer, shown: ShownTake | None, token: object, theta: float, similarity: str
) -> dict[str, object]:
    """Return all changing props of the map. Gradio drops those that an update before the first opening leaves out."""
    alike = synthesizer.library.neighbours(similarity).mean_size_at(theta) - 1
    groups = groups_at(synthesizer.library, theta, similarity)
    # |G(t)| and N(t) of every code t.
    sizes = {"groups": groups.sizes[groups.group_of_centre][:-1].tolist(), "counts": groups.count[:-1].tolist()}
    return {
        "sizes": json.dumps(sizes),
        "about": f"At theta {theta:g} each token has about {alike:.0f} sound-alikes.",
        # Nothing for no token, as gradio sends no None.
        "scene": {} if token is None else token_group(synthesizer, token, theta, similarity),
        "take": take_tokens(shown, synthesizer.voice.codec.codebook_size),
    }


def create_map(synthesizer: Synthesizer, session: gr.State, in_hand: gr.Radio, stage: gr.HTML) -> None:
    """Lay the panel out.

    Args:
        session: holds a Session; `in_hand`: which of its takes the map shows.
        stage: its event `locate` asks for a `token`, or for the `group` that a test of the take drew.
    """
    # The lists of a crowded embedding may end above the lowest theta.
    allowed = bounds("theta")
    low = max(allowed.low, ceil(synthesizer.library.neighbours("cosine").floor / allowed.step) * allowed.step)
    with gr.Column(elem_classes="lab-card"):
        gr.HTML(HEADING, apply_default_css=False)
        with gr.Row(elem_classes="lab-seed"):
            theta = gr.Slider(
                low, allowed.high, max(low, Settings().theta), step=allowed.step, label="Theta of the map", buttons=[],
                info=explained("theta"), elem_id="map-theta", min_width=260,
            )  # fmt: skip
            similarity = setting("similarity", "map-", info=None)
            last = synthesizer.voice.codec.codebook_size - 1
            token_box = gr.Number(
                None, label=f"Token, 0 to {last}", precision=0, minimum=0, maximum=last, elem_id="map-token", min_width=120
            )
        with TemporaryDirectory() as folder:
            points = Path(folder) / "map.json"
            write_points(synthesizer, points)
            # Gradio copies files among the values of a component to its cache and serves them under any root path.
            files = {name: {"path": str(path), "meta": {"_type": "gradio.FileData"}}
                     for name, path in (("plotly", PLOTLY), ("points", points))}  # fmt: skip
            map_ = gr.HTML(
                files, html_template=TEMPLATE, js_on_load=(HERE / "map.js").read_text(encoding="utf-8"),
                apply_default_css=False, elem_id="map-plot", hear_at="#hear",
                **whole_view(synthesizer, session.value.in_hand("pcg"), None, theta.value, "cosine"),
            )  # fmt: skip
        with gr.Row(elem_classes="lab-seed"):
            hear = gr.Button("Hear it", variant="primary", elem_id="hear", size="md", scale=0, min_width=120)
            words = gr.HTML(PROMPT, apply_default_css=False, elem_id="hear-words")
        with gr.Row(equal_height=True):
            # A player's clock counts whole seconds: a token alone would stand at 0:00.
            options = {"alone": {"autoplay": True, "elem_classes": "lab-clockless"}, "context": {}}
            players = []
            for name, caption in PLAYERS.items():
                with gr.Column(min_width=260):
                    gr.HTML(f'<p class="map-note">{caption}</p>', apply_default_css=False)
                    players.append(player(synthesizer, caption, f"hear-{name}", **options[name]))
    token = gr.State()
    lent = on_gpu(lambda *values: hear_token(synthesizer, *values), lambda *_: STARTING_SECONDS)

    def redraw(theta: float, similarity: str, token: int | None, session: Session, key: str) -> object:
        with showing_errors():
            return gr.update(**whole_view(synthesizer, session.in_hand(key), token, theta, similarity))

    def choose(number: object, theta: float, similarity: str) -> list[object]:
        with showing_errors():
            picture = {} if number is None else token_group(synthesizer, number, theta, similarity)
        return [gr.update(scene=picture), picture.get("token")]

    def pick(theta: float, similarity: str, event: gr.EventData) -> list[object]:
        return choose(event_values(event).get("token"), theta, similarity)

    def locate(theta: float, similarity: str, session: Session, key: str, event: gr.EventData) -> list[object]:
        asked, shown = event_values(event), session.in_hand(key)
        token = asked.get("token")
        with showing_errors():
            if shown and asked.get("group") is not None:
                theta, similarity = shown.take.settings.theta, shown.take.settings.similarity
                groups = groups_at(synthesizer.library, theta, similarity)
                centre = int(groups.first_centres[check_whole("group", asked["group"], 0, len(groups) - 1)])
                # The end of speech is no point of the map.
                token = centre if centre < synthesizer.voice.codec.codebook_size else token
            props = whole_view(synthesizer, shown, token, theta, similarity)
        return [gr.update(**props), token, theta, similarity]

    def listen(token: int | None, theta: float, similarity: str, key: str, session: Session) -> list[object]:
        if token is None:
            return [PROMPT, None, None]
        with showing_errors():
            said, *sounds = lent(session.in_hand(key), token, theta, similarity)
        heard = f'<p class="map-note" role="status">{said}</p>'
        return [heard, *(sound and pcm(sound.samples, sound.sample_rate) for sound in sounds)]

    def group(token: int, theta: float = Settings().theta, similarity: str = "cosine") -> dict:
        with showing_errors():
            return token_group(synthesizer, token, theta, similarity)

    drawn = [theta, similarity, token, session, in_hand]
    gr.on([theta.change, similarity.change], redraw, drawn, map_, trigger_mode="always_last", **QUICK)
    session.change(redraw, drawn, map_, **QUICK)
    # "always_last" would repeat the data of the first event.
    map_.pick(pick, [theta, similarity], [map_, token], trigger_mode="multiple", **QUICK)
    token_box.submit(choose, [token_box, theta, similarity], [map_, token], trigger_mode="always_last", **QUICK)
    places = [map_, token, theta, similarity]
    stage.locate(locate, [theta, similarity, session, in_hand], places, trigger_mode="multiple", **QUICK)
    hear.click(listen, [token, theta, similarity, in_hand, session], [words, *players], api_visibility="private")
    gr.api(
        group, api_name="token_group", queue=False,
        api_description="The group of a token at theta: its members, most similar first, and their similarities.",
    )  # fmt: skip


def hear_token(
    synthesizer: Synthesizer, shown: ShownTake | None, token: object, theta: float, similarity: str
) -> tuple[str, Audition, Audition | None]:
    """Return what was done in words, the token alone, and the take with the token in place of its group's members."""
    groups, codec = groups_at(synthesizer.library, theta, similarity), synthesizer.voice.codec
    token = check_whole("token", token, 0, codec.codebook_size - 1)
    references = synthesizer.voice.references
    speaker = shown.speaker(references) if shown else next(iter(references.values()))
    sound = alone(codec, token, speaker.codes[-CONTEXT_TOKENS:])
    size = groups.size(int(groups.group_of_centre[token]))
    words = f"Token <b>{token}</b>, {REPEATS} times in a row. Its group at theta {theta:g} has {counted(size, 'token')}."
    if shown is None or not shown.take.tokens:
        return f"{words} {NO_TAKE}", *guarded([sound]), None
    take = shown.take
    placed = in_context(synthesizer, take.tokens, groups, token, speaker)
    places, length = len(placed.positions), counted(len(take.tokens), "token")
    words += f" {places} of {length} of the {take.settings.method.upper()} take are in it"
    if not places:
        return f"{words}: there is nothing to replace.", *guarded([sound]), None
    return f"{words}: all were replaced by token {token}.", *guarded([sound, placed])
