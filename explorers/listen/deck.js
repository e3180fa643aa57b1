// A deck: all sounds of a trial on one clock, of which one is heard.

const FADE_SECONDS = 0.008;
const EDGE_SECONDS = 0.004;
const LEAD_SECONDS = 0.02;
// A multiple of the usual speech rates; sounds are brought to it when they are decoded, not while they play.
const RATE = 48000;

const QUIETEST = 1e-4;
const LEVEL = 0.08;
const LOUDEST_PEAK = 0.98;

/** The gain that brings a sound to the common loudness, as far as its peak allows. */
function gainOf(samples) {
  let energy = 0;
  let peak = QUIETEST;
  let count = 1;
  for (const sample of samples) {
    const size = Math.abs(sample);
    peak = Math.max(peak, size);
    // Pauses do not make a voice quieter.
    if (size > 0.01) {
      energy += size * size;
      count++;
    }
  }
  return Math.min(LEVEL / Math.max(QUIETEST, Math.sqrt(energy / count)), LOUDEST_PEAK / peak);
}

/** Sounds, null among them, equally loud and of one length in seconds. */
function levelled(context, buffers, seconds) {
  return buffers.map((found) => {
    const buffer = context.createBuffer(1, Math.ceil(seconds * RATE), RATE);
    if (!found) return buffer;
    const samples = found.getChannelData(0).slice(0, buffer.length);
    const gain = gainOf(samples);
    buffer.copyToChannel(samples.map((sample) => gain * sample), 0);
    return buffer;
  });
}

/** A gain that moves in straight lines. Linear and not of equal power: between two equal sounds the sum must stay what it
 * was, or a listener would hear which of them X is. */
class Fader {
  constructor(context) {
    this.node = context.createGain();
    this.node.gain.value = 0;
    this.node.connect(context.destination);
    Object.assign(this, { from: 0, target: 0, begun: 0 });
  }

  /** Known by arithmetic, as browsers differ in what a gain says of itself amid a ramp. */
  at(time) {
    return this.from + (this.target - this.from) * clamp((time - this.begun) / FADE_SECONDS, 0, 1);
  }

  move(target, time) {
    Object.assign(this, { from: this.at(time), target, begun: time });
    this.node.gain.cancelScheduledValues(time);
    this.node.gain.setValueAtTime(this.from, time);
    this.node.gain.linearRampToValueAtTime(target, time + FADE_SECONDS);
  }
}

/** The part of a buffer from `start` to `end` seconds, its edges faded, so that it can go round without a click. */
function region(context, buffer, [start, end]) {
  const rate = buffer.sampleRate;
  const samples = buffer.getChannelData(0).slice(Math.round(start * rate), Math.round(end * rate));
  const edge = Math.min(Math.round(EDGE_SECONDS * rate), samples.length >> 1);
  for (let i = 0; i < edge; i++) {
    samples[i] *= i / edge;
    samples[samples.length - 1 - i] *= i / edge;
  }
  const part = context.createBuffer(1, Math.max(1, samples.length), rate);
  part.copyToChannel(samples, 0);
  return part;
}

/** Sounds of one length that were started at one moment, of which one is heard. `loop`: [start, end] in seconds, or null. */
class Deck {
  constructor(context, buffers, heard, position, loop, when) {
    Object.assign(this, { loop, position, when, duration: buffers[0].duration });
    const parts = loop ? buffers.map((buffer) => region(context, buffer, loop)) : buffers;
    this.faders = parts.map(() => new Fader(context));
    this.sources = parts.map((part, i) => {
      const source = new AudioBufferSourceNode(context, { buffer: part, loop: loop !== null });
      source.connect(this.faders[i].node);
      source.start(when, loop ? position - loop[0] : position);
      return source;
    });
    this.hear(heard, when);
  }

  hear(index, when) {
    this.faders.forEach((fader, i) => fader.move(i === index ? 1 : 0, when));
  }

  stop(when) {
    this.hear(-1, when);
    for (const source of this.sources) source.stop(when + FADE_SECONDS);
    const last = this.sources[0];
    last.onended = () => this.faders.forEach((fader) => fader.node.disconnect());
  }

  /** Seconds from the beginning of the sounds, at a time of the context. */
  at(time) {
    const passed = Math.max(0, time - this.when);
    if (!this.loop) return Math.min(this.duration, this.position + passed);
    const [start, end] = this.loop;
    return start + ((this.position - start + passed) % (end - start));
  }
}
