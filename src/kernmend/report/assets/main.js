// The objective, the buttons, and the start.
function drawObjective(width) {
  const { iterations, values } = facts.objective;
  const [left, right, top, bottom, height] = [58, 12, 10, 28, 210];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const last = iterations[iterations.length - 1] || 1;
  const x = (i) => left + ((width - left - right) * i) / last;
  const y = (value) => height - bottom - ((height - top - bottom) * (value - low)) / (high - low || 1);
  const view = drawing(width, height, { role: "img", "aria-label": "Objective after each iteration" });
  for (const value of high > low ? ticks(low, high, 4) : [low]) {
    view.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)),
    );
  }
  for (const i of ticks(0, last, Math.min(last, width / 90)).filter(Number.isInteger)) {
    view.append(svg("text", { class: "tick", x: x(i), y: height - 8, "text-anchor": "middle" }, whole(i)));
  }
  const points = iterations.map((i, k) => `${x(i).toFixed(1)} ${y(values[k]).toFixed(1)}`);
  view.append(
    svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    svg("path", { class: "objective", d: `M${points.join("L")}` }),
    svg("circle", { class: "end", cx: x(last), cy: y(values[values.length - 1]), r: 4 }),
  );
  $("objective-plot").replaceChildren(view);
}

// Paper has no buttons: the first rows are printed, up to a number that somebody may read, and it is said how many are
// left out. What was shown before is shown again after it.
const PRINTED = 200;

function startPrinting() {
  let before = [];
  addEventListener("beforeprint", () => {
    before = [review.wanted, wanted];
    [review.wanted, wanted] = [PRINTED, PRINTED];
    listChanges();
    listRows();
    const left = { "more-changes": wantedRows().length - PRINTED, more: state.flagged.size - PRINTED };
    for (const [id, count] of Object.entries(left)) $(id).textContent = `${whole(count)} more rows are not printed`;
  });
  addEventListener("afterprint", () => {
    [review.wanted, wanted] = before;
    listChanges();
    listRows();
  });
}

function startButtons() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const button = $("theme");
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show the page ${isDark() ? "light" : "dark"}`);
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();
  $("print").addEventListener("click", () => print());
  for (const [copy, code] of [["copy", "code"], ["copy-patch", "patch"]]) {
    $(copy).addEventListener("click", () => {
      // Selecting works everywhere; the clipboard may be closed to a page that was opened from disk.
      getSelection().selectAllChildren($(code));
      navigator.clipboard?.writeText($(code).textContent).then(
        () => ($(copy).textContent = "Copied"),
        () => {},
      );
    });
  }
}

startScores();
startMap();
startRows();
startReview();
if ($("objective-plot")) drawn($("objective-plot"), drawObjective);
startButtons();
startPrinting();
document.documentElement.dataset.ready = "yes";
