// Sums over the nodes of the fleet: what is held and by whom, what is free and in which blocks. They are made of the
// rows of nodes, so that the map, its sums and its table never disagree.
import { UNKNOWN } from "./text.js";

const INKS = 8;
export const OTHER_QUEUES = "other queues";
export const NO_QUEUE = "no queue";
export const FOREIGN = "another namespace";
export const PROCESS = "a process of no pod";

/** The queue of a holder, or who else it is. */
export function ownerOf(holder) {
  if (holder.queue) return holder.queue;
  if (holder.isProcess) return PROCESS;
  return holder.name ? NO_QUEUE : FOREIGN;
}

/** Inks of queues: the largest get one first, and each keeps its own while the page is open. */
class QueueInks {
  given = new Map();

  of(owner) {
    if (owner === NO_QUEUE || owner === PROCESS) return "ink-none";
    if (owner === FOREIGN) return "ink-foreign";
    const place = this.given.get(owner);
    return place === undefined ? "ink-other" : `ink-${place}`;
  }

  give(milliByOwner) {
    const largest = [...milliByOwner].sort(([, one], [, other]) => other - one);
    for (const [owner] of largest) {
      if (this.given.size >= INKS) return;
      if (![NO_QUEUE, FOREIGN, PROCESS].includes(owner) && !this.given.has(owner)) this.given.set(owner, this.given.size);
    }
  }
}

export const queueInks = new QueueInks();

/** The state of a card: "unwell", "unknown", "free", "part" or "held". */
export function cardState(card) {
  if (card.health && card.health !== "healthy") return card.health === "unknown" || card.health === "?" ? "unknown" : "unwell";
  if (card.heldMilli === null || card.mayBeHeld) return "unknown";
  if (!card.heldMilli) return "free";
  return card.heldMilli >= 1000 ? "held" : "part";
}

export const takesWork = (node) => node.state === "ready" || /unwell/.test(node.state);

let made = { version: -1, sums: null, nodes: [] };

/** The sums of the rows of all nodes, made anew only when a row has changed. */
export function fleetSums(rows) {
  if (made.version === rows.version) return made;
  made = { version: rows.version, sums: sumsOf(rows.byKey.values()), nodes: [...rows.byKey.values()] };
  queueInks.give(made.sums.byOwner);
  return made;
}

export function sumsOf(nodes) {
  const sums = {
    nodes: 0, cards: 0, heldMilli: 0, freeMilli: 0, unwell: 0, unknown: 0, closedMilli: 0, untoldMilli: 0, away: 0, cordoned: 0,
    largest: 0, byOwner: new Map(), isWhole: true,
  };
  for (const node of nodes) add(sums, node);
  return sums;
}

function add(sums, node) {
  sums.nodes += 1;
  const isOpen = takesWork(node) && !node.isCordoned;
  if (!takesWork(node) && node.state !== "cordoned") sums.away += 1;
  if (node.isCordoned || node.state === "cordoned") sums.cordoned += 1;
  sums.untoldMilli += node.untoldMilli;
  sums.heldMilli += node.untoldMilli;
  if (isOpen) sums.freeMilli -= node.untoldMilli;
  else sums.closedMilli -= node.untoldMilli;
  for (const card of node.cards) {
    sums.cards += 1;
    // How much of such cards is held is known, and only not of which.
    const state = card.mayBeHeld ? "free" : cardState(card);
    const held = card.heldMilli ?? 0;
    sums.heldMilli += held;
    for (const holder of card.holders) {
      const owner = ownerOf(holder);
      sums.byOwner.set(owner, (sums.byOwner.get(owner) ?? 0) + (holder.milli ?? 0));
    }
    if (state === "unknown") sums.unknown += 1;
    else if (state === "unwell") sums.unwell += 1;
    else if (isOpen) sums.freeMilli += 1000 - Math.min(1000, held);
    else sums.closedMilli += 1000 - Math.min(1000, held);
  }
  const { free } = node;
  if (free === null) sums.isWhole = false;
  else sums.largest = Math.max(sums.largest, free);
}

/** The largest owners with what they hold, the others in one. */
export function owners(sums, most = INKS) {
  const all = [...sums.byOwner].sort(([, one], [, other]) => other - one);
  const named = all.filter(([owner]) => !queueInks.of(owner).includes("other")).slice(0, most + 2);
  const rest = all.filter(([owner]) => queueInks.of(owner).includes("other"));
  const shown = named.map(([name, milli]) => ({ name, milli, ink: queueInks.of(name) }));
  const milli = rest.reduce((sum, [, one]) => sum + one, 0);
  if (rest.length) shown.push({ name: rest.length === 1 ? rest[0][0] : OTHER_QUEUES, milli, ink: "ink-other", count: rest.length });
  return shown;
}

/** A sum in words: "?" where nothing of it is told, and with "≥" where something is not. */
export function atLeast(sums, words) {
  if (sums.isWhole && !sums.unknown) return `${words}`;
  return sums.unknown === sums.cards ? UNKNOWN : `≥ ${words}`;
}
