// The picture of the strip: tokens above the waveform, the curves of the detectors, and marks over them.

const LEAST_TOKEN = 6;
// Of a long take a token gets less: no browser draws a canvas that is wider than 32,767 pixels of the screen.
const WIDEST = 16000;
const BARS = 70;
const WAVE = 84;
const AXIS = 18;
// Under the axis, where there are detectors: a plot from 0 to 1 with a little air.
const CURVES = 84;
const AIR = 6;

// By resolution; colours are the style sheet's, and no dash stands twice.
const DASHES = { M50: [], M25: [7, 3], M10: [2, 2], "M50<-25": [10, 3, 2, 3], "M50<-10": [4, 5] };

/** A sample of a line, as the legend shows it. */
function dashed(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [key, value] of Object.entries({ width: 30, height: 8, "aria-hidden": "true" })) svg.setAttribute(key, value);
  for (const [key, value] of Object.entries({ x1: 0, x2: 30, y1: 4, y2: 4, "stroke-dasharray": DASHES[name].join(" ") }))
    line.setAttribute(key, value);
  svg.append(line);
  return svg;
}

class StripPicture extends StripWords {
  get seconds() {
    const spoken = startOf(this.run?.tokens.length ?? 0, this.run?.pauses ?? []) / props.sample_rate;
    return Math.max(spoken, this.player.length / props.sample_rate, 0.5);
  }

  /** Pixels of a token. */
  get step() {
    const tokens = (this.seconds * props.sample_rate) / props.hop;
    return Math.max(Math.min(LEAST_TOKEN, WIDEST / tokens), this.parts.scroll.clientWidth / tokens);
  }

  /** Pixels from the top to the foot of the time axis, and of the curves below it. */
  get height() {
    return BARS + WAVE + AXIS + (this.judged ? CURVES : 0);
  }

  tokenAt(event) {
    const token = soundingAt((event.offsetX * props.hop) / this.step, this.run?.pauses ?? []);
    return token !== null && token >= 0 && token < (this.run?.tokens.length ?? 0) ? token : null;
  }

  /** Pixels from the left to where a token begins. */
  left(place) {
    return (startOf(place, this.run?.pauses ?? []) * this.step) / props.hop;
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const room = this.parts.scroll.clientWidth;
    if (room < 2) return;
    const width = Math.max(room, Math.round((this.seconds * props.sample_rate * this.step) / props.hop));
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const painted = [width, ratio, this.run?.number, this.run?.tokens.length, this.player.length, document.body.className];
    painted.push(this.spoof?.number, [...this.hidden]);
    if (painted.join() !== this.painted) {
      this.painted = painted.join();
      this.drawTake(this.pen("picture", width, ratio), width);
    }
    this.drawMarks(this.pen("marks", width, ratio));
    this.showClock();
    if (this.player.playing) this.schedule();
  }

  pen(part, width, ratio) {
    const canvas = this.parts[part];
    const { height } = this;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    Object.assign(this.parts.stage.style, { width: `${width}px`, height: `${height}px` });
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    return g;
  }

  colour(name) {
    return getComputedStyle(this.root).getPropertyValue(name).trim();
  }

  drawTake(g, width) {
    const subdued = this.colour("--body-text-color-subdued");
    this.drawWave(g, this.colour("--strip-wave"));
    if (this.run) this.drawAxis(g, width, subdued);
    if (this.judged) this.drawCurves(g, width, subdued);
    const step = this.step;
    const colours = Object.fromEntries(Object.keys(NAMES).map((kind) => [kind, this.colour(`--kind-${kind}`)]));
    (this.run?.tokens ?? []).forEach(({ kind, size, round }, i, all) => {
      const height = Math.round(BARS * tallness(this.run.method, size)) - 6;
      // A round ends at a gap: the bars between two gaps are what one call of the target brought.
      const gap = kind !== "target" && all[i + 1]?.round !== round ? Math.min(step / 2, Math.max(2, step / 5)) : Math.min(1, step / 8);
      g.fillStyle = g.strokeStyle = colours[kind];
      g.lineWidth = 1.5;
      SHAPES[kind](g, this.left(i), BARS - 4 - height, step - gap, height);
    });
  }

  drawWave(g, colour) {
    const { pieces } = this.player;
    const perPixel = props.hop / this.step;
    const middle = BARS + WAVE / 2;
    g.fillStyle = colour;
    for (const { samples, start } of pieces)
      for (let x = Math.floor(start / perPixel); x * perPixel < start + samples.length; x++) {
        const end = Math.min(samples.length, (x + 1) * perPixel - start);
        let peak = 0;
        for (let i = Math.max(0, Math.floor(x * perPixel - start)); i < end; i++) peak = Math.max(peak, Math.abs(samples[i]));
        const high = Math.max(1, peak * WAVE);
        g.fillRect(x, middle - high / 2, 1, high);
      }
  }

  drawAxis(g, width, colour) {
    const second = (props.sample_rate / props.hop) * this.step;
    const every = [0.1, 0.2, 0.5, 1, 2, 5].find((t) => t * second >= 56) ?? 10;
    g.fillStyle = colour;
    g.font = `11px ${this.colour("--font-mono") || "monospace"}`;
    for (let t = 0; t * second < width - 44; t = Math.round((t + every) * 10) / 10) {
      g.fillRect(t * second, BARS + WAVE, 1, 4);
      g.fillText(`${t} s`, t * second + 3, BARS + WAVE + 13);
    }
  }

  drawCurves(g, width, colour) {
    const { step } = this;
    const top = BARS + WAVE + AXIS + AIR;
    const tall = CURVES - 2 * AIR;
    g.fillStyle = colour;
    g.globalAlpha = 0.4;
    for (const value of [0, 0.5, 1]) g.fillRect(0, Math.round(top + (1 - value) * tall), width, 1);
    g.globalAlpha = 1;
    g.lineWidth = 2;
    for (const { name, values } of this.spoof?.curves ?? []) {
      if (this.hidden.has(name)) continue;
      g.strokeStyle = this.colour(`--spoof-${name.replace("<-", "-")}`);
      g.setLineDash(DASHES[name]);
      g.beginPath();
      values.forEach((value, i) => value !== null && g.lineTo(this.left(i) + step / 2, top + (1 - value) * tall));
      g.stroke();
    }
    g.setLineDash([]);
  }

  drawMarks(g) {
    const { step } = this;
    const foot = this.judged ? this.height : BARS + WAVE;
    const chosen = this.colour("--strip-chosen");
    for (const [token, alpha] of [[this.chosen, 1], [this.hovered, 0.6]])
      if (token !== null) {
        g.globalAlpha = 0.16 * alpha;
        g.fillStyle = chosen;
        g.fillRect(this.left(token), 0, step, foot);
        g.globalAlpha = alpha;
        g.fillRect(this.left(token), BARS - 2, step, 2);
      }
    g.globalAlpha = 1;
    if (!this.player.playing) return;
    const place = this.player.place / props.hop;
    if (this.player.place >= this.player.length) return this.player.stop();
    const x = (calm() ? Math.floor(place) : place) * step;
    g.fillStyle = this.colour("--body-text-color");
    g.fillRect(x, 0, 1.5, Math.max(foot, BARS + WAVE + 4));
    if (this.followed) this.show(x);
  }

  /** Scroll only when a place would be out of sight. */
  show(x) {
    const { scroll } = this.parts;
    if (x < scroll.scrollLeft || x > scroll.scrollLeft + scroll.clientWidth - 12) scroll.scrollLeft = Math.max(0, x - 40);
  }

  /** A curve in the legend: a button that hides it, and its value at the token that is pointed at. */
  entry({ name, span, stride, values }) {
    const button = tag("button");
    const label = tag("span", name.replace("<-", "←"));
    const value = tag("output", values.some((v) => v !== null) ? "" : "too short");
    Object.assign(button, { type: "button", disabled: value.textContent !== "" });
    button.dataset.curve = name;
    button.title = `${span} tokens` + (stride > 1 ? `, one in ${stride} of them` : " in a row");
    button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
    button.append(dashed(name), label, value);
    button.addEventListener("click", () => {
      if (!this.hidden.delete(name)) this.hidden.add(name);
      button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      this.schedule();
    });
    return button;
  }
}
