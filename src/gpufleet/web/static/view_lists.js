// Recent decisions of the scheduler, and problems with what mends them.
import { html } from "./html.js";
import { again, detail } from "./details.js";
import { page } from "./page.js";
import { Command, Empty, Failed, Loading, Missing, State } from "./parts.js";
import { link, workLink } from "./route.js";
import { Table } from "./table.js";
import { Filter, filterOf } from "./toolbar.js";
import { counted, matches, moment, NONE, path } from "./text.js";

const COLUMNS = [
  { id: "at", title: "Time", value: (d) => d.at, text: (d) => moment(d.at), show: (d) => html`<time datetime=${d.at}>${moment(d.at)}</time>` },
  { id: "what", title: "Decision", text: (d) => d.what, show: (d) => html`<${State} state=${d.what} />` },
  { id: "work", title: "Work", text: (d) => path(d.namespace, d.name), href: workLink },
  { id: "queue", title: "Queue", drops: 2, text: (d) => d.queue || NONE, href: (d) => (d.queue ? link("queue", d.queue) : null) },
  { id: "node", title: "Node", drops: 1, text: (d) => d.node || NONE, href: (d) => (d.node ? link("node", d.node) : null) },
  { id: "text", title: "Why", drops: 1, wraps: true, text: (d) => d.text || NONE },
];

export function Decisions() {
  const rows = page.store.rows("decisions");
  if (!rows.isRead) return html`<h1>Decisions</h1><${Missing} what="recent decisions" />`;
  return html`<h1>Decisions</h1><p class="lead">What was decided last about each pod, the newest first. ${rows.unread}</p>
    <div class="toolbar"><${Filter} what="decisions" /></div>
    <${Table} caption="Decisions" version=${rows.version} rows=${rows.byKey} columns=${COLUMNS} words=${(d) => [d.what, d.namespace, d.name, d.queue, d.node, d.text]} filter=${filterOf()} sort="at" backwards=${true} of=${rows.reading} empty="Nothing was decided yet" />`;
}

export const PROBLEMS = "api/problems";

export function Problems() {
  const head = html`<h1>Problems</h1><p class="lead">What <code>gpufleet doctor</code> finds and which alerts fire, causes before what follows from them.</p>`;
  if (page.store.about?.sees_all === false) return html`${head}<${Empty} title="You may not see this">The doctor reads objects of all namespaces.<//>`;
  const told = detail(PROBLEMS, "once");
  if (!told.value && told.problem) return html`${head}<${Failed} title="The doctor could not look" why=${told.problem.words} retry=${() => again(PROBLEMS)} />`;
  if (!told.value) return html`${head}<${Loading} what="every part of the cluster" />`;
  const { causes = [], alerts = [], unjudged = [], notes = [], at } = told.value;
  const shown = causes.filter((one) => matches(filterOf(), [one.says, one.check, one.grade, ...one.subjects]));
  const fire = alerts.filter((one) => matches(filterOf(), [one.name, one.says, one.severity]));
  return html`${head}<div class="toolbar"><${Filter} what="problems" /><span class="muted">Looked at ${moment(at)}</span><button onClick=${() => again(PROBLEMS)}>Look again</button></div>
    ${shown.length || fire.length ? html`<ol class="problems">${shown.map((one) => html`<${Problem} key=${one.check + one.says} of=${one} />`)}${fire.map((one) => html`<${Alert} key=${one.name + one.says} of=${one} />`)}</ol>`
      : causes.length || alerts.length ? html`<${Empty} title=${`Nothing matches “${filterOf()}”`} />` : html`<${Empty} title="Nothing is wrong">As far as it could be judged.<//>`}
    ${told.value.alerts_unknown ? html`<p class="muted note">Alerts are unknown: ${told.value.alerts_unknown}</p>` : null}
    ${notes.map((one) => html`<p class="muted note" key=${one}>${one}</p>`)}
    ${unjudged.length ? html`<details class="note"><summary>${counted(unjudged.length, "thing")} could not be judged</summary><ul class="evidence">${unjudged.map((one) => html`<li key=${one}>${one}</li>`)}</ul></details>` : null}`;
}

function Alert({ of }) {
  return html`<li class="problem"><p class="problem-head"><${State} state=${of.severity || "unknown"} /><span class="kind">alert ${of.name}</span>${of.since ? html`<span class="muted">since ${moment(of.since)}</span>` : null}</p>
    <h2>${of.says || of.name}</h2><ul class="chips">${Object.entries(of.labels ?? {}).map(([name, value]) => html`<li key=${name}>${name}=${value}</li>`)}</ul>
    ${/^https?:/.test(of.runbook ?? "") ? html`<p><a href=${of.runbook} rel="noreferrer">What to do</a></p>` : null}</li>`;
}

function Problem({ of }) {
  return html`<li class="problem"><p class="problem-head"><${State} state=${of.grade} /><span class="kind">doctor, point ${of.point}</span></p>
    <h2>${of.says}</h2>${of.why ? html`<p>${of.why}</p>` : null}
    ${of.subjects.length ? html`<ul class="chips">${of.subjects.slice(0, 12).map((one) => html`<li key=${one}>${one}</li>`)}${of.subjects.length > 12 ? html`<li class="muted">and ${of.subjects.length - 12} more</li>` : null}</ul>` : null}
    ${of.mends.map((mend, place) => html`<div class="mend" key=${place}><p><strong>Mend:</strong> ${mend.does}</p>${mend.command ? html`<${Command} text=${mend.command} />` : null}${mend.manifest ? html`<${Command} text=${mend.manifest} />` : null}</div>`)}
    ${of.evidence.length ? html`<details><summary>What was seen</summary><ul class="evidence">${of.evidence.map((one) => html`<li key=${one}>${one}</li>`)}</ul></details>` : null}
    ${of.follows.length ? html`<details><summary>${counted(of.follows.length, "failure")} more from it</summary><ul class="evidence">${of.follows.map((one) => html`<li key=${one.says}>${one.says}</li>`)}</ul></details>` : null}</li>`;
}
