// The line of the take in hand, and the rows of the history.

const NAMES = ["A", "B"];

class Hand extends HandSound {
  constructor(root) {
    super();
    Object.assign(this, { root, takes: [], hand: null, chosen: [null, null] });
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.listen();
  }

  read() {
    const { hand, takes, sounds } = props.value;
    this.takes = takes.map((take, i) => ({ ...JSON.parse(take), url: sounds[i]?.url ?? null }));
    this.hand = this.takes.find(({ number }) => number === hand) ?? null;
    this.chosen = this.chosen.map((number) => (this.take(number) ? number : null));
    this.keep(this.takes.map(({ url }) => url));
    this.draw();
  }

  take(number) {
    return this.takes.find((take) => take.number === number);
  }

  listen() {
    const { play, link, open, turns, swap, save, takes } = this.parts;
    play.addEventListener("click", () => this.toggle([this.hand]));
    link.addEventListener("click", () => this.copy(this.hand));
    open.addEventListener("click", () => this.open(this.parts.history.hidden));
    turns.addEventListener("click", () => this.toggle(this.chosen.map((number) => this.take(number))));
    swap.addEventListener("click", () => this.other());
    save.addEventListener("click", () => trigger("save_history"));
    takes.addEventListener("click", ({ target }) => target.dataset.act && this.act(target));
    takes.addEventListener("change", ({ target }) => this.rename(target));
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.parts.history.hidden) return;
      this.open(false);
      open.focus();
    });
  }

  numberOf(place) {
    return Number(place.closest("li").dataset.number);
  }

  open(wanted) {
    this.parts.history.hidden = !wanted;
    this.parts.open.setAttribute("aria-expanded", wanted);
    if (wanted) this.draw();
  }

  act(button) {
    const number = this.numberOf(button);
    const take = this.take(number);
    const { act } = button.dataset;
    if (act === "hear") this.toggle([take]);
    if (act === "link") this.copy(take);
    if (act === "pin") trigger("pin", { number, pinned: !take.pinned });
    if (act === "up") trigger("take_up", { number });
    if (act === "0" || act === "1") this.choose(Number(act), number);
  }

  /** A name that is too long is not cut, but left to be shortened. */
  rename(box) {
    const [name, longest] = [box.value.trim(), Number(this.parts.takes.dataset.longest)];
    const { length } = [...name];
    if (length > longest) return this.tell(`A name has at most ${counted(longest, "character")}, and this one has ${length}.`);
    trigger("rename", { number: this.numberOf(box), name });
  }

  choose(place, number) {
    this.stop();
    if (this.chosen[1 - place] === number) this.chosen[1 - place] = null;
    this.chosen[place] = this.chosen[place] === number ? null : number;
    this.draw();
  }

  async toggle(takes) {
    const playing = this.sounding && takes.map(({ number }) => number).join() === this.heard.join();
    if (playing) return this.stop();
    try {
      await this.play(takes);
    } catch (error) {
      this.tell(`The sound did not arrive: ${error.message}. Generate it again.`);
    }
  }

  address(take) {
    return `${location.origin}${location.pathname.replace(/\/$/, "")}/${take.link}`;
  }

  async copy(take) {
    const address = this.address(take);
    try {
      await navigator.clipboard.writeText(address);
      this.tell(`The link of take ${take.number} is copied: it holds text, voice and settings.`);
    } catch {
      // Browsers lend the clipboard to secure addresses alone; a changed hash would open the page anew, without its takes.
      history.replaceState(null, "", take.link);
      this.tell(`The link of take ${take.number} stands in the address bar.`);
      this.parts.told.textContent = `Copy this link: ${address}`;
    }
  }

  tell(words) {
    this.parts.notice.textContent = words;
    this.parts.told.textContent = "";
    if (this.parts.history.hidden) {
      this.said = words;
      clearTimeout(this.silent);
      this.silent = setTimeout(() => this.changed((this.said = null)), 4000);
    }
    this.changed();
  }

  /** What is heard has changed, and nothing else. */
  changed() {
    const { play, turns, swap, what } = this.parts;
    const alone = this.sounding && this.heard.length === 1;
    const inTurn = this.sounding && this.heard.length === 2;
    play.textContent = alone && this.heard[0] === this.hand?.number ? "❚❚" : "▶";
    turns.textContent = inTurn ? "❚❚ Stop" : "▶ Compare A and B";
    turns.disabled = !this.chosen.every((number) => this.take(number)?.url);
    swap.disabled = !inTurn;
    swap.textContent = `Switch to ${NAMES[inTurn ? 1 - this.on : 1]}`;
    for (const row of this.parts.takes.children) {
      const number = Number(row.dataset.number);
      row.dataset.heard = this.sounding && this.heard[this.on] === number;
      row.querySelector('[data-act="hear"]').textContent = alone && this.heard[0] === number ? "❚❚" : "▶";
    }
    const words = this.said ?? (this.hand ? this.line(this.hand) : "No take yet: press Generate.");
    if (what.textContent !== words) what.textContent = words;
  }

  line(take) {
    return `${take.name || take.method.toUpperCase()} · “${take.text}” · ${take.voice} · ${take.knobs} · ${this.figures(take)}`;
  }

  figures({ seconds, cut, ratio, earlier, wrong, words }) {
    const parts = [`${seconds.toFixed(1)} s`];
    if (cut) parts.push("cut at the length limit");
    if (ratio !== null) parts.push(`${ratio.toFixed(2)}× AR${earlier ? " of an earlier run" : ""}`);
    if (wrong !== null) parts.push(`${wrong} of ${counted(words, "word")} wrong`);
    return parts.join(" · ");
  }

  draw() {
    const { play, link, long, open, takes, history } = this.parts;
    this.root.dataset.state = this.takes.length ? "ready" : "empty";
    this.root.dataset.key = this.hand?.key ?? "";
    play.disabled = !this.hand?.url;
    link.disabled = !this.hand?.link;
    long.textContent = this.hand?.link ? lengthNote(this.address(this.hand)) : "";
    link.title = this.hand?.unlinked ?? "";
    open.disabled = !this.takes.length;
    open.textContent = `History (${this.takes.length})`;
    // Not while a name is being written, and not where nobody sees it.
    if (!history.hidden && !takes.contains(document.activeElement)) takes.replaceChildren(...this.takes.map((t) => this.row(t)));
    else for (const row of takes.children) this.mark(row);
    this.changed();
  }

  row(take) {
    const row = tag("li", "", { "data-number": take.number, "data-key": take.key });
    const say = (act, words, label) => tag("button", words, { type: "button", "data-act": act, "aria-label": label });
    const name = tag("input", "", { type: "text", title: `Up to ${this.parts.takes.dataset.longest} characters` });
    name.setAttribute("aria-label", `Name of take ${take.number}`);
    Object.assign(name, { value: take.name, placeholder: take.title });
    const text = tag("p", take.text);
    text.title = take.text;
    const facts = tag("p", `${take.voice} · ${take.knobs} · ${this.figures(take)}`, { class: "hand-facts" });
    const said = tag("div", "", { class: "hand-said" });
    said.append(text, facts);
    const acts = tag("span", "", { class: "hand-acts" });
    acts.append(
      ...NAMES.map((letter, i) => say(i, letter, `Take ${take.number} as ${letter}`)),
      say("pin", "Pin", `Pin take ${take.number}`),
      say("up", "Use this take", `Use this take, number ${take.number}`),
      say("link", "Link", `Copy the link of take ${take.number}`),
      tag("small", take.link ? lengthNote(this.address(take)) : ""),
    );
    row.append(tag("span", `#${take.number}`), say("hear", "▶", `Play take ${take.number}`), name, said, acts);
    this.mark(row);
    return row;
  }

  mark(row) {
    const take = this.take(Number(row.dataset.number));
    if (!take) return row.remove();
    const button = (act) => row.querySelector(`[data-act="${act}"]`);
    NAMES.forEach((_, i) => button(i).setAttribute("aria-pressed", this.chosen[i] === take.number));
    button("pin").setAttribute("aria-pressed", take.pinned);
    button("up").setAttribute("aria-pressed", take === this.hand);
    button("link").disabled = !take.link;
    button("link").title = take.unlinked;
    for (const act of ["hear", "0", "1"]) button(act).disabled = !take.url;
    row.dataset.held = take === this.hand;
  }
}

const hand = new Hand(element.querySelector(".hand"));
watch("value", () => hand.read());
hand.read();
