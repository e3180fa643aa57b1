"""What keeps somebody out of the page: what axe finds, what the keyboard does not reach or use, what is wider than the screen.

Every function returns one line for each fault that it finds, so an empty list is what a page wants.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

TABS = ("Listen", "Map", "Swap", "Experiments", "Listening test", "Recognise", "Spoof")
# The tab that a part of it stands in.
WITHIN = {"Map": "Groups", "Swap": "Groups", "Experiments": "Evidence", "Listening test": "Evidence", "Recognise": "Judges",
          "Spoof": "Judges"}  # fmt: skip
OPEN = """name => {
  const tabs = [...document.querySelectorAll('[role="tab"], .overflow-dropdown button')];
  const tab = tabs.find((each) => each.textContent.trim() === name);
  tab?.click();
  return tab !== undefined;
}"""
DARK = "dark => document.body.classList.toggle('dark', dark)"
NARROWEST = 360
MOST_STOPS = 600
DRAWN_MS, LIST_MS = 1_000, 150
FOLDS = 2  # one within another
# Gradio's own, which cannot be mended from outside: a rule, what its selector holds, and why.
GRADIOS_OWN = (
    ("aria-prohibited-attr", 'aria-label="Empty value"', "a label on the icon of an empty component, which says nothing else"),
    ("image-redundant-alt", 'alt="Settings"', "the picture beside its word in the footer"),
)  # fmt: skip
UNLABELLED = """() => [...document.querySelectorAll(
    'button, input:not([type="hidden"]), textarea, select, canvas:not([aria-hidden]), audio, [role="slider"], [role="img"]')]
  .filter((e) => e.checkVisibility() && e.getClientRects().length)
  .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length ||
                   e.textContent.trim() || e.title || e.placeholder || e.closest('label, [aria-label]')))
  .map((e) => e.outerHTML.slice(0, 160))"""

# All that a person may operate and sees; what is marked as hidden are gradio's own copies of tabs.
CONTROLS = """[...document.querySelectorAll('button, input:not([type="hidden"]), textarea, select, summary, a[href], audio, ' +
    '[role="slider"], [role="button"], [role="tab"], [tabindex="0"]')]
  .filter((e) => e.checkVisibility() && e.getClientRects().length && !e.disabled)
  .filter((e) => !e.closest('[inert], [aria-hidden="true"], .visually-hidden'))"""
# Also the history, with what can be done with each of its takes.
UNFOLD = """() => {
  document.querySelectorAll('button.label-wrap:not(.open)').forEach(
    (e) => e.checkVisibility() && !e.closest('#experiments') && e.click());
  const history = document.querySelector('.hand [data-part="open"]');
  if (history && !history.disabled && document.querySelector("#hand-history")?.hidden) history.click();
}"""
FORGET = "() => { for (const e of document.querySelectorAll('[data-reached]')) delete e.dataset.reached; }"
# Whether the focus is where it was before in this round.
ARRIVE = """round => {
  const { activeElement: e } = document;
  if (e === document.body) return false;
  const before = e.dataset.reached === round;
  e.dataset.reached = round;
  return before;
}"""
# Of a group of radio buttons one is reached, and arrows lead to the others.
SKIPPED = f"""() => {{
  const all = {CONTROLS};
  const beside = (e) => e.closest('fieldset')?.querySelector('[type="radio"][data-reached]');
  return all.filter((e) => !e.dataset.reached && !(e.type === 'radio' && beside(e))).map((e) => e.outerHTML.slice(0, 200));
}}"""
# A press arrives as a click, which goes no further here, so that nothing runs, or as a key that the control has taken.
LISTEN = """() => {
  if (window.keyUse) return;
  window.keyUse = { used: false, on: false };
  for (const name of ['click', 'input', 'change'])
    addEventListener(name, (event) => {
      if (!keyUse.on) return;
      keyUse.used = true;
      event.stopImmediatePropagation();
      if (name === 'click') event.preventDefault();
    }, true);
  addEventListener('keydown', (event) => { keyUse.used ||= keyUse.on && event.defaultPrevented; });
}"""
# Left out: sounds, whose keys are the browser's; tabs and what is chosen already; what only scrolls; and gradio's own cross on
# a chosen word, which Backspace in its field does as well.
MARK = f"""() => {CONTROLS}
  .filter((e) => !e.matches('audio, [role="tab"], [type="radio"][aria-checked="true"], [role="group"], .token-remove'))
  .map((e, i) => {{
    e.dataset.control = i;
    const moved = e.matches('[type="range"], [role="slider"], select');
    const opened = e.matches('[role="combobox"]');
    const typed = e.matches('textarea, input:not([type="checkbox"], [type="radio"], [type="file"])');
    return moved ? 'moved' : opened ? 'opened' : typed ? 'typed' : 'pressed';
  }})"""
FOCUS = """i => {
  const control = document.querySelector(`[data-control='${i}']`);
  if (!control?.checkVisibility()) return false;
  control.focus();
  return true;
}"""
VALUE = """i => {
  const e = document.querySelector(`[data-control='${i}']`);
  return e.getAttribute('role') === 'combobox' ? e.getAttribute('aria-expanded') : e.getAttribute('aria-valuenow') ?? e.value;
}"""
Find = Callable[["Page"], list[str]]
KEYS = {
    "moved": ("ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowUp"),  # it may stand at its end
    "opened": ("Escape", "ArrowDown", "Enter"),  # the focus may have opened it
    "typed": ("7", "ArrowDown"),
    "pressed": ("Enter", " "),
}


def open_tab(page: "Page", name: str) -> None:
    """Open one of TABS and wait until it is drawn; on a narrow screen it may be in a menu."""
    for each in (WITHIN.get(name), name):
        if each:
            page.wait_for_function(OPEN, arg=each)
            page.locator(f'[role="tab"][aria-selected="true"]:has-text("{each}")').first.wait_for(state="attached")
    if name == "Map":
        page.locator('.atlas[data-state="ready"]').wait_for()


def faults_of_axe(page: "Page") -> list[str]:
    """What axe finds in what is shown, but for GRADIOS_OWN, and what has no label at all."""
    from axe_playwright_python.sync_playwright import Axe

    found = [f"without a label: {element}" for element in page.evaluate(UNLABELLED)]
    for violation in Axe().run(page).response["violations"]:
        for node in violation["nodes"]:
            place = " ".join(map(str, node["target"])) + node["html"]
            if not any(rule == violation["id"] and part in place for rule, part, _ in GRADIOS_OWN):
                about = f"{node['target']} {node['html'][:160]} {node['failureSummary'][:240]}"
                found.append(f"{violation['id']} ({violation['impact']}): {about}")
    return found


def not_reached(page: "Page") -> list[str]:
    """Controls that Tab passes by on its way round the page, twice: some appear behind the focus as it goes."""
    page.evaluate(FORGET)
    skipped = [f"the focus did not come round in {MOST_STOPS} steps"]
    for number in ("first", "second"):
        for _ in range(MOST_STOPS):
            page.keyboard.press("Tab")
            if page.evaluate(ARRIVE, number):
                skipped = page.evaluate(SKIPPED)
                break
        if not skipped:
            break
    return skipped


def not_used(page: "Page") -> list[str]:
    """Controls that hear no key: sliders and menus that stand still, fields that take no text, buttons that cannot be pressed.
    What would be a click goes no further, so that nothing runs."""
    page.evaluate(LISTEN)
    deaf = []
    for i, kind in enumerate(page.evaluate(MARK)):
        if page.evaluate(FOCUS, i) and not _is_used(page, i, kind):
            deaf.append(page.evaluate("i => document.querySelector(`[data-control='${i}']`).outerHTML.slice(0, 200)", i))
    page.evaluate("document.querySelectorAll('[data-control]').forEach((e) => delete e.dataset.control)")
    return deaf


def _is_used(page: "Page", control: int, kind: str) -> bool:
    changes = kind in ("moved", "opened")
    before = page.evaluate(VALUE, control)
    page.evaluate("heard => Object.assign(keyUse, { used: false, on: heard })", not changes)
    try:
        for key in KEYS[kind]:
            page.keyboard.press(key)
            if kind == "opened":
                page.wait_for_timeout(LIST_MS)
            if page.evaluate(VALUE, control) != before if changes else page.evaluate("keyUse.used"):
                return True
        return False
    finally:
        page.evaluate("keyUse.on = false")


def too_wide(page: "Page") -> list[str]:
    """What the page needs, if it scrolls sideways."""
    width, screen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"{width} px on a screen of {screen}"] if width > screen else []


def faults(page: "Page", find: Find, tabs: Sequence[str] = TABS, dark: bool = False, unfold: bool = False) -> list[str]:
    """What `find` finds on each of `tabs`, with the tab's name, in the light theme or the dark one."""
    page.evaluate(DARK, dark)
    found = []
    for tab in tabs:
        open_tab(page, tab)
        for _ in range(FOLDS if unfold else 0):
            page.evaluate(UNFOLD)
            page.wait_for_timeout(DRAWN_MS)
        page.wait_for_timeout(DRAWN_MS)
        found += [f"{tab}: {fault}" for fault in find(page)]
    return found
