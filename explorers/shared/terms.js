// A dotted word shows its entry of the list beside itself: under a pointer, with the keyboard's focus, or after a tap.
// Gradio runs this with its own names at hand (element, trigger, props, server, upload, watch).

const GAP = 6;
const EDGE = 8;
const REST_MS = 120;

class Tip {
  constructor(list) {
    Object.assign(this, { list, tip: list.querySelector('[data-part="tip"]'), word: null, tapped: false, waiting: 0 });
    this.gone = new AbortController();
    this.on("pointerover", (event) => this.point(event));
    this.on("focusin", ({ target }) => this.focus(this.wordAt(target)));
    this.on("click", (event) => this.tap(event));
    this.on("keydown", ({ key }) => key === "Escape" && this.hide());
    this.on("scroll", () => this.place());
    addEventListener("resize", () => this.place(), { signal: this.gone.signal });
  }

  /** Words stand all over the page; a list that is gone must not answer any more. */
  on(name, act) {
    const here = (event) => (this.list.isConnected ? act(event) : this.gone.abort());
    document.addEventListener(name, here, { signal: this.gone.signal, capture: true, passive: name === "scroll" });
  }

  wordAt(target) {
    const word = target.closest?.('a[href^="#term-"]');
    if (!word) return null;
    // Links in gradio's own words open another tab and have no description yet.
    word.removeAttribute("target");
    word.setAttribute("aria-describedby", word.getAttribute("href").slice(1));
    return word;
  }

  point({ target, pointerType }) {
    if (pointerType === "touch" || this.tip.contains(target)) return clearTimeout(this.waiting);
    const word = this.wordAt(target);
    clearTimeout(this.waiting);
    if (word) this.waiting = setTimeout(() => this.show(word), this.word ? 0 : REST_MS);
    // A moment is left to reach the words that are shown, to read or to copy them.
    else if (this.word && !this.tapped) this.waiting = setTimeout(() => this.hide(), 2 * REST_MS);
  }

  focus(word) {
    if (word?.matches(":focus-visible")) this.show(word);
    else if (!word && !this.tapped) this.hide();
  }

  tap(event) {
    const word = this.wordAt(event.target);
    if (!word) return this.tip.contains(event.target) ? undefined : this.hide();
    event.preventDefault();
    const again = this.tapped && this.word === word;
    this.hide();
    if (again) return;
    this.show(word);
    this.tapped = true;
  }

  show(word) {
    const entry = document.querySelector(word.getAttribute("href"));
    if (!entry || !word.isConnected) return;
    if (this.word !== word) this.tapped = false;
    this.word = word;
    this.tip.replaceChildren(...[...entry.cloneNode(true).children].map((part) => this.plain(part)));
    if (!this.tip.matches(":popover-open")) this.tip.showPopover();
    this.place();
  }

  /** Terms and definitions belong into a list; here they are words. */
  plain(part) {
    const made = document.createElement(part.tagName === "DT" ? "b" : "span");
    made.replaceChildren(...part.childNodes);
    return made;
  }

  hide() {
    clearTimeout(this.waiting);
    Object.assign(this, { word: null, tapped: false });
    if (this.tip.matches(":popover-open")) this.tip.hidePopover();
  }

  place() {
    if (!this.word) return;
    const { left, top, bottom } = this.word.getBoundingClientRect();
    if (!this.word.isConnected || bottom < 0 || top > innerHeight) return this.hide();
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const room = document.documentElement.clientWidth - width - EDGE;
    const above = bottom + GAP + height > innerHeight && top - GAP - height > 0;
    this.tip.style.left = `${Math.max(EDGE, Math.min(left, room))}px`;
    this.tip.style.top = `${above ? top - GAP - height : bottom + GAP}px`;
  }
}

new Tip(element);
