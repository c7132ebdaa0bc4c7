// Draws the fleet map on a canvas: one tile a node, one cell a card. Filled is held, hollow is free, and what is
// wrong has a form of its own besides its colour: a cross on a card, an outline or hatching on a node.
import { cardState, ownerOf, queueInks, takesWork } from "./fleet_sums.js";
import { loadOf, stepOf } from "./fleet_use.js";
import { holderName, nodePlace, STEPS } from "./map_layout.js";
import { percent } from "./text.js";

const CROSS_FROM_PX = 9;
const WORDS_FROM_PX = 50;
const LABEL = "500 11px Inter, system-ui, sans-serif";
/** Beside the words of a cell. */
const ROOM_PX = 15;

/** The colours of the page's style sheet, for a canvas. */
export function inksOf(element) {
  const style = getComputedStyle(element);
  const names = ["surface", "grid", "free", "bad", "unknown", "text", "muted", "accent", "on-ink", "hatch", "page",
    "ink-none", "ink-foreign", "ink-other",
    ...Array.from({ length: 8 }, (_, place) => `ink-${place}`), ...Array.from({ length: 5 }, (_, step) => `use-${step}`)];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

export function drawMap(context, placed, view) {
  const { inks, scroll, height, width } = view;
  context.clearRect(-width, 0, 3 * width, height);
  context.textBaseline = "middle";
  const { name } = STEPS[placed.step];
  for (const group of placed.groups) {
    const rows = Math.ceil(group.nodes.length / group.across);
    const first = Math.max(0, Math.floor((scroll - group.nodesTop) / group.pitch.y));
    const last = Math.min(rows - 1, Math.floor((scroll + height - group.nodesTop) / group.pitch.y));
    for (let index = first * group.across; index < Math.min(group.nodes.length, (last + 1) * group.across); index += 1) {
      const place = nodePlace(group, index, name);
      drawNode(context, group, group.nodes[index], { x: place.x, y: place.y - scroll }, { ...view, step: placed.step, inks });
    }
  }
}

function drawNode(context, group, node, at, view) {
  const { card, gap, name } = STEPS[view.step];
  context.globalAlpha = view.isWanted(node) ? 1 : 0.14;
  if (name) drawName(context, group, node, at, view);
  const isByUse = view.colour !== "queue";
  for (const { first, count } of runs(node, group.columns, hasWords(card) && !isByUse)) {
    const x = at.x + (first % group.columns) * (card[0] + gap);
    const y = at.y + Math.floor(first / group.columns) * (card[1] + gap);
    const box = { x, y, width: count * (card[0] + gap) - gap, height: card[1] };
    if (isByUse) drawLoad(context, node.cards[first], box, view, loadOf(node, first, view.colour));
    else drawCard(context, node.cards[first], box, view, count);
  }
  const { width, height } = group.tile;
  if (!node.cards.length) outline(context, at, width, height, view.inks.unknown, 1, 0);
  const isSmall = card[0] < CROSS_FROM_PX;
  if (!takesWork(node) && node.state !== "cordoned") {
    // Where its state is written beside its name, hatching would only hide the words on its cards.
    if (!hasWords(card)) hatch(context, at, width, height, view.inks.bad, isSmall ? 3 : 5);
    outline(context, at, width, height, view.inks.bad, isSmall ? 1 : 1.5, isSmall ? 1 : 3);
  } else if (isCordoned(node)) {
    if (hasWords(card)) outline(context, at, width, height, view.inks.hatch, 1, 3, [4, 3]);
    else hatch(context, at, width, height, view.inks.hatch, isSmall ? 3 : 6);
  } else if (isSmall && node.cards.some((one) => cardState(one) === "unwell")) {
    outline(context, at, width, height, view.inks.bad, 1.5, 1);
  }
  context.globalAlpha = 1;
}

/** Cards beside each other that one pod holds whole are one cell where there is room for its name. */
function runs(node, columns, isJoined) {
  const found = [];
  node.cards.forEach((card, index) => {
    const before = found.at(-1);
    const owner = isJoined && index % columns ? holderOfAll(card) : null;
    if (owner && before && holderOfAll(node.cards[before.first]) === owner) before.count += 1;
    else found.push({ first: index, count: 1 });
  });
  return found;
}

function holderOfAll(card) {
  const [only] = card.holders;
  if (card.holders.length !== 1 || cardState(card) !== "held") return null;
  return `${only.namespace}/${holderName(only)}`;
}

function drawName(context, group, node, at, view) {
  context.font = `500 ${view.step > 4 ? 12 : 11}px Inter, system-ui, sans-serif`;
  context.fillStyle = view.inks.text;
  const words = cut(context, node.name, group.tile.width);
  // Above the outline of a node that is away.
  const y = at.y - STEPS[view.step].name / 2 - 2;
  context.fillText(words, at.x, y);
  const left = group.tile.width - context.measureText(`${words}  `).width;
  if (node.state === "ready" || left < 60) return;
  context.fillStyle = isCordoned(node) ? view.inks.muted : view.inks.bad;
  context.fillText(cut(context, node.state, left), at.x + group.tile.width - left, y);
}

const isCordoned = (node) => node.isCordoned || node.state === "cordoned";
const hasWords = (card) => card[0] >= WORDS_FROM_PX;

function drawCard(context, card, box, view, count) {
  const { inks } = view;
  const state = cardState(card);
  if (state === "unwell") return drawUnwell(context, box, inks);
  if (state === "unknown") return drawUnknown(context, box, inks);
  // A frame would fill a tiny cell, and what is free would look as if it were held.
  if (box.width < 5) fill(context, box, inks.grid);
  else frame(context, box, inks.free);
  if (state === "free") return undefined;
  let from = box.y + box.height;
  for (const part of holdersOf(card)) {
    const height = (box.height * Math.min(1000, part.milli ?? 0)) / 1000;
    from -= height;
    const ink = inks[queueInks.of(ownerOf(part))];
    held(context, { ...box, y: Math.max(box.y, from), height }, ink ?? inks["ink-other"]);
  }
  if (card.holders.length === 1 && box.width >= WORDS_FROM_PX) label(context, heldBy(context, card.holders[0], box, count), box, view, inks.text);
  return undefined;
}

/** A card by what it does: the ink is the step of the scale. What nobody holds is hollow, unless it is busy. */
function drawLoad(context, card, box, view, ratio) {
  const { inks } = view;
  const state = card.mayBeHeld && ratio !== null ? "free" : cardState(card);
  if (state === "unwell") return drawUnwell(context, box, inks);
  if (state === "unknown" || (state !== "free" && ratio === null)) return drawUnknown(context, box, inks);
  if (state === "free" && !stepOf(ratio)) return box.width < 5 ? fill(context, box, inks.grid) : frame(context, box, inks.free);
  fill(context, box, inks[`use-${stepOf(ratio)}`]);
  if (box.width >= 5) frame(context, box, inks.free);
  if (box.width < WORDS_FROM_PX) return undefined;
  const words = percent(ratio);
  context.font = LABEL;
  // Words have a plate of their own: no one ink can be read on all steps.
  fill(context, { x: box.x + 5, y: box.y + box.height / 2 - 9, width: context.measureText(words).width + 10, height: 18 }, inks.surface);
  return label(context, words, box, view, inks.text);
}

/** What is held; where words stand on it, it is pale with an edge of its ink, so that they can be read. */
function held(context, box, ink) {
  const hasWords = box.width >= WORDS_FROM_PX;
  const alpha = context.globalAlpha;
  context.globalAlpha = hasWords ? alpha * 0.22 : alpha;
  fill(context, box, ink);
  context.globalAlpha = alpha;
  if (!hasWords) return;
  frame(context, box, ink);
  fill(context, { ...box, width: 4 }, ink);
}

/** The name of a holder if it has room, else its queue, else nothing: half a name tells nothing. */
function heldBy(context, holder, box, count) {
  context.font = LABEL;
  const told = count > 1 ? `${holderName(holder)}  ×${count}` : holderName(holder);
  return [told, holderName(holder), holder.queue].find((words) => words && context.measureText(words).width <= box.width - ROOM_PX) ?? "";
}

/** Who holds a card; where that is not told, what is held has no owner. */
function holdersOf(card) {
  return card.holders.length ? card.holders : [{ milli: card.heldMilli }];
}

function label(context, words, box, view, ink) {
  if (box.width < WORDS_FROM_PX) return;
  context.font = LABEL;
  context.fillStyle = ink;
  context.fillText(words, box.x + 10, box.y + box.height / 2 + 0.5);
}

function cut(context, words, width) {
  if (context.measureText(words).width <= width) return words;
  let most = words.length - 1;
  while (most > 1 && context.measureText(`${words.slice(0, most)}…`).width > width) most -= 1;
  return `${words.slice(0, most)}…`;
}

function drawUnwell(context, box, inks) {
  fill(context, box, inks.bad);
  if (box.width < CROSS_FROM_PX) return;
  context.strokeStyle = inks.surface;
  context.lineWidth = box.width > 20 ? 2 : 1.5;
  const size = Math.min(box.width, box.height) * 0.26;
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  context.beginPath();
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y + size);
  context.moveTo(x + size, y - size);
  context.lineTo(x - size, y + size);
  context.stroke();
}

function drawUnknown(context, box, inks) {
  frame(context, box, inks.unknown);
  if (box.width < CROSS_FROM_PX) return;
  context.font = `600 ${Math.min(13, box.width)}px Inter, system-ui, sans-serif`;
  context.fillStyle = inks.unknown;
  context.textAlign = "center";
  context.fillText("?", box.x + box.width / 2, box.y + box.height / 2 + 0.5);
  context.textAlign = "start";
}

function fill(context, box, ink) {
  context.fillStyle = ink;
  context.fillRect(box.x, box.y, box.width, box.height);
}

function frame(context, box, ink) {
  context.strokeStyle = ink;
  context.lineWidth = 1;
  context.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
}

function outline(context, at, width, height, ink, line, away, dashes = []) {
  context.strokeStyle = ink;
  context.setLineDash(dashes);
  context.lineWidth = line;
  context.strokeRect(at.x - away, at.y - away, width + 2 * away, height + 2 * away);
  context.setLineDash([]);
}

function hatch(context, at, width, height, ink, step) {
  context.save();
  context.beginPath();
  context.rect(at.x, at.y, width, height);
  context.clip();
  context.strokeStyle = ink;
  context.lineWidth = 1.25;
  context.beginPath();
  for (let x = at.x - height; x < at.x + width; x += step) {
    context.moveTo(x, at.y + height);
    context.lineTo(x + height, at.y);
  }
  context.stroke();
  context.restore();
}
