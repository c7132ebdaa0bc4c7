// What the page shows now, and the one way to draw it again. Changes that come together are drawn once.
import { parse } from "./route.js";
import { Store } from "./store.js";

/** Each drawing looks at all rows, so rows of which more are coming are drawn at most so often. */
const PARTS_MS = 400;

let draw = () => {};
let isAsked = false;
let isWaiting = false;

export function refresh() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    draw();
  });
}

export function refreshLater() {
  if (isWaiting) return;
  isWaiting = true;
  setTimeout(() => {
    isWaiting = false;
    refresh();
  }, PARTS_MS);
}

export function drawWith(drawing) {
  draw = drawing;
}

export const page = {
  route: parse(location.hash),
  /** The address that is shown, as it is written. */
  address: location.hash,
  store: new Store(refresh, refreshLater),
  /** Single keys can be switched off, for people whose speech input types letters. */
  hasKeys: stored("gpufleet-keys") !== "off",
};

export function switchKeys() {
  page.hasKeys = !page.hasKeys;
  try {
    localStorage.setItem("gpufleet-keys", page.hasKeys ? "on" : "off");
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  refresh();
}

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Tells people who hear the page what has changed. */
export function say(words) {
  const place = document.getElementById("said");
  if (place.textContent !== words) place.textContent = words;
}
