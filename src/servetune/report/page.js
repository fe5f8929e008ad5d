// Draws the charts in the reader's theme, keeps them in step with the controls, copies commands.
const { charts, themes } = JSON.parse(document.getElementById("charts").textContent);
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
  const view = views.get(element)?.view;
  if (!view) return;
  const known = view.getState({ data: () => false, signals: (name) => name }).signals;
  for (const [name, value] of Object.entries(signalsOf(element))) {
    if (name in known) view.signal(name, value);
  }
  await view.runAsync();
}

async function draw(element) {
  const theme = dark.matches ? "dark" : "light";
  views.get(element)?.finalize();
  const drawn = await window.vegaEmbed(element, charts[element.dataset.chart], {
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
  await update(element);
}

const elements = [...document.querySelectorAll("[data-chart]")];

// One at a time, so that the page can be read and used meanwhile.
async function drawAll() {
  for (const element of elements) {
    await draw(element);
    await new Promise((resolve) => window.setTimeout(resolve));
  }
  document.documentElement.dataset.drawn = dark.matches ? "dark" : "light";
}

function toggle(variant) {
  if (!hidden.delete(variant)) hidden.add(variant);
  for (const button of document.querySelectorAll("button[data-variant]")) {
    button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.variant)));
  }
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

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.variant !== undefined) toggle(button.dataset.variant);
  else if (button?.classList.contains("copy")) copy(button);
  else if (button?.classList.contains("whole")) {
    const section = button.closest("section");
    for (const input of section.querySelectorAll("input[data-param]")) input.value = "";
    updateAll(section);
  }
});
document.addEventListener("change", (event) => {
  if (event.target.dataset.param) updateAll(event.target.closest("section"));
});
dark.addEventListener("change", drawAll);
if (document.readyState !== "complete") {
  await new Promise((resolve) => window.addEventListener("load", resolve, { once: true }));
}
await drawAll();
