// The picture of the map: its points and marks, which of them are bright, the card, the legend, and where it looks.

const FLIGHT_MS = 280;
const CARD_GAP = 15;
// How strong a point is, of 255: in colour, without one, and in front.
const STRONG = { colour: 225, dust: 150, front: 255 };
const FAINT = { colour: 70, dust: 45 };

/** Where a card of that length starts: behind the place, or before it where there is no room. */
function beside(place, length, room) {
  const start = place + CARD_GAP + length > room ? place - CARD_GAP - length : place + CARD_GAP;
  return clamp(start, 4, room - length - 4);
}

class AtlasPicture {
  drawCloud() {
    const canvas = this.parts.points;
    try {
      this.cloud = new Cloud(canvas, this.atlas);
    } catch (error) {
      this.cloud = new Still(canvas, this.atlas);
      this.stillness = "A still picture, as WebGL is not available here. Clicks, search and tables work.";
    }
  }

  say(words) {
    this.parts.notice.textContent = words || this.stillness || "";
  }

  /** The tokens of the bright group but the anchor: at the slider's theta, even before Python has answered. */
  members() {
    if (this.group?.token !== this.anchor) return this.near(this.anchor);
    const { neighbours, similarities } = this.group;
    let end = 1;
    while (end < neighbours.length && similarities[end] > this.theta) end++;
    return neighbours.slice(1, end);
  }

  /** Those of the nearest tokens in the file that are above theta; the file knows the cosine similarity only. */
  near(token) {
    const { near, nearest, similarity } = this.atlas;
    const found = [];
    if (this.similarity !== "cosine") return found;
    for (let i = token * near; i < (token + 1) * near; i++)
      if (similarity[i] / 255 > this.theta && nearest[i] !== token) found.push(nearest[i]);
    return found;
  }

  digits(token) {
    let rest = token;
    return this.levels.map((levels) => {
      const digit = rest % levels;
      rest = Math.floor(rest / levels);
      return digit;
    });
  }

  hover(token) {
    if (token === this.hovered) return;
    this.hovered = token;
    this.schedule();
  }

  get diameter() {
    const crowded = Math.sqrt((this.camera.width * this.camera.height) / this.atlas.count);
    return clamp(0.45 * crowded, 2.2, 7) * clamp(this.camera.zoom ** 0.4, 1, 3.2);
  }

  get pathShown() {
    return this.parts.path.checked && this.take.tokens.length > 0;
  }

  recolour() {
    const name = this.parts.colouring.value;
    const scheme = colouring(name, this, this.palette);
    const { count } = this.atlas;
    const aside = this.anchor !== null || this.pathShown;
    const ofTake = name === "uses" || name === "fate";
    const colours = new Uint8Array(4 * count);
    const sizes = new Uint8Array(count).fill(aside ? 52 : 64);
    for (let t = 0; t < count; t++) {
      const colour = scheme.of(t);
      const strength = aside || (ofTake && !colour) ? FAINT : STRONG;
      colours.set(colour ?? this.palette.dust, 4 * t);
      colours[4 * t + 3] = colour ? strength.colour : strength.dust;
    }
    const front = this.front(ofTake);
    for (const t of front) {
      colours.set(scheme.of(t) ?? this.palette.dust, 4 * t);
      colours[4 * t + 3] = STRONG.front;
      sizes[t] = 92;
    }
    this.cloud.paint(colours, sizes, Uint32Array.from(front));
    this.drawLegend(scheme);
    this.schedule();
  }

  front(ofTake) {
    if (this.anchor !== null) return [this.anchor, ...this.members(), ...(this.second === null ? [] : [this.second])];
    return ofTake || this.pathShown ? [...this.take.uses.keys(), ...this.take.fates.keys()] : [];
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    if (this.camera.width < 2) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    for (const canvas of [this.parts.points, this.parts.marks]) {
      const [width, height] = [Math.round(this.camera.width * ratio), Math.round(this.camera.height * ratio)];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    }
    this.cloud.draw(this.camera, this.diameter, ratio);
    this.marks.draw(this, ratio);
    this.drawCard();
  }

  /** The phone that a token is heard in most, in words. */
  phone(token) {
    const { names, classes } = props.phones;
    const phone = this.phones[token];
    if (classes[phone] === "?") return "no phone of the timed speech";
    return classes[phone] === "pause" ? "pauses" : `"${names[phone]}" (${classes[phone]})`;
  }

  drawCard() {
    const { card } = this.parts;
    card.hidden = this.hovered === null || this.dragging;
    if (card.hidden) return;
    const t = this.hovered;
    const groups = `group of ${formatted(this.sizes[t])}; in ${counted(this.counts[t], "group")}`;
    const lines = [groups, `${counted(this.usage[t], "use")} in training`];
    if (this.levels.length) lines.unshift(`digits ${this.digits(t).join(" ")}`);
    if (this.phones) lines.unshift(`heard in ${this.phone(t)}`);
    if (this.take.fates.has(t))
      lines.push(`${counted(this.take.uses.get(t) ?? 0, "use")} in the take; ${FATES[this.take.fates.get(t)]}`);
    card.replaceChildren(tag("b", `Token ${t}`), ...lines.map((line) => tag("span", line)));
    const [left, top] = this.camera.toScreen(this.atlas.x[t] / UNIT, this.atlas.y[t] / UNIT);
    const { offsetWidth: wide, offsetHeight: high } = card;
    card.style.left = `${beside(left, wide, this.camera.width)}px`;
    card.style.top = `${beside(top, high, this.camera.height)}px`;
  }

  drawLegend(scheme) {
    const legend = this.parts.legend;
    legend.replaceChildren(tag("div", `Colour: ${scheme.title}`));
    if (scheme.kinds) {
      const kinds = tag("div", "", { class: "kinds" });
      for (const [colour, name] of scheme.kinds) {
        const entry = tag("span");
        const swatch = tag("i");
        swatch.style.backgroundColor = css(colour);
        entry.append(swatch, name);
        kinds.append(entry);
      }
      legend.append(kinds);
      return;
    }
    const bar = tag("div", "", { class: "ramp" });
    bar.style.backgroundImage = this.palette.gradient();
    const ticks = tag("div", "", { class: "ticks" });
    for (const [share, name] of scheme.ticks) ticks.append(tag("i", name, { style: `left: ${(100 * share).toFixed(1)}%` }));
    legend.append(bar, ticks);
  }

  // Where it looks.

  zoom(factor, left = this.camera.width / 2, top = this.camera.height / 2) {
    if (!this.cloud.moves) return;
    this.flight = null;
    this.camera.zoomAt(left, top, factor);
    this.schedule();
  }

  showWhole() {
    const { x, y, zoom } = this.camera.whole;
    this.fly(x, y, zoom);
  }

  /** Bring a token that is out of sight to the middle. */
  approach(token) {
    const [u, v] = [this.atlas.x[token] / UNIT, this.atlas.y[token] / UNIT];
    const [left, top] = this.camera.toScreen(u, v);
    const seen = left > 12 && top > 12 && left < this.camera.width - 12 && top < this.camera.height - 12;
    if (!seen && this.cloud.moves) this.fly(u, v, this.camera.zoom);
  }

  fly(x, y, zoom) {
    if (calm()) {
      Object.assign(this.camera, { x, y, zoom });
      return this.schedule();
    }
    const flight = (this.flight = { from: { ...this.camera }, begun: performance.now() });
    const step = (now) => {
      if (this.flight !== flight) return;
      const share = clamp((now - flight.begun) / FLIGHT_MS, 0, 1);
      const eased = share * share * (3 - 2 * share);
      const mix = (a, b) => a + (b - a) * eased;
      this.camera.x = mix(flight.from.x, x);
      this.camera.y = mix(flight.from.y, y);
      this.camera.zoom = flight.from.zoom * (zoom / flight.from.zoom) ** eased;
      this.schedule();
      if (share < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
}
