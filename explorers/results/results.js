// The ballot of a blind test: a player for each letter, and the vote once everything was played. Gradio runs this with its own
// names at hand (element, trigger, props, watch). Words enter the page as text only.
"use strict";

const root = element.querySelector(".ballot");
const ANSWERS = {
  ab: { A: "A is better", B: "B is better", tie: "No difference" },
  abx: { A: "X is A", B: "X is B" },
};
const OPEN = "R";

function make(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const COMPARED = ["A is much better", "A is better", "A is slightly better", "About the same", "B is slightly better",
  "B is better", "B is much better"];

/** The buttons of an answer; or a slider for each letter, or for two compared ones together, and one button. */
function createVote(kind, letters, scale, cast) {
  if (!scale)
    return Object.entries(ANSWERS[kind]).map(([answer, words]) => {
      const button = make("button", words, { type: "button", disabled: "" });
      button.addEventListener("click", () => cast(answer));
      return button;
    });
  const [low, high] = scale;
  const named = kind === "cmos" ? ["A or B"] : letters.filter((letter) => letter !== OPEN).map((letter) => `Score of ${letter}`);
  const sliders = named.map((name) =>
    make("input", "", { type: "range", min: low, max: high, value: (low + high) / 2, "aria-label": name }));
  const rows = sliders.map((slider) => {
    const row = make("label", `${slider.getAttribute("aria-label")} `);
    const told = () => (kind === "cmos" ? COMPARED[Number(slider.value) - low] : slider.value);
    const shown = make("output", told());
    slider.addEventListener("input", () => { shown.textContent = told(); });
    row.append(slider, shown);
    return row;
  });
  const button = make("button", "Give these scores", { type: "button", disabled: "" });
  button.addEventListener("click", () => cast(sliders.map((slider) => Number(slider.value))));
  return [...rows, button];
}

function show() {
  const { number, count, kind, letters, scale, text, sounds, told } = props.value ?? {};
  if (!number) return root.replaceChildren(make("p", told ?? ""));
  const plays = letters.map(() => 0);
  const note = make("p", "Play every sound, then vote.", { role: "status", class: "results-note" });
  const vote = make("div", "", { class: "ballot-vote", role: "group", "aria-label": "Your vote" });
  const players = letters.map((letter, i) => {
    const sound = make("audio", "", { controls: "", preload: "auto", src: sounds[i].url, "aria-label": `Sound ${letter}` });
    sound.addEventListener("play", () => {
      plays[i] += 1;
      if (plays.every(Boolean)) for (const button of vote.querySelectorAll("button")) button.disabled = false;
    });
    const figure = make("figure");
    figure.append(make("figcaption", letter === OPEN ? "Reference" : letter), sound);
    return figure;
  });
  vote.append(...createVote(kind, letters, scale, (answer) => {
    for (const button of vote.querySelectorAll("button")) button.disabled = true;
    trigger("vote", { trial: number, answer, plays });
  }));
  const takes = make("div", "", { class: "takes" });
  takes.append(...players);
  root.replaceChildren(make("h3", `Trial ${number} of ${count}`), make("p", `“${text}”`), takes, vote, note);
}

watch("value", show);
show();
