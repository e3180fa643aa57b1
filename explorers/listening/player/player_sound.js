// What a listener hears: one deck after the other, where it begins, what it goes round, and how often each sound was played.

const HEARD_SECONDS = 0.3;
const SHORTEST_LOOP = 0.15;

class PlayerSound extends PlayerPicture {
  get span() {
    return this.looping ? (this.loop ?? [0, this.duration]) : null;
  }

  get restarts() {
    return this.root.querySelector('[name="player-switch"]:checked').value === "restart";
  }

  /** Only a person's own act may open it. */
  open() {
    this.context ??= new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    if (this.context.state === "suspended") this.context.resume();
  }

  play(from = this.now) {
    this.open();
    takeFloor(this);
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

  tick() {
    this.frame = 0;
    if (!this.root.isConnected) return this.leave();
    if (!this.deck) return;
    this.count(this.context.currentTime);
    this.drawTime();
    this.frame = requestAnimationFrame(() => this.tick());
  }
}
