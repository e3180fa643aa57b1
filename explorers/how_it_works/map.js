// The map of the tokens in plotly. Gradio runs this with its own names at hand (element, trigger, props, watch).
// Words enter the page as text only.
"use strict";

const root = element.querySelector(".map");
const parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
const CATEGORIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b3a000", "#7d8288"];
const RAMP = "Cividis";
const DUST = "rgba(125, 130, 136, 0.45)";
const FATES = ["not in the take", "in the take", "drafted and accepted", "drafted and rejected"];
const FATE_COLOURS = [DUST, "#56b4e9", "#009e73", "#d55e00"];
const SHOWN_MEMBERS = 24;
const [ALL, GROUP, ANCHOR] = [0, 1, 2];
let points, sizes, plotly, chosen = null;

const format = (number) => number.toLocaleString("en");
const tokens = (number) => `${format(number)} token${number === 1 ? "" : "s"}`;

/** The FSQ digit at `place` of a token. */
function digit(token, place) {
  return Math.floor(token / points.levels.slice(0, place).reduce((product, level) => product * level, 1)) % points.levels[place];
}

/** What each token counts as by the chosen colour: values, and either the names of categories or null for a ramp. */
function colouring() {
  const [kind, place] = parts.colour.value.split(" ");
  const each = (value) => Array.from({ length: points.count }, (_, token) => value(token));
  if (kind === "size") return { values: sizes.groups, title: "tokens in the group" };
  if (kind === "count") return { values: sizes.counts, title: "groups that hold it" };
  if (kind === "digit") return { values: each((t) => digit(t, Number(place))), names: Array.from({ length: points.levels[place] }, (_, i) => `${i}`) };
  const fate = new Uint8Array(points.count);
  for (const [place, key] of ["tokens", "accepted", "rejected"].entries())
    for (const token of props.take?.[key] ?? []) fate[token] = place + 1;
  return { values: Array.from(fate), names: FATES, colours: FATE_COLOURS };
}

/** The marker of all tokens: a colour each, and the bar that explains it. */
function marker() {
  const { values, names, colours = CATEGORIES, title } = colouring();
  const bar = { thickness: 10, len: 0.7, x: 1, xpad: 4, outlinewidth: 0, tickfont: { color: ink(), size: 11 } };
  const size = points.count > 20000 ? 3 : 5;
  if (!names) {
    const logs = values.map((value) => Math.log2(value || 1));
    const top = Math.ceil(logs.reduce((most, value) => Math.max(most, value), 1));
    const ticks = Array.from({ length: top + 1 }, (_, i) => i);
    const ramp = { colorscale: RAMP, cmin: 0, cmax: top, showscale: true };
    const text = { text: title, side: "right", font: { color: ink(), size: 11 } };
    return { size, color: logs, ...ramp, colorbar: { ...bar, tickvals: ticks, ticktext: ticks.map((i) => format(2 ** i)), title: text } };
  }
  const steps = names.flatMap((_, i) => [i, i + 1].map((end) => [end / names.length, colours[i % colours.length]]));
  const range = { colorscale: steps, cmin: -0.5, cmax: names.length - 0.5, showscale: true };
  return { size, color: values, ...range, colorbar: { ...bar, tickvals: names.map((_, i) => i), ticktext: names } };
}

const ink = () => getComputedStyle(root).color;
const at = (tokens, column) => tokens.map((token) => column[token]);

function layout() {
  const axis = { visible: false, fixedrange: false };
  const clear = "rgba(0, 0, 0, 0)";
  return {
    paper_bgcolor: clear, plot_bgcolor: clear, dragmode: "pan", showlegend: false, hovermode: "closest", autosize: true,
    margin: { l: 4, r: 4, t: 4, b: 4 }, xaxis: axis, yaxis: { ...axis, scaleanchor: "x" }, font: { color: ink() },
    newselection: { line: { color: ink(), width: 1, dash: "dot" } },
  };
}

function draw() {
  const mark = { type: "scattergl", mode: "markers", hoverinfo: "none" };
  const traces = [
    { ...mark, x: points.x, y: points.y, marker: marker(), selected: { marker: { opacity: 1 } }, unselected: { marker: { opacity: 0.15 } } },
    { ...mark, x: [], y: [], marker: { size: 9, color: "rgba(0, 0, 0, 0)", line: { color: ink(), width: 1.5 } } },
    { ...mark, x: [], y: [], marker: { size: 15, symbol: "circle-open", color: "#d55e00", line: { width: 3 } } },
  ];
  return plotly.newPlot(parts.plane, traces, layout(), { displayModeBar: false, scrollZoom: true, responsive: false });
}

function recolour() {
  plotly.restyle(parts.plane, { marker: [marker()] }, [ALL]);
  plotly.restyle(parts.plane, { "marker.line.color": ink() }, [GROUP]);
}

/** Light the chosen token's group up, fade the others, and list it. */
function light() {
  const scene = props.scene?.members ? props.scene : null;
  chosen = scene?.token ?? null;
  const members = scene?.members ?? [];
  const anchor = chosen === null ? [] : [chosen];
  plotly.restyle(parts.plane, { x: [at(members, points.x), at(anchor, points.x)], y: [at(members, points.y), at(anchor, points.y)] }, [GROUP, ANCHOR]);
  plotly.restyle(parts.plane, { "marker.opacity": chosen === null ? 1 : 0.35 }, [ALL]);
  describe(scene);
}

function describe(scene) {
  parts.title.textContent = scene ? `Token ${scene.token}` : "No token chosen";
  const facts = scene
    ? {
        [`group at theta ${scene.theta}`]: tokens(scene.size),
        "groups that hold it": format(scene.count),
        "uses in the corpus": format(scene.usage),
        ...(points.levels.length ? { "FSQ digits": points.levels.map((_, i) => digit(scene.token, i)).join(" ") } : {}),
      }
    : {};
  parts.facts.replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
  const others = (scene?.members ?? []).map((token, i) => [token, scene.similarities[i]]).filter(([token]) => token !== chosen);
  parts.members.replaceChildren(...others.slice(0, SHOWN_MEMBERS).map(([token, similarity]) => {
    const button = make("button", `${token}`, { type: "button", title: "Choose this token" });
    button.addEventListener("click", () => choose(token));
    const item = make("li");
    item.append(button, make("span", similarity.toFixed(2)));
    return item;
  }));
  const rest = scene ? scene.size - 1 - Math.min(others.length, SHOWN_MEMBERS) : 0;
  say(scene && scene.size === 1 ? "It stands alone: nothing is similar enough." : rest ? `and ${tokens(rest)} more` : "");
}

function make(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const say = (words) => { parts.news.textContent = words; };
const choose = (token) => trigger("pick", { token });

/** Tell what lies in a lasso: how many tokens, and their mean group. */
function tellSelection(picked) {
  const inside = picked.filter(({ curveNumber }) => curveNumber === ALL).map(({ pointIndex }) => pointIndex);
  if (!inside.length) return say("No tokens in the lasso.");
  const mean = inside.reduce((sum, token) => sum + sizes.groups[token], 0) / inside.length;
  say(`In the lasso: ${tokens(inside.length)}, groups of ${mean.toFixed(1)} on average.`);
}

/** The token nearest to the chosen one within 45 degrees of a direction. */
function neighbour([right, up]) {
  if (chosen === null) return Math.floor(points.count / 2);
  let best = null, least = Infinity;
  for (let token = 0; token < points.count; token++) {
    const [dx, dy] = [points.x[token] - points.x[chosen], points.y[token] - points.y[chosen]];
    const along = dx * right + dy * up, far = dx * dx + dy * dy;
    if (token !== chosen && along > 0 && 2 * along * along >= far && far < least) [best, least] = [token, far];
  }
  return best ?? chosen;
}

function zoom(factor) {
  const closer = ([low, high]) => [low, high].map((end) => (low + high) / 2 + (end - (low + high) / 2) / factor);
  const { xaxis, yaxis } = parts.plane._fullLayout;
  plotly.relayout(parts.plane, { "xaxis.range": closer(xaxis.range), "yaxis.range": closer(yaxis.range) });
}

const showWhole = () => plotly.relayout(parts.plane, { "xaxis.autorange": true, "yaxis.autorange": true });

function toggleLasso() {
  const on = parts.lasso.getAttribute("aria-pressed") !== "true";
  parts.lasso.setAttribute("aria-pressed", on);
  plotly.relayout(parts.plane, { dragmode: on ? "lasso" : "pan" });
  if (on) return say("Draw around some tokens.");
  plotly.restyle(parts.plane, { selectedpoints: [null] }, [ALL]);
  plotly.relayout(parts.plane, { selections: [] });
}

function listen() {
  const keys = {
    ArrowLeft: () => choose(neighbour([-1, 0])), ArrowRight: () => choose(neighbour([1, 0])),
    ArrowUp: () => choose(neighbour([0, 1])), ArrowDown: () => choose(neighbour([0, -1])),
    Enter: () => document.querySelector(props.hear_at)?.click(), Escape: () => choose(null),
    "+": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: showWhole, l: toggleLasso,
  };
  parts.plane.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  parts.closer.addEventListener("click", () => zoom(1.6));
  parts.farther.addEventListener("click", () => zoom(1 / 1.6));
  parts.whole.addEventListener("click", showWhole);
  parts.lasso.addEventListener("click", toggleLasso);
  parts.colour.addEventListener("change", recolour);
  parts.plane.on("plotly_click", ({ points: [hit] }) => {
    choose(hit.curveNumber === ALL ? hit.pointIndex : hit.curveNumber === GROUP ? props.scene.members[hit.pointIndex] : chosen);
  });
  parts.plane.on("plotly_selected", (event) => event && tellSelection(event.points));
  const resized = new ResizeObserver(() => {
    if (!root.isConnected) resized.disconnect();
    else if (parts.plane.clientWidth) plotly.Plots.resize(parts.plane);
  });
  resized.observe(parts.plane);
  new MutationObserver(recolour).observe(document.body, { attributes: true, attributeFilter: ["class"] });
}

function offerColours() {
  const choices = { size: "group size", count: "groups that hold the token" };
  points.levels.forEach((_, place) => { choices[`digit ${place}`] = `FSQ digit ${place + 1}`; });
  choices.take = "tokens of the take";
  parts.colour.replaceChildren(...Object.entries(choices).map(([value, name]) => make("option", name, { value })));
}

/** Run plotly, which gradio serves as a plain file that no browser runs by its address. */
async function load(address) {
  const code = await (await fetch(address)).blob();
  const script = make("script", "", { src: URL.createObjectURL(new Blob([code], { type: "text/javascript" })) });
  const loaded = new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
  document.head.append(script);
  await loaded;
  return window.Plotly;
}

const tellAbout = () => { parts.about.textContent = props.about ?? ""; };
const readSizes = () => { sizes = JSON.parse(props.sizes); };

async function start() {
  try {
    const [answer, library] = await Promise.all([fetch(props.value.points.url), window.Plotly ?? load(props.value.plotly.url)]);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    [points, plotly] = [await answer.json(), library];
    readSizes();
    offerColours();
    await draw();
    listen();
    light();
    watch("scene", light);
    watch("sizes", () => { readSizes(); recolour(); });
    watch("take", recolour);
    watch("about", tellAbout);
    tellAbout();
    root.dataset.state = "ready";
  } catch (error) {
    root.dataset.state = "failed";
    say(`The map could not be drawn: ${error.message}. Load the page again.`);
  }
}

// Plotly is large: it is loaded when the map is first seen.
const watchOpening = (entries) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  seen.disconnect();
  start();
};
const seen = new IntersectionObserver(watchOpening, { rootMargin: "3000px" });
seen.observe(root);
