// What Python sends, and what a person does. Its parts stand on each other, in the order of the files: each uses the parts
// before it, and they share the fields that are set here.

const REST_MS = 60;
// The method that a knob generates again; "one" is that of the take in hand. Heard of here, as an event of Gradio's takes the
// page a tenth of a second.
const KNOBS = {
  theta: "pcg", beta: "ssd", lookahead: "one", temperature: "one", adaptive: "one", "lookahead-cost": "one",
  verification: "one", "top-k": "one", "top-p": "one",
};
// As in the style sheet: there the knobs lie in a sheet at the foot of the screen, closed at first.
const NARROW = "(max-width: 760px)";
const FOLD_MS = 10000;
// Gradio knows the events that stand here in quotes.
const EVENTS = { pcg: "speak_pcg", ssd: "speak_ssd", one: "speak_one" };

class Stage extends StageLanes {
  constructor(root) {
    super();
    Object.assign(this, { root, lanes: [], buffers: new Map(), deck: null, context: null, position: 0, chosen: "pcg" });
    Object.assign(this, { ready: false, waiting: false, serial: 0, frame: 0, asked: null, resting: 0 });
    Object.assign(this, { live: null, run: 0, shown: 0, taken: 0, race: null, streamed: null, before: 0 });
    Object.assign(this, { lives: {}, whole: false, unheard: false });
    this.pieces = new Pieces(props.sample_rate);
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.listen();
  }

  read() {
    const { lanes, sounds } = props.value ?? { lanes: [], sounds: [] };
    const named = () => this.lanes.map(({ key, name }) => `${key} ${name}`).join();
    const before = named();
    const had = new Set(this.lanes.map(({ url }) => url));
    this.lanes = lanes.map((lane, i) => ({ ...JSON.parse(lane), url: sounds[i]?.url }));
    // A run that was over before the page could draw any of it is in hand all the same.
    const unseen = had.size && this.run === this.shown ? this.lanes.filter(({ url }) => !had.has(url)) : [];
    if (unseen.length && !unseen.some(({ key }) => key === this.chosen)) this.chosen = unseen[0].key;
    // Nothing of it is still to come, so a press plays it like any other.
    if (unseen.length) this.unheard = false;
    Object.assign(this, { live: null, lives: {}, shown: this.run });
    if (!this.lanes.some(({ key }) => key === this.chosen)) this.chosen = this.lanes.at(-1)?.key ?? "pcg";
    if (before !== named()) this.drawSwitch();
    this.draw();
    this.load();
  }

  listen() {
    const { play, seek, race, lanes } = this.parts;
    play.addEventListener("click", () => this.toggle());
    seek.addEventListener("input", () => this.seek(Number(seek.value)));
    race.addEventListener("click", () => this.startRace());
    this.parts.switch.addEventListener("click", ({ target }) => target.dataset.key && this.hear(target.dataset.key));
    lanes.addEventListener("click", (event) => this.press(event));
    yieldFloor(this, this.root, () => this.pause());
    if (matchMedia(NARROW).matches) this.foldKnobs(performance.now() + FOLD_MS);
    const room = new ResizeObserver(() => this.draw());
    room.observe(this.root);
    const gone = new AbortController();
    const here = (act) => (event) => {
      if (this.root.isConnected) return act(event);
      gone.abort();
      room.disconnect();
      this.pause();
    };
    document.addEventListener("keydown", here((event) => this.key(event)), { signal: gone.signal });
    document.addEventListener("knob-moved", here(({ detail }) => this.move(detail)), { signal: gone.signal });
    const turns = ({ target, isTrusted }) => {
      const knob = isTrusted && Object.keys(KNOBS).find((id) => target.closest?.(`#${id}`));
      if (knob) this.move(KNOBS[knob]);
    };
    document.addEventListener("input", here(turns), { signal: gone.signal, capture: true });
    const presses = ({ target }) => {
      if (target.closest?.("#run, #stop")) this.forgetKnob();
      if (target.closest?.("#run")) this.ask();
      if (target.closest?.("#stop")) this.pause();
      const tab = target.closest?.("[data-opens]");
      if (tab) document.querySelector(`#${tab.dataset.opens}-button`)?.click();
    };
    document.addEventListener("click", here(presses), { signal: gone.signal, capture: true });
  }

  /** Close the sheet of the knobs, which on a slow computer comes, or hears a click, later than the stage. */
  foldKnobs(deadline) {
    requestAnimationFrame(() => {
      const button = document.querySelector("#knobs > button");
      if (button && !button.matches(".open")) return;
      button?.click();
      if (performance.now() < deadline) this.foldKnobs(deadline);
    });
  }

  /** A click on a lane's tokens plays from there; one on a term only explains it. */
  press(event) {
    const lane = event.target.closest(".stage-lane");
    if (!lane || event.target.closest(".term")) return;
    if (lane.dataset.key !== this.chosen) this.hear(lane.dataset.key);
    if (event.target.tagName !== "CANVAS") return;
    const share = event.offsetX / event.target.clientWidth;
    this.play(share * this.duration);
  }

  ask() {
    // A link asks for its take by itself: the first press of play lets it be heard.
    this.unheard = !acted();
    if (!this.unheard) this.wake();
    // What still comes of the run before is no answer.
    Object.assign(this, { asked: performance.now(), before: this.run });
  }

  /** A knob moved: the take in flight is of no use any more, and the next one waits until the knob rests. */
  move(method) {
    this.ask();
    if (this.live && !this.resting) trigger("halt");
    this.forgetKnob();
    this.resting = setTimeout(() => {
      this.resting = 0;
      trigger(EVENTS[method]);
    }, REST_MS);
  }

  /** Drop the take that a resting knob would ask for. */
  forgetKnob() {
    clearTimeout(this.resting);
    this.resting = 0;
  }

  key(event) {
    const shown = this.root.offsetParent !== null && this.lanes.length > 0;
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
    if (this.race && this.lanes.every((lane) => reached(lane, (performance.now() - this.race.begun) / this.race.scale).ms !== null))
      this.endRace();
    if (this.streaming && this.live?.key !== this.streamed && this.pieces.place >= this.pieces.length) {
      this.pieces.stop();
      this.finish();
    }
    if (this.race) this.drawLanes();
    this.drawWords();
    this.drawTime();
    if (this.sounding || this.race) this.frame = requestAnimationFrame(() => this.tick());
  }
}

const stage = new Stage(element.querySelector(".stage"));
watch("value", () => stage.read());
watch("live", () => stage.readLive());
stage.read();
