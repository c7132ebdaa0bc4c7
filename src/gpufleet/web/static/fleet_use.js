// What the cards of the fleet do, read again and again while the map shows it. The scale has few steps, so that a
// cell of three pixels tells as much as it can: idle, and four quarters of what is busy.
import { refresh } from "./page.js";
import { counted, duration, percent, UNKNOWN } from "./text.js";
import { asked } from "./wire.js";
import { cardState } from "./fleet_sums.js";

const AGAIN_MS = 15_000;
const IDLE_BELOW = 0.05;
const STEPS = [IDLE_BELOW, 0.25, 0.5, 0.75];
const STEP_WORDS = ["under 5%", "5 to 25%", "25 to 50%", "50 to 75%", "over 75%"];

export const use = { byNode: new Map(), unknown: "", version: 0, isRead: false, readAt: 0 };
let isReading = false;

/** Reads it if it is due; a view that shows it calls this whenever it is drawn. */
export function followUse() {
  if (isReading || Date.now() - use.readAt < AGAIN_MS) return;
  isReading = true;
  read().finally(() => {
    Object.assign(use, { isRead: true, readAt: Date.now(), version: use.version + 1 });
    isReading = false;
    refresh();
  });
}

async function read() {
  try {
    const told = await asked("api/use");
    use.byNode = new Map((told.nodes ?? []).map((one) => [one.key, one]));
    use.unknown = told.unknown ?? "";
  } catch (refused) {
    // An old number is no number.
    use.byNode = new Map();
    use.unknown = `use is not known: ${refused.words}`;
  }
}

/** How busy a card is, or how full its memory ("memory"), from 0 to 1; null is unknown. */
export function loadOf(node, index, what) {
  const row = use.byNode.get(node.key);
  return row?.[what === "memory" ? "memory" : "busy"][index] ?? null;
}

/** The step of the scale, 0 for idle; null is unknown. */
export function stepOf(ratio) {
  if (ratio === null) return null;
  const place = STEPS.findIndex((bound) => ratio < bound);
  return place < 0 ? STEPS.length : place;
}

/** What a step of the scale is called. */
export function stepWords(step, what) {
  return step || what === "memory" ? STEP_WORDS[step] : `idle, ${STEP_WORDS[0]}`;
}

/** The mean over the cards of a node that tell; null where none does. */
export function meanOf(node, what) {
  const known = node.cards.map((_, index) => loadOf(node, index, what)).filter((one) => one !== null);
  return known.length ? known.reduce((all, one) => all + one, 0) / known.length : null;
}

/** Cards that are held by step of the scale, the mean over those that tell, and how old the oldest of it is. */
export function useSums(nodes, what) {
  const sums = { steps: [0, 0, 0, 0, 0], unknown: 0, mean: null, oldestS: null };
  let all = 0;
  for (const node of nodes) {
    node.cards.forEach((card, index) => {
      if (!["held", "part"].includes(cardState(card))) return;
      const ratio = loadOf(node, index, what);
      if (ratio === null) sums.unknown += 1;
      else {
        sums.steps[stepOf(ratio)] += 1;
        all += ratio;
      }
    });
    const age = use.byNode.get(node.key)?.age_s;
    if (age !== undefined) sums.oldestS = Math.max(sums.oldestS ?? 0, age);
  }
  const known = sums.steps.reduce((sum, one) => sum + one, 0);
  if (known) sums.mean = all / known;
  return sums;
}

/** What a strip of the sums does not say: the mean, and how old the numbers are. */
export function sumWords(sums, what) {
  if (!use.isRead) return "Use is being measured …";
  const name = what === "memory" ? "memory in use" : "use";
  const mean = `Mean ${name} of GPUs that are held: ${sums.mean === null ? UNKNOWN : percent(sums.mean)}`;
  const age = sums.oldestS === null ? "" : `, measured ${duration(sums.oldestS + (Date.now() - use.readAt) / 1000)} ago at most`;
  const idle = what !== "memory" && sums.steps[0] ? ` ${counted(sums.steps[0], "GPU")} held and idle.` : "";
  return `${mean}${age}.${idle}${use.unknown ? ` ${use.unknown[0].toUpperCase()}${use.unknown.slice(1)}.` : ""}`;
}
