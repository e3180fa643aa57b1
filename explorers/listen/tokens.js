// The chosen take token by token: bars above the waveform, the test of each, one round step by step, what else is known.

const [BARS, WAVE, AXIS] = [64, 70, 18];
const LEAST_TOKEN = 6;
const WIDEST = 16000; // no browser draws a canvas wider than 32,767 pixels of the screen
const NAMES = { accepted: "accepted", resampled: "drawn again", bonus: "bonus", redrawn: "redrawn", target: "no draft used" };
const STORIES = {
  accepted: "Drafted, and it passed its test.",
  resampled: "The drafted token was rejected, and the large model drew this one in its place.",
  bonus: "Every drafted token of the round passed, so the large model added this one.",
  redrawn: "Drafted; its group was accepted, and the large model drew the token again.",
  target: "Drawn by the large model alone.",
};
// As `explorers.listen.value._test` writes a test.
const readTest = ([drafted, accepted, group, size, p, q, massP, massQ, ratio, coin]) => ({ drafted, accepted, group, size, p, q, massP, massQ, ratio, coin });
const figure = (value) => (value === 0 || value >= 0.001 ? value.toFixed(3) : value.toExponential(1));

class StageTokens extends StageLanes {
  /** The tokens of the take that is shown, each with its round. */
  readTokens() {
    const lane = this.lanes[this.heard];
    const same = lane?.number === this.shownLane?.number;
    this.shownLane = lane;
    if (same) return;
    Object.assign(this, { chosenToken: null, at: 0 });
    this.tokens = (lane?.rounds ?? []).flatMap(([, , tokens], round) =>
      tokens.map(([token, kind, size, test]) => ({ token, kind, size, round, test: test && readTest(test) })),
    );
    this.parts.marks.setAttribute("aria-valuemax", Math.max(0, this.tokens.length - 1));
    this.parts.legend.replaceChildren(...Object.entries(NAMES).filter(([kind]) => this.tokens.some((t) => t.kind === kind)).flatMap(([kind, name]) =>
      [tag("i", "", { class: `kind-${kind}` }), document.createTextNode(`${name} `)]));
  }

  listenTokens() {
    const { marks, tokens, from, locate, before, next, after, findAccepted, findRejected, roundLink, study } = this.parts;
    tokens.addEventListener("toggle", () => this.drawTake());
    marks.addEventListener("click", (event) => this.pickToken(this.tokenAt(event), true));
    marks.addEventListener("keydown", (event) => this.pressToken(event));
    marks.addEventListener("focus", () => this.chosenToken === null && this.pickToken(0, false));
    from.addEventListener("click", () => this.playToken());
    locate.addEventListener("click", () => this.locate());
    before.addEventListener("click", () => this.turnRound(-1));
    after.addEventListener("click", () => this.turnRound(1));
    next.addEventListener("click", () => this.stepOn());
    findAccepted.addEventListener("click", () => this.find(({ test }) => test?.accepted && test.group >= 0 && test.size > 1, ({ test }) => test.ratio - Math.min(1, test.q / test.p)));
    findRejected.addEventListener("click", () => this.find(({ kind, test }) => kind === "resampled" && test, ({ test }) => -test.ratio));
    roundLink.addEventListener("click", () => this.copy(this.linkOf(this.shownLane, `&round=${this.round.number + 1}&step=${this.at + 1}`), "this step"));
    study.addEventListener("toggle", () => this.drawStudy());
  }

  /** The token with the greatest `worth`. */
  find(fits, worth) {
    const places = this.tokens.flatMap((entry, place) => (fits(entry) ? [place] : []));
    if (!places.length) return this.tell("This take has no such token: choose another method.");
    const place = places.reduce((best, other) => (worth(this.tokens[other]) > worth(this.tokens[best]) ? other : best));
    this.pickToken(place, false);
    this.at = this.round.tests.findIndex((entry) => entry.place === place) + 2;
    this.drawTake();
  }

  get step() {
    const tokens = (this.takeSeconds * props.sample_rate) / props.hop;
    return Math.max(Math.min(LEAST_TOKEN, WIDEST / tokens), this.parts.scroll.clientWidth / tokens);
  }

  get takeSeconds() {
    return Math.max(this.shownLane?.seconds ?? 0, (this.tokens.length * props.hop) / props.sample_rate, 0.5);
  }

  left(place) {
    return (startOf(place, this.shownLane?.pauses ?? []) * this.step) / props.hop;
  }

  tokenAt(event) {
    const token = soundingAt((event.offsetX * props.hop) / this.step, this.shownLane?.pauses ?? []);
    return token !== null && token >= 0 && token < this.tokens.length ? token : null;
  }

  pressToken(event) {
    const here = this.chosenToken ?? 0;
    const goals = { ArrowLeft: here - 1, ArrowRight: here + 1, PageUp: here - 10, PageDown: here + 10, Home: 0, End: this.tokens.length - 1 };
    if (event.ctrlKey || event.metaKey || event.altKey || !this.tokens.length) return;
    if (event.key in goals) this.pickToken(clamp(goals[event.key], 0, this.tokens.length - 1), false);
    else if (event.key === "Enter") this.playToken();
    else return;
    event.preventDefault();
  }

  pickToken(place, playing) {
    if (place === null || !this.tokens.length) return;
    if (this.tokens[place].round !== this.round?.number) this.at = 0;
    this.chosenToken = place;
    if (playing) this.playToken();
    const { scroll } = this.parts;
    const x = this.left(place);
    if (x < scroll.scrollLeft || x > scroll.scrollLeft + scroll.clientWidth - 12) scroll.scrollLeft = Math.max(0, x - 40);
    this.drawTake();
  }

  playToken() {
    if (this.chosenToken !== null) this.play(startOf(this.chosenToken, this.shownLane.pauses) / props.sample_rate);
  }

  /** Open the map's tab, which may be drawn for the first time, and then ask Python to light the token up. */
  async locate() {
    const { token, test } = this.tokens[this.chosenToken];
    for (const tab of ["#how-tab-button", "#map-button"]) document.querySelector(tab)?.click();
    const deadline = performance.now() + 4000;
    while (document.querySelector(".map")?.dataset.state !== "ready" && performance.now() < deadline) {
      await new Promise((done) => setTimeout(done, 50));
      document.querySelector("#map-button")?.click();
    }
    trigger("locate", { token, group: test?.group >= 0 ? test.group : null });
  }

  drawTake() {
    if (!this.parts.tokens.open) return;
    this.readTokens();
    this.drawStrip();
    this.drawMarks();
    this.describe();
    this.drawRound();
    this.drawStudy();
  }

  pen(part) {
    const canvas = this.parts[part];
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const [width, height] = [Math.max(this.parts.scroll.clientWidth, this.takeSeconds * (props.sample_rate / props.hop) * this.step), BARS + WAVE + AXIS];
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    for (const place of [canvas, this.parts.strip]) Object.assign(place.style, { width: `${width}px`, height: `${height}px` });
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    return pen;
  }

  colour(name) {
    return getComputedStyle(this.root).getPropertyValue(name).trim();
  }

  drawStrip() {
    const lane = this.shownLane;
    const painted = [lane?.number, this.step, this.buffers.has(lane?.url), document.body.className].join();
    if (painted === this.painted || this.parts.scroll.clientWidth < 2) return;
    this.painted = painted;
    const pen = this.pen("picture");
    const { step } = this;
    this.drawWave(pen, this.buffers.get(lane?.url));
    const second = (props.sample_rate / props.hop) * step;
    const every = [0.1, 0.2, 0.5, 1, 2, 5].find((t) => t * second >= 56) ?? 10;
    pen.fillStyle = this.colour("--body-text-color-subdued");
    pen.font = "11px monospace";
    for (let t = 0; t < this.takeSeconds - 0.2; t = Math.round((t + every) * 10) / 10) pen.fillText(`${t} s`, t * second + 3, BARS + WAVE + 13);
    this.tokens.forEach(({ kind, size, round }, i) => {
      const height = Math.round((BARS - 8) * tallness(lane.method, size));
      // A round ends at a gap: the bars between two gaps are what one call brought.
      const gap = kind !== "target" && this.tokens[i + 1]?.round !== round ? Math.max(2, step / 5) : Math.min(1, step / 8);
      pen.fillStyle = pen.strokeStyle = this.colour(`--kind-${kind}`);
      SHAPES[kind](pen, this.left(i), BARS - 4 - height, step - gap, height);
    });
  }

  drawWave(pen, buffer) {
    if (!buffer) return;
    const [samples, perPixel] = [buffer.getChannelData(0), (props.hop * buffer.sampleRate) / props.sample_rate / this.step];
    pen.fillStyle = this.colour("--stage-wave");
    for (let x = 0; x * perPixel < samples.length; x++) {
      let peak = 0;
      for (let i = Math.floor(x * perPixel); i < Math.min(samples.length, (x + 1) * perPixel); i++) peak = Math.max(peak, Math.abs(samples[i]));
      const high = Math.max(1, peak * WAVE);
      pen.fillRect(x, BARS + WAVE / 2 - high / 2, 1, high);
    }
  }

  drawMarks() {
    if (!this.parts.tokens.open || this.parts.scroll.clientWidth < 2) return;
    const pen = this.pen("marks");
    if (this.chosenToken !== null) {
      pen.fillStyle = this.colour("--stage-accent");
      pen.globalAlpha = 0.3;
      pen.fillRect(this.left(this.chosenToken), 0, this.step, BARS + WAVE);
      pen.globalAlpha = 1;
    }
    if (!this.sounding) return;
    pen.fillStyle = this.colour("--body-text-color");
    pen.fillRect((this.now * props.sample_rate * this.step) / props.hop, 0, 1.5, BARS + WAVE + 4);
  }

  describe() {
    const { title, story, facts, marks, from, locate } = this.parts;
    const entry = this.tokens[this.chosenToken];
    from.disabled = locate.disabled = !entry;
    if (!entry) {
      title.textContent = this.shownLane ? `${this.shownLane.name}: no token chosen.` : "No take yet.";
      story.textContent = "Click a bar, or use the arrow keys, to see its test.";
      return facts.replaceChildren();
    }
    title.textContent = `Token ${entry.token}, ${NAMES[entry.kind]}.`;
    const { test } = entry;
    const weighed = test ? ` The coin ${figure(test.coin)} is ${test.accepted ? "below" : "not below"} the ratio ${figure(test.ratio)}.` : "";
    const drafted = test && test.drafted !== entry.token ? ` Drafted was token ${test.drafted}.` : "";
    story.textContent = `${STORIES[entry.kind]}${drafted}${weighed}`;
    const rows = test ? [["p", "p", figure(test.p)], ["q", "q", figure(test.q)]] : [];
    if (test?.group >= 0) rows.push(["P_c", "p-c", figure(test.massP)], ["Q_c", "q-c", figure(test.massQ)], ["group drawn", "group-size", counted(test.size, "token")]);
    facts.replaceChildren(...rows.map(([name, key, value]) => {
      const [row, term] = [tag("div"), tag("dt")];
      term.append(tag("a", name, { class: "term", href: `#term-${key}` }));
      row.append(term, tag("dd", value));
      return row;
    }));
    marks.setAttribute("aria-valuenow", this.chosenToken);
    marks.setAttribute("aria-valuetext", `${title.textContent} ${story.textContent}`);
  }

  /** The round of the chosen token. */
  get round() {
    const chosen = this.tokens[this.chosenToken];
    if (!chosen) return null;
    const entries = this.tokens.map((entry, place) => ({ ...entry, place })).filter(({ round }) => round === chosen.round);
    return { number: chosen.round, entries, drafted: this.shownLane.rounds[chosen.round][1], tests: entries.filter(({ test }) => test) };
  }

  turnRound(by) {
    const goal = (this.round?.number ?? -by) + by;
    const place = this.tokens.findIndex(({ round }) => round === goal);
    if (place >= 0) this.pickToken(place, false);
  }

  /** Draft, verify, a test for each token, the outcome. */
  get lastStep() {
    return this.round ? this.round.tests.length + 2 : 0;
  }

  stepOn() {
    if (!this.round) this.turnRound(1);
    else this.at = this.at === this.lastStep ? 0 : this.at + 1;
    this.drawTake();
  }

  drawRound() {
    const { round } = this;
    const { board, formula, next, roundLink } = this.parts;
    this.parts.round.textContent = round ? `${round.number + 1} of ${this.shownLane.rounds.length}` : "";
    next.textContent = !round ? "Start" : this.at === this.lastStep ? "Again" : "Next step";
    roundLink.disabled = !round || !this.shownLane.link;
    board.replaceChildren(...(round ? round.drafted.map((token, i) => this.chip(round, token, i)) : []));
    formula.textContent = round ? this.formula(round) : "";
  }

  /** A drafted token, as far as the steps have come. */
  chip(round, token, i) {
    const chip = tag("div", "", { class: "round-chip" });
    const test = round.tests[i]?.test;
    chip.append(tag("b", `token ${token}`));
    if (!test) {
      chip.append(tag("small", this.at > 1 ? "not tested" : "drafted"));
      return chip;
    }
    chip.append(tag("small", `p ${figure(test.p)}${this.at >= 1 ? `, q ${figure(test.q)}` : ""}`));
    if (this.at < i + 2) return chip;
    chip.dataset.state = test.accepted ? "accepted" : "rejected";
    chip.dataset.now = this.at === i + 2;
    const scale = tag("i", "", { class: "round-scale" });
    scale.append(tag("i", "", { style: `width: ${100 * Math.min(1, test.ratio)}%` }), tag("u", "", { style: `left: ${100 * test.coin}%` }));
    chip.append(scale, tag("strong", test.accepted ? "✓ accepted" : "✗ rejected"));
    return chip;
  }

  /** The rule with the numbers of the step, and why P_c can be below p. */
  formula(round) {
    const { method, verification } = this.shownLane;
    if (!round.drafted.length) return method === "ar" ? "AR drafts nothing: every call brings one token." : "Nothing was drafted in this round.";
    if (this.at === 0) return `Draft: the small model proposes ${counted(round.drafted.length, "token")}, each with its probability p.`;
    if (this.at === 1) return "Verify: the large model reads all of them in one call, which gives its probability q of each.";
    const entry = round.tests[this.at - 2];
    const brought = `${counted(round.entries.length, "token")} from one call.`;
    if (!entry) {
      const last = round.entries.at(-1);
      if (last?.kind === "bonus") return `Outcome: every drafted token passed, and the large model adds token ${last.token}: ${brought}`;
      return last?.kind === "resampled" ? `Outcome: after the rejection the large model draws token ${last.token}: ${brought}` : `Outcome: ${brought}`;
    }
    const { test } = entry;
    const grouped = test.group >= 0;
    const [above, below, high, low] = grouped ? ["Q_c", "P_c", test.massQ, test.massP] : ["q", "p", test.q, test.p];
    const block = verification === "block" ? " of the block so far" : "";
    const tolerance = method === "ssd" ? " + beta" : "";
    const alone = grouped ? ` The token alone had ${figure(test.q)} / ${figure(test.p)} = ${figure(Math.min(1, test.q / test.p))}, as in SD. The group that was drawn has ${counted(test.size, "token")}; a token's mass is shared among the groups that hold it, so P_c can be below p.` : "";
    return `Test: accept if the coin ${figure(test.coin)} is below min(1, ${above} / ${below})${tolerance}${block} = ${figure(high)} / ${figure(low)} → ${figure(test.ratio)}: ${test.accepted ? "accepted" : "rejected"}.${alone}`;
  }

  /** Estimates, sound picture and detector curves come when they are opened, as they take a second. */
  drawStudy() {
    const { study, studied } = this.parts;
    if (!study.open || !this.shownLane) return;
    const found = this.study;
    if (found?.number !== this.shownLane.number) {
      if (this.studying !== this.shownLane.number) trigger("study", {});
      this.studying = this.shownLane.number;
      return studied.replaceChildren(tag("p", "The models score the take again …"));
    }
    if (studied.dataset.shown === String(found.number)) return;
    studied.dataset.shown = found.number;
    const parts = Object.entries(found.estimates).map(([name, rows]) => estimates(name, rows));
    const intro = tag("p", "Estimates: both models score this take again at other settings. They cannot know the tokens after a different decision.");
    const times = Object.entries(found.times).map(([name, ms]) => `${name} ${ms.toFixed(2)} ms`).join(", ");
    studied.replaceChildren(...(parts.length ? [intro, ...parts] : []), tag("p", `Time of a round: ${times}.`));
    if (found.mel) {
      const image = tag("img", "", { src: found.mel.picture, class: "stage-mel", alt: `Log-mel spectrogram, ${found.mel.seconds} s, 0 to ${found.mel.kilohertz} kHz` });
      studied.append(tag("p", `Sound picture: ${found.mel.seconds} s, up to ${found.mel.kilohertz} kHz, dark where it is loud.`), image);
    }
    if (found.curves.length) studied.append(tag("p", "How synthetic the take sounds to the spoof detectors, from 0 to 1:"), curves(found.curves));
  }
}

function estimates(name, rows) {
  const table = tag("table", "", { class: "stage-table" });
  table.append(tag("caption", name));
  const line = (head, cells) => {
    const row = tag("tr");
    row.append(tag("th", head, { scope: "row" }), ...cells.map((cell) => tag("td", cell)));
    table.append(row);
  };
  line("value", rows.map(([value]) => String(Number(value.toPrecision(3)))));
  line("accepted of drafted", rows.map(([, rate]) => (rate === null ? "–" : percent(rate))));
  line("tokens per call", rows.map(([, , length]) => length.toFixed(2)));
  const scroll = tag("div", "", { class: "stage-scroll", role: "region", tabindex: 0, "aria-label": `${name}: estimates` });
  scroll.append(table);
  return scroll;
}

function curves(list) {
  const draw = (name, attributes, parent) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };
  const figure_ = tag("figure", "", { class: "stage-curves" });
  const most = Math.max(...list.map(({ values }) => values.length), 2);
  const label = list.map(({ name, values }) => `${spoofName(name)} ${mean(values)}`).join(", ");
  const svg = draw("svg", { viewBox: `0 0 ${most} 100`, preserveAspectRatio: "none", role: "img", "aria-label": `Means: ${label}` }, figure_);
  for (const { name, values } of list) {
    const points = values.flatMap((value, i) => (value === null ? [] : [`${i},${(100 * (1 - value)).toFixed(1)}`]));
    const look = `--spoof-${name.replace("<-", "-")}`;
    const style = `stroke: var(${look}); stroke-dasharray: var(${look}-dashes)`;
    if (points.length) draw("polyline", { points: points.join(" "), style, "vector-effect": "non-scaling-stroke" }, svg);
    const key = tag("span", `${spoofName(name)} ${mean(values)}`, { class: "stage-curve", style: `border-color: var(${look})` });
    figure_.append(key);
  }
  return figure_;
}

const spoofName = (name) => name.replace(/^M(\d+)<-(\d+)$/, "$1 from $2 tokens").replace(/^M(\d+)$/, "$1 tokens");
const mean = (values) => {
  const known = values.filter((value) => value !== null);
  return known.length ? (known.reduce((sum, value) => sum + value, 0) / known.length).toFixed(2) : "too short";
};
