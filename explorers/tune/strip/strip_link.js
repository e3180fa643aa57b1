// A step of a round as a link, #round=12&step=3, both counted from 1; and what the tour asks for. Both may wait for their take.

const SHOW_ROUND = "show-round";
const WHOLE = /^[1-9]\d{0,5}$/;
// What can be told from silence, of a full scale of 1.
const AUDIBLE = 0.1;
const FINDS = { accepted: ({ kind, test }) => Boolean(kind === "accepted" && test), rejected: REJECTED };
const ABSENT = { accepted: "This take has no accepted token.", rejected: "This take has no rejected token." };

class StripLinks extends StripRound {
  listenLinks() {
    const gone = new AbortController();
    const here = (act) => (event) => (this.root.isConnected ? act(event) : gone.abort());
    addEventListener("hashchange", here(() => this.readLink()), { signal: gone.signal });
    document.addEventListener(SHOW_ROUND, here(({ detail }) => this.want(detail)), { signal: gone.signal });
    this.parts.link.addEventListener("click", () => this.copyLink());
    this.readLink();
  }

  /** The fragment that leads to a step of the round, from 0; with the take, but for the one that every new page shows. */
  fragment(step) {
    const take = this.run.link ? `${this.run.link}&` : "";
    return `#${take}round=${this.round.number + 1}&step=${step + 1}`;
  }

  /** The address of the current step. */
  get linked() {
    return `${location.origin}${location.pathname}${this.fragment(this.at)}`;
  }

  async copyLink() {
    const link = this.linked;
    try {
      await navigator.clipboard.writeText(link);
      this.tell("The link is copied.");
    } catch {
      // Browsers lend the clipboard to secure addresses alone.
      this.tell(`Copy this link: ${link}`);
    }
  }

  tell(words) {
    this.parts.told.textContent = words;
  }

  readLink() {
    const values = new URLSearchParams(location.hash.slice(1));
    if (!values.has("round")) return;
    const [round, step] = ["round", "step"].map((name) => (WHOLE.test(values.get(name) ?? "") ? Number(values.get(name)) : null));
    this.want({ round, step: step ?? 1, generated: values.has("take") });
  }

  /**
   * Show a round, at once or when its take is there; null: nothing any more.
   *
   * wanted: a `round` and a `step` from 1, where `generated` says that a take is to come in place of the recorded one; or a
   * `find` of FINDS in a take of `method`, `slowly` from the draft on: that holds for every take that comes, until the next.
   */
  want(wanted) {
    this.wanted = wanted;
    this.halt();
    this.fulfil();
  }

  fulfil() {
    const { wanted, run } = this;
    if (!wanted || !this.player.length) return;
    if ((wanted.generated && run.recorded) || (wanted.method && wanted.method !== run.method)) return;
    if (wanted.find) return this.showFound(wanted);
    this.wanted = null;
    this.showLinked(wanted);
  }

  showFound({ find, slowly }) {
    const place = this.find(FINDS[find]);
    if (place === undefined) return this.tell(ABSENT[find]);
    this.choose(place, false);
    if (slowly && !calm()) return this.goSlowly();
    this.goTo(this.round.tests.findIndex((entry) => entry.place === place) + 2);
  }

  /** The first token that fits; rather one that is heard, and whose coin could have decided otherwise. */
  find(fits) {
    const places = this.run.tokens.flatMap((entry, place) => (fits(entry) ? [place] : []));
    const worth = (place) => 2 * this.audible(place) + (this.run.tokens[place].test.ratio < 1);
    return places.sort((one, other) => worth(other) - worth(one))[0];
  }

  /** Whether the moment of a token is more than silence. */
  audible(place) {
    const from = startOf(place, this.run.pauses);
    const to = from + CLIP_SECONDS * props.sample_rate;
    return this.player.pieces.some(({ samples, start }) =>
      samples.subarray(Math.max(0, from - start), Math.max(0, to - start)).some((sample) => Math.abs(sample) > AUDIBLE),
    );
  }

  showLinked({ round, step }) {
    const place = round === null ? -1 : this.run.tokens.findIndex((entry) => entry.round === round - 1);
    if (this.root.offsetParent === null) document.querySelector("#listen-tab-button")?.click();
    if (place < 0) {
      this.tell(`The link leads to no round of this take, which has ${counted(this.run.drafted.length, "round")}.`);
    } else {
      this.choose(place, false);
      this.goTo(step - 1);
      this.currentStep.focus({ preventScroll: true });
    }
    // From its head on, as more of it is still to come.
    this.parts.round.scrollIntoView({ block: "start", behavior: calm() ? "auto" : "smooth" });
  }
}
