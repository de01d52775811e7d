// Small tables, and the data of a section as CSV and JSON.

// Some tables come with numbers in words, such as "0.80 [0.75, 0.84]".
const NUMBER = /^-?[\d.,]+( \[-?[\d.,]+, -?[\d.,]+\]| no interval)?$/;

function drawScores(state, host) {
  const { columns, rows, title } = state.section;
  const numeric = columns.map((_, k) => {
    const found = rows.map((row) => row[k]).filter((value) => value !== null && value !== "");
    return found.length > 0 && found.every((value) => typeof value === "number" || NUMBER.test(value));
  });
  // Several rows may be of one thing, which stands in the first of them.
  const named = (value, k, n) => (k === 0 && n > 0 && rows[n - 1][0] === value ? "" : cell(value));
  const body = rows.map((row, n) =>
    el(
      "tr",
      {},
      ...row.map((value, k) =>
        el(k === 0 ? "th" : "td", {
          scope: k === 0 ? "row" : null,
          class: numeric[k] ? "number" : null,
          text: numeric[k] ? cell(value).replaceAll("-", MINUS) : named(value, k, n),
        }),
      ),
    ),
  );
  host.replaceChildren(
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      el(
        "table",
        { class: "table" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ...columns.map((text, k) =>
              el("th", { scope: "col", class: numeric[k] ? "number" : null, text }),
            ),
          ),
        ),
        el("tbody", {}, ...body),
      ),
    ),
  );
}

const TABLES = {
  map: (section) => [
    ["panel", "measure", "left", "right", "value", "low", "high", "null_mean", "z", "p", "n", "reason"],
    ...section.panels.flatMap((panel) =>
      panel.measures.flatMap((one) =>
        panel.left.flatMap((left, i) =>
          panel.right.map((right, j) => [
            panel.name,
            one.name,
            left,
            right,
            at(one.values, i, j),
            at(one.low, i, j),
            at(one.high, i, j),
            at(one.null_mean, i, j),
            at(one.z, i, j),
            at(one.p, i, j),
            one.n,
            (one.reasons || {})[`${i},${j}`],
          ]),
        ),
      ),
    ),
  ],
  curves: (section) => [
    ["curve", "x", "value", "low", "high", "band_low", "band_high", "n"],
    ...section.curves.flatMap((one) =>
      one.x.map((x, k) => [
        one.name,
        x,
        one.values[k],
        ...[one.low, one.high, one.band_low, one.band_high].map((list) => (list || [])[k]),
        one.n,
      ]),
    ),
    ...Object.entries(section.lines || {}).map(([name, value]) => [
      name,
      null,
      value,
      null,
      null,
      null,
      null,
      null,
    ]),
  ],
  spans: (section) => [
    ["first", "last", "value", "low", "high", "band_low", "band_high", "n"],
    ...section.values.flatMap((row, i) =>
      row.flatMap((value, j) =>
        j < i
          ? []
          : [
              [
                i + 1,
                j + 1,
                value,
                ...[section.low, section.high, section.band_low, section.band_high].map((matrix) =>
                  at(matrix, i, j),
                ),
                section.n,
              ],
            ],
      ),
    ),
  ],
  scores: (section) => [section.columns, ...section.rows],
  lines: (section) => [
    ["series", "x", "y"],
    ...section.series.flatMap((one) => one.x.map((x, k) => [one.name, x, one.y[k]])),
  ],
};

function csv(rows) {
  const quote = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(quote).join(",")).join("\n") + "\n";
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const fileStem = (section) =>
  `${section.id}-${section.title}`
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[.-]+|-+$/g, "")
    .slice(0, 60) || "data";

function takeAway(section) {
  return el(
    "div",
    { class: "tools" },
    el("span", { text: "Download data" }),
    el("button", {
      type: "button",
      "data-save": "csv",
      text: "CSV",
      "aria-label": `Download the data of ${section.title} as CSV`,
      onclick: () => save(`${fileStem(section)}.csv`, "text/csv", csv(TABLES[section.kind](section))),
    }),
    el("button", {
      type: "button",
      "data-save": "json",
      text: "JSON",
      "aria-label": `Download the data of ${section.title} as JSON`,
      onclick: () => save(`${fileStem(section)}.json`, "application/json", JSON.stringify(section, null, 1)),
    }),
    section.file ? el("code", { text: section.file }) : null,
  );
}
