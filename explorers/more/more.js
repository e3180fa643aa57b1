// Beams are pointed at, walked through with the arrow keys, and picked to be heard. Gradio runs this with its own names at hand
// (element, trigger, props, server, upload, watch). A redrawn tree replaces all below `element`, so listeners sit on that.

const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

const beamOf = ({ target }) => target.closest?.(".beam");
const find = (cycle, beam) => element.querySelector(`.beam[data-cycle="${cycle}"][data-beam="${beam}"]`);

function describe(beam) {
  element.querySelector('[data-part="note"]').textContent = beam.getAttribute("aria-label");
}

function pick(beam) {
  element.querySelector(".beam[aria-pressed='true']")?.setAttribute("aria-pressed", "false");
  beam.setAttribute("aria-pressed", "true");
  describe(beam);
  trigger("pick", { cycle: Number(beam.dataset.cycle), beam: Number(beam.dataset.beam) });
}

/** One stop for the tab key; the arrows go on from there. */
function walk(from, [cycles, beams]) {
  const next = find(Number(from.dataset.cycle) + cycles, Number(from.dataset.beam) + beams);
  if (!next) return;
  from.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

for (const event of ["pointerover", "focusin"]) {
  element.addEventListener(event, (happened) => {
    const beam = beamOf(happened);
    if (beam) describe(beam);
  });
}

element.addEventListener("click", (happened) => {
  const beam = beamOf(happened);
  if (beam) pick(beam);
});

element.addEventListener("keydown", (happened) => {
  const beam = beamOf(happened);
  if (!beam || happened.altKey || happened.ctrlKey || happened.metaKey) return;
  if (happened.key in ARROWS) walk(beam, ARROWS[happened.key]);
  else if (happened.key === "Enter" || happened.key === " ") pick(beam);
  else return;
  happened.preventDefault();
});
