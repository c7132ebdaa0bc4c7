// Puts the page together: the bar with its views, the state of the source, the view of the address, and keys.
import { html, render } from "./html.js";
import { known } from "./details.js";
import { drawWith, page, refresh, say, switchKeys } from "./page.js";
import { parse } from "./route.js";
import { clock, duration, whole } from "./text.js";
import { Decisions, PROBLEMS, Problems } from "./view_lists.js";
import { Login } from "./view_login.js";
import { Fleet } from "./view_fleet.js";
import { NodeView } from "./view_node.js";
import { Plans } from "./view_plans.js";
import { Projects } from "./view_projects.js";
import { Queue, Queues } from "./view_queues.js";
import { Work, WorkList } from "./view_work.js";
import { asked, connect } from "./wire.js";

const TABS = [
  ["fleet", "Fleet"], ["queues", "Queues"], ["work", "Work"], ["plans", "What if"], ["decisions", "Decisions"], ["problems", "Problems"], ["projects", "Projects"],
];
const PARENTS = { queue: "queues", node: "fleet" };

function viewOf({ view, parts }) {
  if (view === "fleet") return html`<${Fleet} />`;
  if (view === "queues") return html`<${Queues} />`;
  if (view === "queue") return html`<${Queue} key=${parts[0]} parts=${parts} />`;
  if (view === "work") return parts.length === 3 ? html`<${Work} parts=${parts} />` : html`<${WorkList} />`;
  if (view === "node") return html`<${NodeView} parts=${parts} />`;
  if (view === "plans") return html`<${Plans} />`;
  if (view === "decisions") return html`<${Decisions} />`;
  if (view === "problems") return html`<${Problems} />`;
  if (view === "projects") return html`<${Projects} />`;
  return html`<h1>There is no such view</h1><p><a href="#/fleet">The fleet</a></p>`;
}

function Top() {
  const { route } = page;
  const current = PARENTS[route.view] ?? route.view;
  const about = page.store.about ?? {};
  const found = known(PROBLEMS);
  const problems = found ? (found.causes?.length ?? 0) + (found.alerts?.length ?? 0) : 0;
  return html`<header class="top"><a class="brand" href="#/fleet">gpufleet${about.cluster ? html`<span>${about.cluster}</span>` : null}</a>
    <nav aria-label="Views"><ul>${TABS.map(([view, title]) => html`<li key=${view}><a href=${`#/${view}`} aria-current=${view === current ? "page" : null}>${title}${
      view === "problems" && problems ? html`<span class="count">${whole(problems)}</span>` : null}</a></li>`)}</ul></nav>
    <div class="tools">${about.user ? html`<span class="user">${about.user}</span>` : null}${about.can_log_out ? html`<button onClick=${logOut}>Log out</button>` : null}<${Source} /><button class="icon" aria-label="Dark theme" aria-pressed=${window.gpufleetTheme.isDark()} onClick=${() => window.gpufleetTheme.change()}>
      <svg viewBox="0 0 20 20" aria-hidden="true"><circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" stroke-width="1.6" /><path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" /></svg></button>
      <button class="icon" aria-label="Help" onClick=${openHelp}>?</button></div></header>`;
}

function Source() {
  const { state, asOf } = page.store.source;
  if (state === "live") return html`<span class="source live"><span aria-hidden="true">●</span>live</span>`;
  if (state !== "away") return html`<span class="source">${state}</span>`;
  return html`<span class="source away"><span aria-hidden="true">▲</span>as of ${asOf ? clock(asOf) : "?"}</span>`;
}

function Banner() {
  const { state, asOf, why, problems } = page.store.source;
  if (state !== "away") return problems.length ? html`<div class="banner" role="alert">${problems.map((one) => html`<p key=${one}>${one}</p>`)}</div>` : null;
  const since = asOf ? `as of ${clock(asOf)}, ${duration((Date.now() - Date.parse(asOf)) / 1000)} ago` : "of an unknown time";
  return html`<p class="banner" role="alert"><strong>What you see is ${since}.</strong> ${why || "The source does not answer."} The page goes on by itself when it does.</p>`;
}

/** What a person does not see, and which right would show it. */
function Rights() {
  const { hidden = [], namespaces = null } = page.store.about ?? {};
  if (!hidden.length) return null;
  const seen = namespaces === null ? "Not everything is shown to you." : `You see the namespaces ${namespaces.join(", ") || "of nobody"}.`;
  return html`<details class="rights"><summary>${seen}</summary><ul class="notes">${hidden.map((one) => html`<li key=${one}>${one}</li>`)}</ul></details>`;
}

async function logOut() {
  await asked("api/logout", { method: "POST" });
  location.reload();
}

function Help() {
  const { source } = page.store;
  const unseen = source.notes;
  return html`<dialog id="help" aria-labelledby="help-title" onClick=${(event) => { if (event.target.id === "help") event.target.close(); }}><div>
    <h2 id="help-title">Help</h2>
    <dl class="keys">${[["1 to 7", "another view"], ["/", "filter; !text is for rows without it"], ["Esc", "take the filter away"], ["arrows", "from node to node on the map, from row to row in a table"],
      ["Enter", "open what is chosen"], ["+ and −", "zoom the map"], ["?", "this help"]].map(([key, words]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl>
    <p><strong>?</strong> is unknown: not measured, not told, or not yours to see. It is never shown as 0. <strong>-</strong> does not apply.</p>
    <p>Rows stand still. New ones are announced, and come when you ask for them.</p>
    ${unseen.length ? html`<h3>What is not known</h3><ul class="notes">${unseen.map((one) => html`<li key=${one}>${one}</li>`)}</ul>` : null}
    <label class="check"><input type="checkbox" checked=${page.hasKeys} onChange=${switchKeys} /> single keys are on</label>
    <form method="dialog"><button class="main">Close</button></form></div></dialog>`;
}

function openHelp() {
  document.getElementById("help").showModal();
}

let spoken = "";
function Page() {
  const { state } = page.store.source;
  if (state !== spoken) {
    if (spoken && state === "live") say("Live again.");
    spoken = state;
  }
  return html`<${Top} /><${Banner} /><${Rights} /><main id="content" tabindex="-1" data-view=${page.route.view} data-address=${page.address}>${page.store.login ? html`<${Login} refusal=${page.store.login} />` : viewOf(page.route)}</main><${Help} />`;
}

function titled() {
  const tab = TABS.find(([view]) => view === (PARENTS[page.route.view] ?? page.route.view));
  document.title = [page.route.parts.at(-1), tab?.[1], "gpufleet"].filter(Boolean).join(" · ");
}

function go() {
  if (location.hash && !location.hash.startsWith("#/")) return;
  const before = page.route;
  page.route = parse(location.hash);
  page.address = location.hash;
  titled();
  refresh();
  const isOther = before.view !== page.route.view || before.parts.join("/") !== page.route.parts.join("/");
  if (!isOther) return;
  scrollTo(0, 0);
  // The new view is where people who hear the page go on.
  requestAnimationFrame(() => requestAnimationFrame(() => {
    document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    const content = document.getElementById("content");
    if (!content.contains(document.activeElement)) content.focus({ preventScroll: true });
  }));
}

function press(event) {
  const isTyping = event.target.closest("input, select, textarea, dialog");
  const filter = document.getElementById("filter");
  if (event.key === "Escape" && event.target === filter) {
    filter.value = "";
    filter.dispatchEvent(new Event("input", { bubbles: true }));
    filter.blur();
    return;
  }
  if (isTyping || !page.hasKeys || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && filter) filter.focus();
  else if (event.key === "?") openHelp();
  else if (TABS[Number(event.key) - 1]) location.hash = `#/${TABS[Number(event.key) - 1][0]}`;
  else return;
  event.preventDefault();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("content").focus();
});
addEventListener("hashchange", go);
addEventListener("keydown", press);
addEventListener("gpufleet-theme", refresh);
// Of the two scripts before this one, either may not have arrived.
if (!window.gpufleetArrival) setTimeout(() => location.reload(), 1000);
drawWith(() => render(html`<${Page} />`, document.getElementById("page")));
titled();
refresh();
connect(page.store);
// Ages go on while nothing else changes.
setInterval(refresh, 15_000);
