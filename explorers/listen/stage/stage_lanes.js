// What is seen: a lane for each method, the words, the clock; and the race, which replays the measured times of every round.

const LANE_HEIGHT = 40;
const SLOWLY = 5;
const BASELINES = {
  "same run": "AR of the same run",
  "last run": "AR of an earlier run",
  recorded: "AR, recorded with this example",
};

const times = (ratio) => `${ratio.toFixed(2)}×`;
const percent = (share) => `${Math.round(100 * share)} %`;
// As `term_html` writes it.
const term = (key, words) => tag("a", words, { class: "term", href: `#term-${key}`, "aria-describedby": `term-${key}` });

class StageLanes extends StageSound {
  drawSwitch() {
    const { switch: box, lanes } = this.parts;
    box.replaceChildren(
      ...this.lanes.map(({ key, name }, i) => {
        const button = tag("button", name, { type: "button", "data-key": key, "aria-keyshortcuts": i + 1 });
        button.title = `Key ${i + 1}`;
        return button;
      }),
    );
    lanes.replaceChildren(...this.lanes.map((lane) => this.lane(lane)));
  }

  lane(lane) {
    const item = tag("li", "", { class: "stage-lane", "data-key": lane.key });
    const who = tag("div", "", { class: "stage-who" });
    const name = tag("button", "", { type: "button", class: "stage-name" });
    name.append(tag("b", lane.name));
    who.append(name, lane.key === "preset" ? tag("span", lane.long) : term(lane.key, lane.long));
    const facts = tag("p", "", { class: "stage-facts" });
    facts.append(tag("span", "", { "data-fact": "verdict" }), tag("span", "", { "data-fact": "speed" }));
    const calls = term("call", "");
    calls.dataset.fact = "calls";
    facts.append(calls, tag("span", "", { "data-fact": "notes" }));
    const track = tag("div", "", { class: "stage-track" });
    track.append(tag("canvas", "", { "aria-hidden": true }), tag("i", "", { class: "stage-head" }));
    item.append(who, facts, track);
    return item;
  }

  draw() {
    const { play, seek, race } = this.parts;
    if (!this.root.isConnected) return;
    this.root.dataset.state = this.lanes.length || this.live ? "ready" : "empty";
    const label = this.waiting ? "Loading …" : this.sounding ? "❚❚ Pause" : "▶ Play";
    if (play.textContent !== label) play.textContent = label;
    play.disabled = !this.lanes.some((lane) => lane.url) && !this.unheard;
    race.disabled = this.lanes.length < 2 || this.live !== null;
    seek.max = this.duration;
    for (const box of this.root.querySelectorAll("[data-key]")) {
      const chosen = box.dataset.key === this.chosen;
      if (box.tagName === "BUTTON") box.setAttribute("aria-pressed", chosen);
      else box.dataset.chosen = chosen;
    }
    this.drawLanes();
    this.drawWords();
    this.drawTime();
  }

  drawLanes() {
    const elapsed = this.race ? (performance.now() - this.race.begun) / this.race.scale : null;
    const longest = Math.max(this.duration, this.liveSeconds);
    for (const item of this.parts.lanes.children) {
      const lane = this.lanes.find(({ key }) => key === item.dataset.key);
      const live = this.lives[lane.key] ?? null;
      // Until a run ends, the lanes that it has not come to are of the run before.
      item.dataset.outdated = (lane.outdated || (this.live !== null && this.whole)) && !live;
      const shown = live ? { ...lane, ...live, steps: null } : lane;
      const count = elapsed === null || live ? shown.kinds.length : reached(lane, elapsed).tokens;
      this.drawFacts(item, lane, live, elapsed);
      this.drawTokens(item.querySelector("canvas"), shown, count, longest);
    }
  }

  get liveSeconds() {
    return ((this.live?.kinds.length ?? 0) * props.hop) / props.sample_rate;
  }

  drawFacts(item, lane, live, elapsed) {
    const put = (name, words, title = "") => {
      const place = item.querySelector(`[data-fact="${name}"]`);
      if (place.textContent !== words) place.textContent = words;
      Object.assign(place, { title, hidden: place.tagName === "A" && !words });
    };
    if (live) {
      put("verdict", `${live.ended ? "generated" : "generating"}: ${counted(live.kinds.length, "token")}`);
      return ["speed", "calls", "notes"].forEach((name) => put(name, ""));
    }
    item.querySelector('[data-fact="speed"]').dataset.earlier = elapsed === null && ofEarlierRun(lane);
    const racing = elapsed === null ? null : reached(lane, elapsed);
    put("verdict", verdict(lane), lane.heard === null ? "" : `The judge heard: ${lane.heard || "nothing"}`);
    put("speed", racing ? finish(racing) : speed(lane), racing ? "" : `${lane.speed} tokens per second; ${BASELINES[lane.baseline] ?? ""}`);
    put("calls", counted(racing ? racing.calls : lane.steps.length, "call"));
    const notes = [lane.outdated ? "from an earlier request" : "", lane.cut ? "cut at the length limit" : "", accepted(lane), lane.knobs];
    const places = lane.positions.map(percent).join(", ");
    put("notes", notes.filter(Boolean).join(" · "), places ? `Accepted by position: ${places} of rounds` : "");
  }

  drawTokens(canvas, lane, count, longest) {
    const width = canvas.clientWidth;
    if (width < 2) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    // A lane is painted again only when it looks different: the page has other things to do while it plays.
    const painted = [width, ratio, count, longest, lane.key, lane.url, lane.text, lane.knobs, lane.pauses, document.body.className].join();
    if (canvas.dataset.painted === painted) return;
    canvas.dataset.painted = painted;
    const [wide, high] = [Math.round(width * ratio), Math.round(LANE_HEIGHT * ratio)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, LANE_HEIGHT);
    const perSecond = width / longest;
    const step = (props.hop / props.sample_rate) * perSecond;
    const left = (place) => (startOf(place, lane.pauses) / props.sample_rate) * perSecond;
    const styles = getComputedStyle(this.root);
    const colours = Object.fromEntries(Object.keys(SHAPES).map((kind) => [kind, styles.getPropertyValue(`--kind-${kind}`)]));
    for (let i = 0; i < count; i++) {
      const kind = lane.kinds[i];
      const height = Math.round(LANE_HEIGHT * tallness(lane.method, lane.sizes[i]));
      pen.fillStyle = pen.strokeStyle = colours[kind];
      pen.lineWidth = 1;
      SHAPES[kind](pen, left(i), LANE_HEIGHT - height, Math.max(1, step - Math.min(1, step / 4)), height);
    }
  }

  drawWords() {
    const { words } = this.parts;
    const lane = this.live && this.streamed === this.chosen ? { ...this.live, wrong: null, starts: [] } : this.lanes[this.heard];
    if (!lane) return words.replaceChildren();
    const shown = JSON.stringify([lane.words, lane.wrong]);
    if (words.dataset.shown !== shown) {
      words.dataset.shown = shown;
      const spans = lane.words.map((word, i) => {
        const span = tag("span", word, lane.wrong?.[i] ? { class: "stage-wrong", title: "The judge heard something else here" } : {});
        return [span, document.createTextNode(" ")];
      });
      words.replaceChildren(...spans.flat());
    }
    const share = this.now / lane.seconds;
    const at = this.sounding && lane.seconds ? lane.starts.findLastIndex((start) => start <= share) : -1;
    [...words.children].forEach((span, i) => span.classList.toggle("stage-now", i === at));
  }

  /** Where the sound is, on the lane that is heard. */
  drawHead() {
    const longest = Math.max(this.duration, this.liveSeconds);
    for (const item of this.parts.lanes.children) {
      const head = item.querySelector(".stage-head");
      head.hidden = item.dataset.key !== this.chosen || (!this.sounding && !this.position);
      if (!head.hidden) head.style.left = `${(100 * this.now) / longest}%`;
    }
  }

  drawTime() {
    this.drawHead();
    const { seek, clock } = this.parts;
    if (document.activeElement !== seek || this.sounding) seek.value = this.now;
    clock.textContent = `${this.now.toFixed(1)} of ${this.duration.toFixed(1)} s`;
    seek.setAttribute("aria-valuetext", clock.textContent);
  }

  tell(words) {
    if (this.parts.notice.textContent !== words) this.parts.notice.textContent = words;
  }

  startRace() {
    this.race = { begun: performance.now(), scale: this.parts.slow.checked ? SLOWLY : 1 };
    if (calm()) return this.endRace();
    this.tell("Every lane runs at its own measured decoding speed.");
    this.frame ||= requestAnimationFrame(() => this.tick());
  }

  endRace() {
    this.race = null;
    const finished = this.lanes.map((lane) => ({ name: lane.name, seconds: total(lane) / 1000 }));
    finished.sort((a, b) => a.seconds - b.seconds);
    this.tell(`Decoding took: ${finished.map(({ name, seconds }) => `${name} ${seconds.toFixed(2)} s`).join(", ")}.`);
    this.draw();
  }
}

const total = (lane) => lane.steps.reduce((sum, [, ms]) => sum + ms, 0);

/** How far a lane is after some milliseconds of decoding. */
function reached({ steps }, elapsed) {
  let [tokens, calls, ms] = [0, 0, 0];
  for (const [brought, took] of steps) {
    if (ms + took > elapsed) return { tokens, calls, ms: null };
    [tokens, calls, ms] = [tokens + brought, calls + 1, ms + took];
  }
  return { tokens, calls, ms };
}

const accepted = (lane) =>
  lane.tested === null ? "" : `accepted ${percent(lane.accepted)} of drafted, ${percent(lane.tested)} of tested`;

const finish = ({ ms }) => (ms === null ? "decoding …" : `done in ${(ms / 1000).toFixed(2)} s`);

function verdict({ errors, length, url }) {
  if (!url) return "silent";
  if (errors === null) return "not judged yet";
  return errors === 0 ? "every word heard" : `${errors} of ${counted(length, "word")} wrong`;
}

/** Whether AR, with which its speed is compared, was timed in another run: whatever slowed one of them did not slow both. */
const ofEarlierRun = ({ baseline, ratio }) => baseline === "last run" && ratio !== null;

function speed(lane) {
  const { key, ratio, speed: tokens, takes } = lane;
  if (key === "ar") return "the baseline";
  const mean = takes > 1 ? `, mean of ${takes}` : "";
  return ratio === null ? `${tokens} tokens/s` : `${times(ratio)} AR${ofEarlierRun(lane) ? " of an earlier run" : ""}${mean}`;
}
