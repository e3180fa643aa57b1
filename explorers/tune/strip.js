// One take: a player whose pieces join sample by sample, tokens above the waveform, and the test behind each token.

const NAMES = { accepted: "accepted", resampled: "resampled", bonus: "bonus", redrawn: "redrawn", target: "target only" };
const STORIES = {
  accepted: "Drafted and accepted.",
  resampled: "The draft was rejected, and this token was drawn in its place.",
  bonus: "All drafts of the round passed: the next token of the target, without a test.",
  redrawn: "Drafted; its group was accepted, and the target drew the token again.",
  target: "Drawn by the target alone, without a draft and a test.",
};
const LEAST_TOKEN = 6;
const BARS = 70;
const WAVE = 84;
const AXIS = 18;
// Under the axis, where there are detectors: a plot from 0 to 1 with a little air.
const CURVES = 84;
const AIR = 6;
const LOWEST = 0.4;
const TALLEST_GROUP = 256;
// What the sound card is given to get ready; a piece that comes later than its turn moves all that follow by as much.
const LEAD_SECONDS = 0.03;
const REST_MS = 150;
const PAGE_OF_TOKENS = 10;
const FIND_MAP_MS = 4000;

// By resolution; colours are the style sheet's, and no dash stands twice.
const DASHES = { M50: [], M25: [7, 3], M10: [2, 2], "M50<-25": [10, 3, 2, 3], "M50<-10": [4, 5] };

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function tag(name, words = "") {
  const made = document.createElement(name);
  made.textContent = words;
  return made;
}

/** A sample of a line, as the legend shows it. */
function dashed(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [key, value] of Object.entries({ width: 30, height: 8, "aria-hidden": "true" })) svg.setAttribute(key, value);
  for (const [key, value] of Object.entries({ x1: 0, x2: 30, y1: 4, y2: 4, "stroke-dasharray": DASHES[name].join(" ") }))
    line.setAttribute(key, value);
  svg.append(line);
  return svg;
}

function figure(value) {
  if (value === 0 || value >= 0.001) return value.toFixed(3);
  return value.toExponential(1);
}

function unpack(piece) {
  const bytes = Uint8Array.from(atob(piece), (c) => c.charCodeAt(0));
  return Float32Array.from(new Int16Array(bytes.buffer), (v) => v / 32767);
}

/** Pieces of one take, played back to back by one clock, while others are still to come. Places are counted in samples. */
class Player {
  constructor(rate) {
    Object.assign(this, { rate, pieces: [], length: 0, late: 0, anchor: null, context: null, sources: new Set() });
  }

  get playing() {
    return this.anchor !== null;
  }

  /** To be called when a person acts: browsers keep a page silent before. At the take's own rate nothing is resampled. */
  wake() {
    this.context ??= new AudioContext({ sampleRate: this.rate, latencyHint: "interactive" });
    if (this.context.state === "suspended") this.context.resume();
  }

  clear() {
    this.stop();
    Object.assign(this, { pieces: [], length: 0, late: 0 });
  }

  push(samples) {
    if (!samples.length) return;
    const piece = { samples, start: this.length };
    this.pieces.push(piece);
    this.length += samples.length;
    if (this.playing) this.schedule(piece);
  }

  play(place) {
    this.stop();
    this.wake();
    this.anchor = { place, time: this.context.currentTime + LEAD_SECONDS };
    for (const piece of this.pieces) this.schedule(piece);
  }

  stop() {
    for (const source of this.sources) source.stop();
    this.sources.clear();
    this.anchor = null;
  }

  schedule({ samples, start }) {
    const skipped = Math.max(0, this.anchor.place - start);
    if (skipped >= samples.length) return;
    let when = this.anchor.time + (start + skipped - this.anchor.place) / this.rate;
    const soonest = this.context.currentTime + LEAD_SECONDS / 2;
    if (when < soonest) {
      this.anchor.time += soonest - when;
      when = soonest;
      this.late++;
    }
    const buffer = this.context.createBuffer(1, samples.length, this.rate);
    buffer.copyToChannel(samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.context.destination);
    source.onended = () => this.sources.delete(source);
    source.start(when, skipped / this.rate);
    this.sources.add(source);
  }

  /** The sample that is heard now; it waits at the end of what has come. */
  get place() {
    const heard = this.context.currentTime - (this.context.outputLatency || 0) - this.anchor.time;
    return clamp(this.anchor.place + heard * this.rate, this.anchor.place, this.length);
  }
}

/** The bars of one kind: a colour and a shape of its own. */
const SHAPES = {
  accepted: (g, x, y, w, h) => g.fillRect(x, y, w, h),
  resampled(g, x, y, w, h) {
    for (let up = 0; up < h; up += 3) g.fillRect(x, y + h - up - Math.min(2, h - up), w, Math.min(2, h - up));
  },
  bonus: (g, x, y, w, h) => g.strokeRect(x + 0.75, y + 0.75, Math.max(1, w - 1.5), h - 1.5),
  redrawn(g, x, y, w, h) {
    for (let row = 0; row * 2 < h; row++)
      for (let column = row % 2; column * 2 < w; column += 2)
        g.fillRect(x + 2 * column, y + h - 2 * row - 2, Math.min(2, w - 2 * column), 2);
  },
  target: (g, x, y, w, h) => g.fillRect(x + w / 3, y, Math.max(1, w / 3), h),
};

class Strip {
  constructor(root) {
    Object.assign(this, { root, run: null, taken: 0, hovered: null, chosen: null, asked: null, first: null, frame: 0 });
    Object.assign(this, { spoof: null, judged: false, hidden: new Set() });
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.player = new Player(props.sample_rate);
    this.followed = true;
    this.listen();
  }

  // What Python sends.

  readRun() {
    const { run } = props;
    if (!run || run.number < (this.run?.number ?? 0)) return;
    if (run.number !== this.run?.number) this.begin();
    this.run = { ...run, tokens: run.tokens.map((token) => JSON.parse(token)) };
    this.root.dataset.state = run.live ? "live" : "done";
    this.parts.empty.hidden = run.tokens.length > 0 || run.live;
    this.parts.marks.tabIndex = run.tokens.length ? 0 : -1;
    this.describe();
    this.schedule();
  }

  /** Another take: what was heard before ends. */
  begin() {
    this.player.clear();
    Object.assign(this, { taken: 0, hovered: null, chosen: null, first: null, followed: true, spoof: null });
    this.parts.scroll.scrollLeft = 0;
  }

  readSound() {
    const { sound } = props;
    if (!sound || sound.number !== this.run?.number) return;
    for (const piece of sound.pieces.slice(this.taken)) this.player.push(unpack(piece));
    const begins = this.taken === 0 && this.player.length > 0;
    this.taken = sound.pieces.length;
    this.parts.play.disabled = this.player.length === 0;
    if (begins && this.asked !== null) {
      this.play(0);
      this.first = (performance.now() - this.asked) / 1000 + LEAD_SECONDS;
      this.asked = null;
      this.root.dataset.first = this.first.toFixed(3);
    }
    this.schedule();
  }

  /** The curves come after the take, so that no sound waits for them. */
  readSpoof() {
    const { spoof } = props;
    if (!spoof || spoof.number !== this.run?.number) return;
    // From now on there is room for curves, so that nothing jumps when the next take begins.
    Object.assign(this, { spoof, judged: true });
    this.parts.spoof.hidden = false;
    this.parts.judge.textContent =
      `How synthetic a segment around here sounds to a detector, from 0 (real) up to 1. Detectors: ${spoof.judge}.`;
    this.parts.curves.replaceChildren(...spoof.curves.map((curve) => this.entry(curve)));
    this.describe();
    this.schedule();
  }

  /** A curve in the legend: a button that hides it, and its value at the token that is pointed at. */
  entry({ name, span, stride, values }) {
    const button = tag("button");
    const label = tag("span", name.replace("<-", "←"));
    const value = tag("output", values.some((v) => v !== null) ? "" : "too short");
    Object.assign(button, { type: "button", disabled: value.textContent !== "" });
    button.dataset.curve = name;
    button.title = `${span} tokens` + (stride > 1 ? `, one in ${stride} of them` : " in a row");
    button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
    button.append(dashed(name), label, value);
    button.addEventListener("click", () => {
      if (!this.hidden.delete(name)) this.hidden.add(name);
      button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      this.schedule();
    });
    return button;
  }

  // What a person does.

  listen() {
    const { marks, play, from, locate } = this.parts;
    marks.addEventListener("pointermove", (event) => this.hover(this.tokenAt(event)));
    marks.addEventListener("pointerleave", () => this.hover(null));
    marks.addEventListener("click", (event) => this.choose(this.tokenAt(event), true));
    marks.addEventListener("keydown", (event) => this.press(event));
    marks.addEventListener("focus", () => this.chosen === null && this.choose(0, false));
    play.addEventListener("click", () => (this.player.playing ? this.pause() : this.play(0)));
    from.addEventListener("click", () => this.playChosen());
    locate.addEventListener("click", () => this.locate());
    this.parts.scroll.addEventListener("wheel", () => (this.followed = false), { passive: true });
    const room = new ResizeObserver(() => this.root.isConnected && this.schedule());
    room.observe(this.parts.scroll);
    const theme = new MutationObserver(() => this.schedule());
    theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.listenToPage([room, theme]);
  }

  /** Buttons and knobs stand outside of this component; a strip that is gone must not ask any more. */
  listenToPage(observers) {
    const gone = new AbortController();
    const here = (act) => (event) => {
      if (this.root.isConnected) return act(event);
      gone.abort();
      for (const observer of observers) observer.disconnect();
      this.player.clear();
    };
    const asks = (event) => event.target.closest?.(props.asking) && this.ask();
    document.addEventListener("click", here(asks), { signal: gone.signal, capture: true });
    document.addEventListener("tune-moved", here(() => this.move()), { signal: gone.signal });
  }

  ask() {
    this.player.wake();
    this.asked = performance.now();
  }

  /** A knob moved: the take in flight is of no use any more, and the next one waits until the knob rests. */
  move() {
    this.ask();
    if (this.run?.live && !this.resting) trigger("halt");
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = 0;
      trigger("speak");
    }, REST_MS);
  }

  press(event) {
    const count = this.run?.tokens.length ?? 0;
    const here = this.chosen ?? 0;
    const goals = {
      ArrowLeft: here - 1,
      ArrowRight: here + 1,
      PageUp: here - PAGE_OF_TOKENS,
      PageDown: here + PAGE_OF_TOKENS,
      Home: 0,
      End: count - 1,
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !count) return;
    if (event.key in goals) this.choose(clamp(goals[event.key], 0, count - 1), false);
    else if (event.key === "Enter" || event.key === " ") this.playChosen();
    else if (event.key === "Escape") this.pause();
    else if (event.key === "m") this.locate();
    else return;
    event.preventDefault();
  }

  choose(token, playing) {
    if (token === null || !this.run?.tokens.length) return;
    this.chosen = token;
    if (playing) this.playChosen();
    else this.show(token * this.step);
    this.describe();
    this.schedule();
  }

  hover(token) {
    if (token === this.hovered) return;
    this.hovered = token;
    this.describe();
    this.schedule();
  }

  play(place) {
    this.followed = true;
    this.player.play(place);
    this.schedule();
  }

  playChosen() {
    if (this.chosen !== null) this.play(Math.min(this.chosen * props.hop, this.player.length));
  }

  pause() {
    this.player.stop();
    this.schedule();
  }

  /** Open the map's tab, which may be drawn for the first time, and then ask Python to light the token up. */
  async locate() {
    const token = this.run?.tokens[this.chosen]?.token;
    if (token === undefined) return;
    document.querySelector("#map-button")?.click();
    const deadline = performance.now() + FIND_MAP_MS;
    while (document.querySelector(".atlas")?.dataset.state !== "ready" && performance.now() < deadline)
      await new Promise((done) => setTimeout(done, 50));
    trigger("locate", { token });
  }

  // What is drawn.

  get seconds() {
    const spoken = ((this.run?.tokens.length ?? 0) * props.hop) / props.sample_rate;
    const expected = this.run?.live ? (this.run.expected * props.hop) / props.sample_rate : 0;
    return Math.max(spoken, expected, this.player.length / props.sample_rate, 0.5);
  }

  /** Pixels of a token. */
  get step() {
    const tokens = (this.seconds * props.sample_rate) / props.hop;
    return Math.max(LEAST_TOKEN, this.parts.scroll.clientWidth / tokens);
  }

  tokenAt(event) {
    const token = Math.floor(event.offsetX / this.step);
    return token >= 0 && token < (this.run?.tokens.length ?? 0) ? token : null;
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const room = this.parts.scroll.clientWidth;
    if (room < 2) return;
    const width = Math.max(room, Math.round((this.seconds * props.sample_rate * this.step) / props.hop));
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const painted = [width, ratio, this.run?.number, this.run?.tokens.length, this.player.length, document.body.className];
    painted.push(this.spoof?.number, [...this.hidden]);
    if (painted.join() !== this.painted) {
      this.painted = painted.join();
      this.drawTake(this.pen("picture", width, ratio), width);
    }
    this.drawMarks(this.pen("marks", width, ratio));
    this.showClock();
    if (this.player.playing) this.schedule();
  }

  /** Pixels from the top to the foot of the time axis, and of the curves below it. */
  get height() {
    return BARS + WAVE + AXIS + (this.judged ? CURVES : 0);
  }

  pen(part, width, ratio) {
    const canvas = this.parts[part];
    const { height } = this;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    Object.assign(this.parts.stage.style, { width: `${width}px`, height: `${height}px` });
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    return g;
  }

  colour(name) {
    return getComputedStyle(this.root).getPropertyValue(name).trim();
  }

  drawTake(g, width) {
    const subdued = this.colour("--body-text-color-subdued");
    this.drawWave(g, this.colour("--strip-wave"));
    if (this.run) this.drawAxis(g, width, subdued);
    if (this.judged) this.drawCurves(g, width, subdued);
    const step = this.step;
    const colours = Object.fromEntries(Object.keys(NAMES).map((kind) => [kind, this.colour(`--kind-${kind}`)]));
    (this.run?.tokens ?? []).forEach(({ kind, size, round }, i, all) => {
      const tall = this.run.method === "pcg" ? LOWEST + ((1 - LOWEST) * Math.log2(size)) / Math.log2(TALLEST_GROUP) : LOWEST;
      const height = Math.round(BARS * clamp(tall, 0, 1)) - 6;
      // A round ends at a gap: the bars between two gaps are what one call of the target brought.
      const gap = kind !== "target" && all[i + 1]?.round !== round ? Math.max(2, step / 5) : Math.min(1, step / 8);
      g.fillStyle = g.strokeStyle = colours[kind];
      g.lineWidth = 1.5;
      SHAPES[kind](g, i * step, BARS - 4 - height, step - gap, height);
    });
  }

  drawWave(g, colour) {
    const { pieces } = this.player;
    const perPixel = props.hop / this.step;
    const middle = BARS + WAVE / 2;
    g.fillStyle = colour;
    for (const { samples, start } of pieces)
      for (let x = Math.floor(start / perPixel); x * perPixel < start + samples.length; x++) {
        const end = Math.min(samples.length, (x + 1) * perPixel - start);
        let peak = 0;
        for (let i = Math.max(0, Math.floor(x * perPixel - start)); i < end; i++) peak = Math.max(peak, Math.abs(samples[i]));
        const high = Math.max(1, peak * WAVE);
        g.fillRect(x, middle - high / 2, 1, high);
      }
  }

  drawAxis(g, width, colour) {
    const second = (props.sample_rate / props.hop) * this.step;
    const every = [0.1, 0.2, 0.5, 1, 2, 5].find((t) => t * second >= 56) ?? 10;
    g.fillStyle = colour;
    g.font = `11px ${this.colour("--font-mono") || "monospace"}`;
    for (let t = 0; t * second < width - 44; t = Math.round((t + every) * 10) / 10) {
      g.fillRect(t * second, BARS + WAVE, 1, 4);
      g.fillText(`${t} s`, t * second + 3, BARS + WAVE + 13);
    }
  }

  drawCurves(g, width, colour) {
    const { step } = this;
    const top = BARS + WAVE + AXIS + AIR;
    const tall = CURVES - 2 * AIR;
    g.fillStyle = colour;
    g.globalAlpha = 0.4;
    for (const value of [0, 0.5, 1]) g.fillRect(0, Math.round(top + (1 - value) * tall), width, 1);
    g.globalAlpha = 1;
    g.lineWidth = 2;
    for (const { name, values } of this.spoof?.curves ?? []) {
      if (this.hidden.has(name)) continue;
      g.strokeStyle = this.colour(`--spoof-${name.replace("<-", "-")}`);
      g.setLineDash(DASHES[name]);
      g.beginPath();
      values.forEach((value, i) => value !== null && g.lineTo((i + 0.5) * step, top + (1 - value) * tall));
      g.stroke();
    }
    g.setLineDash([]);
  }

  drawMarks(g) {
    const { step } = this;
    const foot = this.judged ? this.height : BARS + WAVE;
    const chosen = this.colour("--strip-chosen");
    for (const [token, alpha] of [[this.chosen, 1], [this.hovered, 0.6]])
      if (token !== null) {
        g.globalAlpha = 0.16 * alpha;
        g.fillStyle = chosen;
        g.fillRect(token * step, 0, step, foot);
        g.globalAlpha = alpha;
        g.fillRect(token * step, BARS - 2, step, 2);
      }
    g.globalAlpha = 1;
    if (!this.player.playing) return;
    const place = this.player.place / props.hop;
    if (!this.run.live && this.player.place >= this.player.length) return this.player.stop();
    const x = (still() ? Math.floor(place) : place) * step;
    g.fillStyle = this.colour("--body-text-color");
    g.fillRect(x, 0, 1.5, Math.max(foot, BARS + WAVE + 4));
    if (this.followed) this.show(x);
  }

  /** Scroll only when a place would be out of sight. */
  show(x) {
    const { scroll } = this.parts;
    if (x < scroll.scrollLeft || x > scroll.scrollLeft + scroll.clientWidth - 12) scroll.scrollLeft = Math.max(0, x - 40);
  }

  // Descriptions in words.

  showClock() {
    const { play, clock, notice, from, locate } = this.parts;
    const { playing, length, late } = this.player;
    const label = playing ? "❚❚ Stop" : "▶ Play";
    if (play.textContent !== label) play.textContent = label;
    const total = (length / props.sample_rate).toFixed(2);
    clock.textContent = playing ? `${(this.player.place / props.sample_rate).toFixed(2)} of ${total} s` : `${total} s`;
    const waits = late ? `; ${late} wait${late > 1 ? "s" : ""} for the next piece` : "";
    notice.textContent = this.first === null ? "" : `first sound after ${this.first.toFixed(2)} s${waits}`;
    from.disabled = locate.disabled = this.chosen === null;
  }

  describe() {
    const { title, story, facts, marks } = this.parts;
    const place = this.hovered ?? this.chosen;
    const entry = place === null ? undefined : this.run?.tokens[place];
    const count = this.run?.tokens.length ?? 0;
    marks.setAttribute("aria-valuemax", Math.max(0, count - 1));
    this.describeSpoof(place);
    if (!entry) {
      title.textContent = "No token chosen";
      story.textContent = count
        ? "Point at a bar, or use the arrow keys, to see its acceptance test. A click or Enter plays from there."
        : "";
      facts.replaceChildren();
      marks.setAttribute("aria-valuetext", count ? `${count} tokens` : "No take yet");
      return;
    }
    const at = ((place * props.hop) / props.sample_rate).toFixed(2);
    title.textContent = `Token ${entry.token}, ${NAMES[entry.kind]}`;
    title.append(tag("small", `${at} s, number ${place + 1} of ${count}, round ${entry.round + 1}`));
    story.textContent = this.story(entry);
    facts.replaceChildren(...this.facts(entry));
    marks.setAttribute("aria-valuenow", place);
    const synthetic = this.spoof?.curves.find(({ name }) => name === "M50")?.values[place];
    const judged = typeof synthetic === "number" ? ` Around it M50 finds ${synthetic.toFixed(2)} synthetic.` : "";
    marks.setAttribute("aria-valuetext", `${title.textContent}. ${story.textContent}${judged}`);
  }

  /** In the legend: the curves' values at a token. */
  describeSpoof(place) {
    for (const { name, values } of this.spoof?.curves ?? []) {
      const output = this.parts.curves.querySelector(`[data-curve="${name}"]:enabled output`);
      if (output) output.textContent = place === null ? "" : values[place]?.toFixed(2) ?? "";
    }
  }

  story({ kind, token, test }) {
    if (!test) return STORIES[kind];
    const weighed = `the coin ${figure(test.coin)} is ${test.accepted ? "below" : "not below"} the ratio ${figure(test.ratio)}`;
    const drafted = test.drafted === token ? "" : ` Drafted was token ${test.drafted}.`;
    return `${STORIES[kind]}${drafted} Its test: ${weighed}.`;
  }

  facts({ size, test }) {
    const rows = [];
    if (test) {
      rows.push(["p", "p", figure(test.p)]);
      rows.push(["q", "q", figure(test.q)]);
      if (test.grouped) {
        rows.push(["P_c", "p-c", figure(test.mass_p)]);
        rows.push(["Q_c", "q-c", figure(test.mass_q)]);
      }
      rows.push(["ratio", "ratio", figure(test.ratio)]);
      rows.push(["coin", "coin", figure(test.coin)]);
      if (test.grouped) rows.push(["group tested", "group-size", `${test.size} tokens`]);
    }
    if (!test || test.size !== size) rows.push(["group", "group-size", `${size} token${size > 1 ? "s" : ""}`]);
    return rows.map(([name, key, value]) => {
      const [entry, title, word] = [tag("div"), tag("dt"), tag("a", name)];
      Object.assign(word, { className: "term", href: `#term-${key}` });
      title.append(word);
      entry.append(title, tag("dd", value));
      return entry;
    });
  }
}

const strip = new Strip(element.querySelector(".strip"));
watch("run", () => strip.readRun());
watch("sound", () => strip.readSound());
watch("spoof", () => strip.readSpoof());
strip.readRun();
strip.readSound();
strip.readSpoof();
strip.schedule();
