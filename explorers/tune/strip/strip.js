// One take: what Python sends, and what a person does. Its parts stand on each other, in the order of the files: each uses
// the parts before it, and they share the fields that are set here.

const PAGE_OF_TOKENS = 10;
const FIND_MAP_MS = 4000;

class Strip extends StripLinks {
  constructor(root) {
    super();
    Object.assign(this, { root, run: null, hovered: null, chosen: null, frame: 0, at: 0, slow: 0, clip: 0 });
    Object.assign(this, { spoof: null, judged: false, hidden: new Set(), wanted: null });
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.player = new Pieces(props.sample_rate);
    this.followed = true;
    this.listen();
  }

  // What Python sends.

  readRun() {
    const { run } = props;
    if (!run || run.number <= (this.run?.number ?? 0)) return;
    this.begin();
    this.run = { ...run, tokens: run.tokens.map((token) => JSON.parse(token)), drafted: JSON.parse(run.drafted), pauses: JSON.parse(run.pauses) };
    this.root.dataset.state = "done";
    this.parts.empty.hidden = run.tokens.length > 0;
    this.parts.marks.tabIndex = run.tokens.length ? 0 : -1;
    this.describe();
    this.drawRound();
    this.schedule();
  }

  /** Another take: what was heard before ends. */
  begin() {
    this.player.clear();
    Object.assign(this, { hovered: null, chosen: null, followed: true, spoof: null });
    this.halt();
    this.at = 0;
    this.parts.scroll.scrollLeft = 0;
  }

  readSound() {
    const { sound } = props;
    if (!sound || sound.number !== this.run?.number) return;
    this.player.clear();
    for (const piece of sound.pieces) this.player.push(unpack(piece));
    this.parts.play.disabled = this.player.length === 0;
    this.schedule();
    this.fulfil();
  }

  /** The curves come after the take, so that no sound waits for them. */
  readSpoof() {
    const { spoof } = props;
    if (!spoof || spoof.number !== this.run?.number) return;
    this.spoof = spoof;
    this.parts.detectors.hidden = false;
    this.parts.judge.textContent =
      `Spoof probability of the stretch around each token, from 0 to 1. Detectors: ${spoof.judge}.`;
    this.parts.curves.replaceChildren(...spoof.curves.map((curve) => this.entry(curve)));
    this.describe();
    this.schedule();
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
    this.parts.detectors.addEventListener("click", () => this.unfold());
    this.listenRound();
    this.listenLinks();
    this.parts.scroll.addEventListener("wheel", () => (this.followed = false), { passive: true });
    new ResizeObserver(() => this.root.isConnected && this.schedule()).observe(this.parts.scroll);
    new MutationObserver(() => this.root.isConnected && this.schedule()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    yieldFloor(this, this.root, () => {
      this.halt();
      if (this.player.playing) this.pause();
    });
  }

  /** Show the curves of the detectors, or hide them again. */
  unfold() {
    this.judged = !this.judged;
    this.parts.spoof.hidden = !this.judged;
    this.parts.detectors.setAttribute("aria-expanded", this.judged);
    this.schedule();
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
    this.halt();
    if (this.run.tokens[token].round !== this.round?.number) this.at = 0;
    this.chosen = token;
    this.drawRound();
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
    clearTimeout(this.clip);
    takeFloor(this);
    this.player.play(place);
    this.schedule();
  }

  playChosen() {
    if (this.chosen !== null) this.play(Math.min(startOf(this.chosen, this.run.pauses), this.player.length));
  }

  pause() {
    this.player.stop();
    this.schedule();
  }

  /** Open the map's tab, which may be drawn for the first time, and then ask Python to light the token up. */
  async locate() {
    const token = this.run?.tokens[this.chosen]?.token;
    if (token === undefined) return;
    document.querySelector("#groups-tab-button")?.click();
    const deadline = performance.now() + FIND_MAP_MS;
    while (document.querySelector(".atlas")?.dataset.state !== "ready" && performance.now() < deadline) {
      document.querySelector("#map-button")?.click();
      await new Promise((done) => setTimeout(done, 50));
    }
    trigger("locate", { token });
  }
}

const strip = new Strip(element.querySelector(".strip"));
watch("run", () => strip.readRun());
watch("sound", () => strip.readSound());
watch("spoof", () => strip.readSpoof());
watch("cluster", () => strip.drawCluster());
strip.readRun();
strip.readSound();
strip.readSpoof();
strip.schedule();
