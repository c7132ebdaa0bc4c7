// Addresses within the page: #/queue/NAME?filter=TEXT. Each view and each thing has one, so that it can be sent to
// others and survives a reload.
export function parse(hash) {
  const [path, query] = (hash.startsWith("#/") ? hash.slice(2) : "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { view: parts[0] ?? "fleet", parts: parts.slice(1), query: new URLSearchParams(query ?? "") };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    // A half-written address names nothing, which the view then says.
    return part;
  }
}

export function link(view, ...parts) {
  return `#/${[view, ...parts].map(encodeURIComponent).join("/")}`;
}

/** The link of a pod, gang or controller; without one where its name may not be seen. */
export function workLink(work) {
  return work.name ? link("work", work.kind || "pod", work.namespace, work.name) : null;
}

/** Writes a word of the query into the address without a new entry in the history. */
export function remember(name, value) {
  const { query } = parse(location.hash);
  if (value) query.set(name, value);
  else query.delete(name);
  const path = location.hash.split("?")[0] || "#/fleet";
  const written = query.toString();
  history.replaceState(null, "", written ? `${path}?${written}` : path);
}
