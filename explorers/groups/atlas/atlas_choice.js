// The choice: one token or two, asked of Python, and what it answers.

const BUSY_MS = 150;
const PATIENCE_MS = 8000;
const NOTHING = { group: null, pair: null };

class AtlasChoice extends AtlasWords {
  choose(token, compare = false) {
    const asSecond = (compare || this.mode() === "two") && this.anchor !== null && token !== this.anchor && token !== null;
    if (asSecond && (compare || this.second === null)) this.ask(this.anchor, token);
    else if (token !== this.anchor || this.second !== null) this.ask(token, null);
  }

  /** Choose the nearest token in that direction from the last chosen one, or at first the token in the middle of the picture. */
  chooseTowards(right, up) {
    const { x, y } = this.camera;
    if (this.anchor === null) return this.ask(this.grid.nearest(x * UNIT, y * UNIT, 2 * UNIT), null);
    const token = this.grid.towards(this.second ?? this.anchor, right, up, this.anchor);
    if (token === null) return;
    if (this.mode() === "two") this.ask(this.anchor, token);
    else this.ask(token, null);
  }

  /** Press the button that plays the chosen token, once Python knows the choice. */
  hear() {
    this.heard = this.anchor !== null;
    this.settleHearing();
  }

  settleHearing() {
    if (!this.heard || this.asked) return;
    this.heard = false;
    document.querySelector(props.listen_at)?.click();
  }

  /** Show what is known at once, and ask Python for the rest; one question at a time, and of those that wait only the last. */
  ask(anchor, second) {
    Object.assign(this, { anchor, second, pair: null });
    this.wanted = { anchor, second };
    this.recolour();
    if (this.asked) return;
    if (this.isShown(this.wanted)) this.readScene();
    else this.send();
  }

  send() {
    const asked = (this.asked = this.wanted);
    this.wanted = null;
    trigger("pick", asked);
    setTimeout(() => this.parts.scroll.setAttribute("aria-busy", this.asked === asked), BUSY_MS);
    // After an error no answer comes: the map then returns to what it showed.
    setTimeout(() => this.asked === asked && this.readScene(), PATIENCE_MS);
  }

  settle() {
    this.asked = null;
    if (this.wanted) this.send();
    else this.settleHearing();
  }

  /** Whether Python's last answer is about these tokens. */
  isShown({ anchor, second }) {
    const { group, pair } = props.scene ?? NOTHING;
    return (group?.token ?? null) === anchor && (pair?.second ?? null) === second;
  }

  readScene() {
    const { group, pair, similarity } = props.scene ?? { ...NOTHING, similarity: this.similarity };
    if (this.wanted && !this.isShown(this.wanted)) return this.settle();
    this.wanted = null;
    this.settle();
    // The slider may have moved on since Python was asked.
    this.theta = Number(document.querySelector(`${props.theta_at} input[type="range"]`)?.value ?? props.scene.theta);
    Object.assign(this, { group, pair, similarity, anchor: group?.token ?? null, second: pair?.second ?? null });
    if (group) this.trail.visit(group.token);
    if (pair?.shared && !this.compared) this.openTable = "links";
    if (!pair?.shared && this.openTable === "links") this.openTable = "members";
    this.compared = pair !== null;
    this.describe();
    this.recolour();
    if (group) this.approach(group.token);
  }

  walk(direction) {
    const step = this.step(direction);
    if (this.trail.has(step)) this.ask(this.trail.go(step), null);
  }
}
