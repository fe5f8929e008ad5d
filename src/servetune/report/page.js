// Draws the charts in the reader's theme, keeps them in step with the controls, opens what is
// folded, copies commands.
const { charts, themes } = JSON.parse(document.getElementById("charts").textContent);
// Charts of the same rows hold them once.
for (const chart of Object.values(charts)) {
  const from = chart.usermeta?.rowsOf;
  if (from) chart.datasets.rows = charts[from].datasets.rows;
}
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const views = new Map();
const hidden = new Set();

// A chart obeys the selects of its own section, and the legend of the whole page.
function signalsOf(element) {
  const signals = { hidden: [...hidden] };
  const section = element.closest("section");
  for (const select of section.querySelectorAll("select[data-param]")) {
    signals[select.dataset.param] = select.value;
  }
  for (const input of section.querySelectorAll("input[data-param]")) {
    signals[input.dataset.param] = Number(input.value || input.dataset.default);
  }
  return signals;
}

function updateAll(section) {
  return Promise.all(elements.filter((element) => section.contains(element)).map(update));
}

// What is brushed over in one chart becomes the time of all charts of its section.
function brushing(element, view) {
  let ranges = null;
  view.addSignalListener("brush", (_, value) => (ranges = value.time ?? null));
  element.addEventListener("pointerup", async () => {
    if (!ranges) return;
    const section = element.closest("section");
    const [from, until] = [...ranges].sort((a, b) => a - b);
    section.querySelector("input[data-param='from']").value = from.toFixed(2);
    section.querySelector("input[data-param='until']").value = until.toFixed(2);
    ranges = null;
    view.signal("brush_x", [0, 0]);
    await updateAll(section);
  });
}

async function update(element) {
  const figure = element.closest("figure");
  const wasHidden = figure.hidden;
  if (!show(element)) return;
  const view = views.get(element)?.view;
  if (!view) {
    if (wasHidden) await draw(element);
    return;
  }
  const known = view.getState({ data: () => false, signals: (name) => name }).signals;
  for (const [name, value] of Object.entries(signalsOf(element))) {
    if (name in known) view.signal(name, value);
  }
  await view.runAsync();
  if (wasHidden) fit(figure);
}

// A chart without a row of what is selected is not shown.
function show(element) {
  const signals = signalsOf(element);
  const selects = (row) => (name) => !(name in row && name in signals) || row[name] === signals[name];
  const { rows } = charts[element.dataset.chart].datasets;
  const has = rows.some((row) => ["run", "where", "workload", "objective"].every(selects(row)));
  element.closest("figure").hidden = !has;
  return has;
}

// Labels of points keep clear of points, of other text and of the edge: one that does not is left
// out. The first comes first, so a chart's rows begin with those whose labels matter most.
const GAP = 10; // pixels between labels, so that they do not read as one
function declutter(element) {
  const labels = [...element.querySelectorAll(".role-mark.mark-text text")];
  const frame = element.getBoundingClientRect();
  const taken = [...element.querySelectorAll("text, .role-mark.mark-symbol path")]
    .filter((mark) => !labels.includes(mark))
    .map((mark) => mark.getBoundingClientRect());
  for (const label of labels) {
    const box = label.getBoundingClientRect();
    const fits =
      box.left >= frame.left && box.right <= frame.right && !taken.some((other) => meet(box, other));
    label.style.visibility = fits ? "" : "hidden";
    if (fits) taken.push({ left: box.left - GAP, right: box.right + GAP, top: box.top, bottom: box.bottom });
  }
}

// Boxes of text hold a pixel or two of nothing above and below the letters.
const meet = (a, b) =>
  Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0 &&
  Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;

async function draw(element) {
  const theme = dark.matches ? "dark" : "light";
  views.get(element)?.finalize();
  views.delete(element);
  if (!show(element)) return;
  const chart = charts[element.dataset.chart];
  const signals = signalsOf(element);
  const params = chart.params.map((param) => ({ ...param, value: signals[param.name] ?? param.value }));
  const drawn = await window.vegaEmbed(element, { ...chart, params }, {
    actions: false,
    ast: true, // expressions are interpreted: the page's policy allows no eval
    config: themes[theme],
    defaultStyle: false,
    mode: "vega-lite",
    renderer: "svg",
    tooltip: { theme },
  });
  views.set(element, drawn);
  if (element.dataset.chart.startsWith("timeline-")) brushing(element, drawn.view);
  await update(element); // what was selected meanwhile
}

// A chart that could not be seen may have another width, and no room for its labels.
function fit(part) {
  const inside = part.querySelectorAll("[data-chart]");
  if (!inside.length) return;
  window.dispatchEvent(new Event("resize"));
  inside.forEach(declutter);
}

const elements = [...document.querySelectorAll("[data-chart]")];
for (const element of elements) {
  new MutationObserver(() => declutter(element)).observe(element, {
    subtree: true,
    childList: true,
    attributeFilter: ["transform"],
  });
}

// One at a time, so that the page can be read and used meanwhile.
async function drawAll() {
  for (const element of elements) {
    await draw(element);
    await new Promise((resolve) => window.setTimeout(resolve));
  }
  document.documentElement.dataset.drawn = dark.matches ? "dark" : "light";
}

// What is chosen stands in the address, so that a link keeps it: #latency?latency.where=text…
const chosen = new URLSearchParams(location.hash.split("?")[1] ?? "");

function remember(key, value) {
  if (value) chosen.set(key, value);
  else chosen.delete(key);
  keepAddress(location.hash.split("?")[0].slice(1) || key.split(".")[0]);
}

function keepAddress(anchor) {
  const query = chosen.toString();
  history.replaceState(null, "", `#${anchor}${query ? `?${query}` : ""}`);
}

function choose() {
  for (const control of document.querySelectorAll("[data-param]")) {
    const value = chosen.get(keyOf(control));
    if (value === null) continue;
    const has = control.localName !== "select" || [...control.options].some((o) => o.value === value);
    if (has) control.value = value;
    else chosen.delete(keyOf(control));
  }
  for (const variant of chosen.get("hidden")?.split(" ") ?? []) hidden.add(decodeURIComponent(variant));
  press();
}

const keyOf = (control) => `${control.closest("section").id}.${control.dataset.param}`;

function changed(control) {
  const options = [...(control.options ?? [])];
  const usual = options.find((option) => option.defaultSelected) ?? options[0];
  remember(keyOf(control), usual?.value === control.value ? "" : control.value);
  updateAll(control.closest("section"));
}

function press() {
  for (const button of document.querySelectorAll("button[data-variant]")) {
    button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.variant)));
  }
}

function toggle(variant) {
  if (!hidden.delete(variant)) hidden.add(variant);
  remember("hidden", [...hidden].map(encodeURIComponent).join(" "));
  press();
  elements.forEach(update);
}

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  const said = (await written(code)) ? "Copied" : "Selected";
  button.textContent = said;
  document.getElementById("spoken").textContent =
    said === "Copied" ? "Copied to the clipboard" : "Selected: press Ctrl+C to copy";
  window.setTimeout(() => (button.textContent = "Copy"), 2000);
}

// Where a browser keeps the clipboard from a local file, the command is left selected instead.
async function written(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
}

// A link into what is folded opens it.
function reveal(hash) {
  const target = document.getElementById(decodeURIComponent(hash.slice(1).split("?")[0]));
  if (!target) return;
  const inner = target.querySelector(":scope > details");
  for (let e = inner ?? target; e; e = e.parentElement) if (e.localName === "details") e.open = true;
  target.scrollIntoView();
}

// Paper shows all; the reader's folds come back afterwards.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
window.addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});

// A table that is wider or higher than its place says so.
const boxes = new ResizeObserver((seen) => {
  for (const box of new Set(seen.map(({ target }) => target.closest(".box")))) {
    box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth);
    box.classList.toggle("deep", box.scrollHeight > box.clientHeight);
  }
});
document.querySelectorAll(".box, .box > table").forEach((sized) => boxes.observe(sized));

document.addEventListener("toggle", (event) => event.target.open && fit(event.target), true);
window.addEventListener("hashchange", () => {
  reveal(location.hash);
  if (!location.hash.includes("?") && chosen.size) keepAddress(location.hash.slice(1));
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link) reveal(link.hash);
  const button = event.target.closest("button");
  if (button?.dataset.variant !== undefined) toggle(button.dataset.variant);
  else if (button?.classList.contains("copy")) copy(button);
  else if (button?.classList.contains("whole")) {
    const section = button.closest("section");
    for (const input of section.querySelectorAll("input[data-param]")) {
      input.value = "";
      remember(keyOf(input), "");
    }
    updateAll(section);
  }
});
document.addEventListener("change", (event) => {
  if (event.target.dataset.param) changed(event.target);
});
dark.addEventListener("change", drawAll);
if (document.readyState !== "complete") {
  await new Promise((resolve) => window.addEventListener("load", resolve, { once: true }));
}
choose();
await drawAll();
reveal(location.hash);
