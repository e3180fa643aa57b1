// Beams are pointed at, and walked through with the arrow keys. Gradio runs this with its own names at hand (element, trigger,
// props, server, upload, watch). A redrawn tree replaces all below `element`, so listeners sit on that.

const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

const beamOf = ({ target }) => target.closest?.(".beam");
const find = (cycle, beam) => element.querySelector(`.beam[data-cycle="${cycle}"][data-beam="${beam}"]`);

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
    if (beam) element.querySelector('[data-part="note"]').textContent = beam.getAttribute("aria-label");
  });
}

element.addEventListener("keydown", (happened) => {
  const beam = beamOf(happened);
  if (!beam || !(happened.key in ARROWS) || happened.altKey || happened.ctrlKey || happened.metaKey) return;
  walk(beam, ARROWS[happened.key]);
  happened.preventDefault();
});
