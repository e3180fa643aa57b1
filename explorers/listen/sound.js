// What is heard: all takes on one clock, of which one is loud; before they are there, the first one as it is generated.

class StageSound {
  /** Seconds of the longest sound. */
  get duration() {
    const streamed = this.pieces.length / props.sample_rate;
    if (this.streaming || this.cutShort) return Math.max(streamed, 0.1);
    return Math.max(...this.lanes.map((lane) => lane.seconds), 0.1);
  }

  get streaming() {
    return this.pieces.playing;
  }

  get sounding() {
    return this.deck !== null || this.streaming;
  }

  /** Whether of the chosen method there is only what was heard of it: in a run, and after one that was stopped. */
  get cutShort() {
    const heard = this.cut ?? (this.live && this.pieces.length ? this.streamed : null);
    return heard !== null && heard === this.chosen;
  }

  get now() {
    if (this.streaming) return this.pieces.place / props.sample_rate;
    return this.deck ? this.deck.at(this.context.currentTime) : this.position;
  }

  get heard() {
    return Math.max(0, this.lanes.findIndex((lane) => lane.key === this.chosen));
  }

  /** Only a person's own act may open it. */
  open() {
    this.context ??= new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    if (this.context.state === "suspended") this.context.resume();
  }

  /** Fetch the sounds of all lanes that are not there yet. */
  async load() {
    const serial = ++this.serial;
    const wanted = this.lanes.filter((lane) => lane.url);
    const missing = wanted.filter((lane) => !this.buffers.has(lane.url));
    try {
      const decoded = await decode(missing, RATE);
      missing.forEach((lane, i) => this.buffers.set(lane.url, decoded[i]));
    } catch (error) {
      if (serial === this.serial) this.tell(`A sound did not arrive: ${error.message}. Generate it again.`);
    }
    if (serial !== this.serial) return;
    for (const url of this.buffers.keys()) if (!wanted.some((lane) => lane.url === url)) this.buffers.delete(url);
    this.ready = wanted.length > 0 && wanted.every((lane) => this.buffers.has(lane.url));
    this.draw();
    if (this.waiting && this.ready) this.play();
  }

  play(from = this.now) {
    this.waiting = !this.ready && !this.cutShort;
    if (this.waiting || !this.lanes.length) return;
    this.open();
    takeFloor(this);
    const position = from >= this.duration - 0.05 ? 0 : from;
    this.pieces.stop();
    this.halt();
    if (this.cutShort) {
      this.pieces.play(position * props.sample_rate);
      return this.begun();
    }
    const sounds = levelled(this.context, this.lanes.map(({ url }) => this.buffers.get(url)), this.duration);
    const deck = new Deck(this.context, sounds, this.heard, position, null, this.context.currentTime + LEAD_SECONDS);
    deck.sources[0].onended = () => this.deck === deck && this.finish();
    this.deck = deck;
    this.begun();
  }

  /** Something is heard from now on. */
  begun() {
    if (this.asked !== null) this.root.dataset.first = ((performance.now() - this.asked) / 1000 + LEAD_SECONDS).toFixed(3);
    this.asked = null;
    this.draw();
    this.frame ||= requestAnimationFrame(() => this.tick());
  }

  halt() {
    this.deck?.stop(this.context.currentTime);
    this.deck = null;
  }

  pause() {
    this.waiting = false;
    if (!this.sounding) return;
    this.position = Math.min(this.now, this.duration);
    this.pieces.stop();
    this.halt();
    this.draw();
  }

  finish() {
    Object.assign(this, { deck: null, position: 0 });
    this.draw();
  }

  toggle() {
    if (this.sounding || this.waiting) return this.pause();
    this.asked = performance.now();
    const coming = this.unheard && this.running;
    this.unheard = false;
    if (!coming) return this.play();
    this.wake();
    this.waiting = true;
    this.hearPieces();
    this.draw();
  }

  wake() {
    this.open();
    this.pieces.wake();
  }

  seek(position) {
    this.position = clamp(position, 0, this.duration);
    if (this.sounding) this.play(this.position);
    else this.draw();
  }

  /** Hear another method, at once and at the same position. */
  hear(key) {
    this.chosen = key;
    if (METHODS.includes(key)) trigger("choose", { key });
    if (this.streaming) this.play(this.now);
    else if (this.deck) this.deck.hear(this.heard, this.context.currentTime);
    this.drawTake();
    this.draw();
  }

  /** A take of a run, as far as it is generated. */
  readLive(live) {
    if (live.run < this.run) return;
    if (live.run > this.run) this.beginRun(live);
    this.live = this.lives[live.method] = live;
    const sent = live.first + live.pieces.length;
    if (live.sounding && sent > this.taken) {
      for (const piece of live.pieces.slice(Math.max(0, this.taken - live.first))) this.pieces.push(unpack(piece));
      this.taken = sent;
      this.hearPieces();
    }
  }

  /** Hear what has come of the run that was asked for, and the rest as it comes. */
  hearPieces() {
    if (this.asked === null || this.unheard || this.run <= this.before || !this.pieces.length) return;
    takeFloor(this);
    this.waiting = false;
    this.pieces.play(0);
    this.begun();
  }

  beginRun(live) {
    this.pieces.clear();
    this.halt();
    Object.assign(this, { lives: {}, run: live.run, taken: 0, position: 0, cut: null, chosen: live.method, streamed: live.method });
  }

  /** The run is over: what was heard of a take that never came can be played again. */
  endRun() {
    if (!this.live) return;
    const lane = this.lanes.find(({ key }) => key === this.streamed);
    this.cut = this.pieces.length && (!lane || lane.outdated) ? this.streamed : null;
    Object.assign(this, { live: null, lives: {} });
    if (METHODS.includes(this.chosen)) trigger("choose", { key: this.chosen });
  }
}
