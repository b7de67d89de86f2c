// The review: every change can be accepted or rejected, and the decisions saved as the change log that
// `kernmend patch` applies. Texts are those of the log; an apostrophe stands before what might be a formula.
const LOG = ["row", "label", "column", "old", "new", "low", "high", "kind", "score", "reason", "accepted"];
const OPEN_CELLS = shownRows.view === "table" ? 12 : 3; // in a row that is shown with its cells open
const logText = (k) => facts.changes.texts[k];
const said = (k) => logText(k).replace(/^'/, "");
const changes = facts.changes.lines.map((line, index) => {
  const [row, label, column, old, now, low, high, kind, score, reason, accepted, numbers] = line;
  return { index, row, accepted: Boolean(accepted), numbers, texts: [label, column, old, now, low, high, kind, score, reason] };
});
const field = (change, name) => said(change.texts[LOG.indexOf(name) - 1]);
const undone = [];
const review = { column: "", kind: "", wanted: 12 };
const rangeOf = new Map(facts.columns.lines.map((column) => [column.name, column.after]));

// Row numbers of the file: those without any number are not in the data.
function fileRow(row) {
  let number = row;
  for (const skipped of facts.skipped_rows) if (skipped <= number) number++;
  return number;
}

const byRow = new Map();
for (const change of changes) {
  if (!byRow.has(change.row)) byRow.set(change.row, []);
  byRow.get(change.row).push(change);
}

function decide(some, accepted) {
  const turned = some.filter((change) => change.accepted !== accepted);
  if (!turned.length) return;
  undone.push(turned);
  for (const change of turned) change.accepted = accepted;
  showDecisions(turned);
}

function undo() {
  const turned = undone.pop();
  if (!turned) return;
  for (const change of turned) change.accepted = !change.accepted;
  showDecisions(turned);
}

function showDecisions(turned) {
  for (const change of turned) document.querySelectorAll(`[data-change="${change.index}"]`).forEach(showDecision);
  for (const row of new Set(turned.map((change) => change.row))) {
    const card = document.querySelector(`[data-review="${row}"]`);
    if (card) showRow(card, row);
  }
  count();
  if (review.kind === "rejected") listChanges();
}

function showDecision(node) {
  const { accepted } = changes[Number(node.dataset.change)];
  node.classList.toggle("rejected", !accepted);
  const button = node.querySelector("button");
  button.setAttribute("aria-pressed", String(accepted));
  button.textContent = accepted ? "accepted" : "rejected";
}

function showRow(card, row) {
  const some = byRow.get(row);
  const left = some.filter((change) => !change.accepted).length;
  card.classList.toggle("rejected", left === some.length);
  const button = card.querySelector(".whole");
  button.textContent = left === some.length ? "Accept row" : "Reject row";
  const part = card.querySelector(".decided");
  part.textContent = !left ? "accepted" : left === some.length ? "rejected" : `${left} of ${some.length} rejected`;
}

function count() {
  const left = changes.filter((change) => !change.accepted).length;
  const of = facts.changes.cells < facts.changes.total ? `${whole(changes.length)} shown` : whole(changes.length);
  $("decided").textContent = `${whole(changes.length - left)} of ${of} changes accepted, ${whole(left)} rejected`;
  $("undo").disabled = !undone.length;
}

// What the column holds as a grey line, the interval on it, the new value as a dot, the old one as a cross. What lies
// far outside is drawn at the rim.
function interval(change) {
  const [old, now, low, high] = change.numbers;
  const [width, height, pad] = [132, 20, 8];
  const range = (rangeOf.get(field(change, "column")) ?? []).filter((value) => value !== null);
  const inside = [...range, now].filter((value) => value !== null);
  if (!inside.length) return document.createTextNode("");
  let [least, most] = [Math.min(...inside), Math.max(...inside)];
  const room = (most - least || Math.abs(most) || 1) * 0.35;
  [least, most] = [least - room, most + room];
  const x = (value) => pad + ((width - 2 * pad) * (Math.min(most, Math.max(least, value)) - least)) / (most - least);
  const words = low === null ? number(now) : `${number(now)}, between ${number(low)} and ${number(high)}`;
  const view = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "interval", role: "img", "aria-label": words });
  const middle = height / 2;
  if (range.length) view.append(svg("line", { class: "range", x1: x(range[0]), x2: x(range[1]), y1: middle, y2: middle }));
  if (low !== null) view.append(svg("line", { class: "between", x1: x(low), x2: x(high), y1: middle, y2: middle }));
  if (old !== null) {
    const at = x(old);
    view.append(svg("path", { class: "old", d: `M${at - 3.5} ${middle - 3.5}l7 7m0 -7l-7 7` }));
  }
  if (now !== null) view.append(svg("circle", { class: "new", cx: x(now), cy: middle, r: 4 }));
  return view;
}

// A number as a float prints it, with up to 17 digits, is shown with 7 of them and named in full when pointed at; what a
// file writes is shorter than that and stays. The log that is downloaded always has all of them.
function value(tag, text) {
  const long = /^-?\d+\.\d{8,}(e[-+]?\d+)?$/i.test(text);
  return element(tag, long ? { title: text } : {}, long ? String(Number(Number(text).toPrecision(7))) : text);
}

function changeLine(change) {
  const node = element("li", { class: "cell-change", "data-change": change.index });
  const [low, high] = [field(change, "low"), field(change, "high")];
  const missing = field(change, "kind") === "missing";
  const was = missing ? element("span", { class: "quiet" }, field(change, "old").trim() || "missing") : value("del", field(change, "old").trim());
  const values = element("p", { class: "values" }, was, " → ", value("ins", field(change, "new") || "blank"));
  if (low && change.numbers) values.append(element("span", { class: "quiet" }, ` ${low} to ${high}`));
  const button = element("button", { type: "button", class: "decide" });
  button.addEventListener("click", () => decide([change], !change.accepted));
  node.append(
    element("p", { class: "column" }, field(change, "column")),
    values,
    element("div", { class: "drawn" }, ...(change.numbers ? [interval(change)] : [])),
    element("p", { class: "why" }, field(change, "reason")),
    button,
  );
  showDecision(node);
  return node;
}

function nearestRows(row) {
  const near = facts.changes.nearest[row];
  if (!near?.length) return [];
  const words = element("p", { class: "near quiet" }, "Nearest good rows: ");
  near.forEach(([other, label], i) => {
    const link = element("button", { type: "button", class: "link" }, rowName(other, label));
    link.addEventListener("click", () => highlight(other));
    words.append(i ? " " : "", link);
  });
  return [words];
}

function changedRow(row, some) {
  const card = element("li", { class: "changed-row", "data-review": row });
  const button = element("button", { type: "button", class: "whole" });
  button.addEventListener("click", () => decide(byRow.get(row), byRow.get(row).every((change) => !change.accepted)));
  const status = flaggedByFit.has(row) ? `flagged, score ${number(scoreOf.get(row) ?? Number(field(some[0], "score")))}` : "filled in, not flagged";
  const heading = element("div", { class: "heading" });
  heading.append(element("h3", {}, rowName(row, field(some[0], "label"))), element("span", { class: "quiet" }, status));
  heading.append(element("span", { class: "decided quiet" }), button);
  card.append(heading, ...nearestRows(row));
  const detail = detailOf.get(row);
  if (detail && shownRows.view !== "table") card.append(rowView(detail, true));
  const list = element("ul", { class: "changes" });
  if (some.length <= OPEN_CELLS) {
    list.append(...some.map(changeLine));
    card.append(list);
  } else {
    const fold = element("details", {}, element("summary", {}, `${whole(some.length)} changes, one by one`), list);
    fold.addEventListener("toggle", () => list.children.length || list.append(...some.map(changeLine)));
    card.append(fold);
  }
  showRow(card, row);
  return card;
}

function isWanted(change) {
  if (review.column && field(change, "column") !== review.column) return false;
  if (review.kind === "rejected") return !change.accepted;
  if (review.kind === "unflagged") return !flaggedByFit.has(change.row);
  return !review.kind || field(change, "kind") === review.kind;
}

function wantedRows() {
  const rows = [];
  for (const [row, all] of byRow) {
    const some = all.filter(isWanted);
    if (some.length) rows.push([row, some]);
  }
  return rows;
}

function listChanges() {
  const rows = wantedRows();
  const shown = rows.slice(0, review.wanted);
  $("changes").replaceChildren(...shown.map(([row, some]) => changedRow(row, some)));
  if (!rows.length) $("changes").replaceChildren(element("li", { class: "empty" }, changes.length ? "No such change." : "Nothing was changed."));
  const more = rows.length - shown.length;
  $("more-changes").hidden = more <= 0;
  $("more-changes").textContent = more > 24 ? `Show 24 more of ${whole(more)} rows` : `Show ${more} more`;
  for (const id of ["accept-shown", "reject-shown"]) $(id).disabled = !rows.length;
}

// The change log as `kernmend patch` reads it.
function decisions() {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const out = [LOG.join(",")];
  for (const change of [...changes].sort((a, b) => a.row - b.row || a.index - b.index)) {
    const texts = change.texts.map((k) => quoted(logText(k)));
    out.push([fileRow(change.row), ...texts, change.accepted ? "yes" : "no"].join(","));
  }
  return `${out.join("\n")}\n`;
}

function download() {
  const address = URL.createObjectURL(new Blob([decisions()], { type: "text/csv" }));
  const link = element("a", { href: address, download: facts.commands.decisions });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// Arrows walk from change to change; a and r decide on it, with Shift on its row; u takes the last decision back.
function onKey(event) {
  if (event.ctrlKey && event.key.toLowerCase() === "z") {
    event.preventDefault();
    return undo();
  }
  if (event.altKey || event.ctrlKey || event.metaKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return undefined;
  if (event.key === "u") return undo();
  const card = event.target.closest("[data-review]");
  if (!card) return undefined;
  const some = byRow.get(Number(card.dataset.review));
  const line = event.target.closest("[data-change]");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    const all = [...$("changes").querySelectorAll(".whole, .decide, summary")].filter((node) => node.checkVisibility());
    return all[Math.min(all.length - 1, Math.max(0, all.indexOf(event.target) + step))]?.focus();
  }
  const key = event.key.toLowerCase();
  if (key !== "a" && key !== "r") return undefined;
  return decide(line && !event.shiftKey ? [changes[Number(line.dataset.change)]] : some, key === "a");
}

function startReview() {
  const names = [...new Set(changes.map((change) => field(change, "column")))];
  const few = names.length <= 500 ? names : [];
  $("by-column").append(...few.map((name) => element("option", { value: name }, name)));
  $("by-column").addEventListener("change", (event) => {
    [review.column, review.wanted] = [event.target.value, 12];
    listChanges();
  });
  $("by-kind").addEventListener("change", (event) => {
    [review.kind, review.wanted] = [event.target.value, 12];
    listChanges();
  });
  $("more-changes").addEventListener("click", () => {
    review.wanted += 24;
    listChanges();
  });
  $("undo").addEventListener("click", undo);
  $("accept-shown").addEventListener("click", () => decide(wantedRows().flatMap(([, some]) => some), true));
  $("reject-shown").addEventListener("click", () => decide(wantedRows().flatMap(([, some]) => some), false));
  $("download").addEventListener("click", download);
  $("review").addEventListener("keydown", onKey);
  for (const kind of ["pointerover", "focusin"]) {
    $("changes").addEventListener(kind, (event) => {
      const card = event.target.closest("[data-review]");
      if (card) highlight(Number(card.dataset.review));
    });
  }
  count();
  listChanges();
}
