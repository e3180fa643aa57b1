"""The terms of the page: meaning, equation and source of each; shown at every dotted word, and in one list.

A dotted word is a link to its entry in the list, so it works with the keyboard and with a screen reader; the
script shows the entry beside the word instead of going there.
"""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import gradio as gr

STYLES = Path(__file__).with_name("terms.css")
SCRIPT = Path(__file__).with_name("terms.js")
SD, PCG, SSD, CTC, SPOOF = "arXiv 2211.17192", "arXiv 2511.13732", "arXiv 2505.15380", "arXiv 2603.11243", "arXiv 2603.05373"


@dataclass(frozen=True)
class Term:
    """A word of the page: one sentence, an equation as HTML, or none, and where it is from."""

    name: str
    meaning: str
    equation: str = ""
    source: str = ""


TERMS = {
    "token": Term("token", "One of the codes that represent speech; the embedded voice uses 50 per second."),
    "ar": Term(
        "AR", "Autoregressive decoding, the baseline: the target alone, with one call for every token.", "x ~ q",
        f"{PCG}, section 2",
    ),
    "sd": Term(
        "SD", "Speculative decoding: the draft proposes tokens, the target checks them, and each keeps its probability in AR.",
        "accept if u &lt; min(1, q(x) / p(x))", SD,
    ),
    "ssd": Term(
        "SSD", "Speech speculative decoding: SD with a tolerance in each check; AR's probabilities are not kept.",
        "accept if u &lt; min(1, q(x) / p(x)) + β", f"SSD Eq. 5, {SSD}",
    ),
    "pcg": Term(
        "PCG", "Principled coarse-grained acceptance: checks groups of similar tokens; each group keeps its probability in AR.",
        "accept G if u &lt; min(1, Q<sub>c</sub>(G) / P<sub>c</sub>(G))", f"PCG Eq. 7, {PCG}",
    ),
    "draft-model": Term("draft", "The small, fast model that proposes tokens; a proposed token is a drafted token.", "x ~ p"),
    "target-model": Term("target", "The large model whose speech is wanted: it checks the drafted tokens.", "x ~ q"),
    "round": Term(
        "round", "The draft proposes tokens, the target checks them in one call, and those up to the first rejection are kept.",
    ),
    "call": Term("call of the target", "One pass of the target: it checks the drafted tokens of a round; in AR, one token."),
    "p": Term("p", "The distribution of the draft, a small model, over the next token.", "x ~ p", f"{PCG}, 2.2"),
    "q": Term("q", "The distribution of the target, a large model, over the next token.", "AR: x ~ q", f"{PCG}, section 2"),
    "temperature": Term(
        "temperature", "Divides the logits z of both models before the softmax: low is steady, high is lively.",
        "q(x) = e<sup>z(x)/T</sup> / Σ<sub>y</sub> e<sup>z(y)/T</sup>",
    ),
    "lookahead": Term(
        "lookahead", "The number of tokens that the draft proposes before the target checks them in one pass.",
        "x<sub>i</sub> ~ p<sub>i</sub>, i = 1 … L", f"L<sub>d</sub> in {PCG}, Algorithm 1",
    ),
    "adaptive": Term(
        "adaptive lookahead", "Drafting stops early where the entropy H of the draft's distribution predicts a rejection.",
        "1 − √(0.2 H(p))", "AdaEDL, arXiv 2410.18351",
    ),
    "lookahead-cost": Term(
        "lookahead cost",
        "Time of one drafted token, as a share of a round without any; each round drafts the fastest number of tokens.",
        "max<sub>L</sub> E(L) / (1 + cost · L)", "E(L): tokens expected of a round, by the acceptances so far",
    ),
    "verification": Term(
        "verification", "Drafted tokens are tested one by one (token), or together by the ratio of the whole block (block).",
        "w<sub>i</sub> = min(1, w<sub>i−1</sub> q(x<sub>i</sub>) / p(x<sub>i</sub>))", "block: arXiv 2403.10444",
    ),
    "coin": Term("coin", "A number drawn evenly from 0 to 1 for each test, from the seed.", "u ~ Uniform(0, 1)", f"{PCG}, 2.2"),
    "ratio": Term(
        "ratio", "The acceptance threshold of the coin; SSD adds beta, and PCG uses the group's mass in place of the token's.",
        "r = min(1, q(x) / p(x)); PCG: r = min(1, Q<sub>c</sub>(G) / P<sub>c</sub>(G))", f"PCG Eq. 7, {PCG}",
    ),
    "beta": Term(
        "beta", "The tolerance of SSD: at 0 it is SD, at 1 every drafted token passes; above 0 AR's distribution is not kept.",
        "accept if u &lt; min(1, q(x) / p(x)) + β", f"SSD Eq. 5, {SSD}",
    ),
    "group": Term(
        "group", "The tokens whose similarity to a token t is above theta; groups overlap.",
        "G(t) = { t′ : cos(e(t), e(t′)) &gt; θ }", f"PCG Eq. 1, {PCG}",
    ),
    "theta": Term(
        "theta", "The similarity above which tokens share a group: lower theta, larger groups, less exact speech.",
        "t′ ∈ G(t) if cos(e(t), e(t′)) &gt; θ", f"PCG Eq. 1, {PCG}",
    ),
    "group-size": Term("group size", "The number of tokens in a group, the token itself among them.", "|G(t)|", f"PCG, {PCG}"),
    "overlap": Term(
        "overlap", "The number of groups that hold a token, over which its probability is split evenly.",
        "N(t) = |{ k : t ∈ G<sub>k</sub> }|, w<sub>k,t</sub> = 1 / N(t)", f"PCG Eq. 3, {PCG}",
    ),
    "p-c": Term(
        "P_c", "The draft's mass of a group, each token counted by its share.",
        "P<sub>c</sub>(G) = Σ<sub>t∈G</sub> p(t) / N(t)", f"PCG Eq. 5, {PCG}",
    ),
    "q-c": Term(
        "Q_c", "The target's mass of a group: at each step PCG samples the group with exactly this probability.",
        "Q<sub>c</sub>(G) = Σ<sub>t∈G</sub> q(t) / N(t)", f"PCG Eq. 5, {PCG}",
    ),
    "resampled": Term(
        "resampled", "A token drawn from the residual distribution after a rejection; the round ends there.",
        "x ~ [q − p]<sub>+</sub>; PCG: G ~ [Q<sub>c</sub> − P<sub>c</sub>]<sub>+</sub>", f"PCG Eq. 8 and 10, {PCG}",
    ),
    "accepted": Term(
        "accepted", "A drafted token that passed its test.", "u &lt; r", f"PCG Algorithm 1, {PCG}",
    ),
    "target": Term("no draft used", "A token drawn by the target alone, without a draft and a test.", "x ~ q"),
    "bonus": Term(
        "bonus", "After a round in which every drafted token passed, the target adds one token without another call.",
        "x ~ q<sub>L+1</sub>", f"SSD, {SSD}",
    ),
    "acceptance": Term(
        "accepted of drafted", "The share of drafted tokens that passed their test.", "accepted / drafted",
        "the draft acceptance rate of vLLM",
    ),
    "tested": Term(
        "accepted of tested", "The share of tested tokens that passed; nothing is tested behind a round's first rejection.",
        "accepted / tested",
    ),
    "length": Term(
        "tokens per target call", "Tokens produced by one call of the target, its own token included.",
        "1 + accepted / rounds", "as vLLM counts it",
    ),
    "rtf": Term(
        "real-time factor", "RTF: seconds of work for one second of sound; below 1 it is faster than speech.",
        "RTF = time of work / length of the sound",
    ),
    "rtfx": Term(
        "RTFx", "Seconds of sound that are processed in one second of work.", "RTFx = length of the sound / time of work", CTC,
    ),
    "speed": Term("tokens/s", "Speech tokens per second of decoding; the RTF also includes prompt and codec."),
    "speed-up": Term(
        "speed-up", "Tokens per second relative to AR with the same text, voice, sampling and seed.",
        "(tokens/s) / (tokens/s of AR)",
    ),
    "bound": Term(
        "bound", "The best speed-up that acceptance and costs allow; v, c: a verification and a draft step, in AR steps.",
        "E[tokens of a round] / (v + L c)", f"after Theorem 3.8 of {SD}",
    ),
    "wer": Term(
        "WER", "Word error rate: errors of a recogniser in the words of the text.",
        "(substituted + deleted + inserted) / words of the text",
    ),
    "cer": Term(
        "CER", "Character error rate: as WER, by character.", "(substituted + deleted + inserted) / characters of the text",
    ),
    "similarity": Term(
        "similarity", "The similarity of two voices to a speaker encoder s: 1 is the same.", "cos(s(a), s(b))",
        "resemblyzer, unless another is named",
    ),
    "dnsmos": Term(
        "DNSMOS", "The quality rating of listeners, from 1, bad, to 5, excellent, as predicted by a model.", "",
        "DNSMOS P.835, overall",
    ),
    "swapped": Term(
        "swapped", "The share of tokens replaced by another member of their group, regardless of the target.",
        "t → t′, uniform over G(t) ∖ {t}", f"PCG section 4 and Table 2, {PCG}",
    ),
    "log-mel": Term(
        "log-mel", "The energy of sound over time in bands on the mel scale, in decibels.",
        "20 log<sub>10</sub> Σ<sub>f</sub> m<sub>b</sub>(f) |X(f)|",
    ),
    "mel-distance": Term(
        "mel distance", "The mean absolute difference of two sounds' log-mels over the frames that both have, in decibels.",
    ),
    "fsq": Term(
        "FSQ digits", "The digits of a code in finite scalar quantisation: a few numbers, each rounded to one of a few levels.",
        "code = Σ<sub>i</sub> d<sub>i</sub> Π<sub>j&lt;i</sub> levels<sub>j</sub>", "arXiv 2309.15505",
    ),
    "entropy-gate": Term(
        "entropy gate", "The CTC text is accepted if the entropy of every frame is below τ.",
        "H(p(·|h<sub>t</sub>)) &lt; τ<sub>CTC</sub> for all t", f"Eq. 3, {CTC}",
    ),
    "likelihood": Term(
        "likelihood gate", "The language model accepts a drafted token if its probability is above τ.",
        "p(y<sub>i</sub> | y<sub>&lt;i</sub>, g) &gt; τ<sub>LM</sub>", f"Eq. 5, {CTC}",
    ),
    "ras": Term(
        "RAS", "Repetition-aware sampling: a token too frequent in the last 25 is drawn again from the whole distribution.",
        "Σ<sub>i=1…25</sub> [c<sub>t−i</sub> = x] / 25 &gt; 0.1 ⇒ x ~ q", "VALL-E 2, arXiv 2406.05370, Algorithm 1",
    ),
    "eas": Term(
        "EAS", "Entropy-aware sampling: tokens that ranked high or were chosen in the last 15 steps get a fading penalty.",
        "q′(x) = q(x) − min(γ, Σ α β<sup>age</sup> / (1 + rank))", f"Algorithm 1, {SPOOF}",
    ),
    "spoof": Term(
        "spoof probability", "A detector's probability that a stretch of tokens is synthetic.",
        "1 − P(real | c<sub>t</sub> … c<sub>t+L</sub>), L = 50, 25, 10", f"section 2.2, {SPOOF}",
    ),
    "beam": Term(
        "beam", "One of several continuations from the same position; detectors prune all but one.",
        "8 → 5 → 3 → 1 after 10, 25 and 50 tokens", f"Algorithm 2, {SPOOF}",
    ),
    "interval": Term(
        "interval", "A 95 % confidence interval: of shares by Wilson, of means by a bootstrap over utterances.",
    ),
    "seed": Term("seed", "The source of all random numbers: the same seed generates the same tokens again."),
}  # fmt: skip
# What tables and figures call them, where that is not the name.
ALIASES = {
    "RTF": "rtf",
    "speaker": "similarity", "speaker similarity": "similarity", "average |G|": "group-size", "mean |G|": "group-size",
    "mean N(t)": "overlap", "groups M": "group", "τ CTC": "entropy-gate", "τ LM": "likelihood",
}  # fmt: skip
# A letter alone is another thing there: the p of a test, for one.
KEYS = {term.name: key for key, term in TERMS.items() if len(term.name) > 1} | ALIASES


def term_html(key: str, words: str | None = None) -> str:
    """`words`, or the term's name, as a dotted word; both are the page's own."""
    return f'<a class="term" href="#term-{key}" aria-describedby="term-{key}">{words or TERMS[key].name}</a>'


def term_info(key: str, words: str | None = None) -> str:
    """The same for the `info` of a gradio component, which knows links but no HTML."""
    return f"[{words or TERMS[key].name}](#term-{key})"


def explained(key: str, more: str = "") -> str:
    """For the `info` of a knob: what the term means, at most one sentence of the panel itself, and a link to the equation."""
    return " ".join(filter(None, (TERMS[key].meaning, more, term_info(key, "Equation"))))


def titled_html(title: str) -> str:
    """The title of a column or a figure, escaped; dotted where it names a term. A unit may follow the name."""
    key = KEYS.get(title.removesuffix(" %").partition(",")[0])
    return term_html(key, escape(title)) if key else escape(title)


def terms_html() -> str:
    """All terms as one folded list."""
    entries = "".join(_entry(key, term) for key, term in sorted(TERMS.items(), key=lambda item: item[1].name.lower()))
    return f'<details class="terms" id="terms"><summary>Terms and equations</summary><dl>{entries}</dl></details>'


def create_terms() -> gr.HTML:
    """Lay the list out within the Blocks that is being built; its script serves every dotted word of the page."""
    return gr.HTML(
        html_template=terms_html() + '<div class="term-tip" data-part="tip" role="tooltip" popover="manual"></div>',
        js_on_load=SCRIPT.read_text(encoding="utf-8"),
        apply_default_css=False,
        elem_id="terms-list",
    )


def _entry(key: str, term: Term) -> str:
    equation = f'<span class="term-equation">{term.equation}</span>' if term.equation else ""
    source = f"<small>{term.source}</small>" if term.source else ""
    return f'<div id="term-{key}"><dt>{_name(term.name)}</dt><dd>{term.meaning} {equation} {source}</dd></div>'


def _name(name: str) -> str:
    """A name as it is printed: what follows an underscore is lowered."""
    stem, _, index = name.partition("_")
    return f"{stem}<sub>{index}</sub>" if index else name
