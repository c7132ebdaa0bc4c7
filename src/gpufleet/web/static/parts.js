// Small parts that views share: states, bars, empty and failed views, and a command to copy.
import { html } from "./html.js";
import { page, say } from "./page.js";

// A sign stands beside every state, so that nothing is said by colour alone.
const SIGNS = { good: "●", warn: "▲", bad: "✕", calm: "○", unknown: "?" };
const TONES = {
  ready: "good", runs: "good", placed: "good", healthy: "good", passed: "good", bound: "good", started: "good",
  waits: "calm", gated: "calm", free: "calm", foreign: "calm", leaves: "calm", ended: "calm", holding: "calm",
  cordoned: "warn", held: "warn", risk: "warn", warning: "warn", evicted: "warn", empty: "warn", info: "calm",
  "not ready": "bad", "no report": "bad", "in part": "bad", broken: "bad", critical: "bad", unhealthy: "bad",
  refused: "warn",
};

export function toneOf(state) {
  if (!state || state === "?") return "unknown";
  return TONES[state] ?? (/unwell|unhealthy|failed/.test(state) ? "bad" : "calm");
}

export function State({ state, tone = toneOf(state) }) {
  return html`<span class="state ${tone}"><span aria-hidden="true">${SIGNS[tone]}</span>${state || "unknown"}</span>`;
}

/** A bar of parts of a whole; each part has an amount, an ink (a class) and words. */
export function Bar({ parts, whole, label, thin }) {
  return html`<div class="bar ${thin ? "thin" : ""}" role="img" aria-label=${label}>
    ${parts.filter((part) => part.amount > 0).map((part) => html`<span
      key=${part.name} class="part ${part.ink}" title=${part.title ?? ""}
      style=${{ width: `${(100 * part.amount) / (whole || 1)}%` }}></span>`)}
  </div>`;
}

export function Meter({ ratio, words, label }) {
  const isKnown = ratio !== null && ratio !== undefined;
  return html`<span class="meter"><span class="figure">${words}</span><span class="track" role="img"
    aria-label=${`${label}: ${isKnown ? words : "unknown"}`}>${isKnown
      ? html`<span style=${{ width: `${Math.min(100, 100 * ratio)}%` }}></span>`
      : null}</span></span>`;
}

export function Figures({ of, isEven }) {
  return html`<dl class=${`figures of-${of.length} ${isEven ? "even" : ""}`}>${of.map(({ name, value, unit, more, tone }) => html`<div key=${name}>
    <dt>${name}</dt><dd class="big ${tone ?? ""}">${value}${unit ? html` <small>${unit}</small>` : null}</dd>
    ${more ? html`<dd class="more">${more}</dd>` : null}
  </div>`)}</dl>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="title">${title}</p>${children ? html`<p>${children}</p>` : null}</div>`;
}

export function Loading({ what }) {
  return html`<div class="empty loading" aria-busy="true"><p>Reading ${what} …</p>
    <div class="lines" aria-hidden="true"><i></i><i></i><i></i><i></i><i></i></div></div>`;
}

export function Failed({ title, why, retry }) {
  return html`<div class="empty failed" role="alert"><p class="title">${title}</p><p>${why}</p>
    ${retry ? html`<button onClick=${retry}>Try again</button>` : null}</div>`;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("The command is copied.");
  } catch {
    // A browser gives the clipboard to pages over HTTPS and on loopback alone.
    say("The browser did not allow to copy. Select the command instead.");
  }
}

export function Command({ text }) {
  return html`<div class="command"><pre tabindex="0" aria-label="Command"><code>${text}</code></pre>
    <button onClick=${() => copied(text)}>Copy</button></div>`;
}

/** A view of which no row has come yet: it is being read, or its source does not answer. */
export function Missing({ what }) {
  const { state, why } = page.store.source;
  if (state !== "away") return html`<${Loading} what=${what} />`;
  return html`<${Failed} title=${`There is nothing to show of ${what} yet`} why=${`${why} The page goes on by itself when the source answers.`} />`;
}

export function Facts({ of }) {
  return html`<dl class="facts">${of.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
