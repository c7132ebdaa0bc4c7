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

  endsAt = 0;

  replace(rows, unread, together) {
    if (this.isRead) this.old = new Set(this.byKey.keys());
    else this.reading += 1;
    this.unread = unread;
    this.isRead = true;
    this.endsAt = performance.now() + together;
    this.take(rows, []);
  }

  change(changed, removed, together) {
    const now = performance.now();
    if (now < this.endsAt) {
      this.endsAt = now + together;
      if (!this.old) this.reading += 1;
    }
    this.take(changed, removed);
  }

  take(changed, removed) {
    for (const row of changed) {
      this.byKey.set(row.key, row);
      this.old?.delete(row.key);
    }
    for (const key of removed) this.byKey.delete(key);
    this.version += 1;
  }

  /** Rows that were not told again are gone once all others were; true if there were any. */
  settle() {
    if (!this.old || performance.now() < this.endsAt) return false;
    const gone = [...this.old];
    this.old = null;
    this.take([], gone);
    return gone.length > 0;
  }
}

export class Store {
  constructor(changed) {
    this.changed = changed;
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

  replace(view, rows, unread, together) {
    this.rows(view).replace(rows, unread, together);
    setTimeout(() => this.settle(view), together + 50);
    this.changed();
  }

  settle(view) {
    const rows = this.rows(view);
    if (rows.settle()) this.changed();
    else if (rows.old) setTimeout(() => this.settle(view), 500);
  }

  change(view, changed, removed, together) {
    this.rows(view).change(changed, removed, together);
    this.changed();
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
