// The rows of every view as the server told them last, by key, and how fresh they are. Views read them; the stream
// (`wire.js`) writes them.
class Rows {
  byKey = new Map();

  isRead = false;

  /** Grows with each change, so that what is made of the rows is made anew only then. */
  version = 0;

  /** Grows while a view is read for the first time, when rows may still find their places. */
  reading = 0;

  /** Why rows or columns are missing. */
  unread = "";

  /** Keys of before that a view which begins anew has not told again yet. */
  old = null;

  /** Whether all rows of a view that began have come. */
  isWhole = true;

  replace(rows, unread, isWhole, isReading) {
    if (this.isRead) this.old = new Set(this.byKey.keys());
    this.unread = unread;
    this.isRead = true;
    this.isWhole = false;
    this.change(rows, [], isWhole, isReading);
  }

  /** With `isReading` the server itself has not read all yet, and no row is new to a person. */
  change(changed, removed, isWhole, isReading) {
    for (const row of changed) {
      this.byKey.set(row.key, row);
      this.old?.delete(row.key);
    }
    for (const key of removed) this.byKey.delete(key);
    this.version += 1;
    if (this.isWhole && !isReading) return;
    if (!this.old) this.reading += 1;
    this.isWhole = isWhole;
    if (!isWhole) return;
    // Rows that were not told again are gone.
    for (const key of this.old ?? []) this.byKey.delete(key);
    this.old = null;
  }
}

export class Store {
  /** `changed` draws the page, and `partlyChanged` some time later, with what has come until then. */
  constructor(changed, partlyChanged) {
    this.changed = changed;
    this.partlyChanged = partlyChanged;
    this.views = new Map();
    /** "connecting", "reading", "live" or "away"; `asOf` is when the rows were last known to be right. */
    this.source = { state: "connecting", asOf: null, why: "", problems: [], notes: [], queuesAsOf: "" };
    this.about = null;
    this.login = null;
  }

  rows(view) {
    if (!this.views.has(view)) this.views.set(view, new Rows());
    return this.views.get(view);
  }

  replace(view, rows, unread, isWhole) {
    this.rows(view).replace(rows, unread, isWhole, this.source.state === "reading");
    this.changed();
  }

  change(view, changed, removed, isWhole) {
    this.rows(view).change(changed, removed, isWhole, this.source.state === "reading");
    if (isWhole) this.changed();
    else this.partlyChanged();
  }

  heartbeat(at) {
    if (this.source.state === "live") this.source.asOf = at;
  }

  tellSource(source) {
    this.source = { ...this.source, ...source, asOf: source.asOf ?? this.source.asOf };
    this.changed();
  }

  tellAbout(about) {
    this.about = about;
    this.changed();
  }

  tellLogin(refusal) {
    this.login = refusal;
    this.changed();
  }
}
