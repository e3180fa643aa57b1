"""How the page looks and how it is served: the `launch` arguments that are the same everywhere."""

from pathlib import Path

import gradio as gr

from explorers.colours import SOUND_COLOUR, css_variables
from explorers.requests import app_options
from pcg.serving.protection import LIMITS

HERE = Path(__file__).parent
STYLES = ("page", "shared/readout", "shared/terms", "listen/stage", "how_it_works/how_it_works", "results/results", "more/more")
INK, CHALK, AMBER = "#1c2024", "#e9e7e2", "#b87400"
LINK, SUBDUED, BORDER, EDGE = ("#8f5a00", SOUND_COLOUR), ("#5c636b", "#a2a8ae"), ("#dedbd4", "#31353a"), ("#cfcbc3", "#3b4046")
COLOURS = {
    "body_background_fill": ("#f6f5f2", "#141619"),
    "body_text_color": (INK, CHALK),
    "link_text_color": LINK,
    "link_text_color_hover": (AMBER, "#f3b32a"),
    "link_text_color_visited": LINK,
    "link_text_color_active": LINK,
    "body_text_color_subdued": SUBDUED,
    "block_background_fill": ("#ffffff", "#1c1f23"),
    "block_border_color": BORDER,
    "border_color_primary": BORDER,
    "block_info_text_color": SUBDUED,
    "block_label_text_color": SUBDUED,
    "block_title_text_color": (INK, CHALK),
    "input_background_fill": ("#fbfaf8", "#15171a"),
    "input_border_color": EDGE,
    # Gradio takes the outline of a focused text box away.
    "input_border_color_focus": (AMBER, SOUND_COLOUR),
    "input_shadow_focus": (f"0 0 0 1px {AMBER}", f"0 0 0 1px {SOUND_COLOUR}"),
    "slider_color": (AMBER, SOUND_COLOUR),
    "button_border_width": ("1px", "1px"),
    "button_primary_background_fill": (SOUND_COLOUR, SOUND_COLOUR),
    "button_primary_background_fill_hover": ("#f3b32a", "#f3b32a"),
    "button_primary_border_color": (AMBER, SOUND_COLOUR),
    "button_primary_text_color": (INK, INK),
    "button_secondary_background_fill": ("#ffffff", "#24282d"),
    "button_secondary_border_color": EDGE,
    "button_secondary_text_color": (INK, CHALK),
}
"""The colours of Gradio's theme on the light and on the dark page."""


def launch_options(hosts: tuple[str, ...] = (), mcp: bool = False) -> dict[str, object]:
    """Return the options of a page with our own style and limited requests. hosts: its names; mcp: whether it offers tools."""
    light = {name: pair[0] for name, pair in COLOURS.items()}
    dark = {f"{name}_dark": pair[1] for name, pair in COLOURS.items()}
    theme = gr.themes.Base(
        primary_hue=gr.themes.colors.amber,
        neutral_hue=gr.themes.colors.stone,
        spacing_size=gr.themes.sizes.spacing_sm,
        radius_size=gr.themes.sizes.radius_sm,
        text_size=gr.themes.sizes.text_sm,
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],
        font_mono=["ui-monospace", "SF Mono", "Cascadia Mono", "Menlo", "DejaVu Sans Mono", "monospace"],
    ).set(block_info_text_size="12px", block_title_text_weight="550", input_border_width="1px", **light, **dark)
    return {
        "theme": theme,
        "css": css_variables(),
        "css_paths": [HERE / f"{name}.css" for name in STYLES],
        "max_file_size": "20mb",
        "footer_links": ["api", "settings"],
        "run_history": False,
        "ssr_mode": False,
        "favicon_path": HERE / "icon.png",
        "state_session_capacity": LIMITS.sessions,
        "app_kwargs": app_options(hosts),
        "mcp_server": mcp,
    }
