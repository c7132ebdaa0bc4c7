// Queues: what each has of what it may have, and who waits there in which order.
import { html } from "./html.js";
import { page } from "./page.js";
import { Empty, Figures, Missing, State } from "./parts.js";
import { link, workLink } from "./route.js";
import { Table } from "./table.js";
import { Filter, filterOf } from "./toolbar.js";
import { age, amount, counted, moment, NONE, path, UNKNOWN, whole } from "./text.js";

const ifAny = (value) => (value === 0 ? NONE : amount(value));

/** Parents stand before what is below them, each level by name. */
function treePlace(queue) {
  const names = [];
  const seen = new Set();
  for (let one = queue; one && !seen.has(one.name); one = page.store.rows("queues").byKey.get(one.parent)) {
    seen.add(one.name);
    names.unshift(one.name);
  }
  return names.join("\u0000");
}

const COLUMNS = [
  { id: "tree", title: "Queue", value: treePlace, text: (q) => q.name, href: (q) => link("queue", q.name), show: (q) => html`<span class="tree" style=${{ paddingLeft: `${q.depth * 16}px` }}>${q.name}</span>` },
  { id: "share", title: "Of its quota", fixed: true, drops: 1, text: () => "", show: (q) => html`<${Share} queue=${q} most=${mostOf(q.parent)} />` },
  { id: "used", title: "Used", number: true, value: (q) => q.used, text: (q) => amount(q.used) },
  { id: "quota", title: "Quota", number: true, value: (q) => q.quota, text: (q) => amount(q.quota) },
  { id: "borrowed", title: "Borrowed", number: true, drops: 1, value: (q) => q.borrowed, text: (q) => ifAny(q.borrowed) },
  { id: "lent", title: "Lent", number: true, drops: 2, value: (q) => q.lent, text: (q) => ifAny(q.lent) },
  { id: "fair", title: "Fair share", number: true, drops: 1, value: (q) => q.fairShare, text: (q) => amount(q.fairShare) },
  { id: "waiting", title: "Pending", number: true, value: (q) => q.pending, text: (q) => (q.pending === 0 ? NONE : whole(q.pending)) },
  { id: "oldest", title: "Oldest", number: true, drops: 1, value: (q) => q.oldest, text: (q) => (q.oldest ? age(q.oldest) : q.pending ? UNKNOWN : NONE) },
  { id: "why", title: "Why", drops: 2, wraps: true, text: (q) => q.why || NONE, show: (q) => (q.isActive ? q.why || NONE : html`<${State} state="not in force" tone="bad" /> ${q.why}`) },
];

/** The largest amount among queues of one parent, which share a scale. */
function mostOf(parent) {
  let most = 1;
  for (const queue of page.store.rows("queues").byKey.values())
    if (queue.parent === parent) most = Math.max(most, queue.used ?? 0, queue.quota ?? 0, queue.fairShare ?? 0);
  return most;
}

/** What is used of the quota, what is borrowed beyond it, and a mark at the fair share, on a scale of its own level. */
function Share({ queue, most }) {
  const { used, quota, fairShare } = queue;
  if (used === null || quota === null) return html`<span class="muted">${UNKNOWN}</span>`;
  const at = (value) => `${Math.min(100, (100 * value) / most)}%`;
  const words = `${amount(used)} used, quota ${amount(quota)}, fair share ${amount(fairShare)}`;
  return html`<span class="share" role="img" aria-label=${words} title=${words}>
    <span class="quota" style=${{ width: at(quota) }}></span><span class="used" style=${{ width: at(Math.min(used, quota)) }}></span>
    ${used > quota ? html`<span class="borrowed" style=${{ left: at(quota), width: at(Math.min(used, most) - quota) }}></span>` : null}
    ${fairShare === null ? null : html`<span class="fair" style=${{ left: at(fairShare) }}></span>`}</span>`;
}

function Legend() {
  return html`<ul class="legend of-bars" aria-label="Signs">${[["used", "used"], ["borrowed", "borrowed"], ["quota", "quota"], ["fair", "fair share"]].map(([mark, words]) => html`<li key=${mark}>
    <span class="mark ${mark}" aria-hidden="true"></span>${words}</li>`)}</ul>`;
}

export function Queues() {
  const rows = page.store.rows("queues");
  if (!rows.isRead) return html`<h1>Queues</h1><${Missing} what="the queues" />`;
  if (!rows.byKey.size) return html`<h1>Queues</h1><${Empty} title=${rows.unread ? "No queue can be shown" : "There is no queue"}>${rows.unread || "Work without a queue starts by priority and age. A FleetQueue shares the fleet among teams."}<//>`;
  return html`<h1>Queues</h1><p class="lead">GPUs of each queue and all below it. ${rows.unread}</p>
    <div class="toolbar"><${Filter} what="queues" /><${Legend} /></div>
    <${Table} caption="Queues" version=${rows.version} rows=${rows.byKey} columns=${COLUMNS} words=${(q) => [q.name, q.why]} filter=${filterOf()} sort="tree" of=${rows.reading} empty="There is no queue" />`;
}

const WAITING = [
  { id: "position", title: "Place", number: true, value: (w) => w.position, text: (w) => (w.position === null ? NONE : `#${w.position}`) },
  { id: "name", title: "Waits", text: (w) => path(w.namespace, w.name), href: workLink, show: (w) => html`<span class="muted">${w.kind} </span>${path(w.namespace, w.name)}` },
  { id: "pods", title: "Pods", number: true, value: (w) => w.pods, text: (w) => whole(w.pods) },
  { id: "priority", title: "Priority", number: true, drops: 1, value: (w) => w.priority, text: (w) => whole(w.priority) },
  { id: "age", title: "Waits for", number: true, value: (w) => w.created, text: (w) => age(w.created) },
  { id: "start", title: "Expected start", number: true, value: (w) => w.expectedStart, text: (w) => (w.expectedStart ? moment(w.expectedStart) : UNKNOWN) },
  { id: "why", title: "Why", drops: 1, wraps: true, text: (w) => w.why || UNKNOWN },
];

export function Queue({ parts: [name] }) {
  const rows = page.store.rows("queues");
  if (!rows.isRead) return html`<h1>Queue ${name}</h1><${Missing} what="the queue" />`;
  const queue = rows.byKey.get(name);
  if (!queue) return html`<h1>Queue ${name}</h1><${Empty} title="There is no queue of this name, or you may not see it"><a href="#/queues">All queues</a><//>`;
  const waiting = new Map((queue.waiting ?? []).map((one) => [`${one.kind}/${one.namespace}/${one.name}`, one]));
  const below = [...rows.byKey.values()].filter((one) => one.parent === name);
  return html`<p class="crumbs"><a href="#/queues">Queues</a>${queue.parent ? html` / <a href=${link("queue", queue.parent)}>${queue.parent}</a>` : null}</p>
    <h1>${name} ${queue.isActive ? (queue.state === "Open" ? null : html`<${State} state=${queue.state} tone="warn" />`) : html`<${State} state="not in force" tone="bad" />`}</h1>
    ${queue.why ? html`<p class="lead">${queue.why}</p>` : null}
    <${Figures} of=${[
      { name: "GPUs used", value: amount(queue.used), unit: `of ${amount(queue.quota)}` },
      { name: "Borrowed", value: ifAny(queue.borrowed), more: "quota of others that they do not use" },
      { name: "Lent", value: ifAny(queue.lent), more: "own quota that others use" },
      { name: "Fair share", value: amount(queue.fairShare), more: "if all were divided anew" },
      { name: "Pending", value: whole(queue.pending), unit: queue.pending === 1 ? "pod" : "pods", more: queue.oldest ? `the oldest for ${age(queue.oldest)}` : "" },
    ]} />
    <${Share} queue=${queue} most=${Math.max(1, queue.used ?? 0, queue.quota ?? 0, queue.fairShare ?? 0)} /><${Legend} />
    <h2>Who waits</h2>
    ${queue.waiting === null ? html`<${Empty} title="Unknown">Who waits is known where the engine may be asked (ClusterRole gpufleet-explain).<//>`
      : html`<div class="toolbar"><${Filter} what="who waits" /></div><${Table} caption=${`Who waits in ${name}`} version=${rows.version} of=${name} rows=${waiting} columns=${WAITING} words=${(w) => [w.kind, w.namespace, w.name, w.why]} filter=${filterOf()} sort="position" empty=${queue.hidden ? "Nobody that you may see waits" : "Nobody waits"} />
        <p class="muted">${[queue.more ? `${whole(queue.more)} more wait` : "", queue.hidden ? `${whole(queue.hidden)} of namespaces that you may not see` : ""].filter(Boolean).join(", ")}</p>`}
    ${queue.reservation ? html`<h2>Reservation</h2><p>${queue.reservation.kind} <a href=${workLink(queue.reservation)}>${path(queue.reservation.namespace, queue.reservation.name)}</a> holds ${counted(queue.reservation.nodes, "node")} until it starts${queue.reservation.expected_start ? `, expected ${moment(queue.reservation.expected_start)}` : "; when is unknown"}.</p>` : null}
    ${queue.problems.length ? html`<h2>Problems</h2><ul class="notes">${queue.problems.map((one) => html`<li key=${one.message}>${one.reason}: ${one.message}</li>`)}</ul>` : null}
    ${queue.resources.length ? html`<h2>Resources</h2><${Resources} of=${queue.resources} />` : null}
    ${below.length ? html`<h2>Queues below</h2><ul class="chips">${below.map((one) => html`<li key=${one.name}><a href=${link("queue", one.name)}>${one.name}</a> <span class="muted">${amount(one.used)} of ${amount(one.quota)}</span></li>`)}</ul>` : null}`;
}

function Resources({ of }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Resources"><table><thead><tr><th scope="col">Resource</th>
    ${["Used", "Quota", "Nominal", "Borrowed", "Lent", "Fair share"].map((title) => html`<th scope="col" class="number" key=${title}>${title}</th>`)}</tr></thead>
    <tbody>${of.map((one) => html`<tr key=${one.resource}><th scope="row">${one.resource}</th>${[one.used, one.quota, one.nominal, one.borrowed, one.lent, one.fair_share]
      .map((value, place) => html`<td class="number" key=${place}>${value ?? (place < 5 ? "0" : UNKNOWN)}</td>`)}</tr>`)}</tbody></table></div>`;
}
