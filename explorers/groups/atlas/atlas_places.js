// The places of the tokens: the file that holds them, the part of the map that is seen, and the token under a pointer.

const UNIT = 65535;

const MAX_ZOOM = 400;

/** The file of pcg.groups.atlas: places, and every token's nearest others with their similarities in 255ths. */
function readAtlas(buffer) {
  const head = new DataView(buffer);
  if (head.getUint32(0) !== 0x50434741 || head.getUint32(4, true) !== 1) throw new Error("it is not a map of version 1");
  const count = head.getUint32(8, true);
  const near = head.getUint32(12, true);
  const at = [16, 16 + 2 * count, 16 + 4 * count, 16 + 4 * count + 2 * count * near];
  return {
    count,
    near,
    x: new Uint16Array(buffer, at[0], count),
    y: new Uint16Array(buffer, at[1], count),
    nearest: new Uint16Array(buffer, at[2], count * near),
    similarity: new Uint8Array(buffer, at[3], count * near),
  };
}

/** The columns of explorers.groups.actions.pack. */
async function unpack(text, count) {
  const deflated = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const columns = [];
  for (let start = 0; start < bytes.length; start += 4 * count) {
    const column = new Uint32Array(count);
    for (let plane = 0; plane < 4; plane++)
      for (let i = 0; i < count; i++) column[i] |= bytes[start + plane * count + i] << (8 * plane);
    columns.push(column);
  }
  return columns;
}

function ends(values) {
  if (!values.length) return [0, 1];
  const [low, high] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [UNIT, 0]);
  return [low / UNIT, high / UNIT];
}

/** Which part of the map is seen: the place in the middle, and how much closer than the whole. */
class Camera {
  constructor({ x, y, nearest, near }) {
    // A code that is its own nearest lies on a ring around the map: to be found, but not to make the map small.
    const inside = (_, t) => near === 0 || nearest[t * near] !== t;
    const [left, right] = ends(x.filter(inside));
    const [bottom, top] = ends(y.filter(inside));
    this.width = this.height = 1;
    this.whole = { x: (left + right) / 2, y: (bottom + top) / 2, zoom: 1 };
    this.span = [Math.max(right - left, 0.01), Math.max(top - bottom, 0.01)];
    Object.assign(this, this.whole);
  }

  get scale() {
    return 0.93 * Math.min(this.width / this.span[0], this.height / this.span[1]) * this.zoom;
  }

  toScreen(u, v) {
    return [(u - this.x) * this.scale + this.width / 2, (this.y - v) * this.scale + this.height / 2];
  }

  toMap(left, top) {
    return [(left - this.width / 2) / this.scale + this.x, this.y - (top - this.height / 2) / this.scale];
  }

  pan(right, down) {
    this.x = clamp(this.x - right / this.scale, 0, 1);
    this.y = clamp(this.y + down / this.scale, 0, 1);
  }

  zoomAt(left, top, factor) {
    const [u, v] = this.toMap(left, top);
    this.zoom = clamp(this.zoom * factor, 0.5, MAX_ZOOM);
    const [nowU, nowV] = this.toMap(left, top);
    this.x = clamp(this.x + u - nowU, 0, 1);
    this.y = clamp(this.y + v - nowV, 0, 1);
  }
}

/** Tokens by square, so that finding the one under the pointer looks at a handful. */
class Grid {
  constructor(x, y) {
    Object.assign(this, { x, y });
    this.side = clamp(Math.ceil(Math.sqrt(x.length / 2)), 1, 256);
    this.starts = new Uint32Array(this.side * this.side + 1);
    for (let t = 0; t < x.length; t++) this.starts[this.square(x[t], y[t]) + 1]++;
    for (let s = 0; s < this.side * this.side; s++) this.starts[s + 1] += this.starts[s];
    this.tokens = new Uint32Array(x.length);
    const next = this.starts.slice();
    for (let t = 0; t < x.length; t++) this.tokens[next[this.square(x[t], y[t])]++] = t;
  }

  along(value) {
    return clamp(Math.floor((value / (UNIT + 1)) * this.side), 0, this.side - 1);
  }

  square(x, y) {
    return this.along(y) * this.side + this.along(x);
  }

  /** The token nearest to (x, y), at most `reach` away, or null. */
  nearest(x, y, reach) {
    let found = null;
    let closest = reach * reach;
    for (let row = this.along(y - reach); row <= this.along(y + reach); row++) {
      const first = this.starts[row * this.side + this.along(x - reach)];
      const last = this.starts[row * this.side + this.along(x + reach) + 1];
      for (let i = first; i < last; i++) {
        const t = this.tokens[i];
        const distance = (this.x[t] - x) ** 2 + (this.y[t] - y) ** 2;
        if (distance <= closest) [found, closest] = [t, distance];
      }
    }
    return found;
  }

  /** The token nearest to `from` within 45 degrees of a direction, one of (1, 0), (0, 1) and their opposites; never `but`. */
  towards(from, right, up, but) {
    let found = null;
    let closest = Infinity;
    for (let t = 0; t < this.x.length; t++) {
      const [x, y] = [this.x[t] - this.x[from], this.y[t] - this.y[from]];
      const along = x * right + y * up;
      const across = Math.abs(x * up) + Math.abs(y * right);
      if (along <= 0 || across > along || t === but) continue;
      const distance = x * x + y * y;
      if (distance < closest) [found, closest] = [t, distance];
    }
    return found;
  }
}
