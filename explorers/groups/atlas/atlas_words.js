// The words beside the map: the chosen token, its group, the pair, and the tables of them.

class AtlasWords extends AtlasPicture {
  describe() {
    const { title, facts, pair, hint, tabs, scroll, news, marks } = this.parts;
    const { group } = this;
    title.textContent = group ? `Token ${group.token}` : "No token chosen";
    const said = [];
    if (group && this.levels.length) said.push(`digits ${this.digits(group.token).join(" ")}`);
    if (group && this.phones) said.push(`heard in ${this.phone(group.token)}`);
    if (said.length) title.append(tag("small", said.join(", ")));
    hint.hidden = group !== null;
    for (const part of [facts, tabs, scroll]) part.hidden = group === null;
    pair.hidden = this.pair === null;
    pair.replaceChildren(...(this.pair?.sentences ?? []).map((sentence) => tag("p", sentence)));
    if (group) this.describeGroup(group);
    this.parts.back.disabled = !this.trail.has(this.step(-1));
    this.parts.forward.disabled = !this.trail.has(this.step(1));
    this.parts.clear.disabled = group === null;
    scroll.setAttribute("aria-busy", false);
    this.fillTable();
    const heard = group ? this.summary(group) : "No token chosen.";
    news.textContent = this.pair ? this.pair.sentences.join(" ") : heard;
    marks.setAttribute("aria-label", `Map of ${counted(this.atlas.count, "token")}. ${heard} The tables beside it say the same.`);
  }

  summary({ token, size, theta, count }) {
    return `Token ${token}: ${formatted(size)} in its group at theta ${theta.toFixed(2)}; in ${counted(count, "group")}.`;
  }

  describeGroup(group) {
    const figures = [
      ["in its group", "tokens, itself included", group.size],
      ["groups hold it", "N(t)", group.count],
      ["overlap it", "other groups that share a member with its own", group.overlapping],
      ["uses", "in the training corpus", group.usage],
    ];
    this.parts.facts.replaceChildren(
      ...figures.map(([name, meaning, value]) => {
        const figure = tag("div", "", { title: meaning });
        figure.append(tag("dt", name), tag("dd", formatted(value)));
        return figure;
      }),
    );
    this.describeTabs({
      members: `Members ${formatted(group.size)}`,
      overlaps: `Overlaps ${formatted(group.overlapping)}`,
      links: `Hold both ${formatted(this.pair?.shared ?? 0)}`,
    });
  }

  describeTabs(titles) {
    for (const tab of this.parts.tabs.children) {
      const open = tab.dataset.table === this.openTable;
      tab.textContent = titles[tab.dataset.table];
      tab.hidden = tab.dataset.table === "links" && !this.pair?.shared;
      tab.setAttribute("aria-selected", open);
      tab.tabIndex = open ? 0 : -1;
    }
  }

  /** A step on the trail; after clearing, back leads to what was cleared. */
  step(direction) {
    return direction < 0 && this.anchor === null ? 0 : direction;
  }

  fillTable() {
    this.parts.rest.hidden = this.group === null;
    this.parts.steps.hidden = !this.group || !this.levels.length || this.openTable !== "members";
    if (!this.group) return;
    const { token } = this.group;
    const columns = COLUMNS[this.openTable].filter(([, key]) => key !== "steps" || this.levels.length);
    const [rows, total] = this[this.openTable + "Rows"]();
    this.table.show(this.openTable, rows, total, token, columns);
    this.parts.table.setAttribute("aria-label", `${this.openTable} of token ${token}`);
  }

  steps(token, other) {
    const digits = this.digits(other);
    return this.digits(token).reduce((sum, digit, i) => sum + Math.abs(digit - digits[i]), 0);
  }

  membersRows() {
    const { token, size, neighbours, similarities } = this.group;
    const rows = neighbours.slice(0, size).map((t, i) => ({
      token: t, similarity: similarities[i], size: this.sizes[t], count: this.counts[t], steps: this.steps(t, token),
    }));
    return [rows, size];
  }

  overlapsRows() {
    const rows = this.group.overlaps.map((o) => ({ ...o, token: o.centre, holds: o.holds_token }));
    return [rows, this.group.overlapping];
  }

  linksRows() {
    const rows = this.pair.links.map((l) => ({ ...l, token: l.centre, toFirst: l.to_first, toSecond: l.to_second }));
    return [rows, this.pair.shared];
  }
}
