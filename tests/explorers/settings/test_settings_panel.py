"""Settings leave the page and come back: as text, link, file and preset, from a browser and from a program."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from urllib.parse import quote

import gradio as gr
import httpx
import numpy as np
import pytest
import soundfile
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from playwright.sync_api import Page, expect, sync_playwright

from explorers.listen.actions import CompareRequest
from explorers.session import Session, TakeView
from explorers.settings.actions import (
    NO_CONTROL,
    arrived,
    model_of,
    read_link,
    stored_of,
    values_of,
    wav_file,
    write_out,
)
from explorers.settings.layout import create_settings
from explorers.settings.presets import KNOBS, STORAGE_KEY
from explorers.theme import launch_options
from pcg.audio import write_wav
from pcg.errors import PCGError
from pcg.settings import METHODS, SAMPLERS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.presets import PAPERS
from pcg.takes.stored import Origin, Stored, read_stored
from pcg.takes.take import Take
from tests.explorers.chromium import ARGUMENTS, CHROMIUM, watch
from tests.explorers.served import serve
from tests.explorers.settings.links import in_a_link

TEXT = 'It\'s the "quick" <b>fox</b> ${window.hacked = 1} $HOME \\ yes.'
SETTINGS = Settings("sd", theta=0.4, lookahead=5, beta=0.1, temperature=0.7, seed=12, adaptive=True)


@pytest.fixture(scope="module")
def origin(synthesizer: Synthesizer) -> Origin:
    return Origin.of(synthesizer.voice)


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    *_, take = synthesizer.speak(TEXT, SETTINGS, "two", stream=True)
    return take


@pytest.fixture(scope="module")
def stored(take: Take, origin: Origin) -> Stored:
    return Stored.of(take, origin, streamed=True)


@pytest.fixture(scope="module")
def served(synthesizer: Synthesizer, origin: Origin, take: Take) -> Iterator[str]:
    """A page of two panels' worth of controls, and the settings under them."""
    with gr.Blocks() as page:
        compare = {
            "text": gr.Textbox(elem_id="text", label="Text"),
            "voice": gr.Dropdown(list(synthesizer.voice.references), label="Voice"),
            "theta": gr.Slider(0.2, 1, 0.5, elem_id="theta", label="Theta"),
            "beta": gr.Slider(0, 1, 0.3, elem_id="beta", label="Beta"),
            "seed": gr.Number(0, precision=0, elem_id="seed", label="Seed"),
            "recording": gr.Audio(type="filepath", label="Recording"),
        }
        tune = {
            "method": gr.Radio(list(METHODS), value="pcg", label="Method"),
            "adaptive": gr.Checkbox(label="Adaptive"),
            "sampler": gr.Radio(list(SAMPLERS), value="eas", label="Sampler"),
            "top_k": gr.Slider(0, 1000, 50, label="Top-k"),
            "top_p": gr.Slider(0, 1, 0.8, label="Top-p"),
        }
        session = gr.State(Session().with_take(TakeView.of(take), full_run=False))
        create_settings(page, synthesizer, origin, session, [compare, tune], open=True)
    yield from serve(page, **launch_options())


@pytest.fixture(scope="module")
def client(served: str) -> Client:
    return Client(served, verbose=False)


def samples(path: str | Path) -> np.ndarray:
    return soundfile.read(path, dtype="int16")[0]


def test_the_session_says_which_take(synthesizer: Synthesizer, origin: Origin, take: Take, stored: Stored) -> None:
    session = Session().with_take(TakeView.of(take), full_run=False)
    assert stored_of(session, "last", synthesizer, origin) == stored_of(session, "sd", synthesizer, origin) == stored
    for empty, which in ((session, "ssd"), (Session(), "last")):
        with pytest.raises(PCGError, match="Generate a take first"):
            stored_of(empty, which, synthesizer, origin)
    own = synthesizer.take("Yes.", Settings("ar"), "your recording", synthesizer.voice.reference("one"))
    with pytest.raises(PCGError, match="your recording"):
        stored_of(session.with_take(TakeView.of(own), full_run=False), "last", synthesizer, origin)


def test_another_voice_and_other_weights_are_told(stored: Stored, origin: Origin) -> None:
    assert "with the same number of threads, the same sound, sample for sample" in arrived(stored, origin, ["one", "two"])
    assert values_of(stored, ["one", "two"])["voice"] == "two"
    assert "No take has been generated yet." in arrived(stored, origin, ["one", "two"])
    shared = arrived(stored, origin, ["one", "two"], shared=True)
    assert shared.startswith("Shared take. Settings are applied: SD, seed 12. On the same computer")
    penalised = replace(stored, settings=Settings("ar", repetition_penalty=1.2))
    told = arrived(penalised, origin, ["one", "two"])
    assert "No control sets repetition_penalty: only “Generate this take again”" in told
    assert "sample for sample" not in told
    elsewhere = Stored(TEXT, "<b>bob", SETTINGS, Origin("other", "0" * 64))
    told = arrived(elsewhere, origin, ["one", "two"])
    assert "&lt;b&gt;bob is not available" in told
    assert "other weights" in told
    assert "sample for sample" not in told
    assert "voice" not in values_of(elsewhere, ["one", "two"])


def test_every_setting_of_a_take_has_a_control_or_is_told_to_have_none() -> None:
    known = {each.name for each in fields(CompareRequest)} | {"method"}
    assert set(Settings.model_fields) - known == set(NO_CONTROL)


def test_a_wav_of_the_page_carries_its_take(take: Take, stored: Stored, tmp_path: Path) -> None:
    path = wav_file(take, stored, tmp_path)
    assert path == wav_file(take, stored, tmp_path)
    assert read_stored(path) == stored
    write_wav(tmp_path / "plain.wav", take.audio, take.sample_rate)
    assert np.array_equal(samples(path), samples(tmp_path / "plain.wav"))


def test_the_endpoints_have_names(client: Client) -> None:
    named = client.view_api(return_format="dict")["named_endpoints"]
    assert set(named) == {"/take_settings", "/open_link", "/import_settings", "/repeat_take", "/preset"}


@pytest.mark.slow
def test_a_program_takes_a_take_away_and_says_it_again(
    client: Client, synthesizer: Synthesizer, take: Take, stored: Stored
) -> None:
    told, written, link, python, shell, curl = client.predict("last", "", api_name="/take_settings")
    assert told == ""
    assert Stored.from_json(written) == stored
    assert read_link(link) == in_a_link(stored)
    expected = write_out(stored, model_of(synthesizer.voice), "")
    assert [python, shell, curl] == [lines.strip() for lines in (expected.python, expected.shell, expected.curl)]
    sound = client.predict(written, api_name="/repeat_take")
    path = sound["value"] if isinstance(sound, dict) else sound
    assert read_stored(Path(path)) == stored
    assert samples(path) / 32768 == pytest.approx(take.audio, abs=1e-4)
    told, *nothing = client.predict("ssd", "", api_name="/take_settings")
    assert "Generate a take first" in told
    assert nothing == [""] * 5
    assert "Generate a take first" in client.predict("ar", "", api_name="/take_settings")[0]


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="no bash or no curl on this computer")
def test_the_curl_lines_fetch_the_same_file(served: str, take: Take, stored: Stored, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.wav"
    write_wav(wanted, take.audio, take.sample_rate, stored.to_json())
    lines = write_out(stored, "tiny", served).curl
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    subprocess.run(["bash", "-c", lines], cwd=tmp_path, check=True, timeout=60, env=environment)
    assert (tmp_path / "speech.wav").read_bytes() == wanted.read_bytes()


def test_files_move_every_panels_controls(client: Client, take: Take, stored: Stored, tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", take.audio, take.sample_rate, stored.to_json())
    (tmp_path / "a.json").write_text(stored.to_json(), encoding="utf-8")
    answers = [client.predict(handle_file(tmp_path / name), api_name="/import_settings") for name in ("a.wav", "a.json")]
    for answer in answers:
        assert TEXT in answer
        assert [value for value in answer if value in (0.4, 0.1, 12, "sd")] == [0.4, 0.1, 12, "sd"]
        assert True in answer


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 9000, b"RIFF\xff\xff\xff\xffWAVELIST", b"\x00" * 3000])
def test_a_hostile_file_is_refused_in_a_sentence(content: bytes, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "evil.json"
    path.write_bytes(content or b" ")
    with pytest.raises(AppError, match="settings"):
        client.predict(handle_file(path), api_name="/import_settings")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": NaN}', "x" * 100_000])
def test_only_a_whole_take_is_repeated(text: str, client: Client) -> None:
    with pytest.raises(AppError, match="must be"):
        client.predict(text, api_name="/repeat_take")


def test_a_file_of_the_server_is_not_read(served: str, stored: Stored, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(stored.to_json(), encoding="utf-8")
    call = f"{served.rstrip('/')}/gradio_api/call/import_settings"
    asked = {"data": [{"path": str(secret), "meta": {"_type": "gradio.FileData"}}]}
    event = httpx.post(call, json=asked, trust_env=False).json()["event_id"]
    answer = httpx.get(f"{call}/{event}", trust_env=False).text
    assert "event: error" in answer
    assert "quick" not in answer


def test_a_preset_moves_the_knobs_alone(client: Client) -> None:
    ssd = next(preset for preset in PAPERS if preset.settings.method == "ssd")
    moved = client.predict(ssd.name, [], api_name="/preset")
    assert ssd.settings.beta in moved
    assert "ssd" in moved
    assert TEXT not in moved
    with pytest.raises(AppError):
        client.predict("no such preset", [], api_name="/preset")


def test_a_preset_sets_the_sampler_back(client: Client) -> None:
    *_, sampler, top_k, top_p = client.predict("PCG, as published", [], api_name="/preset")
    assert (sampler, top_k, top_p) == ("plain", 0, 0)
    # A visitor's own preset is stored and applied with the same settings.
    assert {"sampler", "top_k", "top_p"} <= set(KNOBS)


@pytest.fixture
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(viewport={"width": 390, "height": 844})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield context.new_page()
        browser.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")
def test_a_person_shares_drops_and_keeps(
    browser_page: Page, served: str, stored: Stored, complaints: list[str], tmp_path: Path
) -> None:
    page = browser_page
    watch(page, served, complaints)
    page.goto(served)
    expect(page.locator("#stored-json .cm-content")).to_contain_text('"seed": 12')
    page.get_by_role("radio", name="AR", exact=True).last.check()
    expect(page.locator("#stored-status")).to_contain_text("Generate a take first")
    page.get_by_role("radio", name="SD", exact=True).last.check()
    expect(page.locator("#stored-json .cm-content")).to_contain_text('"seed": 12')
    page.get_by_role("tab", name="Link", exact=True).click()
    page.locator("#stored-link").get_by_role("button", name="Copy").click()
    expect(page.locator("#seed input")).to_have_value("0")
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('take=')")
    link = page.evaluate("navigator.clipboard.readText()")
    assert read_link(link) == in_a_link(stored)
    assert link.removeprefix(served.rstrip("/")).startswith("/#take=")

    # The page is open already, and nothing but what is behind the # is new.
    page.goto(link)
    expect(page.locator("#settings-status")).to_contain_text("Shared take. Settings are applied: SD, seed 12.")
    expect(page.locator("#text textarea")).to_have_value(TEXT)
    expect(page.locator("#seed input")).to_have_value("12")

    page.goto(f"{served}?take={quote(stored.to_json())}")
    expect(page.locator("#settings-status")).to_contain_text("Shared take. Settings are applied: SD, seed 12.")
    page.goto(f"{served}#take=abc<b>")
    expect(page.locator("#settings-status")).to_contain_text("The link contains no take: link is 'abc")
    page.goto(f"{served}?take=%7B%22<b>")
    expect(page.locator("#settings-status")).to_contain_text("The link contains no take: settings is 'not JSON'")
    (tmp_path / "bad.json").write_text("{")
    page.locator("#settings-file input[type=file]").set_input_files(tmp_path / "bad.json")
    expect(page.locator("#settings-status")).to_contain_text("settings is 'not JSON'")
    expect(page.locator(".toast-body")).to_contain_text("settings is 'not JSON'")
    page.locator("#settings-file").get_by_label("Clear").click()
    (tmp_path / "a.json").write_text(stored.to_json().replace('"seed": 12', '"seed": 34'), encoding="utf-8")
    page.locator("#settings-file input[type=file]").set_input_files(tmp_path / "a.json")
    expect(page.locator("#seed input")).to_have_value("34")
    page.get_by_role("button", name="Generate this take again").click()
    expect(page.locator("#repeated").get_by_role("button", name="Play", exact=True)).to_be_visible(timeout=30_000)

    page.fill("#preset-name input, #preset-name textarea", "<i>mine</i>")
    page.locator("#keep-preset").click()
    expect(page.locator("#preset input")).to_have_value("<i>mine</i>")
    assert page.evaluate(f"localStorage.getItem('{STORAGE_KEY}')")
    page.goto(served)
    page.locator("#preset input").click()
    page.get_by_role("option", name="<i>mine</i>").click()
    expect(page.locator("#preset-note")).to_contain_text("Kept by you")
    page.locator("#use-preset").click()
    expect(page.locator("#beta input[type=number]")).to_have_value("0.1")
    expect(page.locator("#seed input")).to_have_value("0")

    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("window.hacked") is None
    assert complaints == []
