// What Python sends, and what a person does. Each file extends the class of the file before it.

const REST_MS = 60;
// Knobs that generate again while they move: a method, or "" for the one that is heard.
const KNOBS = {
  theta: "pcg", beta: "ssd", lookahead: "", temperature: "", seed: "", similarity: "pcg",
  verification: "", sampler: "", "top-k": "", "top-p": "",
};
const SETTLE_MS = 300;
const STALE = "These takes are of an earlier request: press Generate.";

class Stage extends StageMore {
  constructor(root) {
    super();
    Object.assign(this, { root, lanes: [], history: [], buffers: new Map(), deck: null, context: null, position: 0, chosen: "pcg" });
    Object.assign(this, { ready: false, waiting: false, serial: 0, frame: 0, asked: null, resting: 0, text: null });
    Object.assign(this, { live: null, lives: {}, run: 0, taken: 0, streamed: null, before: 0, unheard: false, cut: null });
    Object.assign(this, { stale: false, texts: {}, study: null, studying: null, tokens: [], shownLane: null, chosenToken: null, at: 0 });
    this.pending = false;
    this.pieces = new Pieces(props.sample_rate);
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.listen();
    this.listenTokens();
    this.listenMore();
    this.readHash();
  }

  get running() {
    return this.live !== null || this.pending;
  }

  read() {
    const { state, sounds, then, brought, over } = props.value ?? {};
    if (!state || (state === this.text && !brought && !over)) return;
    this.readState(state, sounds);
    if (over) this.pending = false;
    if (over) this.endRun();
    if (brought === "take") {
      this.chosen = this.lanes.find(({ number }) => number === this.hand)?.key ?? this.chosen;
      this.tell(`Take #${this.hand} is chosen, and its settings are back.`);
    } else if (brought) this.arrived(then);
    this.draw();
  }

  readProgress() {
    if (props.live) {
      const live = JSON.parse(props.live);
      if (live.method) this.readLive(live);
      this.pending = true;
      this.tell(live.status);
    } else {
      this.pending = false;
      this.endRun();
    }
    this.draw();
  }

  readState(text, sounds) {
    this.text = text;
    const state = JSON.parse(text);
    const named = () => this.lanes.map(({ key, name }) => `${key} ${name}`).join();
    const numbers = () => this.lanes.map(({ number }) => number).join();
    const [before, takes] = [named(), numbers()];
    this.lanes = state.lanes.map((lane, i) => {
      const rounds = lane.rounds ?? [];
      const calls_ = rounds.map(([, , tokens]) => tokens.length);
      return { ...lane, rounds, calls_, ms: rounds.reduce((sum, [ms]) => sum + ms, 0), pauses: lane.pauses ?? [], url: sounds[i]?.url };
    });
    this.history = state.history.map((take, i) => ({ ...take, url: sounds[this.lanes.length + i]?.url }));
    Object.assign(this, { hand: state.hand, texts: state.share, stale: this.stale && takes === numbers() });
    if (state.study) this.study = state.study;
    if (!this.lanes.some(({ key }) => key === this.chosen)) this.chosen = this.lanes.at(-1)?.key ?? "pcg";
    if (state.hand && this.lanes.at(-1)?.key === "kept" && this.lanes.at(-1).number === state.hand) this.chosen = "kept";
    if (before !== named()) this.drawSwitch();
    if (state.note || state.status) this.tell(state.note || state.status);
    this.parts.verdict.replaceChildren(...state.verdict.map((line, i) => tag("p", line.replace(/ (?=[%×])/g, "\u00a0"), i ? {} : { class: "stage-winner" })));
    this.drawPanels();
    if (!this.score) this.readExample();
    this.drawTake();
    this.load();
  }

  /** Controls have other values now: of a link or a file its take is generated, else the takes are marked as old. */
  arrived(then) {
    this.stale = true;
    if (!then) return this.tell(STALE);
    // The controls get their values beside this one.
    setTimeout(() => this.again(then), SETTLE_MS);
  }

  listen() {
    const { play, seek, lanes } = this.parts;
    play.addEventListener("click", () => this.toggle());
    seek.addEventListener("input", () => this.seek(Number(seek.value)));
    lanes.addEventListener("click", ({ target }) => {
      const lane = target.closest(".stage-lane");
      if (lane) this.hear(lane.dataset.key);
    });
    yieldFloor(this, this.root, () => this.pause());
    new ResizeObserver(() => this.root.isConnected && (this.draw(), this.drawTake())).observe(this.parts.lanes);
    const gone = new AbortController();
    const on = (name, act, capture = false) =>
      document.addEventListener(name, (event) => (this.root.isConnected ? act(event) : gone.abort()), { signal: gone.signal, capture });
    on("keydown", (event) => this.key(event));
    on("knob-moved", () => this.move(""));
    on("run-ended", () => {
      this.pending = false;
      this.endRun();
      this.draw();
    });
    on("input", ({ target, isTrusted }) => this.turned(target, isTrusted), true);
    on("focusin", ({ target }) => {
      this.filled = target.value;
    });
    on("blur", ({ target }) => this.refill(target), true);
    on("click", ({ target }) => this.pressed(target), true);
  }

  /** Gradio would put the lowest number into a slider's field that was emptied. */
  refill(target) {
    if (target.type !== "number" || target.value || !target.closest("#knobs")) return;
    target.value = this.filled;
    target.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** A control was changed by hand. */
  turned(target, isTrusted) {
    if (!isTrusted || (target.type === "number" && !target.value)) return;
    const knob = Object.keys(KNOBS).find((id) => target.closest?.(`#${id}`));
    if (knob !== undefined) return this.move(KNOBS[knob]);
    if (target.closest?.("#text, #voice, #transcript")) this.markStale();
  }

  markStale() {
    if (!this.lanes.length || this.running) return;
    this.stale = true;
    this.tell(STALE);
    this.draw();
  }

  pressed(target) {
    if (target.closest?.("#run, #stop")) clearTimeout(this.resting);
    if (target.closest?.("#run")) this.ask();
    if (target.closest?.("#stop")) this.pause();
    if (target.closest?.(".ask-chips button, #voice [role=option]")) this.markStale();
    // On a phone the lanes are above the text, and the sheet of the knobs covers the foot of the screen.
    if (target.closest?.("#run, #knobs > button") && matchMedia("(max-width: 760px)").matches) this.parts.lanes.scrollIntoView();
    if (target.closest?.("#how-round button")) this.teach();
  }

  ask() {
    // A link asks for its take by itself: the first press of Play lets it be heard.
    this.unheard = !acted();
    if (!this.unheard) this.wake();
    this.pause();
    // What still comes of the run before is no answer.
    Object.assign(this, { asked: performance.now(), before: this.run, pending: true, cut: null });
    this.draw();
  }

  /** Generate one method again. */
  again(method) {
    this.ask();
    this.root.dataset.method = method;
    trigger("again");
  }

  /** A knob moved: the take in flight is of no use any more, and the next one waits until the knob rests. */
  move(method) {
    if (this.live) trigger("halt");
    clearTimeout(this.resting);
    const own = METHODS.includes(this.chosen) ? this.chosen : "pcg";
    this.resting = setTimeout(() => this.again(method || own), REST_MS);
  }

  key(event) {
    const shown = this.parts.lanes.offsetParent !== null && this.lanes.length > 0;
    if (!shown || event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing(event.target)) return;
    const lane = this.lanes[Number(event.key) - 1];
    const own = event.target.closest("button, a, summary, input, [role=button], [role=tab], [role=slider]");
    if (lane) this.hear(lane.key);
    else if (event.key === " " && !own) this.toggle();
    else return;
    event.preventDefault();
  }

  tick() {
    this.frame = 0;
    if (!this.root.isConnected) return;
    if (this.streaming && this.live?.method !== this.streamed && this.pieces.place >= this.pieces.length) {
      this.pieces.stop();
      this.finish();
    }
    this.drawLanes();
    this.drawWords();
    this.drawTime();
    this.drawMarks();
    if (this.sounding) this.frame = requestAnimationFrame(() => this.tick());
  }

  /** A link of a take, or of a round of one. */
  readHash() {
    const open = () => {
      const hash = location.hash.slice(1);
      const values = new URLSearchParams(hash);
      this.wanted = values.has("round") ? { round: Number(values.get("round")), step: Number(values.get("step") ?? 1) } : null;
      if (values.has("text")) trigger("use", { link: hash });
      else this.showWanted();
    };
    addEventListener("hashchange", () => this.root.isConnected && open());
    setTimeout(open, SETTLE_MS);
  }

  showWanted() {
    if (!this.wanted || !this.lanes.length) return;
    this.parts.tokens.open = true;
    this.readTokens();
    const place = this.tokens.findIndex(({ round }) => round === this.wanted.round - 1);
    if (place < 0) return;
    this.pickToken(place, false);
    this.at = clamp(this.wanted.step - 1, 0, this.lastStep);
    this.wanted = null;
    this.drawTake();
    this.parts.tokens.scrollIntoView();
  }

  /** Open a round in which the group passes a test that its token alone would fail, or any other round. */
  teach() {
    document.querySelector("#listen-tab-button")?.click();
    if (this.lanes.some(({ key }) => key === "pcg")) this.hear("pcg");
    this.parts.tokens.open = true;
    this.readTokens();
    this.parts.findAccepted.click();
    if (this.chosenToken === null) this.turnRound(1);
    setTimeout(() => this.parts.board.scrollIntoView({ block: "center" }), SETTLE_MS);
  }

  endRun() {
    const ended = this.live !== null;
    super.endRun();
    if (ended && this.wanted) this.showWanted();
  }
}

const stage = new Stage(element.querySelector(".stage"));
watch("value", () => stage.read());
watch("live", () => stage.readProgress());
stage.read();
