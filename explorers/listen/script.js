// What the larger scripts of the page begin with. A script is the body of a function of
// (element, trigger, props, server, upload, watch), as gradio runs it. Words enter the page as text only.
"use strict";

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const formatted = (number) => number.toLocaleString("en");
const counted = (number, noun) => `${formatted(number)} ${noun}${number === 1 ? "" : "s"}`;

function tag(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// One sound at a time on the whole page: the player that begins stops the others.
const FLOOR = "lab-sound";
const takeFloor = (who) => document.dispatchEvent(new CustomEvent(FLOOR, { detail: who }));

/** Call `stop` whenever another player begins, as long as `root` is on the page. */
function yieldFloor(who, root, stop) {
  const gone = new AbortController();
  const told = ({ detail }) => {
    if (!root.isConnected) gone.abort();
    else if (detail !== who) stop();
  };
  document.addEventListener(FLOOR, told, { signal: gone.signal });
}

/** Whether a person has acted on the page: browsers keep it silent before. */
const acted = () => navigator.userActivation?.hasBeenActive ?? true;

/** Whether keys go into a text. */
function typing(target) {
  const box = target.closest?.("input, textarea, select, [contenteditable]");
  return Boolean(box) && !["range", "radio", "checkbox", "button"].includes(box.type);
}

/** Buffers of all sounds, at one rate. */
async function decode(sounds, rate) {
  const decoder = new OfflineAudioContext(1, 1, rate);
  return Promise.all(
    sounds.map(async ({ url }) => {
      const answer = await fetch(url);
      if (!answer.ok) throw new Error(`the server said ${answer.status}`);
      return decoder.decodeAudioData(await answer.arrayBuffer());
    }),
  );
}
