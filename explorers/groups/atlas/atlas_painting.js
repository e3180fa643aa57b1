// What is painted: the points, by WebGL or without, and the marks over them.

const VERTEX = `#version 300 es
in vec2 place;
in vec4 colour;
in float size;
uniform vec2 scale;
uniform vec2 shift;
uniform float diameter;
out vec4 tint;
void main() {
  gl_Position = vec4(place * scale + shift, 0.0, 1.0);
  gl_PointSize = diameter * size * 4.0 + 1.0;
  tint = vec4(colour.rgb * colour.a, colour.a);
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tint;
out vec4 painted;
void main() {
  float edge = length(gl_PointCoord - 0.5);
  float blur = fwidth(edge);
  painted = tint * (1.0 - smoothstep(0.5 - blur, 0.5, edge));
}`;

/** The points on the graphics card: all of them in one call, and those in front once more. */
class Cloud {
  constructor(canvas, atlas) {
    this.canvas = canvas;
    this.gl = canvas.getContext("webgl2", { antialias: false, depth: false });
    if (!this.gl) throw new Error("no WebGL 2");
    this.moves = true;
    this.count = atlas.count;
    this.places = new Uint16Array(2 * atlas.count);
    for (let t = 0; t < atlas.count; t++) this.places.set([atlas.x[t], atlas.y[t]], 2 * t);
    this.build();
  }

  build() {
    const gl = this.gl;
    this.program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS) && !gl.isContextLost())
      throw new Error(gl.getProgramInfoLog(this.program));
    gl.useProgram(this.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.feed("place", this.places, 2, gl.UNSIGNED_SHORT);
    this.colours = gl.createBuffer();
    this.sizes = gl.createBuffer();
    this.front = gl.createBuffer();
    this.frontCount = 0;
    this.uniforms = Object.fromEntries(["scale", "shift", "diameter"].map((n) => [n, gl.getUniformLocation(this.program, n)]));
  }

  feed(name, values, width, type, buffer = this.gl.createBuffer()) {
    const gl = this.gl;
    const slot = gl.getAttribLocation(this.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(slot);
    gl.vertexAttribPointer(slot, width, type, true, 0, 0);
  }

  /** colours: four bytes a token; sizes: one, 64 for the usual diameter; front: the tokens drawn above the others. */
  paint(colours, sizes, front) {
    const gl = this.gl;
    this.feed("colour", colours, 4, gl.UNSIGNED_BYTE, this.colours);
    this.feed("size", sizes, 1, gl.UNSIGNED_BYTE, this.sizes);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.front);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, front, gl.DYNAMIC_DRAW);
    this.frontCount = front.length;
  }

  draw(camera, diameter, ratio) {
    const gl = this.gl;
    const across = (2 * camera.scale) / camera.width;
    const up = (2 * camera.scale) / camera.height;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.uniforms.scale, across, up);
    gl.uniform2f(this.uniforms.shift, -camera.x * across, -camera.y * up);
    gl.uniform1f(this.uniforms.diameter, diameter * ratio);
    gl.drawArrays(gl.POINTS, 0, this.count);
    if (this.frontCount) gl.drawElements(gl.POINTS, this.frontCount, gl.UNSIGNED_INT, 0);
  }
}

/** The same points without WebGL: a still picture, drawn anew only when its colours change. */
class Still {
  constructor(canvas, atlas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.atlas = atlas;
    this.moves = false;
  }

  paint(colours, sizes, front) {
    Object.assign(this, { colours, sizes, front });
  }

  draw(camera, diameter, ratio) {
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, camera.width, camera.height);
    for (let t = 0; t < this.atlas.count; t++) this.dot(t, camera, diameter);
    for (const t of this.front) this.dot(t, camera, diameter);
  }

  dot(t, camera, diameter) {
    const [left, top] = camera.toScreen(this.atlas.x[t] / UNIT, this.atlas.y[t] / UNIT);
    const side = (diameter * this.sizes[t]) / 64;
    this.context.fillStyle = css(this.colours.subarray(4 * t, 4 * t + 3), this.colours[4 * t + 3] / 255);
    this.context.fillRect(left - side / 2, top - side / 2, side, side);
  }
}

const LABEL_HEIGHT = 18;

/** Whether another label has its place where that one is. */
const overlapping = (one) => (other) =>
  one.start < other.end + 4 && other.start < one.end + 4 && Math.abs(one.middle - other.middle) < LABEL_HEIGHT;

/** What lies over the points: lines, rings, the path and labels. */
class Marks {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  draw(map, ratio) {
    this.map = map;
    this.labels = [];
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, map.camera.width, map.camera.height);
    this.context.lineCap = this.context.lineJoin = "round";
    if (map.pathShown) this.path(map.take.tokens);
    if (map.anchor !== null) this.group();
    if (map.pair) this.pair(map.pair);
    if (map.second !== null) this.both(map.anchor, map.second);
    else if (map.anchor !== null) this.chosen(map.anchor, map.palette.anchor, `${map.anchor}`, false);
    if (map.pathShown) this.pathEnds(map.take.tokens);
    if (map.hovered !== null) this.hovered(map.hovered);
  }

  place(t) {
    return this.map.camera.toScreen(this.map.atlas.x[t] / UNIT, this.map.atlas.y[t] / UNIT);
  }

  lines(from, tokens, colour, alpha, width = 1) {
    const start = this.place(from);
    this.context.beginPath();
    for (const t of tokens) {
      this.context.moveTo(...start);
      this.context.lineTo(...this.place(t));
    }
    this.stroke(colour, alpha, width);
  }

  ring(t, radius, colour, alpha = 1, width = 1.5) {
    const [left, top] = this.place(t);
    this.context.beginPath();
    this.context.arc(left, top, radius, 0, 2 * Math.PI);
    this.stroke(colour, alpha, width);
  }

  stroke(colour, alpha, width) {
    Object.assign(this.context, { strokeStyle: colour, globalAlpha: alpha, lineWidth: width });
    this.context.stroke();
    this.context.globalAlpha = 1;
  }

  group() {
    const { anchor, palette, diameter } = this.map;
    const members = this.map.members();
    const faint = clamp(9 / Math.sqrt(members.length + 1), 0.06, 0.75);
    const closest = members.slice(0, 24);
    this.lines(anchor, members.slice(24), palette.anchor, faint * 0.6);
    this.lines(anchor, closest, palette.anchor, Math.min(0.8, faint + 0.2), 1.25);
    if (members.length <= 400) for (const t of members) this.ring(t, diameter * 0.75 + 2, palette.anchor, 0.8, 1);
  }

  pair(pair) {
    const { palette } = this.map;
    this.context.setLineDash([5, 4]);
    for (const link of pair.links.slice(0, 12)) {
      this.lines(link.centre, [pair.first], palette.anchor, 0.9, 1.5);
      this.lines(link.centre, [pair.second], palette.second, 0.9, 1.5);
    }
    this.context.setLineDash([]);
    if (!pair.links.length) this.lines(pair.first, [pair.second], palette.ink, 0.35, 1.5);
  }

  /** Labels look away from each other, so that neighbours stay legible. */
  both(first, second) {
    const firstIsLeft = this.place(first)[0] < this.place(second)[0];
    this.chosen(first, this.map.palette.anchor, `A ${first}`, firstIsLeft);
    this.chosen(second, this.map.palette.second, `B ${second}`, !firstIsLeft);
  }

  chosen(t, colour, label, leftwards) {
    const radius = this.map.diameter * 0.9 + 4;
    this.ring(t, radius, this.map.palette.ground, 0.9, 5);
    this.ring(t, radius, colour, 1, 2.5);
    this.label(t, radius + 6, label, colour, leftwards);
  }

  /** Beside the token, above or below it, wherever no other label is; nowhere if there is no such place. */
  label(t, away, text, colour, leftwards = false) {
    const { camera, palette } = this.map;
    Object.assign(this.context, { font: `600 13px ${palette.font}`, textBaseline: "middle", lineWidth: 5 });
    const wide = this.context.measureText(text).width;
    const [left, top] = this.place(t);
    const beside = [[left + away, top], [left - away - wide, top]];
    if (leftwards) beside.reverse();
    const places = [...beside, ...[-1, 1].map((way) => [left - wide / 2, top + way * (away + 0.75 * LABEL_HEIGHT)])];
    const boxes = places.map(([start, middle]) => ({ start, end: start + wide, middle }));
    const box = boxes.find((each) => each.start > 4 && each.end < camera.width - 4 && !this.labels.some(overlapping(each)));
    if (!box) return;
    this.labels.push(box);
    this.context.strokeStyle = palette.ground;
    this.context.strokeText(text, box.start, box.middle);
    this.context.fillStyle = colour;
    this.context.fillText(text, box.start, box.middle);
  }

  path(tokens) {
    const { palette } = this.map;
    for (let i = 1; i < tokens.length; i++) {
      const late = i / (tokens.length - 1 || 1);
      this.lines(tokens[i - 1], [tokens[i]], css(palette.at(late)), 0.35 + 0.5 * late, 1.5);
    }
    tokens.forEach((t, i) => this.ring(t, this.map.diameter * 0.75 + 1.5, css(palette.at(i / (tokens.length - 1 || 1))), 0.9));
  }

  pathEnds(tokens) {
    const { ink } = this.map.palette;
    this.label(tokens[0], 7, "start", ink);
    if (tokens.length > 1) this.label(tokens[tokens.length - 1], 7, "end", ink);
  }

  hovered(t) {
    const { palette, diameter, anchor } = this.map;
    if (anchor === null) this.lines(t, this.map.near(t), palette.ink, 0.3);
    this.ring(t, diameter * 0.8 + 3, palette.ink, 0.9);
  }
}
