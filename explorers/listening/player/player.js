// A trial, and what a listener does. Who stands behind a letter is not known here, and nothing that differs with it is drawn.
// Its parts stand on each other, in the order of the files: each uses the parts before it, and they share the fields that are
// set here.

const DRAG_PIXELS = 4;
const STEP_SECONDS = 0.25;

const QUESTIONS = {
  ab: "Which one sounds better?",
  abx: "X is A or B. Which one is it?",
  rating: "Rate each sound. One of them is the reference itself.",
};

class Player extends PlayerVote {
  constructor(root) {
    super();
    Object.assign(this, { root, trial: null, deck: null, position: 0, heard: 0, loop: null, looping: false, frame: 0 });
    Object.assign(this, { dragged: null, stint: null, serial: 0 });
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.listen();
  }

  // A trial, from Python.

  async show(trial) {
    const serial = ++this.serial;
    this.pause();
    this.trial = null;
    if (!trial?.letters) return this.turn("empty", trial?.told ?? "");
    this.turn("loading", `Loading trial ${trial.number} of ${trial.count} …`);
    try {
      const buffers = await decode(trial.sounds, RATE);
      if (serial === this.serial) this.begin(trial, buffers);
    } catch (error) {
      if (serial === this.serial) this.turn("failed", `The sounds did not arrive: ${error.message}. Prepare the test again.`);
    }
  }

  begin(trial, buffers) {
    const plays = trial.letters.map(() => 0);
    Object.assign(this, { trial, buffers, plays, scores: {}, position: 0, heard: 0, loop: null, looping: false });
    const { number, question, said, progress } = this.parts;
    number.textContent = `Trial ${trial.number} of ${trial.count}`;
    progress.style.width = `${(100 * (trial.number - 1)) / trial.count}%`;
    question.textContent = QUESTIONS[trial.kind];
    said.textContent = trial.text;
    this.drawSounds();
    this.drawVote();
    this.turn("ready");
    this.draw();
    // On a narrow page the player lies below the controls.
    if (trial.number === 1) this.root.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
  }

  // What a person does.

  listen() {
    const { sounds, play, round, whole, bar } = this.parts;
    // The focus stays where it is, so that the space bar goes on meaning play.
    for (const part of [sounds, play, round, whole]) part.addEventListener("mousedown", (event) => event.preventDefault());
    sounds.addEventListener("click", (event) => {
      const button = event.target.closest("[data-sound]");
      if (button) this.hear(Number(button.dataset.sound));
    });
    play.addEventListener("click", () => this.toggle());
    round.addEventListener("click", () => this.go(!this.looping));
    whole.addEventListener("click", () => this.go(this.looping, null));
    bar.addEventListener("pointerdown", (event) => this.press(event));
    bar.addEventListener("pointermove", (event) => this.drag(event));
    for (const kind of ["pointerup", "pointercancel"]) bar.addEventListener(kind, (event) => this.release(event));
    bar.addEventListener("keydown", (event) => this.step(event));
    yieldFloor(this, this.root, () => this.pause());
    const key = (event) => this.key(event);
    document.addEventListener("keydown", key);
    this.leave = () => {
      document.removeEventListener("keydown", key);
      this.context?.close();
      this.context = null;
    };
  }

  timeAt(event) {
    const box = this.parts.bar.getBoundingClientRect();
    return clamp((event.clientX - box.left) / box.width, 0, 1) * this.duration;
  }

  press(event) {
    if (event.button) return;
    this.parts.bar.setPointerCapture(event.pointerId);
    this.dragged = { x: event.clientX, from: this.timeAt(event), loop: null };
  }

  drag(event) {
    const { dragged } = this;
    if (!dragged || (!dragged.loop && Math.abs(event.clientX - dragged.x) < DRAG_PIXELS)) return;
    dragged.loop = [dragged.from, this.timeAt(event)].sort((a, b) => a - b);
    this.drawLoop(dragged.loop);
  }

  release(event) {
    const { dragged } = this;
    this.dragged = null;
    if (!dragged) return;
    if (event.type === "pointercancel") this.draw();
    else if (dragged.loop) this.go(true, dragged.loop);
    else this.seek(dragged.from);
  }

  step(event) {
    const to = { ArrowLeft: this.now - STEP_SECONDS, ArrowRight: this.now + STEP_SECONDS, Home: 0, End: this.duration }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.seek(to);
  }

  key(event) {
    if (!this.root.isConnected) return this.leave();
    const shown = this.root.dataset.state === "ready" && this.root.offsetParent !== null;
    if (!shown || event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing(event.target)) return;
    const act = this.shortcut(event);
    if (!act) return;
    event.preventDefault();
    act();
  }

  shortcut({ key, target }) {
    const { letters } = this.trial;
    const named = key.length === 1 ? letters.indexOf(key.toUpperCase()) : -1;
    const index = named >= 0 ? named : Number(key) - 1;
    if (key !== " " && index in letters) return () => this.hear(index);
    // A button that has the focus keeps its own space bar.
    if (key === " ") return target.closest("button, a, summary, [role=button], [role=tab]") ? null : () => this.toggle();
    const [start, end] = this.loop ?? [0, this.duration];
    const acts = { l: () => this.go(!this.looping), "[": () => this.go(true, [this.now, Math.max(end, this.now)]) };
    acts["]"] = () => this.go(true, [Math.min(start, this.now), this.now]);
    return acts[key.toLowerCase()] ?? null;
  }
}

const player = new Player(element.querySelector(".player"));
player.show(props.value);
watch("value", () => player.show(props.value));
