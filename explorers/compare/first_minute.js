// Hints that lead to a control: its tab is opened, the control shown, marked and given the focus.
// Gradio runs this with its own names at hand (element, trigger, props, server, upload, watch).

const SEEN = "pcg-lab-first-minute";
const PATIENCE_MS = 4000;
const MARKED_MS = 2500;
const card = element.querySelector(".first-minute");
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A browser may refuse to remember anything; then the hints come again. */
function remembered(value) {
  try {
    if (value) localStorage.setItem(SEEN, value);
    return localStorage.getItem(SEEN);
  } catch {
    return null;
  }
}

/** On a narrow screen the tab may wait in a menu, where only its name identifies it. */
function open(name) {
  const tabs = [...document.querySelectorAll('[role="tab"], .overflow-dropdown button')];
  tabs.find((tab) => tab.textContent.trim() === name)?.click();
}

/** What is in a tab that was never open is drawn only now. */
async function found(selector) {
  const deadline = performance.now() + PATIENCE_MS;
  while (performance.now() < deadline) {
    const place = document.querySelector(selector);
    if (place?.getClientRects().length) return place;
    await new Promise((done) => setTimeout(done, 50));
  }
  return null;
}

async function lead({ tab, place: selector }) {
  open(tab);
  const place = await found(selector);
  if (!place) return;
  place.scrollIntoView({ block: "center", behavior: still() ? "auto" : "smooth" });
  place.focus({ preventScroll: true, focusVisible: true });
  place.classList.add("first-minute-here");
  setTimeout(() => place.classList.remove("first-minute-here"), MARKED_MS);
}

element.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button?.dataset.part === "close") {
    card.hidden = true;
    remembered("seen");
  } else if (button) lead(button.dataset);
});
card.hidden = remembered() !== null;
