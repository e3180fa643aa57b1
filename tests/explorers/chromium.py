"""The browser that the page is tested in, and the pictures that it leaves in `artifacts/`."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from pcg.places import PROJECT

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# WebGL by the processor, and sound without a click.
SOFTWARE = [
    *ARGUMENTS,
    "--autoplay-policy=no-user-gesture-required",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")
ARTIFACTS = PROJECT / "artifacts"
READY = '.stage[data-state="ready"]'


def watch(page: Page, address: str, complaints: list[str]) -> None:
    """Write down what goes wrong on the page from now on: its errors, and whatever it asks of another address."""
    own = (address, "blob:", "data:")
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(own) else complaints.append(request.url))


@contextmanager
def patient_page(width: int, arguments: list[str], patience_ms: int) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
        page.set_default_timeout(patience_ms)
        expect.set_options(timeout=patience_ms)
        yield page
        browser.close()
        expect.set_options(timeout=5_000)


def slow_down(page: Page, times: int) -> None:
    """Let the page have a processor that is so many times as slow, as a phone's."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": times})


def picture(page: Page, panel: str) -> Path:
    """Write the whole page as it looks now, named by panel, width and theme."""
    theme = "dark" if page.evaluate("document.body.classList.contains('dark')") else "light"
    path = ARTIFACTS / f"{panel.lower().replace(' ', '-')}-{page.viewport_size['width']}-{theme}.png"
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path=path, full_page=True)
    return path
