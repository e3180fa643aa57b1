// Clicks on the points of gradio's plots, which bring no events, and on the links of the contents. Gradio runs this, behind
// explorers/shared/scripts/script.js, with its own names at hand (element, trigger, props, server, upload, watch).

const PAPER = "the paper";
// A redrawn plot begins without listeners and with another `on`, which shows whether it has ours.
const followed = new WeakMap();

/** The name of the condition behind a point: plotly keeps it as custom data or as text. */
function nameOf({ customdata, text, data }) {
  if (data.name === PAPER) return null;
  const name = Array.isArray(customdata) ? customdata[0] : text;
  return typeof name === "string" ? name : null;
}

/** Bring `card` into view, and the focus to its title. */
function lead(card) {
  card.scrollIntoView({ behavior: calm() ? "instant" : "smooth", block: "start" });
  card.querySelector("h2, button").focus({ preventScroll: true });
}

function follow(plot) {
  if (!plot.on || followed.get(plot) === plot.on) return;
  followed.set(plot, plot.on);
  plot.on("plotly_click", ({ points }) => {
    const condition = points.map(nameOf).find((name) => name !== null);
    if (!condition) return;
    trigger("pick", { condition });
    lead(document.getElementById("experiments-hearing"));
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

// The browser would go to a folded card and leave it folded.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.(".findings-contents a");
  if (!link) return;
  event.preventDefault();
  const card = document.getElementById(link.hash.slice(1));
  const fold = card.querySelector(":scope > button");
  if (fold && !fold.classList.contains("open")) fold.click();
  // Only an open card may be high enough to stand at the top.
  requestAnimationFrame(() => requestAnimationFrame(() => lead(card)));
});

// What is drawn in a folded card has no width: plotly draws it anew when it hears of one.
document.addEventListener("click", ({ target }) => {
  if (target.closest?.(".lab-card.gr-accordion > button")) setTimeout(() => dispatchEvent(new Event("resize")), 100);
});

// A name that is chosen already would have to be erased before another could be searched.
document.addEventListener("focusin", ({ target }) => {
  if (target.matches("#experiments-condition input")) target.select();
});
