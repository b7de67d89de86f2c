// The flagged rows, worst first: as pictures, curves, or a table.
const PAGE = 24;
let wanted = PAGE;

function statusOf(row) {
  const detail = detailOf.get(row);
  const kept = detail && !detail.changed ? ", left as it is" : "";
  if (flaggedByFit.has(row)) return `flagged${state.flagged.has(row) ? "" : " by the fit"}${kept}`;
  const unusual = suspects.has(row) ? "unusual, " : "";
  return `${unusual}${state.flagged.has(row) ? "would be flagged" : "not flagged"}${kept}`;
}

const decode = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

function picture(title, size, paint) {
  const [height, width] = shownRows.image_shape;
  const canvas = element("canvas", { width, height, role: "img", "aria-label": title });
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) paint(image.data, 4 * i, i);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return element("figure", { class: size }, canvas, element("figcaption", {}, title));
}

function pictures(detail, small) {
  const depth = shownRows.image_shape[2] ?? 1;
  const [before, after] = [decode(detail.before), decode(detail.after)];
  const grey = (values) => (data, at, i) => {
    for (let k = 0; k < 3; k++) data[at + k] = values[depth === 3 ? 3 * i + k : i];
    data[at + 3] = 255;
  };
  const change = (data, at, i) => {
    let sum = 0;
    for (let k = 0; k < depth; k++) sum += after[depth * i + k] - before[depth * i + k];
    const colour = sum < 0 ? [214, 69, 80] : [46, 134, 171]; // taken away, added
    for (let k = 0; k < 3; k++) data[at + k] = colour[k];
    data[at + 3] = Math.min(255, (1.4 * Math.abs(sum)) / depth);
  };
  const parts = [picture("before", "", grey(before)), picture("after", "", grey(after)), picture("difference", "", change)];
  return element("div", { class: small ? "pictures small" : "pictures" }, ...parts);
}

function curve(detail, small) {
  const [width, height, low] = small ? [260, 120, 0] : [420, 150, 44];
  const values = [...detail.before, ...detail.after].filter((value) => value !== null);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const n = detail.after.length;
  const top = height - low;
  const x = (i) => 4 + ((width - 8) * i) / Math.max(1, n - 1);
  const y = (value) => top - 6 - ((top - 12) * (value - least)) / (most - least || 1);
  const path = (series) => {
    let pen = "M";
    return series
      .map((value, i) => {
        if (value === null) {
          pen = "M";
          return "";
        }
        const part = `${pen}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = "L";
        return part;
      })
      .join("");
  };
  const view = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "curve", role: "img", "aria-label": "before and after" });
  view.append(svg("path", { class: "before", d: path(detail.before) }), svg("path", { class: "after", d: path(detail.after) }));
  if (low) {
    const change = detail.after.map((value, i) => (detail.before[i] === null ? 0 : value - detail.before[i]));
    const size = Math.max(...change.map(Math.abs)) || 1;
    const middle = top + low / 2;
    const area = change.map((value, i) => `L${x(i).toFixed(1)} ${(middle - (value / size) * (low / 2 - 3)).toFixed(1)}`);
    view.append(
      svg("line", { class: "grid", x1: 4, x2: width - 4, y1: middle, y2: middle }),
      svg("path", { class: "change", d: `M${x(0)} ${middle}${area.join("")}L${x(n - 1)} ${middle}Z` }),
    );
  }
  return view;
}

function cell(detail, j) {
  const [before, after] = [detail.before[j], detail.after[j]];
  const node = element("td", {}, element("span", { class: "now" }, number(after)));
  if (!detail.marked.includes(j)) return node;
  node.className = "marked";
  const size = before === null ? 1 : Math.min(1, Math.abs(after - before) / (3 * shownRows.spread[j]));
  node.style.setProperty("--size", `${Math.round(12 + 38 * size)}%`);
  node.append(element("del", {}, number(before)));
  if (before !== null) node.append(element("span", { class: "change" }, signed(after - before)));
  return node;
}

function cells(detail) {
  const list = element("dl", { class: "cells" });
  const most = (j) => (detail.before[j] === null ? Infinity : Math.abs(detail.after[j] - detail.before[j]) / shownRows.spread[j]);
  const order = shownRows.columns.map((_, j) => j).sort((a, b) => most(b) - most(a));
  for (const j of order.slice(0, 6)) {
    const value = detail.marked.includes(j) ? `${number(detail.before[j])} → ${number(detail.after[j])}` : number(detail.after[j]);
    list.append(element("dt", {}, shownRows.columns[j]), element("dd", {}, value));
  }
  return list;
}

const rowView = (detail, small) => ({ pictures, curves: curve, table: cells })[shownRows.view](detail, small);

function heading(row, rank) {
  return [
    element("span", { class: "rank" }, String(rank)),
    element("span", { class: "name" }, rowName(row)),
    element("span", { class: "score" }, number(scoreOf.get(row))),
    ...(suspects.has(row) ? [element("span", { class: "quiet" }, "unusual")] : []),
  ];
}

function card(row, rank) {
  const node = element("li", { class: "card", "data-row": row, tabindex: rank === 1 ? 0 : -1 });
  node.append(element("div", { class: "heading" }, ...heading(row, rank)));
  const detail = detailOf.get(row);
  node.append(detail ? rowView(detail, false) : element("p", { class: "quiet" }, "its values are not in this file"));
  if (!flaggedByFit.has(row) || (detail && !detail.changed)) node.append(element("p", { class: "quiet" }, statusOf(row)));
  return node;
}

function tableRow(row, rank) {
  const node = element("tr", { "data-row": row, tabindex: rank === 1 ? 0 : -1 });
  node.append(element("th", { scope: "row" }, element("div", { class: "heading" }, ...heading(row, rank))));
  const detail = detailOf.get(row);
  if (detail) node.append(...shownRows.columns.map((_, j) => cell(detail, j)));
  else node.append(element("td", { colspan: shownRows.columns.length, class: "quiet" }, "its values are not in this file"));
  return node;
}

function table(items) {
  const head = element("tr", {}, element("th", { scope: "col" }, "row, score"));
  head.append(...shownRows.columns.map((name) => element("th", { scope: "col" }, name)));
  const body = element("tbody", {}, ...items);
  return element("div", { class: "scroll" }, element("table", { class: "data" }, element("thead", {}, head), body));
}

function listRows() {
  const order = scores.rows.filter((row) => state.flagged.has(row));
  const list = $("list");
  const visible = order.slice(0, wanted);
  const make = shownRows.view === "table" ? tableRow : card;
  const items = visible.map((row, i) => make(row, i + 1));
  if (!items.length) list.replaceChildren(element("p", { class: "empty" }, "No row is above the threshold."));
  else if (shownRows.view === "table") list.replaceChildren(table(items));
  else list.replaceChildren(element("ol", { class: `cards ${shownRows.view}` }, ...items));
  const more = order.length - visible.length;
  $("more").hidden = more <= 0;
  $("more").textContent = more > PAGE ? `Show ${PAGE} more of ${whole(more)}` : `Show ${more} more`;
  markRow();
}

function markRow() {
  for (const node of document.querySelectorAll("[data-row].current")) node.classList.remove("current");
  if (state.row !== null) document.querySelector(`[data-row="${state.row}"]`)?.classList.add("current");
}

function startRows() {
  const list = $("list");
  const rowUnder = (event) => event.target.closest("[data-row]");
  for (const kind of ["pointerover", "focusin"]) {
    list.addEventListener(kind, (event) => rowUnder(event) && highlight(Number(rowUnder(event).dataset.row)));
  }
  list.addEventListener("keydown", (event) => {
    const now = rowUnder(event);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!now || !step) return;
    event.preventDefault();
    const all = [...list.querySelectorAll("[data-row]")];
    const next = all[Math.min(all.length - 1, Math.max(0, all.indexOf(now) + step))];
    now.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  $("more").addEventListener("click", () => {
    wanted += PAGE;
    listRows();
  });
  // A slider that is dragged tells many times a second; the list is made anew once per picture on the screen.
  let waiting = false;
  on("threshold", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      wanted = PAGE;
      listRows();
    });
  });
  on("row", markRow);
  listRows();
}
