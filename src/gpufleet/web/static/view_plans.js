// What if: a question about changes that nobody makes here. The page asks, the engine decides on a copy of the
// cluster, and the answer is in the words of `gpufleet whatif`.
import { html } from "./html.js";
import { page, refresh, say } from "./page.js";
import { Empty, Failed, Loading } from "./parts.js";
import { link, workLink } from "./route.js";
import { amount, counted, duration, moment, UNKNOWN, whole } from "./text.js";
import { asked } from "./wire.js";

const KINDS = {
  add_nodes: { title: "Add nodes", hint: "2, 2:like=NODE or 2:gpus=8,model=H100-80GB", option: "--add-nodes" },
  remove_node: { title: "Remove a node", hint: "the name of a node", option: "--remove-node" },
  set_quota: { title: "Set a quota", hint: "QUEUE.RESOURCE=VALUE, such as team-a.gpu=16", option: "--set-quota" },
};

const plan = { changes: [{ id: 0, kind: "add_nodes", text: "" }], next: 1, state: "empty", answer: null, problem: null };

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
  for (const one of plan.changes) if (one.text.trim()) question.append(one.kind, one.text.trim());
  if (!question.size) {
    set({ state: "failed", problem: { words: "Write at least one change." } });
    return;
  }
  set({ state: "asking", problem: null });
  say("The engine is asked.");
  try {
    const answer = await asked(`api/plans?${question}`);
    set({ state: "answered", answer });
    say("The answer is there.");
  } catch (problem) {
    set({ state: "failed", problem });
  }
}

export function Plans() {
  if (page.store.about?.may_plan === false)
    return html`<h1>What if?</h1><${Empty} title="You may not ask this">The answer names work of all namespaces, so it needs the right to see them (ClusterRole gpufleet-explain).<//>`;
  return html`<h1>What if?</h1><p class="lead">The engine of the scheduler decides on a copy of the cluster, with these changes and without. Nothing is changed.</p>
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
  const list = { remove_node: "nodes", set_quota: "quotas" }[one.kind];
  return html`<div class="change"><label><span>Change</span><select value=${one.kind} onChange=${(event) => edit(one.id, { kind: event.target.value, text: "" })}>
      ${Object.entries(KINDS).map(([value, { title }]) => html`<option key=${value} value=${value}>${title}</option>`)}</select></label>
    <label class="grows"><span>${kind.hint}</span><input type="text" autocomplete="off" spellcheck="false" list=${list} value=${one.text} onInput=${(event) => edit(one.id, { text: event.target.value })} /></label>
    <button type="button" aria-label="Leave this change out" disabled=${plan.changes.length === 1} onClick=${() => set({ changes: plan.changes.filter((other) => other.id !== one.id) })}>✕</button></div>`;
}

function outcome() {
  if (plan.state === "empty") return html`<${Empty} title="No question yet">Questions are those of <code>gpufleet whatif</code>: nodes more or less, other quotas.<//>`;
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
