// Projects: which teams there are, with their namespaces, members and queue, and whether each is as it says.
import { html } from "./html.js";
import { again, detail, every } from "./details.js";
import { Empty, Failed, Loading, State } from "./parts.js";
import { link } from "./route.js";
import { Table } from "./table.js";
import { Filter, filterOf } from "./toolbar.js";
import { moment, NONE } from "./text.js";

const PROJECTS = "api/projects";
const AGAIN_MS = 10_000;

const nameOf = (member) => member.user || `group ${member.group}`;

/** Owners first: they are who a team asks. */
function members(project) {
  const owners = (project.members ?? []).filter((one) => one.role === "Owner").map((one) => `${nameOf(one)} (owner)`);
  return [...owners, ...(project.members ?? []).filter((one) => one.role !== "Owner").map(nameOf)].join(", ");
}

const left = (project) => (project.left?.length ? `still there: ${project.left.join(", ")}` : "");

function state(project) {
  if (project.is_ready === undefined) return "not seen yet";
  return project.is_ready ? "ready" : "not ready";
}

const COLUMNS = [
  { id: "name", title: "Project", text: (p) => p.key },
  { id: "state", title: "State", text: state, show: (p) => html`<${State} state=${state(p)} tone=${p.is_ready === undefined ? "warn" : p.is_ready ? "good" : "bad"} />` },
  { id: "team", title: "Team", drops: 2, text: (p) => p.team },
  { id: "namespaces", title: "Namespaces", wraps: true, text: (p) => [(p.namespaces ?? []).join(", "), left(p)].filter(Boolean).join("; ") || NONE },
  { id: "members", title: "Members", drops: 1, wraps: true, text: (p) => members(p) || NONE },
  { id: "queue", title: "Queue", drops: 1, text: (p) => p.queue || NONE, href: (p) => (p.queue ? link("queue", p.queue) : null) },
  { id: "why", title: "Why", drops: 2, wraps: true, text: (p) => (p.is_ready ? NONE : [p.reason, p.message].filter(Boolean).join(": ") || NONE) },
];

export function Projects() {
  const head = html`<h1>Projects</h1><p class="lead">Teams with their namespaces, members and queue. <code>gpufleet project</code> makes and changes them.</p>`;
  const told = detail(PROJECTS, every(AGAIN_MS));
  if (!told.value && told.problem) return html`${head}<${Failed} title="Projects cannot be shown" why=${told.problem.words} retry=${() => again(PROJECTS)} />`;
  if (!told.value) return html`${head}<${Loading} what="the projects" />`;
  const { at, projects = [], notes = [] } = told.value;
  const remarks = notes.map((one) => html`<p class="muted note" key=${one}>${one}</p>`);
  if (!projects.length) return html`${head}<${Empty} title="There is no project"><code>gpufleet project create NAME</code> makes one.<//>${remarks}`;
  const rows = new Map(projects.map((one) => [one.key, one]));
  return html`${head}<div class="toolbar"><${Filter} what="projects" /><span class="muted">Looked at ${moment(at)}</span></div>
    <${Table} caption="Projects" version=${at} rows=${rows} columns=${COLUMNS} words=${(p) => [p.key, p.team, ...(p.namespaces ?? []), members(p), p.queue, p.reason]} filter=${filterOf()} sort="name" of="projects" empty="There is no project" />${remarks}`;
}
