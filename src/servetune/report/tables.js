// Tables that can be sorted, filtered and saved as CSV: the tools stand here, so that a page
// without scripts shows none.
const MANY = 8; // rows from which on a filter is of use

// The heads of the last row by their column, with the group that each stands under.
function columnsOf(table) {
  const rows = [...(table.tHead?.rows ?? [])];
  const taken = rows.map(() => []);
  const columns = [];
  rows.forEach((row, level) => {
    let at = 0;
    for (const head of row.cells) {
      while (taken[level][at]) at += 1;
      for (let down = 0; down < head.rowSpan && level + down < rows.length; down += 1) {
        for (let right = 0; right < head.colSpan; right += 1) taken[level + down][at + right] = head;
      }
      at += head.colSpan;
    }
  });
  const last = taken.length - 1;
  (taken[last] ?? []).forEach((head, at) => {
    const groups = taken.slice(0, last).map((row) => row[at]).filter((above) => above !== head);
    columns.push({ at, head, isFirst: taken[last][at - 1] !== head, groups });
  });
  return columns;
}

const plain = (element) => element.innerText.replace(/\s+/g, " ").trim();

// The text of a row by column; a cell over several columns stands in the first.
function cellsOf(row) {
  return [...row.cells].flatMap((cell) => [plain(cell), ...Array(cell.colSpan - 1).fill("")]);
}

function numberOf(text) {
  const found = text.replaceAll(",", "").replaceAll("\u2212", "-").match(/^(?:at (?:least|most) )?([-+]?\d*\.?\d+)/);
  return found ? Number(found[1]) : null;
}

// Rows below the same title stay below it.
function sortBy(table, column) {
  const isDown = column.head.getAttribute("aria-sort") === "ascending";
  for (const head of table.querySelectorAll("th[aria-sort]")) head.removeAttribute("aria-sort");
  column.head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const sign = isDown ? -1 : 1;
  for (const body of table.tBodies) {
    let rows = [];
    const place = (before) => {
      const keyed = rows.map((row) => [cellsOf(row)[column.at] ?? "", row]);
      keyed.sort(([one], [other]) => {
        const [a, b] = [numberOf(one), numberOf(other)];
        if (a !== null && b !== null) return sign * (a - b);
        // What has no number comes last, either way.
        if (a !== null || b !== null) return a === null ? 1 : -1;
        return sign * one.localeCompare(other, undefined, { numeric: true });
      });
      for (const [, row] of keyed) body.insertBefore(row, before);
      rows = [];
    };
    for (const row of [...body.rows]) {
      if (row.classList.contains("group")) place(row);
      else rows.push(row);
    }
    place(null);
  }
}

function filterBy(table, words) {
  for (const body of table.tBodies) {
    let title = null;
    for (const row of body.rows) {
      if (row.classList.contains("group")) {
        title = row;
        title.hidden = words.length > 0;
        continue;
      }
      const text = `${title?.textContent ?? ""} ${row.textContent}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (title && !row.hidden) title.hidden = false;
    }
  }
}

// A spreadsheet takes a cell that begins so for a formula.
const harmless = (text) => (/^[=+@\t]|^-(?!\d)/.test(text) ? `'${text}` : text);
const quoted = (text) => `"${harmless(text).replaceAll('"', '""')}"`;

function csvOf(table) {
  const columns = columnsOf(table);
  const heads = columns.map(({ head, isFirst, groups }) =>
    [...groups.map(plain), isFirst ? plain(head) : `${plain(head)}, ratio`].filter(Boolean).join(": "),
  );
  const hasTitles = table.querySelector("tr.group") !== null;
  const lines = [hasTitles ? ["", ...heads] : heads];
  let title = "";
  for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
    if (row.classList.contains("group")) title = plain(row);
    else if (!row.hidden) lines.push(hasTitles ? [title, ...cellsOf(row)] : cellsOf(row));
  }
  return lines.map((line) => line.map(quoted).join(",")).join("\r\n");
}

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text, "\r\n"], { type: "text/csv" }));
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const study = document.title.split(" ")[0];
for (const box of document.querySelectorAll(".box")) {
  const table = box.querySelector("table");
  if (!table?.tHead) continue;
  const label = box.getAttribute("aria-label");
  const rows = [...table.tBodies].reduce((sum, body) => sum + body.rows.length, 0);
  const tools = document.createElement("div");
  tools.className = "tools";
  if (rows > MANY) {
    const filter = document.createElement("input");
    filter.type = "search";
    filter.placeholder = "Filter rows";
    filter.setAttribute("aria-label", `Filter the rows of ${label}`);
    filter.addEventListener("input", () =>
      filterBy(table, filter.value.toLowerCase().split(/\s+/).filter(Boolean)),
    );
    tools.append(filter);
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "csv";
  button.textContent = "CSV";
  button.setAttribute("aria-label", `Save ${label} as CSV`);
  const name = `${study}-${label}`.toLowerCase().replace(/[^a-z0-9._]+/g, "-");
  button.addEventListener("click", () => save(`${name}.csv`, csvOf(table)));
  tools.append(button);
  if (rows > MANY) box.before(tools);
  else box.after(tools);
  if (rows < 2) continue;
  for (const column of columnsOf(table)) {
    if (!column.isFirst) continue;
    const sort = document.createElement("button");
    sort.type = "button";
    sort.className = "sort";
    sort.append(...column.head.childNodes);
    column.head.append(sort);
    sort.addEventListener("click", () => sortBy(table, column));
  }
}
