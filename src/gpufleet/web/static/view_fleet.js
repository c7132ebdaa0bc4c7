// The fleet: what is held, by whom, what is free in which blocks, the map of all nodes, and the same as a table.
import { html } from "./html.js";
import { cardState, fleetSums, OTHER_QUEUES, owners, ownerOf, queueInks } from "./fleet_sums.js";
import { followUse, loadOf, meanOf, stepWords, sumWords, use, useSums } from "./fleet_use.js";
import { FleetMap } from "./map.js";
import { holderName, STEPS } from "./map_layout.js";
import { page, refresh } from "./page.js";
import { Bar, Empty, Figures, Missing, State } from "./parts.js";
import { link, workLink } from "./route.js";
import { Table } from "./table.js";
import { Choice, Filter, filterOf, setFilter } from "./toolbar.js";
import { amount, counted, duration, gpus, matches, mebibytes, NONE, path, percent, short, UNKNOWN, whole } from "./text.js";

/** Sizes that stand there while none is told. */
const BLOCKS = ["1", "2", "4", "8"];
const view = { by: "pool", colour: "queue", zoom: 0, chosen: null, hovered: null, step: { step: 0, fit: 0 } };

const set = (change) => {
  Object.assign(view, change);
  refresh();
};

export function nodeWords(node) {
  const owned = node.cards.flatMap((card) => card.holders.flatMap((one) => [ownerOf(one), path(one.namespace, one.name)]));
  return [node.name, node.state, node.model, node.pool, node.reason, ...owned];
}

const COLUMNS = [
  { id: "name", title: "Node", text: (n) => n.name, href: (n) => link("node", n.name) },
  { id: "state", title: "State", text: (n) => n.state, show: (n) => html`<${State} state=${n.state} />` },
  { id: "held", title: "Held", number: true, value: (n) => n.held, text: (n) => `${amount(n.held)} / ${n.gpus ?? UNKNOWN}` },
  { id: "free", title: "Free block", number: true, value: (n) => n.free, text: (n) => whole(n.free) },
  { id: "unwell", title: "Unwell", number: true, drops: 1, value: (n) => n.unwell, text: (n) => (n.unwell === 0 ? NONE : whole(n.unwell)) },
  { id: "pods", title: "Pods", number: true, drops: 1, value: (n) => n.pods, text: (n) => whole(n.pods) },
  { id: "model", title: "Model", drops: 1, text: (n) => n.model || UNKNOWN },
  { id: "pool", title: "Pool", drops: 2, text: (n) => n.pool || NONE },
  { id: "reason", title: "Reason", drops: 1, wraps: true, text: (n) => n.reason },
];

const USE_COLUMN = {
  id: "use", title: "Use", number: true, value: (n) => meanOf(n, view.colour), text: (n) => percent(meanOf(n, view.colour)),
};

/** With colours of use the table has them too. */
function columns() {
  return view.colour === "queue" ? COLUMNS : COLUMNS.toSpliced(3, 0, { ...USE_COLUMN, title: view.colour === "use" ? "Use" : "Memory" });
}

export function Fleet() {
  if (view.colour !== "queue") followUse();
  const rows = page.store.rows("nodes");
  if (!rows.isRead) return html`<h1 class="unseen">Fleet</h1><${Missing} what="the nodes" />`;
  if (!rows.byKey.size) return html`<h1>Fleet</h1><${Empty} title=${rows.unread ? "No node can be shown" : "No node has GPUs"}>${rows.unread || "Nodes appear here when an agent reports their GPUs."}<//>`;
  const { sums, nodes } = fleetSums(rows);
  return html`<h1 class="unseen">Fleet</h1>
    ${rows.unread ? html`<p class="lead">${rows.unread}</p>` : null}<${Figures} of=${figures(page.store.rows("fleet").byKey.get("fleet") ?? {}, sums)} />
    ${view.colour === "queue" ? html`<${Owners} sums=${sums} />` : html`<${Loads} sums=${sums} nodes=${nodes} />`}
    <div class="toolbar">
      <${Filter} what="nodes, queues, pods" />
      <${Choice} label="Group by" name="by" chosen=${view.by} choose=${(by) => set({ by })} options=${[["pool", "pool"], ["model", "model"], ["state", "state"]]} />
      <${Choice} label="Colour by" name="colour" chosen=${view.colour} choose=${(colour) => set({ colour })} options=${[["queue", "queue"], ["use", "use"], ["memory", "memory"]]} />
      <${Zoom} />
    </div>
    <div class="map-and-node"><div>
      <${FleetMap} nodes=${nodes} version=${rows.version} by=${view.by} zoom=${view.zoom} chosen=${view.chosen} isWanted=${wanted()} filter=${filterOf()} colour=${view.colour}
        onChoose=${(chosen) => set({ chosen })} onHover=${(hovered) => set({ hovered })} onZoom=${zoomBy} onStep=${stepped}
        onOpen=${(key) => { location.hash = link("node", rows.byKey.get(key)?.name ?? key); }} />
      <${Legend} />
      </div>
      <${Inspector} node=${rows.byKey.get(view.hovered ?? view.chosen)} />
    </div>
    <h2>Nodes</h2>
    <${Table} caption="Nodes" version=${`${rows.version} ${use.version}`} of=${`${rows.reading} ${view.colour}`} rows=${rows.byKey} columns=${columns()} words=${nodeWords} filter=${filterOf()} sort="name" empty="No node has GPUs" />`;
}

function wanted() {
  const filter = filterOf();
  return filter.trim() ? (node) => matches(filter, nodeWords(node)) : () => true;
}

function stepped(step) {
  view.step = step;
  // The map says so while it is drawn, and the buttons of the zoom stand above it.
  setTimeout(refresh);
}

function zoomBy(by) {
  const step = Math.min(STEPS.length - 1, Math.max(0, view.step.step + by));
  set({ zoom: step - view.step.fit });
}

function Zoom() {
  return html`<div class="zoom" role="group" aria-label="Zoom of the map">
    <button aria-label="Smaller" disabled=${view.step.step === 0} onClick=${() => zoomBy(-1)}>−</button>
    <button onClick=${() => set({ zoom: 0 })}>Fit</button>
    <button aria-label="Larger" disabled=${view.step.step === STEPS.length - 1} onClick=${() => zoomBy(1)}>+</button></div>`;
}

function figures(fleet, sums) {
  const out = sums.unwell + sums.closedMilli / 1000;
  const fragmented = fleet.fragmented_gpus ?? null;
  const free = fleet.free_gpus ?? null;
  const share = fleet.gpus_held === undefined || !fleet.gpus ? "" : `${percent(fleet.gpus_held / fleet.gpus)} of the fleet`;
  return [
    { name: "GPUs held", value: amount(fleet.gpus_held), unit: `of ${whole(fleet.gpus)}`, more: share },
    { name: "Whole GPUs free", value: whole(free), more: sums.unknown ? `${counted(sums.unknown, "GPU")} unknown` : "on nodes that take work" },
    { name: "Largest free block", value: whole(fleet.largest_free_block), unit: fleet.largest_free_block === 1 ? "GPU" : "GPUs", more: "free on one node" },
    { name: "Fragmented", value: whole(fragmented), unit: fragmented === 1 ? "GPU" : "GPUs", more: fragmented !== null && free ? `${percent(fragmented / free)} of the free` : "free, on nodes in use" },
    { name: "Pods that fit, by GPUs", value: html`<${Room} blocks=${fleet.free_blocks ?? {}} />` },
    { name: "Out of service", value: amount(out), unit: out === 1 ? "GPU" : "GPUs", tone: out ? "bad" : "", more: outWords(sums) },
    { name: "Waiting", value: whole(fleet.pods_waiting), unit: fleet.pods_waiting === 1 ? "pod" : "pods", more: html`<a href="#/queues">by queue</a>` },
  ];
}

function outWords(sums) {
  const told = [sums.unwell ? `${whole(sums.unwell)} unwell` : "", sums.away ? `${counted(sums.away, "node")} away` : "", sums.cordoned ? `${whole(sums.cordoned)} cordoned` : ""];
  return told.filter(Boolean).join(", ") || "all nodes take work";
}

function Room({ blocks }) {
  return html`<span class="room">${(Object.keys(blocks).length ? Object.keys(blocks) : BLOCKS).map((size) => html`<span key=${size}><small>${size}</small><span title=${whole(blocks[size])}>${short(blocks[size])}</span></span>`)}</span>`;
}

function Owners({ sums }) {
  return html`<${Strip} title="Who holds the GPUs" of=${[...owners(sums), { name: "held, card not told", milli: sums.untoldMilli, ink: "ink-unknown" }, ...notHeld(sums), { name: "unknown", milli: sums.unknown * 1000, ink: "ink-unknown" }]} />`;
}

function notHeld(sums) {
  return [
    { name: "free", milli: sums.freeMilli, ink: "ink-free" },
    { name: "out of service", milli: sums.unwell * 1000 + sums.closedMilli, ink: "ink-out" },
  ];
}

/** What the cards that are held do. */
function Loads({ sums, nodes }) {
  const loads = useSums(nodes, view.colour);
  const steps = loads.steps.map((count, step) => ({ name: stepWords(step, view.colour), milli: count * 1000, ink: `ink-use-${step}` }));
  const unknown = { name: "held, not measured", milli: (loads.unknown + sums.unknown) * 1000 + sums.untoldMilli, ink: "ink-unknown" };
  return html`<${Strip} title="What the GPUs do" isPlain=${true} of=${[...steps, unknown, ...notHeld(sums)]} />
    <p class="measured">${sumWords(loads, view.colour)}</p>`;
}

function Strip({ of, title, isPlain }) {
  const parts = of.filter((one) => one.milli).map((one) => ({ ...one, amount: one.milli, title: `${one.name}: ${gpus(one.milli)} GPUs` }));
  const all = parts.reduce((sum, one) => sum + one.milli, 0);
  const words = parts.map((one) => `${one.name} ${gpus(one.milli)}`).join(", ");
  return html`<section class="owners" aria-label=${title}><${Bar} parts=${parts} whole=${all} label=${`GPUs: ${words}`} />
    <ul>${parts.map((one) => html`<li key=${one.name}><${Owner} one=${one} isPlain=${isPlain} /></li>`)}</ul></section>`;
}

function Owner({ one, isPlain }) {
  const isOwner = !isPlain && !["ink-free", "ink-out", "ink-unknown"].includes(one.ink) && one.name !== OTHER_QUEUES;
  const inside = html`<span class="swatch ${one.ink}" aria-hidden="true"></span><span class="who">${one.name}</span><span class="figure">${gpus(one.milli)}</span>`;
  if (!isOwner) return html`<span class="owner">${inside}</span>`;
  const isOn = filterOf() === one.name;
  return html`<button class="owner" aria-pressed=${isOn} title=${`Show the nodes of ${one.name}`} onClick=${() => setFilter(isOn ? "" : one.name)}>${inside}</button>`;
}

const SIGNS = [["held", "", "held"], ["part", "", "held in part"], ["free", "", "free"], ["unwell", "✕", "unwell GPU"], ["cordoned", "", "cordoned node"], ["away", "", "node away"], ["unknown", "?", "unknown"]];

function Legend() {
  // What is held has the colours of the strip above.
  const signs = view.colour === "queue" ? SIGNS : SIGNS.filter(([name]) => !["held", "part"].includes(name));
  return html`<ul class="legend" aria-label="Signs of the map">${signs.map(([name, sign, words]) => html`<li key=${name}>
    <span class="mark ${name}" aria-hidden="true">${sign}</span>${words}</li>`)}</ul>`;
}

function Inspector({ node }) {
  if (!node) return html`<${Worst} />`;
  return html`<aside class="inspector" aria-label="The node on the map"><p class="close"><button class="icon" aria-label="No node" onClick=${() => set({ chosen: null, hovered: null })}>✕</button></p><h2><a href=${link("node", node.name)}>${node.name}</a></h2>
    <p class="under"><${State} state=${node.state} /> <span>${node.model || UNKNOWN}</span> <span>${amount(node.held)} of ${node.gpus ?? UNKNOWN} held</span></p>
    ${node.reason ? html`<p class="why">${node.reason}</p>` : null}
    <ol class="cards">${node.cards.map((card, index) => html`<li key=${index}><span class="index">${index}</span>${cardWords(card)}
      <span class="figure">${cardFigure(node, card, index)}</span></li>`)}</ol>
    ${view.colour !== "queue" && use.byNode.has(node.key) ? html`<p class="hint">Measured ${duration(use.byNode.get(node.key).age_s + (Date.now() - use.readAt) / 1000)} ago.</p>` : null}
    ${node.cards.length ? null : html`<p class="hint">Its GPUs are unknown.</p>`}</aside>`;
}

/** What of a card is held, or what it does, as the map is coloured. */
function cardFigure(node, card, index) {
  if (view.colour !== "queue") return percent(loadOf(node, index, view.colour));
  return card.heldMilli === null ? UNKNOWN : card.heldMilli ? gpus(card.heldMilli) : "";
}

const WORST_RANKS = ["not ready", "?", "no report"];
const WORST_MOST = 7;

/** Where no node is chosen: those that are not well. */
function Worst() {
  const rank = (node) => (WORST_RANKS.includes(node.state) ? WORST_RANKS.indexOf(node.state) : node.unwell ? 3 : node.state === "ready" ? 9 : 4);
  const all = fleetSums(page.store.rows("nodes")).nodes.filter((node) => rank(node) < 9);
  const shown = all.map((node, place) => [rank(node), place, node]).sort((one, other) => one[0] - other[0] || one[1] - other[1]).slice(0, WORST_MOST);
  return html`<aside class="inspector" aria-label="The node on the map"><h2>${all.length ? `${counted(all.length, "node")} not well` : "All nodes are ready"}</h2>
    <p class="hint">Point at a node on the map, or go there with the arrow keys.</p>
    <ul class="worst">${shown.map(([, , node]) => html`<li key=${node.key}><button onClick=${() => set({ chosen: node.key })}><span>${node.name}</span><${State} state=${node.state} /></button>
      <span class="muted">${node.reason || node.pool}</span></li>`)}</ul>
    ${all.length > WORST_MOST ? html`<p class="hint">and ${whole(all.length - WORST_MOST)} more: group by state</p>` : null}</aside>`;
}

function cardWords(card) {
  const state = cardState(card);
  if (state === "unwell") return html`<span class="mark unwell" aria-hidden="true">✕</span><span class="who">${card.reason || card.health}</span>`;
  if (state === "unknown") return html`<span class="mark unknown" aria-hidden="true">?</span><span class="who muted">unknown</span>`;
  if (state === "free") return html`<span class="mark free" aria-hidden="true"></span><span class="who muted">free</span>`;
  const [first, ...others] = card.holders;
  if (!first) return html`<span class="mark held ink-other" aria-hidden="true"></span><span class="who">held</span>`;
  return html`<span class="swatch ${queueInks.of(ownerOf(first))}" aria-hidden="true"></span><span class="who">${holderLink(first)}${others.length ? html` <small>and ${others.length} more</small>` : null}</span>`;
}

export function holderLink(holder) {
  const href = workLink(holder);
  const words = holder.name ? path(holder.namespace, holder.name) : holderName(holder);
  return href ? html`<a href=${href}>${words}</a>` : words;
}

/** What a holder has of a card: its MIG profile, its part, its memory. */
export function heldWords(holder) {
  const parts = [holder.profile, holder.milli === null ? UNKNOWN : holder.milli ? gpus(holder.milli) : "", holder.memoryMib ? mebibytes(holder.memoryMib) : ""];
  return parts.filter(Boolean).join(" · ");
}
