// Two maps of the same plane, before and after. Pointing at one finds the nearest row in both.
const MAP_PAD = 16;

// The plane shows all rows as they are now; rows that were far outside are drawn at its rim.
function mapWindow() {
  const limits = [0, 1].map((k) => {
    const now = map.after.map((place) => place[k]);
    const then = map.before.map((place) => place[k]);
    const [low, high] = [Math.min(...now), Math.max(...now)];
    const room = (high - low || 1) * 0.75;
    return [Math.max(Math.min(low, ...then), low - room), Math.min(Math.max(high, ...then), high + room)];
  });
  return limits.map(([low, high]) => (high > low ? [low, high] : [low - 1, high + 1]));
}

function drawMap(node, places, from) {
  const limits = mapWindow();
  const dots = new Map();
  let where = [];
  let ring = null;

  function draw(width) {
    const height = Math.round(Math.min(width, 420));
    const scale = Math.min(
      (width - 2 * MAP_PAD) / (limits[0][1] - limits[0][0]),
      (height - 2 * MAP_PAD) / (limits[1][1] - limits[1][0]),
    );
    // Equal units on both axes only where they are the data's own; components may be stretched.
    const same = facts.n_columns === 2;
    const scales = same
      ? [scale, scale]
      : [(width - 2 * MAP_PAD) / (limits[0][1] - limits[0][0]), (height - 2 * MAP_PAD) / (limits[1][1] - limits[1][0])];
    const middles = limits.map(([low, high]) => (low + high) / 2);
    const place = (point) => {
      const inside = point.map((value, k) => Math.min(limits[k][1], Math.max(limits[k][0], value)));
      return [width / 2 + (inside[0] - middles[0]) * scales[0], height / 2 - (inside[1] - middles[1]) * scales[1]];
    };
    where = places.map(place);
    const picture = drawing(width, height, { "aria-hidden": "true" });
    const [trails, points] = [svg("g"), svg("g")];
    dots.clear();
    // The worst rows are first in the list and drawn last, on top.
    for (let i = map.rows.length - 1; i >= 0; i--) {
      const row = map.rows[i];
      const [x, y] = where[i];
      const parts = [svg("circle", { class: "dot", cx: x, cy: y, r: 2.5 })];
      points.append(parts[0]);
      if (from && flaggedByFit.has(row)) {
        const [x0, y0] = place(from[i]);
        parts.push(svg("line", { class: "trail", x1: x0, y1: y0, x2: x, y2: y }));
        trails.append(parts[1]);
      }
      dots.set(row, parts);
    }
    ring = svg("circle", { class: "ring", r: 9, visibility: "hidden" });
    picture.append(trails, points, ring);
    node.replaceChildren(picture);
    marked = new Set();
    mark();
    point();
  }

  let marked = new Set();
  function mark() {
    for (const row of marked) if (!state.flagged.has(row)) dots.get(row)?.[0].classList.remove("flagged");
    for (const row of state.flagged) if (!marked.has(row)) dots.get(row)?.[0].classList.add("flagged");
    for (const row of new Set([...marked, ...state.flagged])) {
      const dot = dots.get(row)?.[0];
      dot?.setAttribute("r", state.flagged.has(row) ? 4 : 2.5);
    }
    marked = new Set(state.flagged);
  }

  function point() {
    const i = map.rows.indexOf(state.row);
    ring?.setAttribute("visibility", i < 0 ? "hidden" : "visible");
    if (ring && i >= 0) {
      ring.setAttribute("cx", where[i][0]);
      ring.setAttribute("cy", where[i][1]);
    }
  }

  node.addEventListener("pointermove", (event) => {
    const box = node.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = -1;
    let least = 24 ** 2;
    where.forEach((spot, i) => {
      // A flagged row wins over a good one that is a little nearer: it is what one points at.
      const distance = ((spot[0] - x) ** 2 + (spot[1] - y) ** 2) * (state.flagged.has(map.rows[i]) ? 0.5 : 1);
      if (distance < least) [best, least] = [i, distance];
    });
    if (best >= 0) highlight(map.rows[best]);
  });
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = map.rows.indexOf(state.row);
    highlight(map.rows[Math.min(map.rows.length - 1, Math.max(0, now < 0 ? 0 : now + step))]);
  });
  on("threshold", mark);
  on("row", point);
  drawn(node, draw);
}

function inspect() {
  const box = $("inspector");
  if (state.row === null) return;
  const detail = detailOf.get(state.row);
  const score = scoreOf.get(state.row);
  const heading = element("p", { class: "name" }, rowName(state.row));
  const words = [score === undefined ? "" : `score ${number(score)}`, statusOf(state.row)].filter(Boolean).join(" · ");
  box.replaceChildren(heading, element("p", { class: "quiet" }, words));
  if (detail) box.append(rowView(detail, true));
}

function startMap() {
  drawMap($("map-before"), map.before, null);
  drawMap($("map-after"), map.after, map.before);
  on("row", inspect);
  on("threshold", inspect);
}
