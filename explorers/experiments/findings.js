// Clicks on the points of gradio's plots, which bring no events. Gradio runs this with its own names at hand
// (element, trigger, props, server, upload, watch).

const PAPER = "the paper";
// A redrawn plot begins without listeners and with another `on`, which shows whether it has ours.
const followed = new WeakMap();

/** The name of the condition behind a point: plotly keeps it as custom data or as text. */
function nameOf({ customdata, text, data }) {
  if (data.name === PAPER) return null;
  const name = Array.isArray(customdata) ? customdata[0] : text;
  return typeof name === "string" ? name : null;
}

function follow(plot) {
  if (!plot.on || followed.get(plot) === plot.on) return;
  followed.set(plot, plot.on);
  plot.on("plotly_click", ({ points }) => {
    const condition = points.map(nameOf).find((name) => name !== null);
    if (condition) trigger("pick", { condition });
  });
}

// A pointer is over a plot before it can click there, however often gradio has put it elsewhere or drawn it anew.
document.addEventListener(
  "pointerover",
  ({ target }) => {
    const plot = target.closest?.(".js-plotly-plot");
    if (plot && props.figures.some((id) => plot.closest(`#${id}`))) follow(plot);
  },
  { passive: true },
);
