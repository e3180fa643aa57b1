// The map itself: the choice, the drawing, the descriptions and the input.

const CLICK_PIXELS = 4;
const REACH = { mouse: 10, pen: 14, touch: 22 };
const FLIGHT_MS = 280;
const CARD_GAP = 15;
const BUSY_MS = 150;
const PATIENCE_MS = 8000;
const NOTHING = { group: null, pair: null };
const METHOD_NAMES = { pcg: "PCG", ssd: "SSD", sd: "SD", ar: "AR" };

/** What a take said: how often each token, and what became of its drafts (an index into FATES). */
function readTake(utterance = { tokens: [], accepted: [], rejected: [] }) {
  const uses = new Map();
  for (const t of utterance.tokens) uses.set(t, (uses.get(t) ?? 0) + 1);
  const fates = new Map(utterance.tokens.map((t) => [t, 3]));
  for (const t of utterance.accepted) fates.set(t, 0);
  for (const t of utterance.rejected) fates.set(t, fates.get(t) === 0 || fates.get(t) === 2 ? 2 : 1);
  return { tokens: utterance.tokens, uses, fates };
}

/** Where a card of that length starts: behind the place, or before it where there is no room. */
function beside(place, length, room) {
  const start = place + CARD_GAP + length > room ? place - CARD_GAP - length : place + CARD_GAP;
  return clamp(start, 4, room - length - 4);
}

class AtlasMap {
  constructor(root, atlas) {
    Object.assign(this, { root, atlas, levels: props.levels, digit: 0, theta: props.theta, similarity: "cosine" });
    Object.assign(this, { anchor: null, second: null, pair: null, group: null, hovered: null, frame: 0 });
    Object.assign(this, { wanted: null, asked: null });
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.sizes = this.counts = this.usage = new Uint32Array(atlas.count).fill(1);
    this.camera = new Camera(atlas);
    this.trail = new Trail();
    this.grid = new Grid(atlas.x, atlas.y);
    this.marks = new Marks(this.parts.marks);
    const choose = (token, compare) => this.choose(token, compare);
    this.table = new Table(this.parts.table, this.parts.rest, choose, (token) => this.hover(token));
    this.openTable = "members";
    this.mode = () => this.parts.mode.value;
    this.drawCloud();
  }

  async begin() {
    this.palette = new Palette(this.root);
    this.listen();
    this.fillChoices();
    [this.usage] = await unpack(props.usage, this.atlas.count);
    this.readUtterances();
    await this.readSizes();
    if (props.scene) this.readScene();
    this.say("");
    this.root.dataset.state = "ready";
  }

  drawCloud() {
    const canvas = this.parts.points;
    try {
      this.cloud = new Cloud(canvas, this.atlas);
    } catch (error) {
      this.cloud = new Still(canvas, this.atlas);
      this.stillness = "A still picture, as WebGL is not available here. Clicks, search and tables work.";
    }
  }

  say(words) {
    this.parts.notice.textContent = words || this.stillness || "";
  }

  // What Python sends.

  async readSizes() {
    const [sizes, spare] = await unpack(props.sizes, this.atlas.count);
    this.sizes = sizes;
    this.counts = sizes.map((size, t) => size - spare[t]);
    this.recolour();
    this.fillTable();
  }

  readUtterances() {
    const methods = Object.keys(props.utterances);
    const before = this.parts.take.value;
    this.parts.take.replaceChildren(...methods.map((m) => tag("option", METHOD_NAMES[m] ?? m, { value: m })));
    if (methods.includes(before)) this.parts.take.value = before;
    this.parts["take-choice"].hidden = this.parts["path-choice"].hidden = !methods.length;
    for (const option of this.parts.colouring.options)
      if (["uses", "fate"].includes(option.value)) option.disabled = !methods.length;
    this.readTake();
  }

  readTake() {
    this.take = readTake(props.utterances[this.parts.take.value]);
    this.parts.take.style.setProperty("--method", `var(--method-${this.parts.take.value})`);
    this.recolour();
  }

  readScene() {
    const { group, pair, similarity } = props.scene ?? { ...NOTHING, similarity: this.similarity };
    if (this.wanted && !this.isShown(this.wanted)) return this.settle();
    this.wanted = null;
    this.settle();
    // The slider may have moved on since Python was asked.
    this.theta = Number(document.querySelector(`${props.theta_at} input[type="range"]`)?.value ?? props.scene.theta);
    Object.assign(this, { group, pair, similarity, anchor: group?.token ?? null, second: pair?.second ?? null });
    if (group) this.trail.visit(group.token);
    if (pair?.shared && !this.compared) this.openTable = "links";
    if (!pair?.shared && this.openTable === "links") this.openTable = "members";
    this.compared = pair !== null;
    this.describe();
    this.recolour();
    if (group) this.approach(group.token);
  }

  // What is chosen.

  /** The tokens of the bright group but the anchor: at the slider's theta, even before Python has answered. */
  members() {
    if (this.group?.token !== this.anchor) return this.near(this.anchor);
    const { neighbours, similarities } = this.group;
    let end = 1;
    while (end < neighbours.length && similarities[end] > this.theta) end++;
    return neighbours.slice(1, end);
  }

  /** Those of the nearest tokens in the file that are above theta; the file knows the cosine similarity only. */
  near(token) {
    const { near, nearest, similarity } = this.atlas;
    const found = [];
    if (this.similarity !== "cosine") return found;
    for (let i = token * near; i < (token + 1) * near; i++)
      if (similarity[i] / 255 > this.theta && nearest[i] !== token) found.push(nearest[i]);
    return found;
  }

  digits(token) {
    let rest = token;
    return this.levels.map((levels) => {
      const digit = rest % levels;
      rest = Math.floor(rest / levels);
      return digit;
    });
  }

  steps(token, other) {
    const digits = this.digits(other);
    return this.digits(token).reduce((sum, digit, i) => sum + Math.abs(digit - digits[i]), 0);
  }

  choose(token, compare = false) {
    const asSecond = (compare || this.mode() === "two") && this.anchor !== null && token !== this.anchor && token !== null;
    if (asSecond && (compare || this.second === null)) this.ask(this.anchor, token);
    else if (token !== this.anchor || this.second !== null) this.ask(token, null);
  }

  /** Show what is known at once, and ask Python for the rest; one question at a time, and of those that wait only the last. */
  ask(anchor, second) {
    Object.assign(this, { anchor, second, pair: null });
    this.wanted = { anchor, second };
    this.recolour();
    if (this.asked) return;
    if (this.isShown(this.wanted)) this.readScene();
    else this.send();
  }

  send() {
    const asked = (this.asked = this.wanted);
    this.wanted = null;
    trigger("pick", asked);
    setTimeout(() => this.parts.scroll.setAttribute("aria-busy", this.asked === asked), BUSY_MS);
    // After an error no answer comes: the map then returns to what it showed.
    setTimeout(() => this.asked === asked && this.readScene(), PATIENCE_MS);
  }

  settle() {
    this.asked = null;
    if (this.wanted) this.send();
  }

  /** Whether Python's last answer is about these tokens. */
  isShown({ anchor, second }) {
    const { group, pair } = props.scene ?? NOTHING;
    return (group?.token ?? null) === anchor && (pair?.second ?? null) === second;
  }

  /** A step on the trail; after clearing, back leads to what was cleared. */
  step(direction) {
    return direction < 0 && this.anchor === null ? 0 : direction;
  }

  walk(direction) {
    const step = this.step(direction);
    if (this.trail.has(step)) this.ask(this.trail.go(step), null);
  }

  hover(token) {
    if (token === this.hovered) return;
    this.hovered = token;
    this.schedule();
  }

  // What is drawn.

  get diameter() {
    const crowded = Math.sqrt((this.camera.width * this.camera.height) / this.atlas.count);
    return clamp(0.45 * crowded, 2.2, 7) * clamp(this.camera.zoom ** 0.4, 1, 3.2);
  }

  get pathShown() {
    return this.parts.path.checked && this.take.tokens.length > 0;
  }

  recolour() {
    const name = this.parts.colouring.value;
    const scheme = colouring(name, this, this.palette);
    const { count } = this.atlas;
    const aside = this.anchor !== null || this.pathShown;
    const ofTake = name === "uses" || name === "fate";
    const colours = new Uint8Array(4 * count);
    const sizes = new Uint8Array(count).fill(aside ? 52 : 64);
    for (let t = 0; t < count; t++) {
      const colour = aside ? null : scheme.of(t);
      colours.set(colour ?? this.palette.dust, 4 * t);
      colours[4 * t + 3] = colour ? 225 : aside || ofTake ? 90 : 150;
    }
    const front = this.front(ofTake);
    for (const t of front) {
      colours.set(scheme.of(t) ?? this.palette.dust, 4 * t);
      colours[4 * t + 3] = 255;
      sizes[t] = 92;
    }
    this.cloud.paint(colours, sizes, Uint32Array.from(front));
    this.drawLegend(scheme);
    this.schedule();
  }

  front(ofTake) {
    if (this.anchor !== null) return [this.anchor, ...this.members(), ...(this.second === null ? [] : [this.second])];
    return ofTake || this.pathShown ? [...this.take.uses.keys(), ...this.take.fates.keys()] : [];
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    if (this.camera.width < 2) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    for (const canvas of [this.parts.points, this.parts.marks]) {
      const [width, height] = [Math.round(this.camera.width * ratio), Math.round(this.camera.height * ratio)];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    }
    this.cloud.draw(this.camera, this.diameter, ratio);
    this.marks.draw(this, ratio);
    this.drawCard();
  }

  drawCard() {
    const { card } = this.parts;
    card.hidden = this.hovered === null || this.dragging;
    if (card.hidden) return;
    const t = this.hovered;
    const groups = `group of ${formatted(this.sizes[t])}; in ${many(this.counts[t], "group")}`;
    const lines = [groups, `${many(this.usage[t], "use")} in training`];
    if (this.levels.length) lines.unshift(`digits ${this.digits(t).join(" ")}`);
    if (this.take.fates.has(t))
      lines.push(`${many(this.take.uses.get(t) ?? 0, "use")} in the take; ${FATES[this.take.fates.get(t)]}`);
    card.replaceChildren(tag("b", `Token ${t}`), ...lines.map((line) => tag("span", line)));
    const [left, top] = this.camera.toScreen(this.atlas.x[t] / UNIT, this.atlas.y[t] / UNIT);
    const { offsetWidth: wide, offsetHeight: high } = card;
    card.style.left = `${beside(left, wide, this.camera.width)}px`;
    card.style.top = `${beside(top, high, this.camera.height)}px`;
  }

  drawLegend(scheme) {
    const legend = this.parts.legend;
    legend.replaceChildren(tag("div", scheme.title));
    if (scheme.kinds) {
      const kinds = tag("div", "", { class: "kinds" });
      for (const [colour, name] of scheme.kinds) {
        const entry = tag("span");
        const swatch = tag("i");
        swatch.style.backgroundColor = css(colour);
        entry.append(swatch, name);
        kinds.append(entry);
      }
      legend.append(kinds);
      return;
    }
    const bar = tag("div", "", { class: "ramp" });
    bar.style.backgroundImage = this.palette.gradient();
    const ticks = tag("div", "", { class: "ticks" });
    for (const [share, name] of scheme.ticks) ticks.append(tag("i", name, { style: `left: ${(100 * share).toFixed(1)}%` }));
    legend.append(bar, ticks);
  }

  // Descriptions in words.

  describe() {
    const { title, facts, pair, hint, tabs, scroll, news, marks } = this.parts;
    const { group } = this;
    title.textContent = group ? `Token ${group.token}` : "No token chosen";
    if (group && this.levels.length) title.append(tag("small", `digits ${this.digits(group.token).join(" ")}`));
    hint.hidden = group !== null;
    for (const part of [facts, tabs, scroll]) part.hidden = group === null;
    pair.hidden = this.pair === null;
    pair.replaceChildren(...(this.pair?.sentences ?? []).map((sentence) => tag("p", sentence)));
    if (group) this.describeGroup(group);
    this.parts.back.disabled = !this.trail.has(this.step(-1));
    this.parts.forward.disabled = !this.trail.has(this.step(1));
    this.parts.clear.disabled = group === null;
    scroll.setAttribute("aria-busy", false);
    this.fillTable();
    const heard = group ? this.summary(group) : "No token chosen.";
    news.textContent = this.pair ? this.pair.sentences.join(" ") : heard;
    marks.setAttribute("aria-label", `Map of ${formatted(this.atlas.count)} tokens. ${heard} The tables beside it say the same.`);
  }

  summary({ token, size, theta, count }) {
    return `Token ${token}: ${formatted(size)} in its group at theta ${theta.toFixed(2)}; in ${many(count, "group")}.`;
  }

  describeGroup(group) {
    const figures = [
      ["in its group", "tokens, itself included", group.size],
      ["groups hold it", "N(t)", group.count],
      ["overlap it", "other groups that share a member with its own", group.overlapping],
      ["uses", "in the training corpus", group.usage],
    ];
    this.parts.facts.replaceChildren(
      ...figures.map(([name, meaning, value]) => {
        const figure = tag("div", "", { title: meaning });
        figure.append(tag("dt", name), tag("dd", formatted(value)));
        return figure;
      }),
    );
    this.describeTabs({
      members: `Members ${formatted(group.size)}`,
      overlaps: `Overlaps ${formatted(group.overlapping)}`,
      links: `Hold both ${formatted(this.pair?.shared ?? 0)}`,
    });
  }

  describeTabs(titles) {
    for (const tab of this.parts.tabs.children) {
      const open = tab.dataset.table === this.openTable;
      tab.textContent = titles[tab.dataset.table];
      tab.hidden = tab.dataset.table === "links" && !this.pair?.shared;
      tab.setAttribute("aria-selected", open);
      tab.tabIndex = open ? 0 : -1;
    }
  }

  fillTable() {
    this.parts.rest.hidden = this.group === null;
    if (!this.group) return;
    const { token } = this.group;
    const columns = COLUMNS[this.openTable].filter(([, key]) => key !== "steps" || this.levels.length);
    const [rows, total] = this[this.openTable + "Rows"]();
    this.table.show(this.openTable, rows, total, token, columns);
    this.parts.table.setAttribute("aria-label", `${this.openTable} of token ${token}`);
  }

  membersRows() {
    const { token, size, neighbours, similarities } = this.group;
    const rows = neighbours.slice(0, size).map((t, i) => ({
      token: t, similarity: similarities[i], size: this.sizes[t], count: this.counts[t], steps: this.steps(t, token),
    }));
    return [rows, size];
  }

  overlapsRows() {
    const rows = this.group.overlaps.map((o) => ({ ...o, token: o.centre, holds: o.holds_token }));
    return [rows, this.group.overlapping];
  }

  linksRows() {
    const rows = this.pair.links.map((l) => ({ ...l, token: l.centre, toFirst: l.to_first, toSecond: l.to_second }));
    return [rows, this.pair.shared];
  }

  // What a person does.

  fillChoices() {
    const { digit, colouring } = this.parts;
    digit.replaceChildren(...this.levels.map((_, i) => tag("option", `${i + 1}`, { value: i })));
    if (!this.levels.length) colouring.querySelector('[value="digit"]').remove();
    this.describe();
  }

  listen() {
    const { parts } = this;
    const on = (part, kind, act) => parts[part].addEventListener(kind, act);
    on("colouring", "change", () => {
      parts["digit-choice"].hidden = parts.colouring.value !== "digit";
      this.recolour();
    });
    on("digit", "change", () => {
      this.digit = Number(parts.digit.value);
      this.recolour();
    });
    on("take", "change", () => this.readTake());
    on("path", "change", () => this.recolour());
    on("closer", "click", () => this.zoom(1.6));
    on("farther", "click", () => this.zoom(1 / 1.6));
    on("whole", "click", () => this.showWhole());
    on("back", "click", () => this.walk(-1));
    on("forward", "click", () => this.walk(1));
    on("clear", "click", () => this.ask(null, null));
    on("tabs", "click", (event) => this.open(event.target.closest("[data-table]")));
    on("tabs", "keydown", (event) => this.tabKey(event));
    this.listenOnMap(on);
    this.listenOutside();
  }

  listenOnMap(on) {
    this.fingers = new Map();
    on("marks", "pointerdown", (event) => this.press(event));
    on("marks", "pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) on("marks", kind, (event) => this.release(event));
    on("marks", "pointerleave", () => this.hover(null));
    on("marks", "dblclick", () => this.showWhole());
    on("marks", "keydown", (event) => this.key(event));
    on("marks", "wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    });
    on("points", "webglcontextlost", (event) => {
      event.preventDefault();
      this.say("The graphics card let go of the map; waiting for it to come back.");
    });
    on("points", "webglcontextrestored", () => {
      this.cloud.build();
      this.recolour();
      this.say("");
    });
  }

  /** What happens beyond this element; let go of with it. */
  listenOutside() {
    const resized = new ResizeObserver(([entry]) => {
      if (!this.root.isConnected) return this.leave();
      Object.assign(this.camera, { width: entry.contentRect.width, height: entry.contentRect.height });
      this.schedule();
    });
    const themed = new MutationObserver(() => {
      this.palette = new Palette(this.root);
      this.recolour();
    });
    const slid = (event) => {
      const theta = event.target.closest?.(props.theta_at) ? Number(event.target.value) : NaN;
      if (!Number.isFinite(theta) || theta === this.theta) return;
      this.theta = theta;
      if (this.anchor !== null) this.recolour();
    };
    resized.observe(this.parts.map);
    themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    document.addEventListener("input", slid);
    this.leave = () => {
      resized.disconnect();
      themed.disconnect();
      document.removeEventListener("input", slid);
    };
  }

  open(tab) {
    if (!tab) return;
    this.openTable = tab.dataset.table;
    this.describeGroup(this.group);
    this.fillTable();
  }

  tabKey(event) {
    const tabs = [...this.parts.tabs.children].filter((tab) => !tab.hidden);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    this.open(next);
    next.focus();
  }

  tokenAt(event) {
    const [u, v] = this.camera.toMap(event.offsetX, event.offsetY);
    const reach = ((REACH[event.pointerType] ?? 10) / this.camera.scale) * UNIT;
    return this.grid.nearest(u * UNIT, v * UNIT, reach);
  }

  press(event) {
    if (event.button) return;
    this.parts.marks.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (this.fingers.size === 1) Object.assign(this, { pressedAt: [event.offsetX, event.offsetY], dragging: false });
    else this.dragging = true;
  }

  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return this.hover(this.tokenAt(event));
    const now = [event.offsetX, event.offsetY];
    if (!this.dragging && Math.hypot(now[0] - this.pressedAt[0], now[1] - this.pressedAt[1]) < CLICK_PIXELS) return;
    this.dragging = true;
    this.parts.map.classList.add("dragged");
    const spread = this.spread();
    this.fingers.set(event.pointerId, now);
    if (!this.cloud.moves) return;
    this.flight = null;
    this.camera.pan((now[0] - before[0]) / this.fingers.size, (now[1] - before[1]) / this.fingers.size);
    if (spread && this.spread()) this.zoom(this.spread() / spread, ...this.middle());
    this.schedule();
  }

  release(event) {
    if (!this.fingers.delete(event.pointerId) || this.fingers.size) return;
    this.parts.map.classList.remove("dragged");
    if (!this.dragging && event.type === "pointerup") this.choose(this.tokenAt(event), event.shiftKey);
    this.dragging = false;
    this.schedule();
  }

  spread() {
    const [a, b] = this.fingers.values();
    return b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
  }

  middle() {
    const [a, b] = this.fingers.values();
    return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  }

  key(event) {
    const far = 48;
    const pans = { ArrowLeft: [far, 0], ArrowRight: [-far, 0], ArrowUp: [0, far], ArrowDown: [0, -far] };
    const acts = { "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3) };
    Object.assign(acts, { 0: () => this.showWhole(), Escape: () => this.anchor !== null && this.ask(null, null) });
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in pans || event.key in acts)) return;
    event.preventDefault();
    if (event.key in acts) return acts[event.key]();
    if (this.cloud.moves) this.camera.pan(...pans[event.key]);
    this.schedule();
  }

  zoom(factor, left = this.camera.width / 2, top = this.camera.height / 2) {
    if (!this.cloud.moves) return;
    this.flight = null;
    this.camera.zoomAt(left, top, factor);
    this.schedule();
  }

  showWhole() {
    const { x, y, zoom } = this.camera.whole;
    this.fly(x, y, zoom);
  }

  /** Bring a token that is out of sight to the middle. */
  approach(token) {
    const [u, v] = [this.atlas.x[token] / UNIT, this.atlas.y[token] / UNIT];
    const [left, top] = this.camera.toScreen(u, v);
    const seen = left > 12 && top > 12 && left < this.camera.width - 12 && top < this.camera.height - 12;
    if (!seen && this.cloud.moves) this.fly(u, v, this.camera.zoom);
  }

  fly(x, y, zoom) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      Object.assign(this.camera, { x, y, zoom });
      return this.schedule();
    }
    const flight = (this.flight = { from: { ...this.camera }, begun: performance.now() });
    const step = (now) => {
      if (this.flight !== flight) return;
      const share = clamp((now - flight.begun) / FLIGHT_MS, 0, 1);
      const eased = share * share * (3 - 2 * share);
      const mix = (a, b) => a + (b - a) * eased;
      this.camera.x = mix(flight.from.x, x);
      this.camera.y = mix(flight.from.y, y);
      this.camera.zoom = flight.from.zoom * (zoom / flight.from.zoom) ** eased;
      this.schedule();
      if (share < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
}

async function start() {
  const root = element.querySelector(".atlas");
  try {
    const answer = await fetch(props.value.url);
    if (!answer.ok) throw new Error(`the server said ${answer.status}`);
    const map = new AtlasMap(root, readAtlas(await answer.arrayBuffer()));
    await map.begin();
    watch("scene", () => map.readScene());
    watch("sizes", () => map.readSizes());
    watch("utterances", () => map.readUtterances());
  } catch (error) {
    root.dataset.state = "failed";
    const notice = root.querySelector('[data-part="notice"]');
    notice.textContent = `The map could not be drawn: ${error.message}. Load the page again.`;
  }
}

start();
