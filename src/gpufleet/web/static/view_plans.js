// What if: a question about changes that nobody makes here. The page asks, the engine decides on a copy of the
// cluster, and the answer is in the words of `gpufleet whatif`.
import { html } from "./html.js";
import { page, refresh, say } from "./page.js";
import { Empty, Failed, Loading } from "./parts.js";
import { link, workLink } from "./route.js";
import { amount, counted, duration, moment, UNKNOWN, whole } from "./text.js";
import { asked } from "./wire.js";

const KINDS = {
  add_nodes: { title: "Add nodes", hint: "how many, and like what: 2, 2:like=NODE or 2:gpus=8,model=H100-80GB", option: "--add-nodes" },
  remove_node: { title: "Remove a node", hint: "the name of a node", option: "--remove-node" },
  set_quota: { title: "Set a quota", hint: "QUEUE.RESOURCE=VALUE, such as team-a.gpu=16", option: "--set-quota" },
  manifest: { title: "Submit work", hint: "a manifest: Pods, Jobs, Deployments, StatefulSets, and what they name", option: "--submit" },
};
/** As many bytes as the server takes. */
const MANIFEST_BYTES_MAX = 512 * 1024;

const plan = { changes: [{ id: 0, kind: "add_nodes", text: "" }], next: 1, namespace: "default", state: "empty", answer: null, problem: null };

function set(change) {
  Object.assign(plan, change);
  refresh();
}

function edit(id, change) {
  set({ changes: plan.changes.map((one) => (one.id === id ? { ...one, ...change } : one)) });
}

async function ask(event) {
  event.preventDefault();
  const question = new URLSearchParams();
  const written = plan.changes.filter((one) => one.text.trim());
  for (const one of written) if (one.kind !== "manifest") question.append(one.kind, one.text.trim());
  const manifest = written.filter((one) => one.kind === "manifest").map((one) => one.text).join("\n---\n");
  if (manifest) question.set("namespace", plan.namespace.trim() || "default");
  const wrong = !written.length ? "Write at least one change."
    : new Blob([manifest]).size > MANIFEST_BYTES_MAX ? "The manifest is larger than 512 KiB: ask `gpufleet whatif --submit FILE`." : "";
  if (wrong) {
    set({ state: "failed", problem: { words: wrong } });
    return;
  }
  set({ state: "asking", problem: null });
  say("The engine is asked.");
  try {
    const options = manifest ? { method: "POST", body: manifest, headers: { "Content-Type": "application/yaml" } } : {};
    const answer = await asked(`api/plans?${question}`, options);
    set({ state: "answered", answer });
    say("The answer is there.");
  } catch (problem) {
    set({ state: "failed", problem });
  }
}

export function Plans() {
  if (page.store.about?.sees_all === false)
    return html`<h1>What if?</h1><${Empty} title="You may not ask this">The answer names work of all namespaces, so it needs the right to see them (ClusterRole gpufleet-explain).<//>`;
  return html`<h1>What if?</h1><p class="lead">The engine of the scheduler decides on a copy of the cluster, with these changes and without. Nothing is changed in the cluster.</p>
    <form class="plan" onSubmit=${ask}>
      ${plan.changes.map((one) => html`<${Change} key=${one.id} one=${one} />`)}
      <p class="actions"><button type="button" onClick=${() => set({ changes: [...plan.changes, { id: plan.next, kind: "add_nodes", text: "" }], next: plan.next + 1 })}>Another change</button>
        <button class="main" type="submit" disabled=${plan.state === "asking"}>Ask</button></p>
    </form>
    <datalist id="nodes">${page.route.view === "plans" ? [...page.store.rows("nodes").byKey.values()].slice(0, 200).map((one) => html`<option key=${one.name} value=${one.name}></option>`) : null}</datalist>
    <datalist id="quotas">${[...page.store.rows("queues").byKey.values()].slice(0, 200).map((one) => html`<option key=${one.name} value=${`${one.name}.gpu=`}></option>`)}</datalist>
    <div aria-live="polite">${outcome()}</div>`;
}

function Change({ one }) {
  const kind = KINDS[one.kind];
  return html`<div class="change ${one.kind}"><label><span>Change</span><select value=${one.kind} onChange=${(event) => edit(one.id, { kind: event.target.value, text: "" })}>
      ${Object.entries(KINDS).map(([value, { title }]) => html`<option key=${value} value=${value}>${title}</option>`)}</select></label>
    ${one.kind === "manifest" ? html`<${Manifest} one=${one} hint=${kind.hint} />` : html`<${Words} one=${one} hint=${kind.hint} />`}
    <button type="button" aria-label="Leave this change out" disabled=${plan.changes.length === 1} onClick=${() => set({ changes: plan.changes.filter((other) => other.id !== one.id) })}>✕</button></div>`;
}

function Words({ one, hint }) {
  const list = { remove_node: "nodes", set_quota: "quotas" }[one.kind];
  return html`<label class="grows"><span>${hint}</span><input type="text" autocomplete="off" spellcheck="false" list=${list} value=${one.text} onInput=${(event) => edit(one.id, { text: event.target.value })} /></label>`;
}

/** Work as it would be given to kubectl; where it names no namespace, it is of the one beside it. */
function Manifest({ one, hint }) {
  return html`<label class="namespace"><span>Namespace of work that names none</span><input type="text" autocomplete="off" spellcheck="false" value=${plan.namespace} onInput=${(event) => set({ namespace: event.target.value })} /></label>
    <label class="grows"><span>${hint}</span><textarea rows="9" autocomplete="off" spellcheck="false" placeholder="apiVersion: v1\nkind: Pod\n…" value=${one.text} onInput=${(event) => edit(one.id, { text: event.target.value })}></textarea></label>`;
}

function outcome() {
  if (plan.state === "empty") return html`<${Empty} title="No question yet">Questions are those of <code>gpufleet whatif</code>: nodes more or less, other quotas, work that is not there yet.<//>`;
  if (plan.state === "asking") return html`<${Loading} what="the engine's answer" />`;
  if (plan.state === "failed") return html`<${Failed} title="There is no answer" why=${plan.problem.words} />`;
  return html`<${Answer} answer=${plan.answer} />`;
}

const LISTS = [
  ["starts", "would start"], ["evicted", "would be evicted"], ["displaced", "would lose their node"], ["delayed", "would start later"],
  ["spared", "would not be evicted"], ["lost", "would end for good"], ["waits", "wait in the end"],
];

function Answer({ answer }) {
  const pods = (works) => works.reduce((sum, one) => sum + one.pods, 0);
  const lists = LISTS.filter(([field]) => answer[field]?.length);
  return html`<article class="answer"><h2>If</h2><ul class="ifs">${answer.changes.map((one) => html`<li key=${one}>${one}</li>`)}</ul>
    ${lists.map(([field, words]) => html`<section key=${field}><h3>${counted(pods(answer[field]) + (field === "waits" ? answer.waitsMore : 0), "pod")} ${words}</h3><ul class="works">${answer[field].map((one, place) => html`<${Planned} key=${place} work=${one} />`)}</ul></section>`)}
    ${lists.length ? null : html`<p>Nothing would start, end or move.</p>`}
    <p>${whole(answer.waitingPodsAfter)} pods would wait, without the changes ${whole(answer.waitingPodsBefore)}.</p>
    ${answer.queues?.length ? html`<section><h3>Queues use</h3><div class="scroll" tabindex="0" role="region" aria-label="Queues use"><table><thead><tr><th scope="col">Queue</th><th scope="col">Resource</th><th scope="col" class="number">Before</th><th scope="col" class="number">After</th><th scope="col" class="number">Nominal</th></tr></thead>
      <tbody>${answer.queues.map((one) => html`<tr key=${one.queue + one.resource}><th scope="row"><a href=${link("queue", one.queue)}>${one.queue}</a></th><td>${one.resource}</td><td class="number">${one.usedBefore}</td><td class="number">${one.usedAfter}</td>
        <td class="number">${one.nominalBefore === one.nominalAfter ? one.nominalAfter : `${one.nominalBefore} → ${one.nominalAfter}`}</td></tr>`)}</tbody></table></div></section>` : null}
    ${answer.notes?.length ? html`<ul class="notes">${answer.notes.map((one) => html`<li key=${one}>${one}</li>`)}</ul>` : null}
    <p class="muted">Of ${moment(answer.at)}. Nothing was changed in the cluster.</p></article>`;
}

function Planned({ work }) {
  const href = work.submitted ? null : workLink(work);
  const title = `${work.kind} ${work.namespace}/${work.name}`;
  const about = [work.pods > 1 ? counted(work.pods, "pod") : "", work.gpus ? `GPUs: ${work.gpus}${work.pods > 1 ? " each" : ""}` : ""].filter(Boolean).join(", ");
  return html`<li><span>${href ? html`<a href=${href}>${title}</a>` : title} <span class="muted">${about}</span></span><span>${startWords(work)}</span></li>`;
}

function startWords(work) {
  const told = [];
  if (work.start) told.push(`${work.start.inS ? `in ${duration(work.start.inS)}` : "now"} on ${Object.keys(work.start.nodes).join(", ") || UNKNOWN}`);
  if (work.forWhom) told.push(`for ${work.forWhom}`);
  if (work.again) told.push(`again in ${duration(work.again.inS)}`);
  if (work.waitsAgain) told.push(`${amount(work.waitsAgain)} wait again`);
  if (work.why) told.push(work.why);
  return told.join("; ");
}
