// A node and its cards: state, what each card does, who holds it, and what is wrong.
import { html } from "./html.js";
import { again, detail, every } from "./details.js";
import { cardState, fleetSums, ownerOf, queueInks } from "./fleet_sums.js";
import { page } from "./page.js";
import { Empty, Facts, Failed, Figures, Loading, Meter, State } from "./parts.js";
import { link, workLink } from "./route.js";
import { amount, celsius, counted, duration, gibibytes, moment, NONE, path, percent, UNKNOWN, watts, whole } from "./text.js";
import { heldWords, holderLink } from "./view_fleet.js";
import { nodeOf, workOf } from "./wire.js";

const MEASURED_AGAIN_MS = 15_000;
/** That a card is held whole needs no word within it; parts do. */
const WHOLE_MILLI = 1000;
const STATES = { unwell: ["unwell", "bad"], unknown: ["unknown", "unknown"], free: ["free", "calm"], part: ["held in part", "good"], held: ["held", "good"] };

export function NodeView({ parts: [name, chosen] }) {
  const rows = page.store.rows("nodes");
  // Queues have the same colours here as on the map.
  fleetSums(rows);
  const row = rows.byKey.get(name);
  const address = `api/node/${encodeURIComponent(name ?? "")}`;
  const told = detail(address, `${every(MEASURED_AGAIN_MS)} ${JSON.stringify(row ?? null)}`);
  const crumbs = html`<p class="crumbs"><a href="#/fleet">Fleet</a> / node</p>`;
  const node = row ?? (told.value ? nodeOf(told.value.row) : null);
  if (!node && told.problem) return html`${crumbs}<h1>${name}</h1><${Failed} title=${told.problem.status === 404 ? "There is no node of this name with GPUs, or you may not see it" : "The node cannot be read"} why=${told.problem.words} retry=${() => again(address)} />`;
  if (!node) return html`${crumbs}<h1>${name}</h1><${Loading} what="the node" />`;
  const use = new Map((told.value?.use ?? []).map((one) => [one.id, one]));
  return html`${crumbs}<h1>${node.name} <${State} state=${node.state} /></h1>
    ${node.reason ? html`<p class="lead">${node.reason}</p>` : null}
    <${Figures} of=${figures(node, [...use.values()])} isEven=${true} />
    <h2>GPUs <small>${node.model || UNKNOWN}${node.pool ? `, pool ${node.pool}` : ""}${measuredWords(told.value)}</small></h2>
    ${told.value?.use_unknown ? html`<p class="lead">Use is unknown: ${told.value.use_unknown}</p>` : null}
    ${node.cards.some((card) => card.id) ? html`<ol class="card-grid">${node.cards.map((card, index) => html`<${Card} key=${card.id} card=${card} index=${index} isChosen=${card.id === chosen} node=${node} use=${use.get(card.id) ?? {}} />`)}</ol>`
      : html`<${Empty} title=${node.gpus === null ? "Its GPUs are unknown" : `Nothing is known of its ${counted(node.gpus, "GPU")}`}>No agent reports them.<//>`}
    <${More} told=${told} address=${address} />`;
}

/** How old the oldest measurement is. */
function measuredWords(told) {
  const ages = (told?.use ?? []).map((one) => one.age_s).filter((one) => one !== undefined && one !== null);
  return ages.length ? `, measured ${duration(Math.max(...ages) + (Date.now() - Date.parse(told.at)) / 1000)} ago` : "";
}

/** A sum over the cards that are measured; null where none is. */
function sum(cards, field) {
  const known = cards.map((one) => one[field]).filter((one) => one !== undefined && one !== null);
  return known.length ? known.reduce((all, one) => all + one, 0) : null;
}

function figures(node, use) {
  const busy = sum(use, "busy_ratio");
  const measured = use.filter((one) => one.busy_ratio !== undefined && one.busy_ratio !== null).length;
  const heat = use.map((one) => one.temperature_celsius).filter((one) => one !== undefined && one !== null);
  return [
    { name: "GPUs held", value: amount(node.held), unit: `of ${node.gpus ?? UNKNOWN}` },
    { name: "Free block", value: whole(node.free), unit: node.free === 1 ? "GPU" : "GPUs" },
    { name: "Use", value: percent(busy === null ? null : busy / measured), more: measured && measured !== node.gpus ? `of ${counted(measured, "GPU")} measured` : "" },
    { name: "Memory", value: gibibytes(sum(use, "memory_used_bytes")), more: use.length ? `of ${gibibytes(sum(use, "memory_bytes"))}` : "" },
    { name: "Power", value: watts(sum(use, "power_watts")) },
    { name: "Hottest", value: celsius(heat.length ? Math.max(...heat) : null) },
    { name: "Pods", value: whole(node.pods) },
  ];
}

function Card({ card, index, isChosen, node, use }) {
  const state = cardState(card);
  const [word, tone] = STATES[state];
  return html`<li class="card ${state} ${isChosen ? "chosen" : ""}">
    <p class="card-head"><a href=${link("node", node.name, card.id)} aria-current=${isChosen ? "true" : null} aria-label=${`GPU ${index}, ${card.id}`}>GPU ${index}</a><${State} state=${word} tone=${tone} /></p>
    ${card.reason ? html`<p class="why">${card.reason}</p>` : null}
    <ul class="holders">${card.holders.map((one, place) => html`<li key=${place}><span class="swatch ${queueInks.of(ownerOf(one))}" aria-hidden="true"></span><span class="who">${holderLink(one)}</span>
      <span class="muted">${heldWords(one.milli === WHOLE_MILLI ? { ...one, milli: 0 } : one)}</span></li>`)}
      ${card.holders.length ? null : html`<li class="muted">${state === "free" ? "nobody holds it" : state === "held" || state === "part" ? "by whom is unknown" : "no holder is reported"}</li>`}</ul>
    <dl class="readings"><div><dt>use</dt><dd><${Meter} ratio=${use.busy_ratio} words=${percent(use.busy_ratio)} label="use" /></dd></div>
      <div><dt>memory</dt><dd><${Meter} ratio=${use.memory_bytes ? use.memory_used_bytes / use.memory_bytes : null} words=${gibibytes(use.memory_used_bytes)} label="memory" /></dd></div>
      <div><dt>power</dt><dd>${watts(use.power_watts)}</dd></div><div><dt>temperature</dt><dd>${celsius(use.temperature_celsius)}</dd></div></dl>
    <p class="id">${card.sharing && card.sharing !== "whole" ? html`<span class="tag">${card.sharing}</span> ` : null}${card.model && card.model !== node.model ? html`<span class="tag">${card.model}</span> ` : null}<code title=${card.id}>${card.id}</code></p></li>`;
}

function More({ told, address }) {
  if (!told.value && told.problem) return html`<${Failed} title="More of this node cannot be read" why=${told.problem.words} retry=${() => again(address)} />`;
  if (!told.value) return html`<${Loading} what="more of this node" />`;
  const { conditions = [], taints = [], driver, pods = [], hidden_pods: hidden = 0 } = told.value;
  return html`<h2>Pods</h2>${pods.length ? html`<ul class="members">${pods.map(workOf).map((one) => html`<li key=${one.key}><${State} state=${one.state} /><a href=${workLink(one)}>${path(one.namespace, one.name)}</a><span class="muted">${one.gpus === 1 ? "1 GPU" : `${amount(one.gpus)} GPUs`}</span></li>`)}</ul>` : html`<p class="muted">${page.store.about?.sees_all !== false ? "No pod with GPUs is there." : "No pod that you may see."}</p>`}
    ${hidden ? html`<p class="muted">${counted(hidden, "pod")} of other namespaces.</p>` : null}
    ${taints.length ? html`<h2>Taints</h2><ul class="chips">${taints.map((one) => html`<li key=${`${one.key}${one.effect}${one.card}`}><code>${one.key}${one.value ? `=${one.value}` : ""}:${one.effect}</code>${one.card ? html` <span class="muted">${one.card}</span>` : null}</li>`)}</ul>` : null}
    ${conditions.length ? html`<h2>Conditions</h2><div class="scroll" tabindex="0" role="region" aria-label="Conditions"><table><thead><tr><th scope="col">Condition</th><th scope="col">Status</th><th scope="col">Since</th><th scope="col">Message</th></tr></thead>
      <tbody>${conditions.map((one) => html`<tr key=${one.type}><th scope="row">${one.type}</th><td>${one.status || UNKNOWN}</td><td>${one.since ? moment(one.since) : UNKNOWN}</td><td class="wraps">${one.message || one.reason || NONE}</td></tr>`)}</tbody></table></div>` : null}
    <${Facts} of=${[["driver", driver], ["read at", told.value.at ? moment(told.value.at) : ""]]} />`;
}
