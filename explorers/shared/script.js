// What the larger scripts of the page begin with. A script is the body of a function of
// (element, trigger, props, server, upload, watch), as gradio runs it. Words enter the page as text only.
"use strict";

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function tag(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
