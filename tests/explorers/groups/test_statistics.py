import gradio as gr
import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from explorers.groups.statistics import create_statistics, mean_sizes
from explorers.shared.figures import distribution_figure, mean_size_figure, mel_figure
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.served import serve_clients


def test_every_bar_counts_its_doubling() -> None:
    values = np.array([1, 1, 2, 3, 4, 7, 8, 306])
    figure = distribution_figure(values, "Size", "tokens in the group")
    (bars,) = figure.data
    assert list(bars.y) == [2, 2, 2, 1, 0, 0, 0, 0, 1]
    assert bars.text[:3] == ("1", "2 to 3", "4 to 7")
    assert bars.customdata[0] == "2 tokens, 25.0%"
    assert figure.layout.xaxis.ticktext[:4] == ("1", "2", "4", "8")


def test_the_mean_size_figure_holds_the_curves_the_band_and_theta() -> None:
    thetas, plain, weighted = np.array([0.2, 0.6, 1.0]), np.array([30.0, 5.0, 1.0]), np.array([20.0, 3.0, 1.0])
    figure = mean_size_figure(thetas, plain, weighted, 0.52, (0.38, 0.45))
    assert [list(line.y) for line in figure.data] == [list(plain), list(weighted)]
    line, band = figure.layout.shapes
    assert (line.x0, line.x1, band.x0, band.x1, band.name) == (0.52, 0.52, 0.38, 0.45, "the paper's range (LLaSA)")
    assert figure.layout.annotations[0].text == "theta 0.52"
    assert len(mean_size_figure(thetas, plain, weighted, 0.52, None).layout.shapes) == 1


@pytest.mark.parametrize("stacked", [False, True])
def test_log_mels_share_one_scale(stacked: bool) -> None:
    soft, loud = np.full((48, 80), -60.0), np.full((48, 80), -8.0)
    figure = mel_figure([soft, loud], ["A", "B"], np.linspace(20, 7900, 80), 0.01, stacked, [(0.0, 0.04)])
    maps = [trace for trace in figure.data if trace.type == "heatmap"]
    assert [np.shape(trace.z) for trace in maps] == [(80, 48)] * 2
    assert all(trace.coloraxis == "coloraxis" for trace in maps)
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (-78, -8)
    assert [a.text for a in figure.layout.annotations] == ["A", "B"]
    assert list(figure.layout.yaxis.ticktext) == ["0.5", "1", "2", "4"]


def test_the_curve_says_what_the_groups_say(synthesizer: Synthesizer) -> None:
    means = mean_sizes(synthesizer.library.neighbours("cosine"), synthesizer.voice.usage)
    assert (means.thetas[0], means.thetas[-1], len(means.thetas)) == (0.2, 1.0, 81)
    for i in (0, 13, 40, 80):
        figures = synthesizer.statistics(float(means.thetas[i]))
        assert means.plain[i] == pytest.approx(figures.mean_size)
        assert means.weighted[i] == pytest.approx(figures.usage_weighted_mean_size)


@pytest.fixture(scope="module")
def client(synthesizer: Synthesizer):
    with gr.Blocks() as app:
        theta, similarity = gr.Slider(0.2, 1, 0.3), gr.Dropdown(["cosine"], value="cosine")
        create_statistics(synthesizer, theta, similarity, theta.change(lambda: None))
    yield from serve_clients(app)


def test_the_endpoint_answers_with_figures_and_the_table(client: Client, synthesizer: Synthesizer) -> None:
    *figures, table = client.predict(0.3, "cosine", api_name="/group_statistics")
    assert [figure["type"] for figure in figures] == ["plotly"] * 3
    expected = synthesizer.statistics(0.3)
    for shown in (f"{expected.groups:,}", f"{expected.mean_size:.2f}", f"{expected.max_size:,}", f"{expected.bytes:,} B"):
        assert f"<dd>{shown}</dd>" in table


def test_theta_for_a_mean_size_gives_it(client: Client, synthesizer: Synthesizer) -> None:
    wanted = 3.0
    theta = client.predict(wanted, "cosine", api_name="/theta_for_mean_size")
    assert synthesizer.statistics(theta).mean_size == pytest.approx(wanted, rel=0.1)
    with pytest.raises(AppError, match="must be"):
        client.predict(1e6, "cosine", api_name="/theta_for_mean_size")


def test_an_unknown_theta_is_refused(client: Client) -> None:
    with pytest.raises(AppError):
        client.predict(9, "cosine", api_name="/group_statistics")
