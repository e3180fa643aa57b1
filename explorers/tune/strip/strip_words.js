// The words of the strip: the clock, the test behind a token, and the values of the curves at it.

const NAMES = { accepted: "accepted", resampled: "resampled", bonus: "bonus", redrawn: "redrawn", target: "no draft used" };
const STORIES = {
  accepted: "Drafted and accepted.",
  resampled: "The drafted token was rejected, and this one was drawn in its place.",
  bonus: "All drafted tokens of the round passed: the next token of the target, without a test.",
  redrawn: "Drafted; its group was accepted, and the target drew the token again.",
  target: "Drawn by the target alone, without a draft and a test.",
};

function figure(value) {
  if (value === 0 || value >= 0.001) return value.toFixed(3);
  return value.toExponential(1);
}

class StripWords {
  showClock() {
    const { play, clock, from, locate } = this.parts;
    const { playing, length } = this.player;
    const label = playing ? "❚❚ Stop" : "▶ Play";
    if (play.textContent !== label) play.textContent = label;
    const total = (length / props.sample_rate).toFixed(2);
    clock.textContent = playing ? `${(this.player.place / props.sample_rate).toFixed(2)} of ${total} s` : `${total} s`;
    from.disabled = locate.disabled = this.chosen === null;
  }

  describe() {
    const { title, story, facts, marks } = this.parts;
    const place = this.hovered ?? this.chosen;
    const entry = place === null ? undefined : this.run?.tokens[place];
    const count = this.run?.tokens.length ?? 0;
    marks.setAttribute("aria-valuemax", Math.max(0, count - 1));
    this.describeSpoof(place);
    if (!entry) {
      title.textContent = "No token chosen";
      story.textContent = count
        ? "Point at a bar, or use the arrow keys, to see its acceptance test. A click or Enter plays from there."
        : "";
      facts.replaceChildren();
      marks.setAttribute("aria-valuetext", count ? counted(count, "token") : "No take yet");
      return;
    }
    const at = (startOf(place, this.run.pauses) / props.sample_rate).toFixed(2);
    title.textContent = `Token ${entry.token}, ${NAMES[entry.kind]}`;
    title.append(tag("small", `${at} s, number ${place + 1} of ${count}, round ${entry.round + 1}`));
    story.textContent = this.story(entry);
    facts.replaceChildren(...this.facts(entry));
    marks.setAttribute("aria-valuenow", place);
    const synthetic = this.spoof?.curves.find(({ name }) => name === "M50")?.values[place];
    const judged = typeof synthetic === "number" ? ` Around it the spoof probability by M50 is ${synthetic.toFixed(2)}.` : "";
    marks.setAttribute("aria-valuetext", `${title.textContent}. ${story.textContent}${judged}`);
  }

  /** In the legend: the curves' values at a token. */
  describeSpoof(place) {
    for (const { name, values } of this.spoof?.curves ?? []) {
      const output = this.parts.curves.querySelector(`[data-curve="${name}"]:enabled output`);
      if (output) output.textContent = place === null ? "" : values[place]?.toFixed(2) ?? "";
    }
  }

  story({ kind, token, test }) {
    if (!test) return STORIES[kind];
    const weighed = `the coin ${figure(test.coin)} is ${test.accepted ? "below" : "not below"} the ratio ${figure(test.ratio)}`;
    const drafted = test.drafted === token ? "" : ` Drafted was token ${test.drafted}.`;
    return `${STORIES[kind]}${drafted} Its test: ${weighed}.`;
  }

  facts({ size, test }) {
    const rows = [];
    if (test) {
      rows.push(["p", "p", figure(test.p)]);
      rows.push(["q", "q", figure(test.q)]);
      if (test.grouped) {
        rows.push(["P_c", "p-c", figure(test.mass_p)]);
        rows.push(["Q_c", "q-c", figure(test.mass_q)]);
      }
      rows.push(["ratio", "ratio", figure(test.ratio)]);
      rows.push(["coin", "coin", figure(test.coin)]);
      if (test.grouped) rows.push(["group tested", "group-size", counted(test.size, "token")]);
    }
    if (!test || test.size !== size) rows.push(["group", "group-size", `${size} token${size > 1 ? "s" : ""}`]);
    return rows.map(([name, key, value]) => {
      const [entry, title, word] = [tag("div"), tag("dt"), tag("a", name)];
      Object.assign(word, { className: "term", href: `#term-${key}` });
      title.append(word);
      entry.append(title, tag("dd", value));
      return entry;
    });
  }
}
