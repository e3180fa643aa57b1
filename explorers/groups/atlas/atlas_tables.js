// The tables beside the map, and the way back through them.

const MAX_ROWS = 300;

const fixed = (number) => (number === null || number === undefined ? "–" : number.toFixed(3));

const COLUMNS = {
  members: [
    ["Token", "token", "the token's number"],
    ["Similarity", "similarity", "to the chosen token"],
    ["|G|", "size", "tokens in its own group"],
    ["N", "count", "groups that hold it"],
    ["Steps", "steps", "differences between the FSQ digits of the two tokens, summed"],
  ],
  overlaps: [
    ["Centre", "token", "the token around which the group lies"],
    ["|G|", "size", "tokens in the group"],
    ["Shared", "shared", "of them also in the chosen token's group"],
    ["Similarity", "similarity", "of its centre to the chosen token"],
    ["Holds", "holds", "whether the chosen token is in it"],
  ],
  links: [
    ["Centre", "token", "the token whose group holds both"],
    ["|G|", "size", "tokens in the group"],
    ["To A", "toFirst", "similarity of the centre to token A"],
    ["To B", "toSecond", "similarity of the centre to token B"],
  ],
};
const SHOWN = { token: String, similarity: fixed, toFirst: fixed, toSecond: fixed, holds: (holds) => (holds ? "yes" : "") };

/** A table whose rows are tokens: a header sorts, arrows walk, Enter chooses, Shift+Enter compares. */
class Table {
  constructor(part, rest, onChoose, onHover) {
    Object.assign(this, { part, rest, onChoose, onHover, name: null, rows: [], sort: null, total: 0, anchor: null });
    part.addEventListener("keydown", (event) => this.key(event));
    part.addEventListener("click", (event) => this.click(event));
    for (const [kind, token] of [["pointerover", true], ["focusin", true], ["pointerleave", false], ["focusout", false]])
      part.addEventListener(kind, (event) => onHover(token ? this.tokenOf(event.target) : null));
  }

  show(name, rows, total, anchor, columns = COLUMNS[name]) {
    const focused = this.part.querySelector("tbody")?.contains(document.activeElement);
    if (name !== this.name) this.sort = null;
    Object.assign(this, { name, rows, total, anchor, columns });
    this.draw();
    if (focused) this.focus(this.part.querySelector("tbody tr"));
  }

  sortBy(key) {
    const descending = this.sort?.key === key ? !this.sort.descending : key !== "token";
    this.sort = { key, descending };
    this.draw();
    this.part.querySelector(`button[data-key="${key}"]`).focus();
  }

  sorted() {
    if (!this.sort) return this.rows;
    const { key, descending } = this.sort;
    const value = (row) => (row[key] === null ? -Infinity : Number(row[key]));
    return [...this.rows].sort((a, b) => (descending ? value(b) - value(a) : value(a) - value(b)) || a.token - b.token);
  }

  draw() {
    const rows = this.sorted().slice(0, MAX_ROWS);
    this.part.replaceChildren(this.header(), tag("tbody"));
    this.part.lastChild.append(...rows.map((row, i) => this.row(row, i)));
    this.part.setAttribute("aria-rowcount", this.total + 1);
    this.rest.textContent = rows.length < this.total ? `${formatted(rows.length)} of ${formatted(this.total)} shown.` : "";
  }

  header() {
    const cells = this.columns.map(([title, key, meaning]) => {
      const cell = tag("th", "", { scope: "col", role: "columnheader" });
      if (this.sort?.key === key) cell.setAttribute("aria-sort", this.sort.descending ? "descending" : "ascending");
      cell.append(tag("button", title, { type: "button", "data-key": key, title: meaning }));
      return cell;
    });
    const head = tag("thead");
    head.append(tag("tr", "", { role: "row" }));
    head.firstChild.append(...cells);
    return head;
  }

  row(row, i) {
    const made = tag("tr", "", { role: "row", tabindex: i ? -1 : 0, "data-token": row.token, "aria-rowindex": i + 2 });
    made.classList.toggle("is-anchor", row.token === this.anchor);
    made.append(
      ...this.columns.map(([, key]) => tag("td", (SHOWN[key] ?? formatted)(row[key]), { role: "gridcell" })),
    );
    return made;
  }

  tokenOf(target) {
    const row = target.closest?.("tr[data-token]");
    return row ? Number(row.dataset.token) : null;
  }

  click(event) {
    const header = event.target.closest("button[data-key]");
    if (header) this.sortBy(header.dataset.key);
    else if (this.tokenOf(event.target) !== null) this.onChoose(this.tokenOf(event.target), event.shiftKey);
  }

  key(event) {
    const row = event.target.closest("tr[data-token]");
    if (!row) return;
    const ends = { Home: row.parentNode.firstChild, End: row.parentNode.lastChild };
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling, ...ends }[event.key];
    if (next) this.focus(next);
    if (event.key === "Enter") this.onChoose(Number(row.dataset.token), event.shiftKey);
    if (next || event.key === "Enter" || event.key.startsWith("Arrow")) event.preventDefault();
  }

  focus(row) {
    if (!row) return;
    for (const other of row.parentNode.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    row.tabIndex = 0;
    row.focus();
  }
}

/** Where one has been, as in a browser. */
class Trail {
  constructor() {
    this.tokens = [];
    this.at = -1;
  }

  visit(token) {
    if (this.tokens[this.at] === token) return;
    this.tokens.splice(++this.at, Infinity, token);
  }

  has(step) {
    return this.at + step in this.tokens;
  }

  go(step) {
    this.at += step;
    return this.tokens[this.at];
  }
}
