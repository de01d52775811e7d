// Maps of the similarity of layers on one color scale, for the measure that the reader chose.

const SHOWN = [
  ["value", "value"],
  ["null", "null mean"],
  ["z", "z"],
  ["width", "interval width"],
];

const measureOf = (panel, name) => panel.measures.find((one) => one.name === name) || null;
const isDifference = (measure) => /^difference of/.test(measure.estimator || "");

function shownMatrix(measure, show) {
  if (show === "value") return measure.values;
  if (show === "null") return measure.null_mean;
  if (show === "z") return measure.z;
  if (!measure.low || !measure.high) return null;
  return measure.low.map((row, i) =>
    row.map((low, j) => {
      const high = at(measure.high, i, j);
      return known(low) && known(high) ? high - low : null;
    }),
  );
}

/** One scale of colors for all panels, so that the same color means the same number. */
function mapScale(section, name, show) {
  const measures = section.panels.map((panel) => measureOf(panel, name)).filter(Boolean);
  const values = measures.flatMap((one) => (shownMatrix(one, show) || []).flat()).filter(known);
  const [least, most] = [
    values.reduce((a, b) => Math.min(a, b), 0),
    values.reduce((a, b) => Math.max(a, b), 0),
  ];
  let [lo, hi, diverging] = [least, most, false];
  if (show === "value" || show === "null") {
    lo = Math.min(...measures.map((one) => one.lo ?? least));
    hi = Math.max(...measures.map((one) => one.hi ?? most));
    diverging = measures.some(isDifference);
  } else if (lo < 0) {
    [lo, hi, diverging] = [-Math.max(-lo, hi), Math.max(-lo, hi), true];
  }
  if (!(hi > lo)) hi = lo + 1;
  const words = Object.fromEntries(SHOWN)[show];
  const label = show === "value" ? measures[0].label || name : `${words}, ${measures[0].label || name}`;
  return colorScale({ lo, hi, diverging, label, digits: decimals(hi - lo) });
}

function mapControls(state, redraw) {
  const { section, options } = state;
  const all = [
    ...new Map(section.panels.flatMap((panel) => panel.measures.map((one) => [one.name, one]))).values(),
  ];
  const labels = all.map((one) => one.label || one.name);
  const same = (label) => labels.filter((one) => one === label).length > 1;
  options.measure = options.measure || all[0].name;
  options.show = options.show || "value";
  const shows = SHOWN.filter(([show]) => all.some((one) => shownMatrix(one, show)));
  const choose = (label, entries, key) =>
    el(
      "label",
      { class: "choice" },
      el("span", { text: label }),
      el(
        "select",
        {
          "data-choice": key,
          onchange: (event) => {
            options[key] = event.target.value;
            redraw();
          },
        },
        ...entries.map(([value, text]) => el("option", { value, text, selected: value === options[key] })),
      ),
    );
  return el(
    "div",
    { class: "controls" },
    choose(
      "Measure",
      all.map((one, k) => [one.name, same(labels[k]) ? one.name : labels[k]]),
      "measure",
    ),
    shows.length > 1 ? choose("Show", shows, "show") : null,
  );
}

function drawMap(state, host, width) {
  const { section, options } = state;
  const scale = mapScale(section, options.measure, options.show);
  const bar = colorBar(scale);
  const marks = [];
  const across = panelsAcross(section.panels, width);
  const room = Math.floor(width / across) - (across > 1 ? 16 : 0);
  const size = panelCell(section.panels, room);
  const panels = section.panels.map((panel, k) => {
    const measure = measureOf(panel, options.measure);
    const there = measure && shownMatrix(measure, options.show);
    const made = there && drawPanel(state, panel, k, measure, scale, bar, size);
    if (made) marks.push(made.mark);
    return el(
      "div",
      { class: "panel" },
      el("h3", { text: panel.name }),
      made ? made.svg : el("p", { class: "basis", text: "This was not measured here." }),
    );
  });
  const blocks = section.blocks.filter((one) => one.measure === options.measure);
  host.replaceChildren(
    el("div", { class: "panels" }, ...panels),
    bar.node,
    ...(blocks.length
      ? [
          el(
            "ul",
            { class: "blocks" },
            ...blocks.map((one) => el("li", { class: one.sure ? "sure" : "unsure", text: one.label || one.text })),
          ),
        ]
      : []),
    mapBasis(section, options.measure),
  );
  views.set(section.id, () => marks.forEach((mark) => mark()));
  views.get(section.id)();
}

function mapBasis(section, name) {
  const measure = section.panels.map((panel) => measureOf(panel, name)).find(Boolean);
  const undefinedCells = section.panels.some((panel) => {
    const one = measureOf(panel, name);
    return one && one.values.flat().some((v) => !known(v));
  });
  const parts = [
    measure.estimator || measure.label || name,
    !measure.note && measure.low && known(measure.level) && `${percent(measure.level)} intervals`,
    undefinedCells && "hatched: undefined",
    measure.note,
  ];
  return el("p", { class: "basis", text: parts.filter(Boolean).join("; ") });
}

function panelsAcross(panels, width) {
  const most = Math.max(...panels.map((panel) => panel.right.length));
  const fits = Math.floor(width / Math.max(220, Math.min(most * 14 + 60, width)));
  const across = Math.max(1, Math.min(panels.length, fits, 3));
  return panels.length === 4 && across === 3 ? 2 : across;
}

function panelCell(panels, room) {
  const most = Math.max(...panels.map((panel) => Math.max(panel.left.length, panel.right.length)));
  return Math.max(3, Math.min(44, Math.floor((room - 56) / most), Math.floor(620 / most)));
}

function ticksOf(list, layers) {
  const depths = list.map((name) => depthOf(name, layers));
  const plain = depths.every((depth) => depth !== null);
  return list.map((name, k) => (plain ? String(depths[k]) : ends(name, 14)));
}

function runsOf(list, layers) {
  const runs = modelRuns(list, layers);
  if (runs.length === 1) return [{ ...runs[0], name: runs[0].name ? `layer of ${runs[0].name}` : "layer" }];
  return runs.length > list.length / 2 ? [{ name: "layer", start: 0, size: list.length }] : runs;
}

function drawPanel(state, panel, index, measure, scale, bar, size) {
  const { section, options } = state;
  const shown = shownMatrix(measure, options.show);
  const writes = size >= 26;
  const digits = scale.hi - scale.lo > 20 ? 0 : scale.hi - scale.lo > 5 ? 1 : 2;
  const spec = {
    rows: panel.left.length,
    cols: panel.right.length,
    size,
    up: true,
    label:
      `${panel.name}, ${measure.label || measure.name}: ` +
      `${panel.left.length} by ${panel.right.length} layers. ` +
      "Arrow keys walk, Enter opens two layers.",
    rowTicks: ticksOf(panel.left, section.layers),
    colTicks: ticksOf(panel.right, section.layers),
    rowRuns: runsOf(panel.left, section.layers),
    colRuns: runsOf(panel.right, section.layers),
    color: (i, j) => (known(at(shown, i, j)) ? scale.color(at(shown, i, j)) : null),
    text: (i, j) => {
      const value = at(shown, i, j);
      if (writes) return say(value, digits);
      return value < 0 && !isDifference(measure) && size >= 7 ? MINUS : "";
    },
    dot: () => 0,
    name: (i, j) => `${panel.left[i]}, ${panel.right[j]}: ${say(at(shown, i, j), scale.digits)}`,
    hover: (i, j, x, y) => {
      bar.show(at(shown, i, j));
      tip.show(x, y, cellFacts(panel, measure, i, j, scale));
    },
    open: (i, j) => {
      tip.hide();
      pick([depthOf(panel.left[i], section.layers), depthOf(panel.right[j], section.layers)]);
      openCell(state, index, i, j, view);
    },
    tickPicked: (side, k) => pick([depthOf((side === "row" ? panel.left : panel.right)[k], section.layers)]),
  };
  const view = grid(spec);
  view.svg.addEventListener("pointerleave", () => bar.show(null));
  addBlocks(view, spec, section, panel, index, options.measure);
  const marked = (list) =>
    list.flatMap((name, k) => (picked.depths.has(depthOf(name, section.layers)) ? [k] : []));
  return { svg: view.svg, mark: () => markLines(view, spec, marked(panel.left), marked(panel.right)) };
}

/** Outlines of the certain blocks of layers. */
function addBlocks(view, spec, section, panel, index, name) {
  const place = (list, model, depth) =>
    list.findIndex(
      (layer) => modelOf(layer, section.layers) === model && depthOf(layer, section.layers) === depth,
    );
  for (const found of section.blocks.filter((one) => one.panel === index && one.measure === name)) {
    const group = draw("g", { class: "blocks-outline" });
    for (const [first, last] of found.runs) {
      const [i, k] = [place(panel.left, found.model, first), place(panel.left, found.model, last)];
      const [j, l] = [place(panel.right, found.model, first), place(panel.right, found.model, last)];
      if (i < 0 || j < 0 || k < 0 || l < 0) continue;
      const ys = [view.yOf(i), view.yOf(k)];
      const box = {
        x: view.xOf(j),
        y: Math.min(...ys),
        width: view.xOf(l + 1) - view.xOf(j),
        height: Math.abs(ys[1] - ys[0]) + spec.size,
      };
      group.append(...["casing", "step"].map((style) => draw("rect", { class: style, fill: "none", ...box })));
    }
    view.svg.insertBefore(group, view.marks);
  }
}

/** All that is known of a cell: value, interval, null, z, p, n; or why it is undefined. */
function cellFacts(panel, measure, i, j, scale) {
  const digits = decimals((measure.hi ?? 1) - (measure.lo ?? 0)) || scale.digits;
  const value = at(measure.values, i, j);
  const rows = [["value", say(value, digits)]];
  const bounds = interval(at(measure.low, i, j), at(measure.high, i, j), digits);
  if (bounds) rows.push([known(measure.level) ? `${percent(measure.level)} interval` : "interval", bounds]);
  if (known(at(measure.null_mean, i, j))) rows.push(["null mean", say(at(measure.null_mean, i, j), digits)]);
  if (known(at(measure.z, i, j))) rows.push(["z", say(at(measure.z, i, j), 1)]);
  if (known(at(measure.p, i, j))) rows.push(["p", say(at(measure.p, i, j), 4)]);
  rows.push(["n", count(measure.n)]);
  const reason = measure.reasons && measure.reasons[`${i},${j}`];
  return {
    title: `${panel.left[i]} \u00d7 ${panel.right[j]}`,
    rows,
    remark: known(value) ? reason : reason || "undefined",
  };
}
