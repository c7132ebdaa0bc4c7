// Values as people read them, written as `gpufleet top` writes them. What is unknown is "?", never 0; what does
// not apply is "-".
export const UNKNOWN = "?";
export const NONE = "-";
const GIBIBYTE = 2 ** 30;

// Made once: a call that names a language looks its rules up each time, which takes a second for the names of 10,000 nodes.
const WHOLE = new Intl.NumberFormat("en");
const AMOUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Compares names; numbers within them are compared as numbers. */
export const compareNames = new Intl.Collator("en", { numeric: true }).compare;

const isKnown = (value) => value !== null && value !== undefined && value !== "";

export function whole(number) {
  return isKnown(number) ? WHOLE.format(number) : UNKNOWN;
}

/** A count with at most four digits, for narrow places. */
export function short(number) {
  if (!isKnown(number) || number < 10_000) return whole(number);
  return SHORT.format(number);
}

export function amount(number) {
  return isKnown(number) ? AMOUNT.format(number) : UNKNOWN;
}

export function gpus(milli) {
  return isKnown(milli) ? amount(milli / 1000) : UNKNOWN;
}

export function counted(number, noun) {
  return `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function percent(ratio) {
  return isKnown(ratio) ? `${Math.round(ratio * 100)}%` : UNKNOWN;
}

export function gibibytes(bytes) {
  if (!isKnown(bytes)) return UNKNOWN;
  const size = bytes / GIBIBYTE;
  return `${size >= 100 ? size.toFixed(0) : size.toFixed(1)} GiB`;
}

export function mebibytes(mib) {
  return isKnown(mib) ? gibibytes(mib * 2 ** 20) : UNKNOWN;
}

export function watts(power) {
  if (!isKnown(power)) return UNKNOWN;
  return power >= 10_000 ? `${(power / 1000).toFixed(1)} kW` : `${power.toFixed(0)} W`;
}

export function celsius(temperature) {
  return isKnown(temperature) ? `${temperature.toFixed(0)} °C` : UNKNOWN;
}

export function duration(seconds) {
  if (!isKnown(seconds) || Number.isNaN(seconds)) return UNKNOWN;
  const length = Math.max(0, Math.floor(seconds));
  for (const [unit, letter] of [[86400, "d"], [3600, "h"], [60, "m"]])
    if (length >= 2 * unit) return `${Math.floor(length / unit)}${letter}`;
  return `${length}s`;
}

export function age(moment, now = Date.now()) {
  return isKnown(moment) ? duration((now - Date.parse(moment)) / 1000) : UNKNOWN;
}

export function clock(moment) {
  const at = new Date(moment);
  return Number.isNaN(at.getTime()) ? UNKNOWN : at.toLocaleTimeString("en-GB");
}

/** A moment with its day where that is not today. */
export function moment(text, now = new Date()) {
  const at = new Date(text);
  if (!isKnown(text) || Number.isNaN(at.getTime())) return UNKNOWN;
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return at.toDateString() === now.toDateString() ? clock(text) : `${day} ${at.toTimeString().slice(0, 5)}`;
}

export function path(namespace, name) {
  return namespace ? `${namespace}/${name}` : name;
}

/** Whether words contain a filter; a filter that begins with "!" is for those without. */
export function matches(filter, words) {
  const wanted = filter.trim().toLowerCase();
  if (!wanted || wanted === "!") return true;
  const text = words.join(" ").toLowerCase();
  return wanted.startsWith("!") ? !text.includes(wanted.slice(1)) : text.includes(wanted);
}
