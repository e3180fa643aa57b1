// What a listener sees: the sounds behind their letters, the clock and the loop.

const times = (count) => (count === 0 ? "not played" : count === 1 ? "played once" : `played ${count} times`);
const seconds = (value) => `${value.toFixed(1)} s`;

class PlayerPicture {
  get duration() {
    return this.buffers[0].duration;
  }

  get now() {
    return this.deck ? this.deck.at(this.context.currentTime) : this.position;
  }

  get complete() {
    const rated = this.trial.kind !== "rating" || this.hidden.every((letter) => letter in this.scores);
    return rated && this.plays.every((count) => count > 0);
  }

  /** The letters that are rated: all but the open reference. */
  get hidden() {
    return this.trial.letters.filter((letter) => letter !== "R");
  }

  turn(state, words = "") {
    this.root.dataset.state = state;
    this.parts.notice.textContent = words;
    this.parts.trial.hidden = state !== "ready" && state !== "sending";
  }

  draw() {
    if (!this.trial) return;
    const { play, round, whole, bar } = this.parts;
    for (const button of this.root.querySelectorAll("[data-sound]")) {
      const index = Number(button.dataset.sound);
      button.setAttribute("aria-pressed", index === this.heard);
      button.dataset.playing = index === this.heard && this.deck !== null;
      button.querySelector("small").textContent = times(this.plays[index]);
    }
    play.textContent = this.deck ? "Pause" : "Play";
    round.setAttribute("aria-pressed", this.looping);
    whole.hidden = this.loop === null;
    bar.setAttribute("aria-valuemax", this.duration.toFixed(1));
    this.drawLoop(this.loop);
    this.drawTime();
    this.drawReadiness();
  }

  drawTime() {
    const { bar, head, clock } = this.parts;
    head.style.left = `${(100 * this.now) / this.duration}%`;
    clock.textContent = `${seconds(this.now)} of ${seconds(this.duration)}`;
    bar.setAttribute("aria-valuenow", this.now.toFixed(1));
    bar.setAttribute("aria-valuetext", clock.textContent);
  }

  drawLoop(loop) {
    const { stretch } = this.parts;
    stretch.hidden = loop === null;
    stretch.dataset.on = this.looping;
    if (!loop) return;
    stretch.style.left = `${(100 * loop[0]) / this.duration}%`;
    stretch.style.width = `${(100 * (loop[1] - loop[0])) / this.duration}%`;
  }

  drawReadiness() {
    const { wanting, vote } = this.parts;
    const silent = this.trial.letters.filter((_, i) => !this.plays[i]);
    const unrated = this.trial.kind === "rating" ? this.hidden.filter((letter) => !(letter in this.scores)) : [];
    for (const button of vote.querySelectorAll("button")) button.disabled = !this.complete;
    const wants = [silent.length && `Still to be played: ${silent.join(", ")}.`, unrated.length && `Still to be rated: ${unrated.join(", ")}.`];
    const words = wants.filter(Boolean).join(" ") || "Everything was played: the vote is open.";
    // Told aloud only when it changes.
    if (wanting.textContent !== words) wanting.textContent = words;
  }

  drawSounds() {
    this.parts.sounds.replaceChildren(
      ...this.trial.letters.map((letter, i) => {
        const open = letter === "R";
        const attributes = { type: "button", "data-sound": i, "aria-pressed": false };
        const button = tag("button", "", { ...attributes, "aria-keyshortcuts": `${letter} ${i + 1}` });
        button.append(tag("b", letter), tag("span", open ? "Reference" : ""), tag("small", times(0)));
        return button;
      }),
    );
  }
}
