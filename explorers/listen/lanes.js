// What is seen: a lane for each method, its calls of the large model one block each, the words, the clock.

const METHODS = ["ar", "sd", "ssd", "pcg"];
const LANE_HEIGHT = 28;
const WHAT = { ar: "one token a call", sd: "exact", ssd: "tolerant", pcg: "sound-alikes", kept: "an earlier take" };

const percent = (share) => `${(100 * share).toFixed(1).replace(/\.0$/, "")} %`;
const times = (ratio) => `${ratio.toFixed(2)} ×`;

class StageLanes extends StageSound {
  drawSwitch() {
    this.parts.lanes.replaceChildren(
      ...this.lanes.map((lane, i) => {
        const item = tag("li", "", { class: "stage-lane", "data-key": lane.key });
        const name = tag("button", lane.name, { type: "button", class: "stage-name", "aria-keyshortcuts": i + 1 });
        name.title = `Hear ${lane.name} (key ${i + 1})`;
        const track = tag("div", "", { class: "stage-track" });
        track.append(tag("canvas", "", { "aria-hidden": true }));
        const says = tag("p", "", { class: "stage-says" });
        says.append(tag("strong"), tag("span", "", { "data-fact": "calls" }), tag("small"));
        item.append(name, track, says);
        return item;
      }),
    );
  }

  draw() {
    const { play, seek, key } = this.parts;
    if (!this.root.isConnected) return;
    this.root.dataset.state = this.lanes.length || this.live ? "ready" : "empty";
    this.root.dataset.running = this.running;
    const label = this.waiting ? "Loading …" : this.sounding ? "❚❚ Pause" : "▶ Play";
    if (play.textContent !== label) play.textContent = label;
    play.disabled = !this.lanes.some((lane) => lane.url) && !this.unheard;
    seek.max = this.duration;
    key.textContent = this.keyLine();
    this.parts.verdict.hidden = this.running || this.stale;
    this.drawLanes();
    this.drawWords();
    this.drawTime();
  }

  /** Milliseconds of decoding for a token. */
  static pace(lane) {
    const tokens = lane.calls_.reduce((sum, count) => sum + count, 0);
    return tokens ? lane.ms / tokens : 0;
  }

  keyLine() {
    const lane = this.lanes.find(({ key }) => key === "ar") ?? this.lanes[0];
    if (!lane?.ms) return "";
    const slower = Math.max(1, Math.round((1000 * lane.seconds) / lane.ms));
    const most = Math.max(...this.lanes.flatMap(({ calls_ }) => calls_), 1);
    return `The height of a block is how many tokens the call gave: one, up to ${most}. Played ${slower} times slower than it ran.`;
  }

  drawLanes() {
    const longest = Math.max(...this.lanes.map(StageLanes.pace), 1e-9);
    const most = Math.max(...this.lanes.flatMap(({ calls_ }) => calls_), ...Object.values(this.lives).flatMap(({ calls }) => calls), 1);
    const share = this.sounding && !this.streaming && !calm() ? this.now / this.duration : 1;
    const few = Math.max(...this.lanes.map(({ calls_ }) => calls_.length), 1);
    for (const item of this.parts.lanes.children) {
      const lane = this.lanes.find(({ key }) => key === item.dataset.key);
      const live = this.lives[lane.key] ?? null;
      item.dataset.chosen = lane.key === this.chosen;
      item.dataset.outdated = (lane.outdated || this.stale) && !live;
      item.querySelector(".stage-name").setAttribute("aria-pressed", lane.key === this.chosen);
      this.drawFacts(item, lane, live);
      const calls = live ? live.calls : lane.calls_;
      const width = live ? Math.min(1, calls.length / Math.max(few, calls.length)) : StageLanes.pace(lane) / longest;
      this.drawCalls(item.querySelector("canvas"), calls, width, live ? 1 : share, most);
    }
  }

  drawFacts(item, lane, live) {
    const [strong, calls, small] = ["strong", '[data-fact="calls"]', "small"].map((name) => item.querySelector(name));
    const put = (place, words) => place.textContent !== words && (place.textContent = words);
    if (live) {
      const tokens = live.calls.reduce((sum, count) => sum + count, 0);
      put(strong, live.ended ? "generated" : "generating");
      put(calls, counted(live.calls.length, "call"));
      return put(small, counted(tokens, "token"));
    }
    put(strong, speed(lane));
    put(calls, counted(lane.calls, "call"));
    const notes = [lane.outdated ? "from an earlier request" : WHAT[lane.key], lane.cut ? "cut at the length limit" : "", understood(lane)];
    put(small, notes.filter(Boolean).join(" · "));
  }

  drawCalls(canvas, calls, width, share, most) {
    const wide = canvas.clientWidth;
    if (wide < 2) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const painted = [wide, ratio, width, share, most, calls.length, document.body.className].join();
    if (canvas.dataset.painted === painted) return;
    canvas.dataset.painted = painted;
    Object.assign(canvas, { width: Math.round(wide * ratio), height: Math.round(LANE_HEIGHT * ratio) });
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = getComputedStyle(canvas).color;
    const step = calls.length ? (wide * width) / calls.length : 0;
    calls.forEach((count, i) => {
      const height = Math.max(2, (LANE_HEIGHT * Math.max(1, count)) / most);
      pen.globalAlpha = (i * step) / wide <= share ? 1 : 0.15;
      pen.fillRect(i * step, LANE_HEIGHT - height, Math.max(0.7, step - Math.min(1, step / 3)), height);
    });
  }

  drawWords() {
    const { words } = this.parts;
    const lane = this.live && this.streamed === this.chosen ? { ...this.live, wrong: null, starts: [] } : this.lanes[this.heard];
    if (!lane) return words.replaceChildren();
    const shown = JSON.stringify([lane.words, lane.wrong]);
    if (words.dataset.shown !== shown) {
      words.dataset.shown = shown;
      const spans = lane.words.map((word, i) => {
        const wrong = lane.wrong?.[i] ? { class: "stage-wrong", title: "The judge heard something else here" } : {};
        return [tag("span", word, wrong), document.createTextNode(" ")];
      });
      words.replaceChildren(...spans.flat());
    }
    const share = this.now / lane.seconds;
    const at = this.sounding && lane.seconds ? lane.starts.findLastIndex((start) => start <= share) : -1;
    [...words.children].forEach((span, i) => span.classList.toggle("stage-now", i === at));
  }

  drawTime() {
    const { seek, clock } = this.parts;
    if (document.activeElement !== seek || this.sounding) seek.value = this.now;
    clock.textContent = `${Math.min(this.now, this.duration).toFixed(1)} of ${this.duration.toFixed(1)} s`;
    seek.setAttribute("aria-valuetext", clock.textContent);
  }

  tell(words) {
    if (this.parts.status.textContent !== words) this.parts.status.textContent = words;
  }
}

function speed({ key, method, ratio, speed, seconds }) {
  if (!seconds) return "silent";
  if (key === "ar") return "baseline";
  return ratio === null || method === "ar" ? `${speed} tokens/s` : `${times(ratio)} AR`;
}

/** What the judge heard, in words. */
function understood({ errors, length, heard, url }) {
  if (!url) return "nothing to hear: type a few words";
  if (errors === null) return "not judged yet";
  if (errors === 0) return "every word understood";
  if (errors >= length) return "not understood";
  return `${errors} of ${counted(length, "word")} misheard: “${heard}”`;
}
