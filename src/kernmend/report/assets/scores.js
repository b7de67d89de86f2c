// The histogram of the scores and the slider that moves the threshold.
const axis = scores.axis;
const position = (score) => {
  const place = (score - axis.centre) / axis.unit;
  return axis.scale === "asinh" ? Math.asinh(place) : place;
};
const scoreAt = (place) => axis.centre + axis.unit * (axis.scale === "asinh" ? Math.sinh(place) : place);
const [firstPlace, lastPlace] = [position(axis.low), position(axis.high)];
const share = (score) => Math.min(1, Math.max(0, (position(score) - firstPlace) / (lastPlace - firstPlace)));
const scoreAtShare = (part) => scoreAt(firstPlace + part * (lastPlace - firstPlace));

const STEPS = 1000;
const SIDE = { left: 44, right: 12, top: 14, bottom: 28, height: 230 };

function scoreTicks(width) {
  if (axis.scale === "linear") return ticks(axis.low, axis.high, width / 90);
  const wanted = [0];
  for (let power = -6; power <= 9; power++) {
    for (const factor of [1, 3]) wanted.push(factor * 10 ** power, -factor * 10 ** power);
  }
  // Powers of ten first; others only where there is room.
  wanted.sort((a, b) => (Math.abs(Math.log10(Math.abs(a) || 1)) % 1) - (Math.abs(Math.log10(Math.abs(b) || 1)) % 1));
  const kept = [];
  for (const value of wanted) {
    if (value < axis.low || value > axis.high) continue;
    if (kept.every((other) => Math.abs(share(other) - share(value)) * width > 48)) kept.push(value);
  }
  return kept;
}

function drawHistogram(width) {
  const { edges, counts } = scores.histogram;
  const inner = width - SIDE.left - SIDE.right;
  const floor = SIDE.height - SIDE.bottom;
  const x = (score) => SIDE.left + share(score) * inner;
  // Heights are logarithmic: one wrong row among ten thousand is still seen.
  const most = Math.log1p(Math.max(...counts));
  const y = (count) => floor - (Math.log1p(count) / most) * (floor - SIDE.top);
  const picture = drawing(width, SIDE.height, { role: "img", "aria-label": "Histogram of the scores" });
  for (const count of [1, 10, 100, 1000, 10000, 100000].filter((count) => count <= Math.max(...counts))) {
    picture.append(
      svg("line", { class: "grid", x1: SIDE.left, x2: width - SIDE.right, y1: y(count), y2: y(count) }),
      svg("text", { class: "tick", x: SIDE.left - 8, y: y(count) + 4, "text-anchor": "end" }, whole(count)),
    );
  }
  const bars = svg("path", {
    d: counts
      .map((count, i) => {
        if (!count) return "";
        const [a, b] = [x(edges[i]) + 0.5, Math.max(x(edges[i + 1]) - 0.5, x(edges[i]) + 1)];
        return `M${a} ${floor}V${y(count)}H${b}V${floor}Z`;
      })
      .join(""),
  });
  const clip = svg("rect", { x: 0, y: 0, width, height: SIDE.height });
  picture.append(svg("clipPath", { id: "above" }, clip));
  const flagged = bars.cloneNode();
  bars.setAttribute("class", "bar");
  flagged.setAttribute("class", "bar flagged");
  flagged.setAttribute("clip-path", "url(#above)");
  const line = svg("line", { class: "threshold", y1: SIDE.top - 8, y2: floor });
  const word = svg("text", { class: "word", y: SIDE.top }, "threshold");
  const marker = svg("g", { class: "marker", visibility: "hidden" });
  marker.append(svg("line", { y1: SIDE.top, y2: floor }), svg("circle", { cy: floor, r: 5 }));
  picture.append(bars, flagged, svg("line", { class: "axis", x1: SIDE.left, x2: width - SIDE.right, y1: floor, y2: floor }));
  for (const value of scoreTicks(inner)) {
    picture.append(svg("text", { class: "tick", x: x(value), y: floor + 18, "text-anchor": "middle" }, number(value)));
  }
  picture.append(line, word, marker);
  $("histogram").replaceChildren(picture);

  redrawScores = () => {
    const at = state.threshold === null ? width - SIDE.right : x(state.threshold);
    clip.setAttribute("x", at);
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    word.setAttribute("x", at + (at > width - 90 ? -6 : 6));
    word.setAttribute("text-anchor", at > width - 90 ? "end" : "start");
    for (const part of [line, word]) part.setAttribute("visibility", state.threshold === null ? "hidden" : "visible");
  };
  redrawMarker = () => {
    const score = state.row === null ? undefined : scoreOf.get(state.row);
    marker.setAttribute("visibility", score === undefined ? "hidden" : "visible");
    if (score !== undefined) marker.setAttribute("transform", `translate(${x(score)} 0)`);
    marker.classList.toggle("flagged", state.flagged.has(state.row));
  };
  redrawScores();
  redrawMarker();
}
let redrawScores = () => {};
let redrawMarker = () => {};

function describeThreshold() {
  const part = ((100 * state.count) / facts.n_rows).toFixed(1);
  const about = state.moved && scores.certain < scores.rows.length && state.count > scores.certain ? "about " : "";
  const would = state.moved ? "would be flagged" : state.count === 1 ? "is flagged" : "are flagged";
  const limit = state.threshold === null ? "No threshold" : `Above ${number(state.threshold)}`;
  const subject = state.count === 1 ? "row" : "rows";
  $("count").textContent = `${limit}: ${about}${whole(state.count)} of ${whole(facts.n_rows)} ${subject} ${would}, ${part} %`;
  $("slider").setAttribute("aria-valuetext", $("count").textContent);
  $("reset").disabled = !state.moved;
  const advice = $("advice");
  advice.hidden = !state.moved || state.count === facts.n_flagged;
  const wanted = state.count / facts.n_rows;
  if (wanted > 0.5) {
    advice.textContent = "More than half of the rows cannot be flagged: there would be nothing left to compare with.";
    return;
  }
  const share = Number(wanted.toPrecision(4));
  const command = facts.commands.flag ? `${facts.commands.flag} ${share}` : `contamination=${share}`;
  advice.replaceChildren(facts.commands.flag ? "To flag these: " : "To flag these, fit with ", element("code", {}, command));
}

// Rows that stand out, but not enough to be flagged.
function nameSuspects() {
  if (!suspects.size) return;
  const most = 12;
  const names = scores.suspects.slice(0, most).map((row) => `${rowName(row)} (${number(scoreOf.get(row))})`);
  const more = suspects.size - names.length;
  $("suspects").textContent = `Unusual, not changed: ${names.join(", ")}${more ? ` and ${whole(more)} more` : ""}.`;
}

function startScores() {
  nameSuspects();
  const slider = $("slider");
  const place = () => (slider.value = state.threshold === null ? STEPS : Math.round(STEPS * share(state.threshold)));
  place();
  slider.addEventListener("input", () => setThreshold(scoreAtShare(slider.value / STEPS)));
  $("reset").addEventListener("click", () => {
    setThreshold(scores.threshold, false);
    place();
    slider.focus();
  });
  const drag = (event) => {
    const box = $("histogram").getBoundingClientRect();
    const part = (event.clientX - box.left - SIDE.left) / (box.width - SIDE.left - SIDE.right);
    setThreshold(scoreAtShare(Math.min(1, Math.max(0, part))));
    place();
  };
  $("histogram").addEventListener("pointerdown", (event) => {
    $("histogram").setPointerCapture(event.pointerId);
    drag(event);
  });
  $("histogram").addEventListener("pointermove", (event) => event.buttons & 1 && drag(event));
  on("threshold", () => {
    redrawScores();
    redrawMarker();
    describeThreshold();
  });
  on("row", () => redrawMarker());
  describeThreshold();
  drawn($("histogram"), drawHistogram);
}
