// What the colours mean: palettes of the two themes, colourings of the tokens and their legends.

/** OKLCH -> sRGB bytes (Ottosson, "A perceptual color space for image processing"). */
function srgb(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((c) => Math.round(255 * clamp(c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055, 0, 1)));
}

/** 256 colours between blue and yellow whose lightness changes evenly; on either ground, what stands out is the most. */
function ramp(dark) {
  const stops = dark
    ? [[0.45, 0.13, 272], [0.68, 0.1, 195], [0.92, 0.17, 102]]
    : [[0.85, 0.15, 96], [0.6, 0.1, 190], [0.3, 0.14, 275]];
  const colours = new Uint8Array(3 * 256);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1);
    const from = Math.min(Math.floor(place), stops.length - 2);
    const mixed = stops[from].map((start, part) => start + (stops[from + 1][part] - start) * (place - from));
    colours.set(srgb(...mixed), 3 * i);
  }
  return colours;
}

const css = (bytes, alpha = 1) => `rgb(${bytes[0]} ${bytes[1]} ${bytes[2]} / ${alpha})`;

class Palette {
  constructor(root) {
    const style = getComputedStyle(root);
    const named = (name) => style.getPropertyValue(name).trim();
    this.dark = root.closest(".dark") !== null;
    this.ramp = ramp(this.dark);
    this.dust = this.bytes(named("--atlas-dust"));
    this.anchor = named("--atlas-anchor");
    this.second = named("--atlas-second");
    this.ground = named("--atlas-ground");
    this.ink = named("--atlas-ink") || "#808080";
    this.font = named("--font-mono") || "monospace";
    this.fates = ["accepted", "resampled", "redrawn", "bonus"].map((kind) => this.bytes(named(`--kind-${kind}`)));
  }

  bytes(hex) {
    const number = parseInt(hex.slice(1), 16);
    return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
  }

  at(share) {
    const i = 3 * Math.round(255 * clamp(share, 0, 1));
    return this.ramp.subarray(i, i + 3);
  }

  gradient() {
    const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => css(this.at(share)));
    return `linear-gradient(to right, ${stops.join(", ")})`;
  }
}

const FATES = ["accepted", "rejected", "both", "spoken, not drafted"];

/** How tokens are coloured: `of(token)` is a colour, or null for dust; the legend is a ramp with ticks, or named kinds. */
function colouring(name, map, palette) {
  if (name === "digit") return byDigit(map, palette);
  if (name === "fate") return byFate(map, palette);
  if (name === "phone") return byPhone(map, palette);
  if (name === "uses") {
    const most = Math.max(1, ...map.take.uses.values());
    return logarithmic("uses in the take", (t) => map.take.uses.get(t) ?? 0, most, palette);
  }
  const values = name === "count" ? map.counts : map.sizes;
  const title = name === "count" ? "groups that hold the token, N(t)" : "tokens in its group, |G(t)|";
  return logarithmic(title, (t) => values[t], values.reduce((most, v) => Math.max(most, v), 1), palette);
}

function logarithmic(title, value, most, palette) {
  const share = (v) => (most > 1 ? Math.log(v) / Math.log(most) : 1);
  const ticks = [1];
  // The last tick is written to the left of its place, so the one before it keeps away.
  for (let tick = 10; share(tick) < 0.65; tick *= 10) ticks.push(tick);
  if (most > 1) ticks.push(most);
  return {
    title,
    of: (t) => (value(t) > 0 ? palette.at(share(value(t))) : null),
    ticks: ticks.map((tick) => [share(tick), formatted(tick)]),
  };
}

function byDigit(map, palette) {
  const levels = map.levels[map.digit];
  const colour = (digit) => palette.at(levels > 1 ? digit / (levels - 1) : 0.5);
  const kinds = Array.from({ length: levels }, (_, digit) => [colour(digit), String(digit)]);
  return { title: `FSQ digit ${map.digit + 1}`, of: (t) => colour(map.digits(t)[map.digit]), kinds };
}

/** From the quietest class of phones to the loudest. */
function byPhone(map, palette) {
  const order = ["pause", "stop", "fricative", "nasal", "approximant", "vowel"];
  const classOf = (t) => order.indexOf(props.phones.classes[map.phones[t]]);
  const colour = (place) => palette.at(place / (order.length - 1));
  const of = (t) => (classOf(t) < 0 ? null : colour(classOf(t)));
  return { title: "phone that the token is heard in most", of, kinds: order.map((name, place) => [colour(place), name]) };
}

function byFate(map, palette) {
  const kinds = FATES.map((name, i) => [palette.fates[i], name]);
  const of = (t) => (map.take.fates.has(t) ? palette.fates[map.take.fates.get(t)] : null);
  return { title: "drafted tokens of the take", of, kinds };
}
