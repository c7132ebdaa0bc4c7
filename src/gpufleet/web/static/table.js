// A table whose rows stand still. Values change in place; rows that come are announced and shown when a person
// asks for them, and rows that go stay as "gone" until then. So nothing moves under the pointer.
import { Component, html } from "./html.js";
import { say } from "./page.js";
import { compareNames, counted, matches, whole } from "./text.js";

const PAGE_ROWS = 100;
/** Ages in a table are at most so old. */
const AGES_MS = 15_000;

function compared(one, other) {
  // What is unknown stands last in either direction.
  const isUnknown = (value) => value === null || value === undefined || value === "";
  if (isUnknown(one) || isUnknown(other)) return { unknown: isUnknown(one) - isUnknown(other) };
  if (typeof one === "number" && typeof other === "number") return { known: one - other };
  return { known: compareNames(String(one), String(other)) };
}

export class Table extends Component {
  state = { sort: null, backwards: false, page: 0 };

  order = null;

  arrangedFor = "";

  last = new Map();

  /** A pointer that moves over the map draws the page again, and thousands of rows need not be looked through then. */
  shouldComponentUpdate(next, state) {
    const made = (props) => JSON.stringify([props.version, props.filter, props.of, Math.floor(Date.now() / AGES_MS)]);
    const asked = made(next);
    const isSame = asked === this.madeFor && state === this.state;
    this.madeFor = asked;
    return !isSame;
  }

  wants() {
    const { filter, words } = this.props;
    return filter?.trim() ? (row) => matches(filter, words(row)) : () => true;
  }

  arrange() {
    const { rows, columns, sort, backwards } = { ...this.props, ...this.chosen() };
    const isWanted = this.wants();
    const wanted = [...rows].filter(([, row]) => isWanted(row));
    const column = columns.find((one) => one.id === sort);
    if (column) {
      const value = column.value ?? column.text;
      const values = new Map(wanted.map(([key, row]) => [key, value(row)]));
      wanted.sort(([one], [other]) => {
        const { unknown, known } = compared(values.get(one), values.get(other));
        return unknown ?? (backwards ? -known : known);
      });
    }
    this.order = wanted.map(([key]) => key);
    this.shown = new Set(this.order);
    this.last = new Map(wanted);
  }

  chosen() {
    return this.state.sort === null ? { sort: this.props.sort, backwards: this.props.backwards } : this.state;
  }

  /** The rows in the order in which they stand, with those that are gone. */
  standing() {
    const { rows, filter } = this.props;
    const { sort, backwards } = this.chosen();
    const asked = JSON.stringify([filter, sort, backwards, this.props.of]);
    if (this.order === null || this.order.length === 0 || asked !== this.arrangedFor) {
      this.arrange();
      this.arrangedFor = asked;
    }
    return this.order.map((key) => {
      const row = rows.get(key);
      if (row) this.last.set(key, row);
      return { key, row: row ?? this.last.get(key), isGone: !row };
    });
  }

  waiting(standing) {
    const isWanted = this.wants();
    let come = 0;
    for (const [key, row] of this.props.rows)
      if (!this.shown.has(key) && isWanted(row)) come += 1;
    return { come, gone: standing.filter((one) => one.isGone).length };
  }

  sortBy(id) {
    const { sort, backwards } = this.chosen();
    this.setState({ sort: id, backwards: sort === id ? !backwards : false, page: 0 });
  }

  show() {
    this.arrange();
    this.setState({ page: this.state.page });
  }

  componentDidUpdate() {
    const { come } = this.news;
    if (come && come !== this.saidCome) say(`${counted(come, "new row")} in ${this.props.caption}.`);
    this.saidCome = come;
  }

  render() {
    const { columns, caption, empty, tone } = this.props;
    const standing = this.standing();
    this.news = this.waiting(standing);
    const pages = Math.max(1, Math.ceil(standing.length / PAGE_ROWS));
    const page = Math.min(this.state.page, pages - 1);
    const part = standing.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS);
    const chosen = this.chosen();
    return html`<div class="tabled">
      ${this.notice()}
      ${standing.length === 0
        ? html`<div class="empty"><p class="title">${this.props.filter ? `Nothing matches “${this.props.filter}”` : empty}</p></div>`
        : html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table>
        <caption class="unseen">${caption}</caption>
        <thead><tr>${columns.map((column) => this.head(column, chosen))}</tr></thead>
        <tbody onKeyDown=${moved}>${part.map(({ key, row, isGone }) => html`<tr key=${key} data-key=${key}
          class="${isGone ? "gone" : ""} ${tone ? tone(row) : ""}">${columns.map((column, place) => cell(column, row, place, isGone))}</tr>`)}</tbody>
      </table></div>`}
      ${pages > 1 ? this.pager(page, pages, standing.length) : null}
    </div>`;
  }

  notice() {
    const { come, gone } = this.news;
    if (!come && !gone) return html`<div class="notice quiet"></div>`;
    const told = [come ? counted(come, "new row") : "", gone ? counted(gone, "row") + " gone" : ""];
    return html`<div class="notice"><span>${told.filter(Boolean).join(", ")}</span>
      <button onClick=${() => this.show()}>Show</button></div>`;
  }

  head(column, chosen) {
    const isSorted = chosen.sort === column.id;
    const order = !isSorted ? undefined : chosen.backwards ? "descending" : "ascending";
    const classes = `${column.number ? "number" : ""} ${column.drops ? `drops-${column.drops}` : ""}`;
    if (column.fixed) return html`<th key=${column.id} scope="col" class=${classes}>${column.title}</th>`;
    return html`<th key=${column.id} scope="col" class=${classes} aria-sort=${order}>
      <button class="sort" onClick=${() => this.sortBy(column.id)}>${column.title}<span aria-hidden="true"
        class="arrow">${!isSorted ? "" : chosen.backwards ? "↓" : "↑"}</span></button></th>`;
  }

  pager(page, pages, count) {
    const turn = (by) => this.setState({ page: page + by });
    return html`<nav class="pager" aria-label=${`Pages of ${this.props.caption}`}>
      <button disabled=${page === 0} onClick=${() => turn(-1)}>Back</button>
      <span>${whole(page * PAGE_ROWS + 1)} to ${whole(Math.min(count, (page + 1) * PAGE_ROWS))} of ${whole(count)}</span>
      <button disabled=${page === pages - 1} onClick=${() => turn(1)}>Next</button>
    </nav>`;
  }
}

function cell(column, row, place, isGone) {
  const classes = `${column.number ? "number" : ""} ${column.wraps ? "wraps" : ""} ${column.drops ? `drops-${column.drops}` : ""}`;
  const content = column.show ? column.show(row) : column.text(row);
  const href = column.href?.(row);
  const inside = href ? html`<a href=${href}>${content}</a>` : content;
  if (place > 0) return html`<td key=${column.id} class=${classes}>${inside}</td>`;
  return html`<th key=${column.id} scope="row" class=${classes}>${inside}${isGone ? html` <span class="tag">gone</span>` : null}</th>`;
}

/** Arrow keys go from row to row along the links of the first column. */
function moved(event) {
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  const row = event.target.closest?.("tr");
  if (!step || !row || event.ctrlKey || event.metaKey || event.altKey) return;
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  const target = next?.querySelector("a");
  if (!target) return;
  event.preventDefault();
  target.focus();
}
