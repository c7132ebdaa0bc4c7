// The line above a list: its filter, which stands in the address, and choices.
import { html } from "./html.js";
import { page, refresh } from "./page.js";
import { remember } from "./route.js";

export function filterOf() {
  return page.route.query.get("filter") ?? "";
}

export function setFilter(text) {
  remember("filter", text);
  page.route.query.set("filter", text);
  refresh();
}

export function Filter({ what }) {
  return html`<label class="filter"><span class="unseen">Filter ${what}</span>
    <input id="filter" type="search" autocomplete="off" spellcheck="false" placeholder=${`Filter ${what}`}
      value=${filterOf()} onInput=${(event) => setFilter(event.target.value)} /><kbd aria-hidden="true">/</kbd></label>`;
}

export function Choice({ label, name, options, chosen, choose }) {
  return html`<fieldset class="choice"><legend>${label}</legend>${options.map(([value, words]) => html`<label key=${value}>
    <input type="radio" name=${name} value=${value} checked=${value === chosen} onChange=${() => choose(value)} /><span>${words}</span></label>`)}</fieldset>`;
}
