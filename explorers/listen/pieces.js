// A sound that comes in pieces, which join sample by sample.

// What the sound card is given to get ready; a piece that comes later than its turn moves all that follow by as much.
const PIECE_LEAD_SECONDS = 0.03;

function unpack(piece) {
  const bytes = Uint8Array.from(atob(piece), (c) => c.charCodeAt(0));
  return Float32Array.from(new Int16Array(bytes.buffer), (v) => v / 32767);
}

/** Pieces of one take, played back to back by one clock, while others are still to come. Places are counted in samples. */
class Pieces {
  constructor(rate) {
    Object.assign(this, { rate, pieces: [], length: 0, anchor: null, context: null, sources: new Set() });
  }

  get playing() {
    return this.anchor !== null;
  }

  /** To be called when a person acts: browsers keep a page silent before. At the take's own rate nothing is resampled. */
  wake() {
    this.context ??= new AudioContext({ sampleRate: this.rate, latencyHint: "interactive" });
    if (this.context.state === "suspended") this.context.resume();
  }

  clear() {
    this.stop();
    Object.assign(this, { pieces: [], length: 0 });
  }

  push(samples) {
    if (!samples.length) return;
    const piece = { samples, start: this.length };
    this.pieces.push(piece);
    this.length += samples.length;
    if (this.playing) this.schedule(piece);
  }

  play(place) {
    this.stop();
    this.wake();
    this.anchor = { place, time: this.context.currentTime + PIECE_LEAD_SECONDS };
    for (const piece of this.pieces) this.schedule(piece);
  }

  stop() {
    for (const source of this.sources) source.stop();
    this.sources.clear();
    this.anchor = null;
  }

  schedule({ samples, start }) {
    const skipped = Math.max(0, this.anchor.place - start);
    if (skipped >= samples.length) return;
    let when = this.anchor.time + (start + skipped - this.anchor.place) / this.rate;
    const soonest = this.context.currentTime + PIECE_LEAD_SECONDS / 2;
    if (when < soonest) {
      this.anchor.time += soonest - when;
      when = soonest;
    }
    const buffer = this.context.createBuffer(1, samples.length, this.rate);
    buffer.copyToChannel(samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.context.destination);
    source.onended = () => this.sources.delete(source);
    source.start(when, skipped / this.rate);
    this.sources.add(source);
  }

  /** The sample that is heard now; it waits at the end of what has come. */
  get place() {
    const heard = this.context.currentTime - (this.context.outputLatency || 0) - this.anchor.time;
    return clamp(this.anchor.place + heard * this.rate, this.anchor.place, this.length);
  }
}
