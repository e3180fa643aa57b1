// The history, the menu "Share", the idea to hear, and "Can you tell?".

const OWN_PRESETS = "pcg-lab-own-presets";
const EARLIER = "pcg-lab-earlier-takes";
const MOST_EARLIER = 24;
const LONGEST_NAME = 40;
const LARGEST_FILE = 20 << 20;

/** A list that this browser keeps; empty where it holds none. */
function stored(key) {
  try {
    const list = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(list) ? list.filter(Boolean) : [];
  } catch {
    return [];
  }
}

class StageMore extends StageTokens {
  listenMore() {
    const { history, share, historyPanel, sharePanel, takes, tellA, tellB, votes } = this.parts;
    const panels = [[history, historyPanel], [share, sharePanel]];
    for (const [button, panel] of panels)
      button.addEventListener("click", () => {
        for (const [other, place] of panels) {
          place.hidden = place !== panel || !place.hidden;
          other.setAttribute("aria-expanded", !place.hidden);
        }
        this.drawPanels();
      });
    takes.addEventListener("click", ({ target }) => {
      if (target.dataset.use) trigger("use", { number: Number(target.dataset.use) });
      if (target.dataset.link) trigger("use", { link: target.dataset.link });
      if (target.dataset.hear) this.hearFile(target.dataset.hear, target);
    });
    sharePanel.addEventListener("click", ({ target }) => target.dataset.act && this.act(target.dataset.act, target.dataset.name));
    sharePanel.addEventListener("change", ({ target }) => target.files?.[0] && this.bring(target.files[0]));
    tellA.addEventListener("click", () => this.hearFile(this.trial?.urls[0], tellA));
    tellB.addEventListener("click", () => this.hearFile(this.trial?.urls[1], tellB));
    votes.addEventListener("click", ({ target }) => target.dataset.vote && this.vote(target.dataset.vote));
  }

  drawPanels() {
    const { menus, historyPanel, sharePanel, takes } = this.parts;
    menus.hidden = !this.history.length;
    const earlier = this.rememberTakes();
    this.parts.history.hidden = this.history.length + earlier.length < 2;
    if (!historyPanel.hidden) takes.replaceChildren(...this.history.map((take) => this.row(take)), ...earlier.map((take) => this.earlierRow(take)));
    if (!sharePanel.hidden) this.drawShare();
  }

  row(take) {
    const row = tag("li", "", { "data-held": take.number === this.hand });
    const use = tag("button", "Use", { type: "button", "data-use": take.number, "aria-label": `Use take ${take.number}` });
    const hear = tag("button", "▶", { type: "button", "data-hear": take.url ?? "", "aria-label": `Play take ${take.number}` });
    hear.disabled = !take.url;
    const heard = take.errors === null ? "" : take.errors ? ` · ${take.errors} of ${counted(take.length, "word")} misheard` : " · every word understood";
    const facts = `${take.voice} · ${take.knobs} · ${take.seconds.toFixed(1)} s · ${counted(take.calls, "call")}${heard}`;
    const said = tag("p");
    said.append(tag("b", `#${take.number} ${take.title}: `), tag("span", `“${take.text}”`), tag("small", facts));
    row.append(hear, use, said);
    return row;
  }

  /** Keep the links of the visitor's takes in the browser; return those of before the page was reloaded, the newest first. */
  rememberTakes() {
    const made = this.history.filter(({ link, recorded }) => link && !recorded).map(({ title, text, link }) => ({ title, text, link }));
    const before = stored(EARLIER).filter(({ link, text }) => typeof text === "string" && link && !this.history.some((take) => take.link === link));
    if (made.length) localStorage.setItem(EARLIER, JSON.stringify([...made, ...before].slice(0, MOST_EARLIER)));
    return before;
  }

  earlierRow({ title, text, link }) {
    const row = tag("li");
    const said = tag("p");
    said.append(tag("b", `${title}: `), tag("span", `“${text}”`), tag("small", "of before the page was reloaded"));
    row.append(tag("button", "Generate again", { type: "button", "data-link": link }), said);
    return row;
  }

  // Sharing.

  get ownPresets() {
    return stored(OWN_PRESETS).filter(({ name, settings }) => typeof name === "string" && settings);
  }

  drawShare() {
    const { sharePanel } = this.parts;
    const lane = this.lanes[this.heard];
    const button = (act, words, name = "") => tag("button", words, { type: "button", "data-act": act, "data-name": name });
    const row = (title, ...parts) => {
      const made = tag("div", "", { class: "stage-row" });
      made.append(tag("b", title), ...parts);
      return made;
    };
    const copies = lane?.link ? [button("link", "Link"), button("json", "JSON"), button("python", "Python"), button("shell", "Shell")] : [tag("span", lane?.note ?? "")];
    if (lane?.url) copies.push(tag("a", "WAV file", { href: lane.url, download: "" }));
    const file = tag("input", "", { type: "file", accept: ".json,.wav", "aria-label": "A JSON or WAV file of this page" });
    const own = this.ownPresets.flatMap(({ name }) => [button("own", name, name), Object.assign(button("forget", "×", name), { ariaLabel: `Delete the preset ${name}` })]);
    const name = tag("input", "", { type: "text", placeholder: "Name these settings", "aria-label": "Name for the settings of the chosen take", "data-name": "new" });
    sharePanel.replaceChildren(
      row(`Copy ${lane?.name ?? ""}`, ...copies),
      row("Open", file),
      row("Presets", ...props.presets.map(({ name: paper, note }) => Object.assign(button("paper", paper, paper), { title: note })), ...own),
      row("Save", name, button("save", "Save as a preset")),
    );
  }

  act(act, name) {
    const lane = this.lanes[this.heard];
    if (act === "link") return this.copy(this.linkOf(lane), `the link of ${lane.name}. ${lane.note}`);
    if (act in this.texts) return this.copy(this.texts[act], `${lane.name} as ${act}`);
    if (act === "paper") return trigger("use", { settings: props.presets.find((preset) => preset.name === name).settings });
    const own = this.ownPresets;
    if (act === "own") return trigger("use", { settings: own.find((preset) => preset.name === name).settings });
    if (act === "forget" && !confirm(`Delete the preset “${name}”?`)) return;
    const kept = own.filter((preset) => preset.name !== (act === "forget" ? name : this.newName));
    if (act === "save") {
      if (!this.newName || [...this.newName].length > LONGEST_NAME) return this.tell(`Type a name of 1 to ${LONGEST_NAME} characters.`);
      if (!this.texts.json) return this.tell("Generate a take first: a preset keeps its settings.");
      kept.push({ name: this.newName, settings: JSON.parse(this.texts.json).settings });
    }
    localStorage.setItem(OWN_PRESETS, JSON.stringify(kept));
    this.drawShare();
  }

  get newName() {
    return this.parts.sharePanel.querySelector('[data-name="new"]').value.trim();
  }

  linkOf(lane, more = "") {
    return `${location.origin}${location.pathname}#${lane.link}${more}`;
  }

  async copy(words, what) {
    try {
      await navigator.clipboard.writeText(words);
      this.tell(`Copied ${what}`);
    } catch {
      // Browsers lend the clipboard to secure addresses alone.
      const box = tag("textarea", "", { readonly: "", rows: 3, "aria-label": "Text to copy" });
      box.value = words;
      this.parts.sharePanel.hidden = false;
      this.parts.sharePanel.append(box);
      box.select();
      this.tell("Press Ctrl+C to copy the marked text.");
    }
  }

  /** Bring the settings of a JSON file, or of the comment inside a WAV file, to the controls. */
  async bring(file) {
    if (file.size > LARGEST_FILE) return this.tell("This file is too large to be one of this page.");
    const bytes = new Uint8Array(await file.arrayBuffer());
    const isSound = new TextDecoder("latin1").decode(bytes.slice(0, 4)) === "RIFF";
    const text = new TextDecoder(isSound ? "latin1" : "utf-8").decode(bytes);
    const comment = isSound ? text.slice(text.indexOf("ICMT") + 8) : text;
    const end = comment.lastIndexOf("}") + 1;
    trigger("use", { file: isSound ? comment.slice(0, comment.indexOf("\0") > 0 ? comment.indexOf("\0") : end) : comment });
  }

  // Recorded sounds, played alone.

  /** Play a file from its beginning, or stop it. `button` shows which. */
  async hearFile(url, button) {
    const again = this.fileButton === button;
    this.stopFile();
    if (!url || again) return;
    takeFloor(this.filePlayer);
    this.filePlayer.src = url;
    Object.assign(this, { fileButton: button, fileLabel: button.textContent });
    button.textContent = button.textContent.replace("▶", "❚❚");
    await this.filePlayer.play().catch(() => this.stopFile());
  }

  stopFile() {
    this.filePlayer?.pause();
    if (this.fileButton) this.fileButton.textContent = this.fileLabel;
    this.fileButton = null;
  }

  readExample() {
    this.filePlayer = new Audio();
    this.filePlayer.addEventListener("ended", () => this.stopFile());
    yieldFloor(this.filePlayer, this.root, () => this.stopFile());
    const { idea, pairs, recorded } = props.value;
    const told = JSON.parse(idea);
    const count = told?.versions.length ?? 0;
    if (told) this.drawIdea(told, recorded.slice(0, count));
    this.pairs = [];
    for (let i = 0; i < 2 * pairs; i += 2) {
      const files = recorded.slice(count + i, count + i + 2);
      if (files.every((file) => file?.url)) this.pairs.push(files.map(({ url }) => url));
    }
    this.score = { right: 0, chance: 0, of: 0 };
    this.nextTrial();
  }

  drawIdea({ versions, over }, sounds) {
    const { idea, versions: place, over: line } = this.parts;
    idea.hidden = false;
    place.replaceChildren(
      ...versions.map(({ name, heard, errors, length, share }, i) => {
        const row = tag("div", "", { class: "stage-version" });
        const button = tag("button", "▶", { type: "button", "aria-label": `Play ${name}` });
        button.addEventListener("click", () => this.hearFile(sounds[i]?.url, button));
        const words = errors >= length || !heard ? "nothing understood" : `“${heard}”`;
        const said = tag("p", `${name}${share ? ` (${percent(share)} of the tokens)` : ""}`);
        said.append(tag("small", words, errors ? { class: "stage-bad" } : {}));
        row.append(button, said);
        return row;
      }),
    );
    line.textContent = over
      ? `Words misheard over ${over.n} sentences: ${percent(over.decoded)} as decoded, ${percent(over.group)} with sound-alikes, ${percent(over.random)} with anything (added words count).`
      : "";
  }

  nextTrial() {
    this.parts.tell.hidden = !this.pairs.length;
    if (!this.pairs.length) return;
    const pair = this.pairs[this.score.of % this.pairs.length];
    const first = Math.random() < 0.5;
    this.trial = { urls: first ? [...pair].reverse() : pair, answer: first ? "0" : "1" };
  }

  vote(vote) {
    this.stopFile();
    const { score } = this;
    const right = vote === this.trial.answer;
    score.of += 1;
    score.right += right;
    score.chance += vote === "none" ? 0 : 0.5;
    const truth = `${this.trial.answer === "0" ? "A" : "B"} was PCG.`;
    const outcome = vote === "none" ? "" : right ? "Right: " : "No: ";
    this.parts.score.textContent = `${outcome}${truth} Your score: ${score.right} of ${score.of}; guessing gives ${score.chance}. Another try is ready.`;
    this.nextTrial();
  }
}
