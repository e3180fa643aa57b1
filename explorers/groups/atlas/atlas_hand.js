// The hand on the picture: pointers, fingers, the wheel and keys.

const CLICK_PIXELS = 4;
const PAN_PIXELS = 48;
const REACH = { mouse: 10, pen: 14, touch: 22 };

class AtlasHand extends AtlasChoice {
  listenOnMap(on) {
    this.fingers = new Map();
    on("marks", "pointerdown", (event) => this.press(event));
    on("marks", "pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) on("marks", kind, (event) => this.release(event));
    on("marks", "pointerleave", () => this.hover(null));
    on("marks", "dblclick", () => this.showWhole());
    on("marks", "keydown", (event) => this.key(event));
    on("marks", "wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    });
    on("points", "webglcontextlost", (event) => {
      event.preventDefault();
      this.say("The browser lost the map's graphics and is restoring them.");
    });
    on("points", "webglcontextrestored", () => {
      this.cloud.build();
      this.recolour();
      this.say("");
    });
  }

  tokenAt(event) {
    const [u, v] = this.camera.toMap(event.offsetX, event.offsetY);
    const reach = ((REACH[event.pointerType] ?? 10) / this.camera.scale) * UNIT;
    return this.grid.nearest(u * UNIT, v * UNIT, reach);
  }

  press(event) {
    if (event.button) return;
    this.parts.marks.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (this.fingers.size === 1) Object.assign(this, { pressedAt: [event.offsetX, event.offsetY], dragging: false });
    else this.dragging = true;
  }

  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return this.hover(this.tokenAt(event));
    const now = [event.offsetX, event.offsetY];
    if (!this.dragging && Math.hypot(now[0] - this.pressedAt[0], now[1] - this.pressedAt[1]) < CLICK_PIXELS) return;
    this.dragging = true;
    this.parts.map.classList.add("dragged");
    const spread = this.spread();
    this.fingers.set(event.pointerId, now);
    if (!this.cloud.moves) return;
    this.flight = null;
    this.camera.pan((now[0] - before[0]) / this.fingers.size, (now[1] - before[1]) / this.fingers.size);
    if (spread && this.spread()) this.zoom(this.spread() / spread, ...this.middle());
    this.schedule();
  }

  release(event) {
    if (!this.fingers.delete(event.pointerId) || this.fingers.size) return;
    this.parts.map.classList.remove("dragged");
    if (!this.dragging && event.type === "pointerup") this.choose(this.tokenAt(event), event.shiftKey);
    this.dragging = false;
    this.schedule();
  }

  spread() {
    const [a, b] = this.fingers.values();
    return b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
  }

  middle() {
    const [a, b] = this.fingers.values();
    return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  }

  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const acts = { "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3) };
    Object.assign(acts, { 0: () => this.showWhole(), Escape: () => this.anchor !== null && this.ask(null, null) });
    acts.Enter = () => this.hear();
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in ways || event.key in acts)) return;
    event.preventDefault();
    if (event.key in acts) return acts[event.key]();
    if (event.shiftKey) return this.pan(...ways[event.key]);
    this.chooseTowards(...ways[event.key]);
  }

  pan(right, up) {
    if (!this.cloud.moves) return;
    this.flight = null;
    this.camera.pan(-PAN_PIXELS * right, PAN_PIXELS * up);
    this.schedule();
  }
}
