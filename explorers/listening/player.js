// What a listener sees and does. Who stands behind a letter is not known here, and nothing that differs with it is drawn.

const HEARD_SECONDS = 0.3;
const DRAG_PIXELS = 4;
const SHORTEST_LOOP = 0.15;
const STEP_SECONDS = 0.25;
const PATIENCE_MS = 10000;
const UNRATED = 50;

const QUESTIONS = {
  ab: "Which one sounds better?",
  abx: "X is A or B. Which one is it?",
  rating: "Rate each sound. One of them is the reference itself.",
};
const ANSWERS = {
  ab: [["A", "A is better"], ["tie", "No difference"], ["B", "B is better"]],
  abx: [["A", "X is A"], ["B", "X is B"]],
};
const ADJECTIVES = ["bad", "poor", "fair", "good", "excellent"];

function tag(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const times = (count) => (count === 0 ? "not played" : count === 1 ? "played once" : `played ${count} times`);
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const seconds = (value) => `${value.toFixed(1)} s`;

/** Buffers of all sounds, at one rate. */
async function decode(sounds) {
  const decoder = new OfflineAudioContext(1, 1, RATE);
  return Promise.all(
    sounds.map(async ({ url }) => {
      const answer = await fetch(url);
      if (!answer.ok) throw new Error(`the server said ${answer.status}`);
      return decoder.decodeAudioData(await answer.arrayBuffer());
    }),
  );
}

class Player {
  constructor(root) {
    Object.assign(this, { root, trial: null, deck: null, position: 0, heard: 0, loop: null, looping: false, frame: 0 });
    Object.assign(this, { dragged: null, stint: null, serial: 0 });
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.listen();
  }

  // A trial, from Python to Python.

  async show(trial) {
    const serial = ++this.serial;
    this.pause();
    this.trial = null;
    if (!trial?.letters) return this.turn("empty", trial?.told ?? "");
    this.turn("loading", `Loading trial ${trial.number} of ${trial.count} …`);
    try {
      const buffers = await decode(trial.sounds);
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

  turn(state, words = "") {
    this.root.dataset.state = state;
    this.parts.notice.textContent = words;
    this.parts.trial.hidden = state !== "ready" && state !== "sending";
  }

  vote(answer) {
    if (this.root.dataset.state !== "ready" || !this.complete) return;
    this.pause();
    this.turn("sending", "Vote sent …");
    const { serial } = this;
    trigger("vote", { trial: this.trial.number, answer, plays: this.plays });
    // After an error no answer comes: then the vote can be given again.
    setTimeout(() => serial === this.serial && this.turn("ready", "No answer came. Vote again."), PATIENCE_MS);
  }

  get complete() {
    const rated = this.trial.kind !== "rating" || this.hidden.every((letter) => letter in this.scores);
    return rated && this.plays.every((count) => count > 0);
  }

  /** The letters that are rated: all but the open reference. */
  get hidden() {
    return this.trial.letters.filter((letter) => letter !== "R");
  }

  // The sound.

  get duration() {
    return this.buffers[0].duration;
  }

  get span() {
    return this.looping ? (this.loop ?? [0, this.duration]) : null;
  }

  get restarts() {
    return this.root.querySelector('[name="player-switch"]:checked').value === "restart";
  }

  get now() {
    return this.deck ? this.deck.at(this.context.currentTime) : this.position;
  }

  /** Only a person's own act may open it. */
  open() {
    this.context ??= new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    if (this.context.state === "suspended") this.context.resume();
  }

  play(from = this.now) {
    this.open();
    const { span } = this;
    const [low, high] = span ?? [0, this.duration];
    const position = from < low || from >= high - 0.01 ? low : from;
    // Old and new fade across each other only if both begin at one moment.
    const when = this.context.currentTime + LEAD_SECONDS;
    this.halt(when);
    const deck = (this.deck = new Deck(this.context, this.buffers, this.heard, position, span, when));
    deck.sources[0].onended = () => this.deck === deck && this.finish();
    this.stint = { begun: when, counted: false };
    this.draw();
    this.frame ||= requestAnimationFrame(() => this.tick());
  }

  halt(when) {
    this.count(when);
    this.deck?.stop(when);
    this.deck = this.stint = null;
  }

  pause() {
    if (!this.deck) return;
    this.position = this.now;
    this.halt(this.context.currentTime);
    this.draw();
  }

  finish() {
    this.count(this.context.currentTime);
    this.deck = this.stint = null;
    this.position = 0;
    this.draw();
  }

  toggle() {
    if (this.deck) this.pause();
    else this.play();
  }

  /** Hear another one, at once. */
  hear(index) {
    this.open();
    const { deck } = this;
    this.count(this.context.currentTime);
    Object.assign(this, { heard: index, stint: null });
    if (!deck) return this.play(this.restarts ? 0 : this.position);
    if (this.restarts) return this.play(this.span?.[0] ?? 0);
    deck.hear(index, this.context.currentTime);
    this.stint = { begun: this.context.currentTime, counted: false };
    this.draw();
  }

  seek(position) {
    this.position = clamp(position, 0, this.duration);
    if (this.deck) this.play(this.position);
    else this.draw();
  }

  /** Go round between two moments, or, with null, round the whole. */
  go(round, loop = this.loop) {
    const now = this.now;
    if (loop) loop = [clamp(loop[0], 0, this.duration - SHORTEST_LOOP), clamp(loop[1], SHORTEST_LOOP, this.duration)];
    Object.assign(this, { looping: round, loop: loop && loop[1] - loop[0] < SHORTEST_LOOP ? null : loop });
    if (this.deck) this.play(now);
    else this.draw();
  }

  /** A sound was played once it could be heard for a moment without a break. */
  count(time) {
    const { stint } = this;
    if (!stint || stint.counted || time - stint.begun < Math.min(HEARD_SECONDS, this.duration / 2)) return;
    stint.counted = true;
    this.plays[this.heard] += 1;
    this.draw();
  }

  // What is drawn.

  tick() {
    this.frame = 0;
    if (!this.root.isConnected) return this.leave();
    if (!this.deck) return;
    this.count(this.context.currentTime);
    this.drawTime();
    this.frame = requestAnimationFrame(() => this.tick());
  }

  draw() {
    if (!this.trial) return;
    const { play, round, whole, bar } = this.parts;
    for (const button of this.root.querySelectorAll("[data-sound]")) {
      const index = Number(button.dataset.sound);
      button.setAttribute("aria-pressed", index === this.heard);
      button.dataset.playing = index === this.heard && this.deck !== null;
      button.querySelector("small").textContent = times(this.plays[index]);
    }
    play.textContent = this.deck ? "Pause" : "Play";
    round.setAttribute("aria-pressed", this.looping);
    whole.hidden = this.loop === null;
    bar.setAttribute("aria-valuemax", this.duration.toFixed(1));
    this.drawLoop(this.loop);
    this.drawTime();
    this.drawReadiness();
  }

  drawTime() {
    const { bar, head, clock } = this.parts;
    head.style.left = `${(100 * this.now) / this.duration}%`;
    clock.textContent = `${seconds(this.now)} of ${seconds(this.duration)}`;
    bar.setAttribute("aria-valuenow", this.now.toFixed(1));
    bar.setAttribute("aria-valuetext", clock.textContent);
  }

  drawLoop(loop) {
    const { stretch } = this.parts;
    stretch.hidden = loop === null;
    stretch.dataset.on = this.looping;
    if (!loop) return;
    stretch.style.left = `${(100 * loop[0]) / this.duration}%`;
    stretch.style.width = `${(100 * (loop[1] - loop[0])) / this.duration}%`;
  }

  drawReadiness() {
    const { wanting, vote } = this.parts;
    const silent = this.trial.letters.filter((_, i) => !this.plays[i]);
    const unrated = this.trial.kind === "rating" ? this.hidden.filter((letter) => !(letter in this.scores)) : [];
    for (const button of vote.querySelectorAll("button")) button.disabled = !this.complete;
    const wants = [silent.length && `Still to be played: ${silent.join(", ")}.`, unrated.length && `Still to be rated: ${unrated.join(", ")}.`];
    const words = wants.filter(Boolean).join(" ") || "Everything was played: the vote is open.";
    // Told aloud only when it changes.
    if (wanting.textContent !== words) wanting.textContent = words;
  }

  drawSounds() {
    this.parts.sounds.replaceChildren(
      ...this.trial.letters.map((letter, i) => {
        const open = letter === "R";
        const attributes = { type: "button", "data-sound": i, "aria-pressed": false };
        const button = tag("button", "", { ...attributes, "aria-keyshortcuts": `${letter} ${i + 1}` });
        button.append(tag("b", letter), tag("span", open ? "Reference" : ""), tag("small", times(0)));
        return button;
      }),
    );
  }

  drawVote() {
    const { vote } = this.parts;
    if (this.trial.kind === "rating") return this.drawScales(vote);
    vote.replaceChildren(
      ...ANSWERS[this.trial.kind].map(([answer, words]) => {
        const button = tag("button", words, { type: "button", class: "player-answer" });
        button.addEventListener("click", () => this.vote(answer));
        return button;
      }),
    );
  }

  drawScales(vote) {
    const words = tag("div", "", { class: "player-scale-words", "aria-hidden": true });
    words.append(...ADJECTIVES.map((word) => tag("span", word)));
    const send = tag("button", "Send the ratings", { type: "button", class: "player-answer" });
    send.addEventListener("click", () => this.vote(this.hidden.map((letter) => this.scores[letter])));
    vote.replaceChildren(words, ...this.hidden.map((letter) => this.scale(letter)), send);
  }

  scale(letter) {
    const row = tag("label", "", { class: "player-scale" });
    const range = tag("input", "", { type: "range", min: 0, max: 100, step: 1, value: UNRATED, "aria-label": `Rating of ${letter}` });
    const shown = tag("output", "–");
    const rate = () => {
      this.scores[letter] = Number(range.value);
      shown.textContent = range.value;
      row.dataset.rated = true;
      this.drawReadiness();
    };
    // A click on the place where it stands rates, too.
    for (const kind of ["input", "pointerup"]) range.addEventListener(kind, rate);
    row.append(tag("b", letter), range, shown);
    return row;
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

/** Whether keys go into a text. */
function typing(target) {
  const box = target.closest?.("input, textarea, select, [contenteditable]");
  return Boolean(box) && !["range", "radio", "checkbox", "button"].includes(box.type);
}

const player = new Player(element.querySelector(".player"));
player.show(props.value);
watch("value", () => player.show(props.value));
