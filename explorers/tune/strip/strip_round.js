// One round, step by step: what was drafted, what the target thinks of it, the test of each token, and what comes out.

const CLIP_SECONDS = 0.2;
const STEP_MS = 1600;
const MAP_SIZE = 150;
const REJECTED = ({ kind, test }) => Boolean(kind === "resampled" && test);

class StripRound extends StripPicture {
  /** The entries of the round of the chosen token, and its drafted tokens. */
  get round() {
    const chosen = this.run?.tokens[this.chosen];
    if (!chosen) return null;
    const entries = this.run.tokens.map((entry, place) => ({ ...entry, place })).filter(({ round }) => round === chosen.round);
    return { number: chosen.round, entries, drafted: this.run.drafted[chosen.round], tests: entries.filter(({ test }) => test) };
  }

  listenRound() {
    const { before, next, after, slowly, steps } = this.parts;
    const alone = (act) => () => {
      this.halt();
      act();
    };
    before.addEventListener("click", alone(() => this.turnRound(-1)));
    after.addEventListener("click", alone(() => this.turnRound(1)));
    next.addEventListener("click", alone(() => this.stepOn()));
    slowly.addEventListener("click", () => (this.slow ? this.halt() : this.goSlowly()));
    steps.addEventListener("click", (event) => this.follow(event));
  }

  /** A step is a link: it can be copied, or opened in another tab; here it changes neither the address nor the take. */
  follow(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    this.halt();
    this.goTo(Number(link.dataset.step));
  }

  /** To another round; from none to the first that rejects a token, as that is the one to hear. */
  turnRound(by) {
    const { tokens } = this.run ?? { tokens: [] };
    if (!tokens.length) return;
    if (this.chosen === null) return this.choose(Math.max(0, tokens.findIndex(REJECTED)), false);
    const goal = tokens[this.chosen].round + by;
    const place = tokens.findIndex(({ round }) => round === goal);
    if (place >= 0) this.choose(place, false);
  }

  /** Draft, verify, a test for each token, the outcome. */
  get lastStep() {
    return this.round ? this.round.tests.length + 2 : 0;
  }

  goTo(step) {
    this.at = clamp(step, 0, this.lastStep);
    const test = this.round?.tests[this.at - 2];
    if (test) {
      this.chosen = test.place;
      this.sayToken(test.place);
      this.describe();
    }
    if (test?.test.grouped) trigger("group", { group: test.test.group, number: this.run.number });
    this.drawRound();
  }

  stepOn() {
    if (this.round) return this.goTo(this.at === this.lastStep ? 0 : this.at + 1);
    this.turnRound(1);
    this.goTo(0);
  }

  goSlowly() {
    this.halt();
    if (!this.round) this.turnRound(1);
    if (!this.round) return;
    this.slow = setInterval(() => {
      if (this.root.isConnected && this.at < this.lastStep) this.goTo(this.at + 1);
      if (!this.root.isConnected || this.at === this.lastStep) this.halt();
    }, STEP_MS);
    this.goTo(0);
  }

  /** No further step comes by itself. */
  halt() {
    clearInterval(this.slow);
    this.slow = 0;
    this.parts.slowly.textContent = "▶ Slowly";
  }

  /** A moment of the sound, from a token on. */
  sayToken(place) {
    if (!acted()) return;
    this.play(Math.min(startOf(place, this.run.pauses), this.player.length));
    clearTimeout(this.clip);
    this.clip = setTimeout(() => this.pause(), 1000 * CLIP_SECONDS);
  }

  drawRound() {
    const { number, board, formula, steps, next, slowly, link, long } = this.parts;
    const { round } = this;
    number.textContent = round ? `${round.number + 1} of ${this.run.drafted.length}` : "";
    slowly.textContent = this.slow ? "❚❚ Stop" : "▶ Slowly";
    this.parts.told.textContent = "";
    link.disabled = !round || this.run.link === null;
    long.textContent = link.disabled ? "" : lengthNote(this.linked);
    next.textContent = !round ? "Start" : this.at === this.lastStep ? "Again" : "Next step";
    if (!round) {
      board.replaceChildren();
      steps.replaceChildren();
      formula.textContent = this.run?.tokens.length ? "Start, or choose a token above." : "";
      return this.drawCluster();
    }
    this.drawSteps(round);
    board.replaceChildren(...round.drafted.map((token, i) => this.chip(round, token, i)), ...this.outcome(round));
    formula.replaceChildren(...this.formula(round));
    this.drawCluster();
  }

  stepNames(round) {
    if (!round.drafted.length) return ["1 Draft", "2 Verify", "3 Outcome"];
    return ["1 Draft", "2 Verify", ...round.tests.map((_, i) => `${i + 3} Test`), `${round.tests.length + 3} Outcome`];
  }

  drawSteps(round) {
    const { steps } = this.parts;
    const focused = steps.contains(document.activeElement);
    const items = this.stepNames(round).map((name, i) => {
      const item = tag("li");
      const link = tag("a", name, { href: this.fragment(i), "data-step": i });
      if (i === this.at) link.setAttribute("aria-current", "step");
      item.append(link);
      return item;
    });
    steps.replaceChildren(...items);
    // Whoever went there by the keyboard stays there.
    if (focused) this.currentStep.focus({ preventScroll: true });
  }

  get currentStep() {
    return this.parts.steps.querySelector('[aria-current="step"]');
  }

  /** A drafted token, as far as the steps have come. */
  chip(round, token, i) {
    const chip = tag("div", "", { class: "round-chip" });
    const entry = round.tests[i];
    chip.append(tag("b", `token ${token}`));
    if (!entry) {
      chip.append(tag("small", this.at > 1 ? "not tested" : "drafted"));
      chip.dataset.state = "waiting";
      return chip;
    }
    const { test } = entry;
    if (this.at === 0) chip.dataset.new = true;
    chip.append(tag("small", `p ${figure(test.p)}`));
    if (this.at >= 1) chip.append(tag("small", `q ${figure(test.q)}`));
    const tested = this.at >= i + 2;
    chip.dataset.state = !tested ? "waiting" : test.accepted ? "accepted" : "rejected";
    if (this.at === i + 2) chip.dataset.now = true;
    if (tested) {
      const scale = tag("i", "", { class: "round-scale" });
      scale.append(tag("i", "", { style: `width: ${100 * Math.min(1, test.ratio)}%` }));
      scale.append(tag("u", "", { style: `left: ${100 * test.coin}%` }));
      chip.append(scale, tag("strong", test.accepted ? "✓ accepted" : "✗ rejected"));
    }
    return chip;
  }

  outcome(round) {
    if (this.at < this.lastStep) return [];
    const chip = tag("div", "", { class: "round-chip", "data-state": "outcome" });
    chip.append(tag("b", counted(round.entries.length, "token")), tag("small", "from one call"));
    const last = round.entries.at(-1);
    if (last && last.kind !== "accepted") chip.append(tag("strong", `token ${last.token}: ${NAMES[last.kind]}`));
    return [chip];
  }

  /** The rule with the numbers of the step. */
  formula(round) {
    const kinds = { ar: "AR drafts nothing: every call of the target brings one token." };
    if (!round.drafted.length) return [tag("span", kinds[this.run.method] ?? "Nothing was drafted in this round.")];
    if (this.at === 0) return [tag("span", `The draft proposes ${counted(round.drafted.length, "token")}, each with its probability p.`)];
    if (this.at === 1) return [tag("span", "The target reads all of them in one call, which gives its probability q of each.")];
    const entry = round.tests[this.at - 2];
    if (!entry) return [tag("span", this.ending(round))];
    const { test } = entry;
    const [above, below] = test.grouped ? ["Q_c", "P_c"] : ["q", "p"];
    const [high, low] = test.grouped ? [test.mass_q, test.mass_p] : [test.q, test.p];
    const outcome = test.accepted ? "accepted" : "rejected";
    const group = test.grouped ? ` The group has ${counted(test.size, "token")}.` : "";
    if (this.run.verification === "block") {
      const numbers = `${above} ${figure(high)}, ${below} ${figure(low)}; coin ${figure(test.coin)}, ratio of the block ${figure(test.ratio)}`;
      const rule = "accept up to here if coin < ratio of the block so far";
      return [tag("code", rule), tag("span", `${numbers}: ${outcome}.${group}`)];
    }
    const tolerance = this.run.method === "ssd" ? " + beta" : "";
    const rule = `accept if coin < min(1, ${above} / ${below})${tolerance}`;
    const numbers = `coin ${figure(test.coin)}, min(1, ${figure(high)} / ${figure(low)})${tolerance} = ${figure(test.ratio)}`;
    return [tag("code", rule), tag("span", `${numbers}: ${outcome}.${group}`)];
  }

  ending(round) {
    const last = round.entries.at(-1);
    if (!last) return "The speech ends here.";
    if (last.kind === "bonus") return `Every drafted token passed, and the target adds token ${last.token}: ${counted(round.entries.length, "token")} from one call.`;
    if (last.kind === "accepted") return `${counted(round.entries.length, "token")} from one call.`;
    return `The round ends at the rejection. The target draws token ${last.token} in its place: ${counted(round.entries.length, "token")} from one call.`;
  }

  /** The group of the tested token on a small map of all tokens. */
  drawCluster() {
    const { cluster } = this.parts;
    const { cluster: known } = props;
    const tested = this.round?.tests[this.at - 2];
    const shown = Boolean(tested?.test.grouped && known && known.group === tested.test.group);
    cluster.hidden = !shown;
    if (!shown) return;
    const places = new Int16Array(Uint8Array.from(atob(known.places), (c) => c.charCodeAt(0)).buffer);
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    Object.assign(cluster, { width: MAP_SIZE * ratio, height: MAP_SIZE * ratio });
    const pen = cluster.getContext("2d");
    pen.scale((MAP_SIZE * ratio) / 1000, (MAP_SIZE * ratio) / 1000);
    const dot = (token, size) => pen.fillRect(places[2 * token] - size / 2, places[2 * token + 1] - size / 2, size, size);
    pen.fillStyle = this.colour("--strip-wave");
    pen.globalAlpha = 0.5;
    for (let token = 0; token < places.length / 2; token++) dot(token, 7);
    pen.globalAlpha = 1;
    pen.fillStyle = this.colour("--strip-chosen");
    for (const token of known.members) dot(token, 16);
    pen.fillStyle = this.colour("--body-text-color");
    dot(tested.test.drafted, 26);
  }
}
