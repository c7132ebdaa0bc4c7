// The fleet map as an element: it scrolls, zooms, follows the pointer and the arrow keys, and tells what is under
// them. The canvas is as large as the window on it, so a fleet of any size costs what is seen of it.
import { Component, html } from "./html.js";
import { atLeast, sumsOf } from "./fleet_sums.js";
import { meanOf, use } from "./fleet_use.js";
import { drawMap, inksOf } from "./map_drawing.js";
import { fitting, groupsOf, layout, nodeAt, nodeBeside, nodePlace, STEPS } from "./map_layout.js";
import { say } from "./page.js";
import { counted, gpus, percent } from "./text.js";

/** Left and right of the nodes, where outlines have room. */
const MARGIN_PX = 14;
/** The most that the style sheet gives to the map. */
const HEIGHT_PX = 560;
const KEYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]);

export class FleetMap extends Component {
  state = { width: 0, hovered: null };

  componentDidMount() {
    this.chosen = this.props.chosen;
    this.sizes = new ResizeObserver(() => this.measure());
    this.sizes.observe(this.window);
    this.themed = () => {
      this.inks = null;
      this.draw();
    };
    addEventListener("gpufleet-theme", this.themed);
    document.fonts?.ready.then(this.themed);
    this.measure();
  }

  componentWillUnmount() {
    this.sizes.disconnect();
    removeEventListener("gpufleet-theme", this.themed);
  }

  componentDidUpdate() {
    this.chosen = this.props.chosen;
    this.draw();
  }

  measure() {
    const width = this.window.clientWidth;
    if (width && width !== this.state.width) this.setState({ width });
    else this.draw();
  }

  place() {
    const { nodes, version, by, zoom } = this.props;
    const { width } = this.state;
    const made = JSON.stringify([version, by, zoom, width]);
    if (made === this.madeFor) return this.placed;
    const groups = groupsOf(nodes, by);
    const inner = Math.max(40, width - 2 * MARGIN_PX);
    const fit = fitting(groups, inner, HEIGHT_PX - MARGIN_PX);
    const step = Math.min(STEPS.length - 1, Math.max(0, fit + zoom));
    this.placed = layout(groups, inner, step);
    this.placed.sums = groups.map(([, members]) => sumsOf(members));
    this.madeFor = made;
    this.props.onStep?.({ step, fit });
    return this.placed;
  }

  draw() {
    if (!this.canvas || !this.placed || !this.state.width) return;
    const ratio = devicePixelRatio || 1;
    const asked = JSON.stringify([this.madeFor, this.props.filter, this.window.scrollTop, this.window.clientHeight, ratio, this.props.colour, use.version]);
    // The pointer moves over the map without a change of it.
    if (asked === this.drawnFor && this.inks) return;
    this.drawnFor = asked;
    this.inks ??= inksOf(this.canvas);
    const [width, height] = [this.state.width, this.window.clientHeight];
    const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, MARGIN_PX * ratio, 0);
    drawMap(context, this.placed, {
      inks: this.inks, scroll: this.window.scrollTop, width, height, isWanted: this.props.isWanted, colour: this.props.colour,
    });
  }

  point(event) {
    const box = this.window.getBoundingClientRect();
    return nodeAt(this.placed, event.clientX - box.left - MARGIN_PX, event.clientY - box.top + this.window.scrollTop);
  }

  hover(event) {
    const node = this.point(event);
    if ((node?.key ?? null) === this.state.hovered) return;
    this.setState({ hovered: node?.key ?? null });
    this.props.onHover(node?.key ?? null);
  }

  leave() {
    this.setState({ hovered: null });
    this.props.onHover(null);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && this.chosen) this.props.onOpen(this.chosen);
    else if (event.key === "+" || event.key === "=") this.props.onZoom(1);
    else if (event.key === "-") this.props.onZoom(-1);
    else if (KEYS.has(event.key)) this.go(event.key);
    else return;
    event.preventDefault();
  }

  go(key) {
    const node = nodeBeside(this.placed, this.chosen, key);
    if (!node) return;
    // Keys may come faster than drawings.
    this.chosen = node.key;
    this.props.onChoose(node.key);
    this.reveal(node);
    const held = node.cards.reduce((sum, card) => sum + (card.heldMilli ?? 0), 0);
    const isUnknown = node.cards.some((card) => card.heldMilli === null);
    const { colour } = this.props;
    const load = colour === "queue" ? "" : `, ${colour} ${percent(meanOf(node, colour))}`;
    say(`${node.name}, ${node.state}, ${isUnknown ? "?" : gpus(held)} of ${counted(node.cards.length, "GPU")} held${load}`);
  }

  reveal(node) {
    const group = this.placed.groups.find((one) => one.nodes.includes(node));
    const { y } = nodePlace(group, group.nodes.indexOf(node), STEPS[this.placed.step].name);
    const [top, bottom] = [this.window.scrollTop, this.window.scrollTop + this.window.clientHeight];
    if (y < top + 40) this.window.scrollTop = Math.max(0, y - 40);
    else if (y + group.tile.height > bottom - 12) this.window.scrollTop = y + group.tile.height - this.window.clientHeight + 24;
  }

  /** An outline around a node, beside the canvas, which is not drawn again for it. */
  outline(name, key) {
    const found = key && this.placed ? this.placeOf(key) : null;
    if (!found) return null;
    const named = STEPS[this.placed.step].name;
    const away = named ? 5 : 3;
    // The name of the node is within, not under the line.
    const above = named ? named + 3 : away;
    const { x, y, width, height } = found;
    return html`<span key=${name} class="outline ${name}" style=${{ left: `${x + MARGIN_PX - away}px`, top: `${y - above}px`, width: `${width + 2 * away}px`, height: `${height + above + away}px` }}></span>`;
  }

  placeOf(key) {
    for (const group of this.placed.groups) {
      const index = group.nodes.findIndex((node) => node.key === key);
      if (index >= 0) return { ...nodePlace(group, index, STEPS[this.placed.step].name), ...group.tile };
    }
    return null;
  }

  render() {
    const placed = this.state.width ? this.place() : { groups: [], height: HEIGHT_PX };
    return html`<div class="map" tabindex="0" role="application" aria-roledescription="map" aria-label="Map of the fleet. Arrow keys go from node to node, Enter opens one. The table below has the same."
      ref=${(element) => { this.window = element; }} onScroll=${() => this.draw()} onKeyDown=${(event) => this.press(event)}
      onMouseMove=${(event) => this.hover(event)} onMouseLeave=${() => this.leave()}
      onClick=${(event) => { const node = this.point(event); if (node) this.props.onChoose(node.key); }}
      onDblClick=${(event) => { const node = this.point(event); if (node) this.props.onOpen(node.key); }}>
      <div class="map-over" style=${{ height: `${placed.height + MARGIN_PX}px` }}>
        <canvas aria-hidden="true" ref=${(element) => { this.canvas = element; }}></canvas>
        ${this.outline("hovered", this.state.hovered)}${this.outline("chosen", this.props.chosen)}
        ${placed.groups.map((group, index) => html`<p key=${group.title} class="group" style=${{ top: `${group.top}px` }}>
          <strong>${group.title}</strong><span>${groupWords(group, placed.sums[index])}</span></p>`)}
      </div>
    </div>`;
  }
}

function groupWords(group, sums) {
  return `${counted(sums.nodes, "node")} · ${atLeast(sums, gpus(sums.heldMilli))} of ${counted(sums.cards, "GPU")} held · largest free block ${atLeast(sums, sums.largest)}`;
}
