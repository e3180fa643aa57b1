// The vote: what may be answered, and the scales of a rating.

const PATIENCE_MS = 10000;
const UNRATED = 50;

const ANSWERS = {
  ab: [["A", "A is better"], ["tie", "No difference"], ["B", "B is better"]],
  abx: [["A", "X is A"], ["B", "X is B"]],
};
const ADJECTIVES = ["bad", "poor", "fair", "good", "excellent"];

class PlayerVote extends PlayerSound {
  vote(answer) {
    if (this.root.dataset.state !== "ready" || !this.complete) return;
    this.pause();
    this.turn("sending", "Vote sent …");
    const { serial } = this;
    trigger("vote", { trial: this.trial.number, answer, plays: this.plays });
    // After an error no answer comes: then the vote can be given again.
    setTimeout(() => serial === this.serial && this.turn("ready", "No answer came. Vote again."), PATIENCE_MS);
  }

  drawVote() {
    const { vote } = this.parts;
    if (this.trial.kind === "rating") return this.drawScales(vote);
    vote.replaceChildren(
      ...ANSWERS[this.trial.kind].map(([answer, words]) => {
        const button = tag("button", words, { type: "button", class: "player-answer" });
        button.addEventListener("click", () => this.vote(answer));
        return button;
      }),
    );
  }

  drawScales(vote) {
    const words = tag("div", "", { class: "player-scale-words", "aria-hidden": true });
    words.append(...ADJECTIVES.map((word) => tag("span", word)));
    const send = tag("button", "Send the ratings", { type: "button", class: "player-answer" });
    send.addEventListener("click", () => this.vote(this.hidden.map((letter) => this.scores[letter])));
    vote.replaceChildren(words, ...this.hidden.map((letter) => this.scale(letter)), send);
  }

  scale(letter) {
    const row = tag("label", "", { class: "player-scale" });
    const range = tag("input", "", { type: "range", min: 0, max: 100, step: 1, value: UNRATED, "aria-label": `Rating of ${letter}` });
    const shown = tag("output", "–");
    const rate = () => {
      this.scores[letter] = Number(range.value);
      shown.textContent = range.value;
      row.dataset.rated = true;
      this.drawReadiness();
    };
    // A click on the place where it stands rates, too.
    for (const kind of ["input", "pointerup"]) range.addEventListener(kind, rate);
    row.append(tag("b", letter), range, shown);
    return row;
  }
}
