// The tour: six steps from "play" to a rejection that is heard. Each does on the page what it tells of.

const SHOW_ROUND = "show-round";
const SWITCH_MS = 1500;
const EDGE = 12;

const callsOf = (stage, key) => stage.lanes.find((lane) => lane.key === key)?.steps.length;

const TOUR = [
  {
    title: "Press play",
    at: ".stage-bar",
    words: () => "PCG says one sentence. Play starts and stops it, and the words light up as they are heard.",
    act: (tour) => tour.play("pcg"),
  },
  {
    title: "Switch to AR",
    at: ".stage-bar",
    words: () => "AR asks the target, the large model, for every single token. The switch changes the method at the same place: can you hear it?",
    act: (tour) => tour.switchTo("ar"),
  },
  {
    title: "The race",
    at: ".stage-lanes",
    words: (stage) => {
      const [ar, pcg] = ["ar", "pcg"].map((key) => callsOf(stage, key));
      const counts = ar && pcg ? ` AR needs ${counted(ar, "call")} of the target, PCG ${formatted(pcg)}.` : "";
      return `Every lane decodes at its measured speed, shown five times slower.${counts}`;
    },
    act: (tour) => tour.race("pcg"),
  },
  {
    title: "An accepted token",
    at: ".strip-scroll",
    words: () => "Each bar is a token above its sound. The draft, a small model, proposed the marked one, and its test accepted it: you hear it.",
    act: (tour) => tour.ask({ find: "accepted" }),
  },
  {
    title: "One round",
    at: ".round",
    words: () =>
      "The draft proposes; the target verifies all drafted tokens in one call. One is accepted if its coin is below the " +
      "ratio. The map shows the group of the tested token.",
    act: (tour) => tour.ask({ find: "accepted", slowly: true }),
  },
  {
    title: "Hear a rejection",
    at: ".round",
    words: () =>
      "Here the coin is not below the ratio: the drafted token is rejected, and the round ends. The target draws a token in its " +
      "place, which you hear.",
    act: (tour) => tour.ask({ find: "rejected" }),
  },
];

class Tour {
  constructor(stage) {
    Object.assign(this, { stage, parts: stage.parts, step: -1, timer: 0, gone: null, slowly: false });
    const { tour, back, onwards, close } = this.parts;
    tour.addEventListener("click", () => this.begin());
    back.addEventListener("click", () => this.go(this.step - 1));
    onwards.addEventListener("click", () => (this.step === TOUR.length - 1 ? this.end() : this.go(this.step + 1)));
    close.addEventListener("click", () => this.end());
  }

  begin() {
    if (this.step >= 0) this.end();
    this.slowly = this.parts.slow.checked;
    this.gone = new AbortController();
    const { signal } = this.gone;
    const here = (act) => (event) => (this.stage.root.isConnected ? act(event) : this.gone.abort());
    const press = ({ key, defaultPrevented }) => key === "Escape" && !defaultPrevented && this.end();
    document.addEventListener("keydown", here(press), { signal });
    document.addEventListener("scroll", here(() => this.place()), { signal, capture: true, passive: true });
    addEventListener("resize", here(() => this.place()), { signal });
    this.go(0);
    this.parts.onwards.focus({ preventScroll: true });
  }

  go(step) {
    this.step = step;
    const { card, count, heading, told, back, onwards } = this.parts;
    const { title, words, act, at } = TOUR[step];
    count.textContent = `Step ${step + 1} of ${TOUR.length}`;
    heading.textContent = title;
    told.textContent = words(this.stage);
    onwards.textContent = step === TOUR.length - 1 ? "Done" : "Next";
    if (step === 0 && document.activeElement === back) onwards.focus({ preventScroll: true });
    back.disabled = step === 0;
    card.hidden = false;
    this.mark(document.querySelector(at));
    clearTimeout(this.timer);
    this.request(null);
    act(this);
  }

  end() {
    this.step = -1;
    clearTimeout(this.timer);
    this.gone.abort();
    this.request(null);
    this.mark(null);
    this.parts.card.hidden = true;
    this.parts.slow.checked = this.slowly;
    this.parts.tour.focus();
  }

  /** What is explained: it gets a frame, and comes into sight beside the card. */
  mark(target) {
    this.marked?.classList.remove("tour-at");
    this.marked = target;
    target?.classList.add("tour-at");
    target?.scrollIntoView({ block: "start", behavior: "auto" });
    this.place();
  }

  /** The card lies at the foot of the screen, or at its head, where it would cover what is explained. */
  place() {
    const { card } = this.parts;
    if (!this.marked) return;
    const { top, bottom } = this.marked.getBoundingClientRect();
    const tall = card.offsetHeight + 2 * EDGE;
    const foot = parseFloat(getComputedStyle(card).getPropertyValue("--tour-foot"));
    card.dataset.side = bottom > innerHeight - foot - tall && top > tall ? "head" : "foot";
  }

  // What the steps do.

  play(key) {
    this.choose(key);
    this.stage.open();
    this.stage.play(0);
  }

  /** Whoever hears nothing hears the method before, for a moment, to have something to compare. */
  switchTo(key) {
    if (this.stage.sounding) return this.choose(key);
    this.play("pcg");
    this.timer = setTimeout(() => this.choose(key), SWITCH_MS);
  }

  race(key) {
    this.stage.pause();
    this.choose(key);
    this.parts.slow.checked = true;
    if (!this.parts.race.disabled) this.stage.startRace();
  }

  ask(wanted) {
    this.stage.pause();
    this.choose("pcg");
    this.request({ ...wanted, method: this.stage.lanes[this.stage.heard]?.method });
  }

  choose(key) {
    if (this.stage.chosen !== key && this.stage.lanes.some((lane) => lane.key === key)) this.stage.hear(key);
  }

  /** The strip shows a round; null: none any more. */
  request(wanted) {
    document.dispatchEvent(new CustomEvent(SHOW_ROUND, { detail: wanted }));
  }
}

new Tour(stage);
