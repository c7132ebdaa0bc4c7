// Where nodes and cards stand on the fleet map, at each step of the zoom. Pure: a width and rows give places, and
// `map_drawing.js` draws them.
import { FOREIGN, PROCESS } from "./fleet_sums.js";
import { compareNames } from "./text.js";

const LABEL_PX = 34;
const GROUP_GAP_PX = 14;
const COLUMNS = 4;

/** From one mark a node to cards with words. `name` is the height of the node's name above its cards. */
export const STEPS = [
  { card: [2, 4], gap: 0, between: 2, name: 0 },
  { card: [3, 5], gap: 1, between: 4, name: 0 },
  { card: [5, 8], gap: 1, between: 5, name: 0 },
  { card: [9, 13], gap: 2, between: 8, name: 0 },
  { card: [16, 20], gap: 2, between: 12, name: 16 },
  { card: [30, 26], gap: 3, between: 16, name: 18 },
  { card: [54, 32], gap: 3, between: 18, name: 20 },
  { card: [78, 42], gap: 4, between: 22, name: 20 },
];

export function groupsOf(nodes, by) {
  const groups = new Map();
  for (const node of nodes) {
    const name = (by === "state" ? node.state : by === "model" ? node.model : node.pool) || "unknown";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  return [...groups].sort(([one], [other]) => compareNames(one, other));
}

/** Places of groups and nodes for a width, in pixels from the map's upper left corner. */
export function layout(groups, width, step) {
  const { card, gap, between, name } = STEPS[step];
  let top = 0;
  const placed = groups.map(([title, nodes]) => {
    const cards = Math.max(1, ...nodes.map((node) => node.cards.length));
    const columns = Math.min(COLUMNS, cards);
    const lines = Math.ceil(cards / columns);
    const tile = { width: columns * (card[0] + gap) - gap, height: lines * (card[1] + gap) - gap };
    const pitch = { x: tile.width + between, y: tile.height + between + name };
    const across = Math.max(1, Math.floor((width + between) / pitch.x));
    const group = { title, nodes, columns, tile, pitch, across, top, nodesTop: top + LABEL_PX };
    top = group.nodesTop + Math.ceil(nodes.length / across) * pitch.y - between + GROUP_GAP_PX;
    return group;
  });
  return { groups: placed, height: Math.max(1, top - GROUP_GAP_PX), step };
}

/** The largest step at which the whole fleet fits into a height; the smallest if none does. */
export function fitting(groups, width, height) {
  for (let step = STEPS.length - 1; step > 0; step -= 1)
    if (layout(groups, width, step).height <= height) return step;
  return 0;
}

export function nodePlace(group, index, name) {
  return {
    x: (index % group.across) * group.pitch.x,
    y: group.nodesTop + name + Math.floor(index / group.across) * group.pitch.y,
  };
}

/** The node at a point, or null. */
export function nodeAt(placed, x, y) {
  const { between, name } = STEPS[placed.step];
  for (const group of placed.groups) {
    const row = Math.floor((y - group.nodesTop) / group.pitch.y);
    const column = Math.floor(x / group.pitch.x);
    if (row < 0 || column < 0 || column >= group.across) continue;
    const index = row * group.across + column;
    const isInside = y < group.nodesTop + Math.ceil(group.nodes.length / group.across) * group.pitch.y;
    if (!isInside || index >= group.nodes.length) continue;
    const place = nodePlace(group, index, name);
    if (x <= place.x + group.tile.width + between / 2 && y <= place.y + group.tile.height + between / 2)
      return group.nodes[index];
  }
  return null;
}

/** The node that an arrow key leads to from another, over the borders of groups. */
export function nodeBeside(placed, from, key) {
  const all = placed.groups.flatMap((group, at) => group.nodes.map((node, index) => ({ group, at, node, index })));
  if (!all.length) return null;
  const here = all.findIndex((one) => one.node.key === from);
  if (here < 0) return all[0].node;
  const { group, at, index } = all[here];
  if (key === "Home") return all[0].node;
  if (key === "End") return all[all.length - 1].node;
  if (key === "ArrowRight") return all[Math.min(all.length - 1, here + 1)].node;
  if (key === "ArrowLeft") return all[Math.max(0, here - 1)].node;
  const down = key === "ArrowDown" ? 1 : -1;
  const inside = group.nodes[index + down * group.across];
  if (inside) return inside;
  const next = placed.groups[at + down];
  if (!next) return down > 0 ? group.nodes[group.nodes.length - 1] : all[here].node;
  const column = index % group.across;
  const first = down > 0 ? 0 : Math.floor((next.nodes.length - 1) / next.across) * next.across;
  return next.nodes[Math.min(next.nodes.length - 1, first + column)];
}

export const holderName = (holder) => holder.name || (holder.isProcess ? PROCESS : FOREIGN);
