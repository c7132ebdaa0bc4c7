// Documents of one thing (a workload, a node), read when they are looked at and again when their rows change.
import { refresh } from "./page.js";
import { asked } from "./wire.js";

const AGAIN_MS = 2000;
const kept = new Map();

/** A word that is another one every so often: with it in the version a document is read again, as measurements age. */
export function every(lengthMs) {
  return Math.floor(Date.now() / lengthMs);
}

/** What is known of a path now: { value, problem, isNew }. It is read in the background. */
export function detail(path, version) {
  let one = kept.get(path);
  if (!one) {
    one = { value: null, problem: null, version: null, at: 0, isRead: false };
    kept.set(path, one);
  }
  const isDue = one.version !== version && Date.now() - one.at > AGAIN_MS;
  if (!one.isRead && isDue) read(path, one, version);
  else if (one.version !== version && !one.isRead && !one.timer)
    one.timer = setTimeout(() => {
      one.timer = null;
      refresh();
    }, AGAIN_MS);
  return one;
}

export function again(path) {
  kept.delete(path);
  refresh();
}

async function read(path, one, version) {
  Object.assign(one, { isRead: true, version, at: Date.now() });
  try {
    one.value = await asked(path);
    one.problem = null;
  } catch (error) {
    one.problem = error;
  }
  one.isRead = false;
  refresh();
}

/** What a path told last, without reading it. */
export function known(path) {
  return kept.get(path)?.value ?? null;
}
