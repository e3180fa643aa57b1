// The map itself: what Python sends, and the controls around the picture. Its parts stand on each other, in the order of the
// files: each uses the parts before it, and they share the fields that are set here.

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

class AtlasMap extends AtlasHand {
  constructor(root, atlas) {
    super();
    Object.assign(this, { root, atlas, levels: props.levels, digit: 0, theta: props.theta, similarity: "cosine" });
    Object.assign(this, { anchor: null, second: null, pair: null, group: null, hovered: null, frame: 0 });
    Object.assign(this, { wanted: null, asked: null, heard: false });
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
    if (props.phones) [this.phones] = await unpack(props.phones.codes, this.atlas.count);
    this.readUtterances();
    await this.readSizes();
    if (props.scene) this.readScene();
    this.say("");
    this.root.dataset.state = "ready";
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

  // What a person does.

  fillChoices() {
    const { digit, colouring } = this.parts;
    digit.replaceChildren(...this.levels.map((_, i) => tag("option", `${i + 1}`, { value: i })));
    if (!this.levels.length) colouring.querySelector('[value="digit"]').remove();
    if (!props.phones) colouring.querySelector('[value="phone"]').remove();
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
