// Work: pods and gangs that ask for GPUs, and of one of them why it waits, what helps, its history and its devices.
import { html } from "./html.js";
import { again, detail, every } from "./details.js";
import { page } from "./page.js";
import { Facts, Failed, Loading, Meter, Missing, State, toneOf } from "./parts.js";
import { link, workLink } from "./route.js";
import { Table } from "./table.js";
import { Filter, filterOf } from "./toolbar.js";
import { age, amount, duration, gibibytes, moment, NONE, path, percent, UNKNOWN, watts, whole } from "./text.js";
import { heldWords } from "./view_fleet.js";
import { workOf } from "./wire.js";

const MEASURED_AGAIN_MS = 30_000;
const RANKS = ["in part", "held", "waits", "gated", "foreign", "leaves", "placed", "runs"];

/** The place in the queue, the expected start and the reason, as in `gpufleet top`. */
function placeOf(row) {
  if (row.node) return row.node;
  const position = row.position === null || row.position === undefined ? "" : `#${row.position} `;
  const start = row.expectedStart ? `starts ${moment(row.expectedStart)}; ` : "";
  return `${position}${start}${row.why || row.cause || ""}` || NONE;
}

const COLUMNS = [
  { id: "name", title: "Work", text: (w) => path(w.namespace, w.name), href: workLink },
  { id: "kind", title: "Kind", drops: 1, text: (w) => w.kind },
  { id: "state", title: "State", value: (w) => RANKS.indexOf(w.state), text: (w) => w.state, show: (w) => html`<${State} state=${w.state} />` },
  { id: "gpus", title: "GPUs", number: true, value: (w) => w.gpus, text: (w) => amount(w.gpus) },
  { id: "members", title: "Placed", number: true, drops: 1, value: (w) => w.placed, text: (w) => (w.kind === "gang" ? `${whole(w.placed)} / ${w.needed || UNKNOWN}` : NONE) },
  { id: "age", title: "Age", number: true, drops: 1, value: (w) => w.created, text: (w) => age(w.created) },
  { id: "queue", title: "Queue", drops: 1, text: (w) => w.queue || NONE, href: (w) => (w.queue ? link("queue", w.queue) : null) },
  { id: "place", title: "Node or reason", drops: 1, wraps: true, text: placeOf, href: (w) => (w.node && w.kind === "pod" ? link("node", w.node) : null) },
];

const words = (w) => [w.kind, path(w.namespace, w.name), w.state, w.queue, w.node, w.cause, w.why];

export function WorkList() {
  const rows = page.store.rows("work");
  if (!rows.isRead) return html`<h1>Work</h1><${Missing} what="the work" />`;
  return html`<h1>Work</h1><p class="lead">Pods and gangs that ask for GPUs and have not ended. ${rows.unread}</p>
    <div class="toolbar"><${Filter} what="work" /></div>
    <${Table} caption="Work" version=${rows.version} rows=${rows.byKey} columns=${COLUMNS} words=${words} filter=${filterOf()} sort="state" of=${rows.reading} empty="No pod asks for GPUs" />`;
}

export function Work({ parts: [kind, namespace, name] }) {
  const live = page.store.rows("work").byKey.get(`${kind}/${namespace}/${name}`);
  const address = `api/work/${[kind, namespace, name].map(encodeURIComponent).join("/")}`;
  const told = detail(address, `${live?.node ? every(MEASURED_AGAIN_MS) : ""} ${JSON.stringify(live ?? null)}`);
  const head = html`<p class="crumbs"><a href="#/work">Work</a> / ${kind}</p><h1>${path(namespace, name)}</h1>`;
  if (!told.value && told.problem) return html`${head}<${Failed} title=${told.problem.status === 404 ? "There is no such work, or you may not see it" : "It cannot be read"} why=${told.problem.words} retry=${() => again(address)} />`;
  if (!told.value) return html`${head}<${Loading} what="why it waits" />`;
  const row = live ?? workOf(told.value.row);
  return html`${head}<${Told} answer=${told.value.explanation} row=${row} />
    <${Members} of=${(told.value.members ?? []).map(workOf)} gang=${told.value.explanation?.gang} row=${row} namespace=${namespace} />
    <${Devices} of=${told.value.devices ?? []} unknown=${told.value.use_unknown} at=${told.value.at} /><${History} of=${told.value.history ?? []} />
    <${Notes} of=${[...(told.value.explanation?.notes ?? []), ...(told.value.notes ?? [])]} />
    <p class="muted as-of">As of ${moment(told.value.at)}.</p>`;
}

function Told({ answer, row }) {
  const waits = !row.node && toneOf(row.state) !== "good";
  return html`<p class="summary"><${State} state=${row.state} /> ${answer?.summary ?? ""}</p>
    <${Facts} of=${[["queue", row.queue ? html`<a href=${link("queue", row.queue)}>${row.queue}</a>` : ""], ["place in the queue", row.position ? `#${row.position}` : ""],
      ["expected start", waits ? (row.expectedStart ? moment(row.expectedStart) : UNKNOWN) : ""], ["GPUs", row.gpus === null ? UNKNOWN : amount(row.gpus)], ["age", row.created ? age(row.created) : ""],
      ["node", row.node ? html`<a href=${link("node", row.node)}>${row.node}</a>` : ""], ["gang", row.gang ? html`<a href=${link("work", "gang", row.namespace, row.gang)}>${row.gang}</a>` : ""]]} />
    ${answer ? html`<${Reason} answer=${answer} />` : html`<${Reason} answer=${{ why: row.why, cause: row.cause }} />`}`;
}

function Reason({ answer }) {
  return html`${answer.why ? html`<section class="reason"><h2>Why</h2><p class="large">${answer.why}</p>${answer.cause ? html`<p class="muted">cause <code>${answer.cause}</code></p>` : null}</section>` : null}
    ${answer.way_out?.length ? html`<section class="ways"><h2>${answer.way_out.length > 1 ? "Ways out" : "Way out"}</h2><ol>${answer.way_out.map((one) => html`<li key=${one}>${one}</li>`)}</ol></section>` : null}
    ${answer.reasons?.length ? html`<${Reasons} answer=${answer} />` : null}
    ${answer.nearest?.length ? html`<${Nearest} of=${answer.nearest} />` : null}`;
}

function Notes({ of }) {
  return of.length ? html`<section><h2>Notes</h2><ul class="notes">${of.map((one) => html`<li key=${one}>${one}</li>`)}</ul></section>` : null;
}

function Reasons({ answer }) {
  const counted = answer.reasons.filter((one) => one.first);
  return html`<section><h2>Nodes <small>${whole(answer.nodes)}, each counted once under its first reason</small></h2><ul class="reasons">
    ${counted.map((one) => html`<li key=${one.reason}><span class="number figure">${whole(one.first)}</span>
      <span class="track" aria-hidden="true"><span style=${{ width: `${(100 * one.first) / (answer.nodes || 1)}%` }}></span></span>
      <span>${one.words}${one.detail ? html` <span class="muted">(${one.detail})</span>` : null}</span></li>`)}</ul></section>`;
}

function Nearest({ of }) {
  return html`<section><h2>Nearest nodes <small>those that need the least change</small></h2><div class="scroll" tabindex="0" role="region" aria-label="Nearest nodes"><table>
    <thead><tr><th scope="col">Node</th><th scope="col">Lacks</th><th scope="col">Pods with GPUs there</th></tr></thead><tbody>
    ${of.map((one) => html`<tr key=${one.node}><th scope="row"><a href=${link("node", one.node)}>${one.node}</a></th>
      <td class="wraps">${Object.entries(one.lacks ?? {}).map(([what, count]) => `${amount(count)} ${what}`).join(", ") || one.reasons.join(", ")}</td>
      <td class="wraps">${one.holders?.join(", ") || NONE}</td></tr>`)}</tbody></table></div></section>`;
}

function Members({ of, gang, row, namespace }) {
  const members = of.length ? of : (gang?.members ?? []).map((one) => ({ key: one.pod, kind: "pod", namespace, name: one.pod, state: one.state, node: one.node ?? "", why: one.why ?? "" }));
  if (!members.length) return null;
  const placed = row.placed ?? gang?.placed ?? null;
  const words = `${whole(placed)} of ${row.needed || gang?.min_members || UNKNOWN} placed, ${whole(row.arrived ?? gang?.arrived)} arrived${gang?.deadline ? `, whole by ${moment(gang.deadline)}` : ""}`;
  return html`<section><h2>Gang <small>${words}</small></h2><ul class="members">${members.map((one) => html`<li key=${one.key}><${State} state=${one.state} /><a href=${workLink(one)}>${one.name}</a>
    <span class="muted">${one.node || one.why || one.cause || ""}</span></li>`)}</ul></section>`;
}

function Devices({ of, unknown, at }) {
  if (!of.length) return null;
  const sinceS = (Date.now() - Date.parse(at)) / 1000;
  return html`<section><h2>Devices ${unknown ? html`<small>use is unknown: ${unknown}</small>` : null}</h2><div class="scroll" tabindex="0" role="region" aria-label="Devices"><table><thead><tr><th scope="col">GPU</th><th scope="col">Node</th><th scope="col" class="number">Held</th>
    <th scope="col" class="number">Use</th><th scope="col" class="number">Memory</th><th scope="col" class="number">Power</th><th scope="col" class="number">Measured</th></tr></thead><tbody>
    ${of.map((one) => html`<tr key=${one.pod + one.id}><th scope="row"><a href=${link("node", one.node, one.id)}>${one.id}</a> <span class="muted">${one.model ?? ""}</span></th><td>${one.node}</td>
      <td class="number">${heldWords({ profile: one.profile ?? "", milli: one.gpu_milli ?? null, memoryMib: one.memory_mib ?? null })}</td>
      <td class="number"><${Meter} ratio=${one.used_ratio} words=${percent(one.used_ratio)} label="use" /></td>
      <td class="number">${gibibytes(one.memory_used_bytes)}</td><td class="number">${watts(one.power_watts)}</td><td class="number">${one.age_s === undefined ? UNKNOWN : `${duration(one.age_s + sinceS)} ago`}</td></tr>`)}</tbody></table></div></section>`;
}

function History({ of }) {
  return html`<section><h2>History</h2>${of.length ? html`<ol class="history">${of.map((one) => html`<li key=${`${one.at} ${one.what} ${one.pod}`}><time datetime=${one.at}>${moment(one.at)}</time>
    <span class="what">${one.what}${one.count > 1 ? html` <span class="muted">×${one.count}</span>` : null}</span><span>${one.pod ? `${one.pod}: ` : ""}${one.text ?? ""}</span></li>`)}</ol>` : html`<p class="muted">Nothing is kept of what happened to it.</p>`}</section>`;
}
