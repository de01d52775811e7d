// The two layers of a cell: their spectra, and the layers nearest to each.

let cellOpener = null;

function openCell(state, index, i, j, view) {
  const { section, options } = state;
  const panel = section.panels[index];
  const measure = measureOf(panel, options.measure);
  const facts = cellFacts(panel, measure, i, j, { digits: 3 });
  const box = byId("cell");
  cellOpener = view.svg;
  const move = (a, b) => {
    view.goto(a, b);
    pick([depthOf(panel.left[a], section.layers), depthOf(panel.right[b], section.layers)]);
    openCell(state, index, a, b, view);
  };
  const row = panel.right.map((name, k) => ({
    name,
    value: at(measure.values, i, k),
    go: () => move(i, k),
    self: name === panel.left[i],
  }));
  const column = panel.left.map((name, k) => ({
    name,
    value: at(measure.values, k, j),
    go: () => move(k, j),
    self: name === panel.right[j],
  }));
  const near = isDifference(measure)
    ? []
    : [
        neighbors(panel.left[i], row, measure),
        panel.left[i] === panel.right[j] ? null : neighbors(panel.right[j], column, measure),
      ];
  box.replaceChildren(
    ...present([
      el("button", {
        type: "button",
        class: "close",
        "aria-label": "Close",
        text: "\u00d7",
        onclick: closeCell,
      }),
      el("p", { class: "eyebrow", text: `${panel.name} \u00b7 ${measure.label || measure.name}` }),
      el("h2", { text: facts.title }),
      el(
        "dl",
        { class: "facts" },
        ...facts.rows.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]),
      ),
      facts.remark ? el("p", { class: "basis", text: facts.remark }) : null,
      spectra(section, [...new Set([panel.left[i], panel.right[j]])]),
      ...near,
    ]),
  );
  box.hidden = false;
  box.querySelector(".close").focus({ preventScroll: true });
}

function closeCell() {
  byId("cell").hidden = true;
  if (cellOpener && cellOpener.isConnected) cellOpener.focus({ preventScroll: true });
  cellOpener = null;
}

/** The layers that are most alike to one, of those that it is compared with. */
function neighbors(name, others, measure) {
  const found = others
    .filter((one) => !one.self && known(one.value))
    .sort((a, b) => b.value - a.value)
    .slice(0, 5);
  const top = Math.max(measure.hi ?? 1, ...found.map((one) => one.value));
  return el(
    "div",
    { class: "neighbors" },
    el("h3", { text: `Nearest to ${name}` }),
    found.length === 0
      ? el("p", { class: "basis", text: "No other layer is defined." })
      : el(
          "ol",
          {},
          ...found.map((one) => {
            const bar = el("span", { class: "length" });
            bar.style.width = `${Math.max(0, (100 * one.value) / top)}%`;
            return el(
              "li",
              {},
              el(
                "button",
                { type: "button", onclick: one.go },
                el("span", { text: one.name }),
                el("span", { class: "number", text: say(one.value) }),
                bar,
              ),
            );
          }),
        ),
  );
}

function spectra(section, layers) {
  const told = layers.filter((name) => Object.hasOwn(section.layers, name) && section.layers[name].spectrum);
  if (told.length === 0)
    return el("p", { class: "basis", text: "The spectra of these layers are not in the result." });
  const series = told.map((name, k) =>
    lineSeries(
      name,
      k,
      section.layers[name].spectrum.map((y, x) => ({ key: x + 1, y })).filter((point) => point.y > 0),
    ),
  );
  const values = series.flatMap((one) => one.points.map((point) => point.y));
  const host = el("div", { class: "spectra" }, el("h3", { text: "Spectra" }));
  const dimensions = told.filter((name) => known(section.layers[name].dimension));
  host.append(
    legend(series, new Set(), null),
    chart({
      width: Math.min(340, document.documentElement.clientWidth - 48),
      height: 180,
      series,
      yLabel: "share of variance",
      xLabel: "direction",
      scale: logScale(Math.min(...values) * 0.8, Math.max(...values) * 1.3),
      label: "Spectra of the two layers",
    }).svg,
    el("p", {
      class: "basis",
      text: dimensions.length
        ? `Effective directions (participation ratio): ${dimensions
            .map((name) => `${name} ${say(section.layers[name].dimension, 1)}`)
            .join(", ")}.`
        : "",
    }),
  );
  return host;
}
