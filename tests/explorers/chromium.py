"""The browser that the page is tested in, its pictures in `artifacts/`, and what axe, the keyboard and a narrow screen find."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Page

from pcg.places import PROJECT

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
# WebGL by the processor, and sound without a click.
SOFTWARE = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--autoplay-policy=no-user-gesture-required",
            "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # fmt: skip
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")
ARTIFACTS = PROJECT / "artifacts"
READY = '.stage[data-state="ready"]'
DRAWN_MS, MOST_STOPS = 1_000, 400
# The tabs, and the tab that a part stands in.
TABS = {"Listen": "", "Map": "How it works", "Swap test": "How it works", "Measured": "Results", "Listening test": "Results",
        "Recognition": "More", "Spoof detectors": "More"}  # fmt: skip
OPEN = """name => {
  const all = [...document.querySelectorAll('[role="tab"], .overflow-dropdown button')];
  const tab = all.find((e) => e.textContent.trim() === name);
  tab?.click();
  return tab !== undefined;
}"""
# Gradio's own, which cannot be mended from outside.
GRADIOS_OWN = (("aria-prohibited-attr", 'aria-label="Empty value"'), ("image-redundant-alt", 'alt="Settings"'))
CONTROLS = """[...document.querySelectorAll('button, input:not([type="hidden"]), textarea, select, summary, a[href], audio, ' +
    '[role="slider"], [role="button"], [role="tab"], [tabindex="0"]')]
  .filter((e) => e.checkVisibility() && e.getClientRects().length && !e.disabled)
  .filter((e) => !e.closest('[inert], [aria-hidden="true"], .visually-hidden'))"""
ARRIVE = """() => {
  const { activeElement: e } = document;
  const before = e === document.body || e.dataset.reached === 'yes';
  if (e !== document.body) e.dataset.reached = 'yes';
  return before && e !== document.body;
}"""
# One of a group of radio buttons is reached, and arrows lead to the others.
SKIPPED = f"""() => {CONTROLS}
  .filter((e) => !e.dataset.reached && !(e.type === 'radio' && e.closest('fieldset')?.querySelector('[data-reached]')))
  .map((e) => e.outerHTML.slice(0, 200))"""


def watch(page: Page, address: str, complaints: list[str]) -> None:
    """Write down what goes wrong on the page from now on: its errors, and whatever it asks of another address."""
    own = (address, "blob:", "data:")
    page.on("console", lambda m: complaints.append(f"{m.text} {m.location['url']}") if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(own) else complaints.append(request.url))


def picture(page: Page, panel: str) -> Path:
    """Write the whole page as it looks now, named by panel, width and theme."""
    theme = "dark" if page.evaluate("document.body.classList.contains('dark')") else "light"
    path = ARTIFACTS / f"{panel.lower().replace(' ', '-')}-{page.viewport_size['width']}-{theme}.png"
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path=path, full_page=True)
    return path


def open_tab(page: Page, name: str) -> None:
    """Open one of TABS and wait until it is drawn; on a narrow screen it may be in a menu."""
    for tab in filter(None, (TABS.get(name), name)):
        page.wait_for_function(OPEN, arg=tab)
        page.locator(f'[role="tab"][aria-selected="true"]:has-text("{tab}")').first.wait_for(state="attached")
    page.wait_for_timeout(DRAWN_MS)


def faults(page: Page, find: Callable[[Page], list[str]], tabs: Sequence[str] = (), dark: bool = False) -> list[str]:
    """What `find` finds on each tab that the page has, with the tab's name."""
    page.evaluate("dark => document.body.classList.toggle('dark', dark)", dark)
    found = []
    for tab in tabs or [name for name in TABS if page.locator(f'[role="tab"]:has-text("{name}")').count()]:
        open_tab(page, tab)
        found += [f"{tab}: {fault}" for fault in find(page)]
    return found


def axe_faults(page: Page) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for violation in Axe().run(page).response["violations"]:
        for node in violation["nodes"]:
            place = " ".join(map(str, node["target"])) + node["html"]
            if not any(rule == violation["id"] and part in place for rule, part in GRADIOS_OWN):
                found.append(f"{violation['id']} ({violation['impact']}): {place[:200]} {node['failureSummary'][:200]}")
    return found


def not_reached(page: Page) -> list[str]:
    """Controls that Tab passes by on its way round the page."""
    page.evaluate("document.querySelectorAll('[data-reached]').forEach((e) => delete e.dataset.reached)")
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate(ARRIVE):
            return page.evaluate(SKIPPED)
    return [f"the focus did not come round in {MOST_STOPS} steps"]


def too_wide(page: Page) -> list[str]:
    width = page.evaluate("document.documentElement.scrollWidth")
    return [f"{width} px"] if width > page.viewport_size["width"] else []
