// How a token is drawn: its kind by a colour and a shape, the size of the group behind it by its height; and where it sounds.

const LOWEST = 0.4;
const TALLEST_GROUP = 256;

/** Share of the height: equal steps for every doubling of the group; where nothing is grouped, all bars are low. */
function tallness(method, size) {
  if (method !== "pcg") return LOWEST;
  return clamp(LOWEST + ((1 - LOWEST) * Math.log2(size)) / Math.log2(TALLEST_GROUP), 0, 1);
}

/** The bars of one kind: a colour and a shape of its own. */
const SHAPES = {
  accepted: (g, x, y, w, h) => g.fillRect(x, y, w, h),
  resampled(g, x, y, w, h) {
    for (let up = 0; up < h; up += 3) g.fillRect(x, y + h - up - Math.min(2, h - up), w, Math.min(2, h - up));
  },
  bonus: (g, x, y, w, h) => g.strokeRect(x + 0.75, y + 0.75, Math.max(1, w - 1.5), h - 1.5),
  redrawn(g, x, y, w, h) {
    for (let row = 0; row * 2 < h; row++)
      for (let column = row % 2; column * 2 < w; column += 2)
        g.fillRect(x + 2 * column, y + h - 2 * row - 2, Math.min(2, w - 2 * column), 2);
  },
  target: (g, x, y, w, h) => g.fillRect(x + w / 3, y, Math.max(1, w / 3), h),
};

const silence = ([, seconds]) => Math.round(seconds * props.sample_rate);

/** The sample at which the token at a place begins; pauses are pairs of the tokens before them and their seconds. */
function startOf(place, pauses) {
  const before = pauses.filter(([tokens]) => tokens <= place);
  return place * props.hop + before.reduce((sum, pause) => sum + silence(pause), 0);
}

/** The place of the token that sounds at a sample; null in a pause. */
function soundingAt(sample, pauses) {
  let paused = 0;
  for (const pause of pauses) {
    const begins = pause[0] * props.hop + paused;
    if (sample < begins) break;
    if (sample < begins + silence(pause)) return null;
    paused += silence(pause);
  }
  return Math.floor((sample - paused) / props.hop);
}
