"""The page of results: everything on it, nothing from elsewhere, and no text that acts."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser

from explorers.results.figures import STYLES, figures
from explorers.results.report import findings, most_apart, write_report
from pcg.errors import AssetError, InputError
from pcg.experiments.grids import ar, membership, pcg, sd, ssd, swapped
from pcg.experiments.results import Results, summarise
from pcg.experiments.store import Store
from pcg.experiments.unit import Condition, Record, Unit
from pcg.places import ASSETS
from tests.experiments.synthetic import CONTEXT, record
from tests.explorers.chromium import NEEDS_CHROMIUM

MARKUP = "</script><img src=x onerror=alert(1)>"
DRAFTING = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10), "trials": 45}


def units(condition: Condition, errors: int, speed: float = 100.0, **figures: object) -> list[Record]:
    return [record(condition, i, errors + i % 2, 20, speed + i % 3, **figures) for i in range(6)]


def study() -> list[Record]:
    return [
        *units(ar(), 1), *units(sd(), 1, 90, **DRAFTING), *units(ssd(0.3), 6, 140, **DRAFTING),
        *units(pcg(0.5), 2, 120, **DRAFTING), *units(pcg(0.4), 3, 160, **DRAFTING),
        *units(membership(5), 4, 126, **DRAFTING),
        *units(swapped(0.5), 2, swapped=0.9, mel_distance=3.0),
    ]  # fmt: skip


def tone(unit: Unit) -> tuple[np.ndarray, int]:
    return (0.3 * np.sin(0.06 * np.arange(2400))).astype(np.float32), 24_000


def stored(folder: Path, records: list[Record]) -> Path:
    store = Store(folder)
    for one in records:
        store.add(one.unit.key("voice"), one)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = stored(tmp_path_factory.mktemp("results"), study())
    write_report(folder, folder / "page" / "report.html", tone)
    return folder / "page" / "report.html"


class Page(HTMLParser):
    """The tags of a page and its text outside of scripts and styles."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self._inside = "", ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.text += "" if self._inside in ("script", "style") else data


def test_the_page_holds_every_table_and_figure(written: Path) -> None:
    shown, content = Page(written), json.loads((written.parent / "results.json").read_text(encoding="utf-8"))
    assert set(content["figures"]) == {"main", "tradeoff", "acceptance", "swap"}
    for table in content["tables"]:
        assert table["title"] in shown.text
        assert table["command"] in shown.text
    drawn = {attrs["data-figure"] for _, attrs in shown.tags if "data-figure" in attrs}
    assert drawn == {f"figure-{name}" for name in content["figures"]}
    rows = {table["name"]: table["rows"] for table in content["tables"]}
    assert content["records"] == len(study())
    assert next(row for row in rows["main"] if row["setting"] == "AR")["WER %"]["value"] == pytest.approx(1.5 / 20)
    for text in (*CONTEXT["judges"].values(), CONTEXT["processor"], "python -m pcg report"):
        assert text in shown.text


def test_a_report_beside_published_results_is_listed_anew(tmp_path: Path) -> None:
    folder = stored(tmp_path / "results", study())
    Store(folder).pack()
    for speed in (2.0, 3.0):  # a unit that was added makes another file of numbers
        more = record(sd(), f"at {speed}", speed=speed)
        Store(folder).add(more.unit.key("voice"), more)
        write_report(folder, folder / "report.html")
        Store(folder).all()
    data = folder / "results.json"
    data.write_text(data.read_text().replace("AR", "RA"))
    with pytest.raises(AssetError, match=r"results\.json is damaged"):
        Store(folder).all()


def test_nothing_is_fetched_and_every_setting_sounds_once(written: Path) -> None:
    shown = Page(written)
    links = [attrs[name] for _, attrs in shown.tags for name in ("src", "href", "srcset", "data") if attrs.get(name)]
    assert all(link.startswith(("data:audio/flac;base64,", "#")) for link in links)
    policy = next(attrs["content"] for _, attrs in shown.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    sources = [attrs["src"] for tag, attrs in shown.tags if tag == "audio"]
    assert len(sources) == 7 + 2 * 6
    samples, rate = soundfile.read(BytesIO(b64decode(sources[0].partition(",")[2])))
    assert (rate, len(samples)) == (24_000, 2400)


def test_texts_of_users_are_texts(tmp_path: Path) -> None:
    named = Condition(MARKUP, ssd(0.3).settings)
    records = [record(ar(), MARKUP, heard=MARKUP, context={"processor": MARKUP, "workers": 1})]
    records += [record(named, MARKUP, heard=MARKUP, speed=120, context={"processor": MARKUP, "workers": 1}, **DRAFTING)]
    out = tmp_path / "report.html"
    write_report(stored(tmp_path / "results", records), out, sound=tone)
    shown = Page(out)
    assert "img" not in {tag for tag, _ in shown.tags}
    assert shown.text.count(MARKUP) >= 5
    # Each figure's data ends where it should, and plotly gets no markup either.
    data = re.findall(r"<script type='application/json' id='figure-main'>(.*?)</script>", out.read_text(encoding="utf-8"), re.S)
    assert MARKUP not in json.dumps(json.loads(data[0]))


def test_without_results_there_is_no_page_and_one_voice_can_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one result"):
        write_report(tmp_path / "nowhere", tmp_path / "report.html")
    first = [record(ar(), i, context=CONTEXT | {"voice": "first"}) for i in range(2)]
    second = [record(ar(), i, context=CONTEXT | {"voice": "second"}) for i in range(2, 5)]
    folder = stored(tmp_path / "results", first + second)
    assert write_report(folder, tmp_path / "report.html", voice="second")["records"] == 3


def test_figures_hold_what_was_measured() -> None:
    results = Results(study())
    drawn = figures(results, summarise(results))
    curves = {trace.name: trace for trace in drawn["main"].data}
    assert curves["PCG"].x == pytest.approx((0.9, 1.2, 1.6), abs=0.01)
    assert curves["PCG"].y == pytest.approx((7.5, 12.5, 17.5))
    assert curves["PCG"].error_y.array[1] > 0
    assert curves["PCG"].marker.color == STYLES["PCG"][0]
    assert curves["SSD"].y[-1] == pytest.approx(32.5)
    assert list(curves["Pareto front"].x) == sorted(curves["Pareto front"].x)
    assert drawn["acceptance"].data[0].y == pytest.approx((75, 50, 25))
    assert drawn["swap"].data[0].y == pytest.approx((5,))


def test_a_figure_compares_only_what_all_of_its_points_said() -> None:
    slow = {**DRAFTING, "tested": (40, 40, 40), "accepted_at": (40, 40, 40)}
    more = [record(condition, 9, 20, 20, 20.0, **slow) for condition in (sd(), pcg(0.5))] + [record(ar(), 9, 1, 20, 100.0)]

    def points(records: list[Record]) -> list[tuple[object, object]]:
        results = Results(records)
        return [(trace.x, trace.y) for trace in figures(results, summarise(results))["acceptance"].data]

    assert points(study() + more) == points(study())
    assert points(study() + more + [record(ssd(0.3), 9, 20, 20, 20.0, **slow)]) != points(study())


@NEEDS_CHROMIUM
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440])
def test_a_browser_shows_it_alone(browser: Browser, written: Path, width: int) -> None:
    shown, asked, failed = browser.new_page(viewport={"width": width, "height": 900}), [], []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("console", lambda message: failed.append(message.text))
    shown.on("pageerror", lambda error: failed.append(str(error)))
    shown.goto(written.as_uri())
    shown.wait_for_function("document.querySelectorAll('.figure .main-svg').length >= 4")
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [written.as_uri()]
    assert failed == []
    assert shown.evaluate("document.documentElement.scrollWidth") == width
    shown.close()


@pytest.mark.slow
def test_the_shipped_results_are_those_of_the_shipped_units() -> None:
    shipped = json.loads((ASSETS / "results" / "results.json").read_text(encoding="utf-8"))
    made = json.loads(json.dumps(findings(Store(ASSETS / "results").all())))
    assert {name: shipped[name] == made[name] for name in made} == dict.fromkeys(made, True)


def test_takes_are_paired_where_ssd_and_pcg_differ_most(written: Path) -> None:
    """PCG at 0.4 does as much work as SSD here; the pair that differs most comes first."""
    changed = [*units(ssd(0.3), 6, **DRAFTING), *units(pcg(0.4), 3, **DRAFTING), *units(swapped(0.5), 2)]
    changed[8] = record(pcg(0.4), 2, 19, 20, 100.0, **DRAFTING)
    pairs = most_apart(changed, 3)
    assert [[r.unit.settings.method for r in pair] for pair in pairs] == [["ssd", "pcg"]] * 3
    assert [r.unit.utterance for r in pairs[0]] == [changed[8].unit.utterance] * 2
    assert most_apart(units(ssd(0.3), 6, **DRAFTING)) == []
    assert "Where SSD and PCG differ most" in Page(written).text
