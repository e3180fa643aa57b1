// What is heard: all takes on one clock, of which one is loud; and before they are all there, the first one as it is generated.

class StageSound {
  /** Seconds of the longest sound. */
  get duration() {
    const streamed = this.streaming ? this.pieces.length / props.sample_rate : 0;
    return Math.max(...this.lanes.map((lane) => lane.seconds), streamed, 0.1);
  }

  get streaming() {
    return this.pieces.playing;
  }

  get sounding() {
    return this.deck !== null || this.streaming;
  }

  get now() {
    if (this.streaming) return this.pieces.place / props.sample_rate;
    return this.deck ? this.deck.at(this.context.currentTime) : this.position;
  }

  /** Only a person's own act may open it. */
  open() {
    this.context ??= new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    if (this.context.state === "suspended") this.context.resume();
  }

  wake() {
    this.open();
    this.pieces.wake();
  }

  /** Fetch the sounds of all lanes; those that are there already are not fetched again. */
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

  get heard() {
    return Math.max(0, this.lanes.findIndex((lane) => lane.key === this.chosen));
  }

  play(from = this.now) {
    this.waiting = !this.ready;
    if (this.waiting || !this.lanes.length) return;
    this.open();
    takeFloor(this);
    this.pieces.stop();
    this.halt();
    const position = from >= this.duration - 0.05 ? 0 : from;
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
    const coming = this.unheard && (this.live !== null || this.run === this.before);
    this.unheard = false;
    if (!coming) return this.play();
    this.wake();
    this.waiting = true;
    this.hearPieces();
    this.draw();
  }

  seek(position) {
    this.position = clamp(position, 0, this.duration);
    if (this.sounding) this.play(this.position);
    else this.draw();
  }

  /** Hear another method, at once and at the same position. */
  hear(key) {
    this.chosen = key;
    trigger("choose", { key });
    if (this.streaming) this.play(this.now);
    else if (this.deck) this.deck.hear(this.heard, this.context.currentTime);
    this.draw();
  }

  /** The first take of a run, while it is generated. */
  readLive() {
    const { live } = props;
    if (!live) {
      // Not while a take is timed.
      if (this.live) trigger("choose", { key: this.chosen });
      Object.assign(this, { live: null, lives: {} });
      return this.draw();
    }
    if (live.number < this.run) return;
    if (live.number > this.run) this.beginRun(live);
    const [kinds, sizes, words] = JSON.parse(live.tokens);
    this.live = this.lives[live.key] = { key: live.key, method: live.method, ended: live.ended, pauses: [], kinds, sizes, words };
    this.whole ||= Object.keys(this.lives).length > 1 || live.key === "ar";
    const sent = live.first + live.pieces.length;
    if (sent > this.taken) {
      for (const piece of live.pieces.slice(Math.max(0, this.taken - live.first))) this.pieces.push(unpack(piece));
      this.taken = sent;
      this.hearPieces();
    }
    this.draw();
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
    Object.assign(this, { lives: {}, whole: false, run: live.number, taken: 0, position: 0, race: null, chosen: live.key, streamed: live.key });
  }
}
