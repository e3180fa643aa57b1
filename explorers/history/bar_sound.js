// What is heard in the bar: one take, or two in turn on one clock, of which one is loud.

class HandSound {
  constructor() {
    Object.assign(this, { context: null, deck: null, heard: [], on: 0, buffers: new Map(), serial: 0 });
    yieldFloor(this, element, () => this.stop());
  }

  get sounding() {
    return this.deck !== null;
  }

  /** Play `takes`, one or two, of which the first is loud. Only a person's own act may call it. */
  async play(takes) {
    this.context ??= new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    if (this.context.state === "suspended") this.context.resume();
    const serial = ++this.serial;
    this.halt();
    const missing = takes.filter(({ url }) => !this.buffers.has(url));
    const decoded = await decode(missing, RATE);
    missing.forEach(({ url }, i) => this.buffers.set(url, decoded[i]));
    if (serial !== this.serial) return;
    takeFloor(this);
    const found = takes.map(({ url }) => this.buffers.get(url));
    const seconds = Math.max(...found.map(({ duration }) => duration));
    const sounds = levelled(this.context, found, seconds);
    Object.assign(this, { heard: takes.map(({ number }) => number), on: 0 });
    const deck = new Deck(this.context, sounds, 0, 0, null, this.context.currentTime + LEAD_SECONDS);
    deck.sources[0].onended = () => this.deck === deck && this.finish();
    this.deck = deck;
    this.changed();
  }

  /** Hear the other one of two, at once and at the same position. */
  other() {
    this.on = 1 - this.on;
    this.deck.hear(this.on, this.context.currentTime);
    this.changed();
  }

  halt() {
    this.deck?.stop(this.context.currentTime);
    this.deck = null;
  }

  stop() {
    this.serial++;
    if (!this.deck) return;
    this.halt();
    this.finish();
  }

  finish() {
    Object.assign(this, { deck: null, heard: [] });
    this.changed();
  }

  /** Sounds of takes that are gone are forgotten. */
  keep(urls) {
    for (const url of this.buffers.keys()) if (!urls.includes(url)) this.buffers.delete(url);
  }
}
