// The way to the server: one stream of events into the store, and requests for single documents. `documents.py` in
// the same package says what goes over it; here alone its names become those of the page.
const SILENT_MS = 45_000;
const AGAIN_MS = 3000;
/** A request that a change of the machine's network cut finds its way after this. */
const CUT_MS = 500;
/** Shares of cards are rounded, each by less than one. */
const ROUNDED_MILLI = 50;

export class Refused extends Error {
  constructor(status, told) {
    super(told.problem || `the server answered ${status}`);
    Object.assign(this, { status, told });
  }

  /** What a person can do, with what is wrong. */
  get words() {
    const { where: object, field, value, way_out: wayOut } = this.told;
    const where = [object, [field, value].filter(Boolean).join(" ")].filter(Boolean).join(", ");
    return `${where ? `${where}: ` : ""}${this.message}${wayOut ? `. ${wayOut[0].toUpperCase()}${wayOut.slice(1)}` : ""}`;
  }
}

/** Sends a request; one that only reads is sent once more where the network cut it. */
async function sent(path, options) {
  try {
    return await fetch(path, options);
  } catch (cut) {
    if (options.method && options.method !== "GET") throw cut;
    await new Promise((resolve) => { setTimeout(resolve, CUT_MS); });
    return fetch(path, options);
  }
}

/** The answer to a request as JSON. Raises Refused with what the server says. */
export async function asked(path, options = {}) {
  let answer;
  try {
    answer = await sent(path, { ...options, headers: { Accept: "application/json", ...options.headers } });
  } catch {
    throw new Refused(0, { problem: "the server does not answer" });
  }
  const text = await answer.text();
  let told = {};
  try {
    told = text ? JSON.parse(text) : {};
  } catch {
    told = { problem: text.slice(0, 300) };
  }
  if (!answer.ok) throw new Refused(answer.status, told);
  return told;
}

const orNull = (value) => value ?? null;

function holder(one) {
  return {
    kind: "pod", namespace: one.namespace ?? "", name: one.name ?? "", queue: one.queue ?? "", milli: orNull(one.gpu_milli),
    memoryMib: orNull(one.memory_mib), profile: one.profile ?? "", isProcess: one.is_process ?? false,
  };
}

function card(one) {
  return {
    id: one.id, health: one.health ?? "healthy", reason: one.reason ?? "", heldMilli: one.held_milli === undefined ? 0 : one.held_milli,
    holders: (one.holders ?? []).map(holder), model: one.model ?? "", memoryMib: orNull(one.memory_mib), sharing: one.sharing ?? "whole",
  };
}

/**
 * What pods of a node hold that no grant and no report gives to a card, as where another device plugin gave it out. Any
 * card that looks free may be the one that they hold.
 */
function untold(cards, held) {
  if (cards.some((one) => one.heldMilli === null)) return 0;
  const known = cards.reduce((sum, one) => sum + one.heldMilli, 0);
  const open = cards.filter((one) => one.health === "healthy" && !one.heldMilli);
  const milli = Math.min(Math.round(held * 1000) - known, 1000 * open.length);
  if (milli < ROUNDED_MILLI) return 0;
  for (const one of open) one.mayBeHeld = true;
  return milli;
}

export function nodeOf(one) {
  const cards = (one.cards ?? []).map(card);
  // Cards that nobody reports are there, and all about them is unknown.
  if (!cards.length)
    for (let place = 0; place < (one.gpus ?? 0); place += 1)
      cards.push({ id: "", health: "unknown", reason: "", heldMilli: null, holders: [], model: "", memoryMib: null, sharing: "" });
  return {
    key: one.key, name: one.key, state: one.state, reason: one.reason ?? "", pool: one.pool ?? "", model: one.model ?? "", gpus: orNull(one.gpus),
    held: orNull(one.gpus_held), untoldMilli: untold(cards, one.gpus_held ?? 0), free: orNull(one.free_gpus), unwell: orNull(one.gpus_unwell), pods: orNull(one.pods), isCordoned: one.is_cordoned ?? false, cards,
  };
}

export function workOf(one) {
  const [kind, namespace, ...name] = one.key.split("/");
  return {
    key: one.key, kind, namespace, name: name.join("/"), state: one.state, queue: one.queue ?? "", node: one.node ?? "", gang: one.gang ?? "",
    gpus: orNull(one.gpus), created: one.created ?? "", position: orNull(one.position), cause: one.cause ?? "", why: one.why ?? "",
    expectedStart: orNull(one.expected_start), placed: orNull(one.members_placed), arrived: orNull(one.members_arrived), needed: orNull(one.members_min),
  };
}

/** An amount as it is written in quotas: "8", "500m". */
function quantity(text) {
  if (text === null || text === undefined) return null;
  const number = text.endsWith("m") ? Number(text.slice(0, -1)) / 1000 : Number(text);
  return Number.isNaN(number) ? null : number;
}

function waitingOf(one) {
  return {
    kind: one.kind, namespace: one.namespace, name: one.name, pods: one.pods, position: orNull(one.position), priority: one.priority ?? 0,
    created: one.created ?? "", why: one.words || one.cause || one.reason || "", expectedStart: orNull(one.expected_start),
  };
}

function queueOf(one) {
  const gpu = (one.resources ?? []).find((resource) => resource.resource === "gpu");
  const waiting = one.waiting ? one.waiting.map(waitingOf) : null;
  const oldest = (waiting ?? []).map((work) => work.created).filter(Boolean).sort()[0] ?? "";
  // An amount that is left out of a resource is 0, but for the fair share, which is then unknown.
  const amount = (name) => (gpu ? quantity(gpu[name] ?? "0") : null);
  return {
    key: one.key, name: one.key, parent: one.parent ?? "", depth: one.depth ?? 0, isActive: one.is_active ?? true, state: one.state ?? "Open", why: one.why ?? "",
    problems: one.problems ?? [], resources: one.resources ?? [], weight: one.weight ?? "1", pending: orNull(one.pods_waiting), waiting, oldest,
    more: one.waiting_more ?? 0, hidden: one.hidden_waiting ?? 0, reservation: orNull(one.reservation), used: amount("used"), quota: amount("quota"),
    borrowed: amount("borrowed"), lent: amount("lent"), fairShare: gpu ? quantity(gpu.fair_share) : null,
  };
}

function decisionOf(one) {
  const [kind, namespace, ...name] = one.key.split("/");
  return { key: one.key, kind, namespace, name: name.join("/"), at: one.at, what: one.what, queue: one.queue ?? "", node: one.node ?? "", text: one.text ?? "" };
}

const ROWS = { fleet: (one) => one, nodes: nodeOf, queues: queueOf, work: workOf, decisions: decisionOf };

class Stream {
  constructor(store) {
    this.store = store;
    this.heardAt = Date.now();
    setInterval(() => this.listen(), AGAIN_MS);
    this.open();
  }

  open() {
    this.source = new EventSource("api/stream");
    const on = (name, act) => this.source.addEventListener(name, (event) => {
      this.heardAt = Date.now();
      act(JSON.parse(event.data));
    });
    on("source", (told) => this.store.tellSource({ state: told.state, asOf: told.as_of || null, why: told.why ?? "", problems: told.problems ?? [], notes: told.notes ?? [], queuesAsOf: told.queues_as_of ?? "" }));
    on("view", ({ view, rows, unread, more }) => {
      if (ROWS[view]) this.store.replace(view, rows.map(ROWS[view]), unread ?? "", !more);
    });
    on("rows", ({ view, changed, removed, more }) => {
      if (ROWS[view]) this.store.change(view, changed.map(ROWS[view]), removed, !more);
    });
    on("heartbeat", ({ at }) => this.store.heartbeat(at));
    on("end", (refusal) => this.end(refusal));
    this.source.onerror = () => this.away("The connection to gpufleet web is cut.");
  }

  /** A connection that is gone may look open: nothing is heard of it any more. */
  listen() {
    const isClosed = this.source.readyState === EventSource.CLOSED;
    const isSilent = Date.now() - this.heardAt > SILENT_MS;
    if (this.isEnded || (!isClosed && !isSilent)) return;
    if (isSilent) this.away("Nothing is heard of gpufleet web.");
    this.source.close();
    this.heardAt = Date.now();
    // A browser does not tell why a stream was refused; this answer does.
    asked("api/about").then((about) => this.store.tellAbout(about)).then(() => this.open(), (refused) => this.refused(refused));
  }

  away(why) {
    if (this.store.source.state !== "away") this.store.tellSource({ state: "away", why });
  }

  /** Without a login nothing comes any more; all else may pass. */
  refused(refused) {
    if (refused.status === 401 || refused.told.login) {
      this.isEnded = true;
      this.store.tellLogin(refused.told);
    } else {
      this.away(refused.words);
    }
  }

  end(refusal) {
    this.source.close();
    this.refused(new Refused(0, refusal));
  }
}

export function connect(store) {
  const stream = new Stream(store);
  asked("api/about").then((about) => store.tellAbout(about), (refused) => stream.refused(refused));
}
