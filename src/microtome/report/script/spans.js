// Spans of blocks: a row of blocks to drag over, and a map of what every span costs.

function spanScale(section) {
  const costs = section.values
    .flat()
    .filter(known)
    .map((v) => v * section.points);
  const sizes = costs.filter((v) => v !== 0).map(Math.abs);
  const reach = sizes.length ? Math.max(...sizes) : 1;
  const steep = section.points !== 100 && sizes.length > 0 && reach > STEEP * median(sizes);
  const near = steep ? sizes.slice().sort((a, b) => a - b)[Math.floor(sizes.length / 10)] : null;
  const unit = section.points === 100 ? "points" : section.score;
  const label = `cost in ${unit}${steep ? ", logarithmic" : ""}`;
  const scale = colorScale({ lo: -reach, hi: reach, diverging: true, near, label, digits: 2 });
  return { scale, unit, from: Math.min(...costs, -0.1 * reach) };
}

function spanFacts(section, i, j, unit) {
  const times = (matrix) => {
    const v = at(matrix, i, j);
    return known(v) ? v * section.points : null;
  };
  const [cost, low, high] = [times(section.values), times(section.low), times(section.high)];
  const [bandLow, bandHigh] = [times(section.band_low), times(section.band_high)];
  const blocks = i === j ? `block ${i + 1}` : `blocks ${i + 1} to ${j + 1}`;
  const rows = [["cost", known(cost) ? `${say(cost, 2)} ${unit}` : "undefined"]];
  if (interval(low, high, 2)) rows.push(["interval, alone", interval(low, high, 2)]);
  if (interval(bandLow, bandHigh, 2)) rows.push(["band, all spans", interval(bandLow, bandHigh, 2)]);
  rows.push([
    "n",
    [count(section.n), known(section.seeds) && section.seeds > 1 ? `${section.seeds} seeds` : ""]
      .filter(Boolean)
      .join(", "),
  ]);
  const apart = known(bandLow) && known(bandHigh) ? (bandLow > 0 ? 1 : bandHigh < 0 ? -1 : 0) : null;
  return {
    title: `without ${blocks}`,
    rows,
    cost,
    blocks,
    apart,
    remark:
      apart === null
        ? ""
        : apart
          ? "Not 0 by the band of all spans."
          : "Not significantly different from 0 by the band of all spans.",
  };
}

function cheapestSpan(section) {
  let best = null;
  section.values.forEach((row, i) =>
    row.forEach((v, j) => {
      if (j >= i && known(v) && (best === null || v < at(section.values, ...best))) best = [i, j];
    }),
  );
  return best || [0, 0];
}

const spanCell = (depth, width) => Math.max(5, Math.min(48, Math.floor((Math.min(width, 620) - 50) / depth)));

function drawSpans(state, host, width) {
  const { section } = state;
  const { depth } = section;
  const { scale, unit, from } = spanScale(section);
  const bar = colorBar(scale, from);
  const size = spanCell(depth, width);
  const cost = (i, j) => {
    const v = at(section.values, i, j);
    return known(v) ? v * section.points : null;
  };
  const numbers = Array.from({ length: depth }, (_, k) => String(k + 1));
  const hatched = section.values.some((row, i) => row.some((v, j) => j >= i && !known(v)));
  state.span = state.span || cheapestSpan(section);
  const choose = (a, b) => {
    state.span = [Math.min(a, b), Math.max(a, b)];
    showSpan();
    pick(numbers.slice(state.span[0], state.span[1] + 1).map(Number));
  };
  const spec = {
    rows: depth,
    cols: depth,
    size,
    up: false,
    start: state.span,
    rowTicks: numbers,
    colTicks: numbers,
    rowRuns: [{ name: "first skipped block", start: 0, size: depth }],
    colRuns: [{ name: "last skipped block", start: 0, size: depth }],
    label: `${section.title}: cost of every span of ${depth} blocks. Arrow keys walk, Enter takes a span.`,
    color: (i, j) => (j < i ? undefined : known(cost(i, j)) ? scale.color(cost(i, j)) : null),
    text: (i, j) => (size >= 26 ? shortCost(cost(i, j)) : ""),
    dot: (i, j) => {
      const { apart, cost: v } = spanFacts(section, i, j, unit);
      return apart ? Math.sign(v) : 0;
    },
    name: (i, j) => {
      const facts = spanFacts(section, i, j, unit);
      return `${facts.title}: ${facts.rows[0][1]}`;
    },
    hover: (i, j, x, y) => {
      bar.show(cost(i, j));
      tip.show(x, y, spanFacts(section, i, j, unit));
    },
    open: (i, j) => {
      tip.hide();
      choose(i, j);
    },
    tickPicked: (side, k) => choose(k, k),
  };
  const view = grid(spec);
  view.svg.addEventListener("pointerleave", () => bar.show(null));
  const blocks = blockBar(numbers, size, view.room.left, state, choose);
  const told = el("div", { class: "told", "aria-live": "polite" });
  const showSpan = () => {
    const [i, j] = state.span;
    told.replaceChildren(...spanSentence(section, spanFacts(section, i, j, unit)));
    view.chosen.replaceChildren(
      ...["casing", "ring"].map((style) =>
        draw("rect", {
          class: style,
          "data-span": `${i},${j}`,
          x: view.xOf(j) + 0.5,
          y: view.yOf(i) + 0.5,
          width: size - 1,
          height: size - 1,
        }),
      ),
    );
    blocks.show(state.span);
  };
  host.replaceChildren(
    el(
      "div",
      { class: "explorer" },
      el("div", {}, blocks.node, view.svg),
      el(
        "div",
        { class: "beside" },
        told,
        bar.node,
        el("p", {
          class: "basis",
          text: `A dot: not 0 by the band of all spans.${hatched ? " Hatched: undefined." : ""}`,
        }),
        section.note ? el("p", { class: "basis", text: section.note }) : null,
      ),
    ),
  );
  showSpan();
  views.set(section.id, () => blocks.mark());
  blocks.mark();
}

function shortCost(value) {
  if (!known(value)) return "";
  const size = Math.abs(value);
  return size < 9999.5
    ? say(value, size < 99.95 ? 1 : 0).replace(",", "")
    : powerName(Number(value.toPrecision(1)));
}

function spanSentence(section, facts) {
  const [, ...rest] = facts.rows;
  const digits = known(section.full) ? say(section.full) : "undefined";
  return [
    el("p", { class: "eyebrow", text: `without ${facts.blocks}` }),
    el("p", { class: "cost", text: facts.rows[0][1] }),
    el(
      "dl",
      { class: "facts" },
      ...rest.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]),
      el("dt", { text: "whole model" }),
      el("dd", { text: `${digits} ${section.score}` }),
    ),
    el("p", { class: "basis", text: facts.remark }),
  ];
}

/** The blocks of a model in a row, above their columns: a list from which a span is taken. */
function blockBar(numbers, size, left, state, choose) {
  const prefix = freshId();
  const items = numbers.map((text, k) => {
    const item = el("div", {
      role: "option",
      id: `${prefix}-${k}`,
      "data-k": k,
      "aria-label": `block ${text}`,
      text: size >= 14 ? text : "",
    });
    item.style.width = `${size}px`;
    return item;
  });
  const node = el(
    "div",
    {
      class: "bar-of-blocks",
      role: "listbox",
      tabindex: 0,
      "aria-multiselectable": "true",
      "aria-orientation": "horizontal",
      "aria-label": "Blocks to skip: drag, or hold shift and press an arrow key",
    },
    ...items,
  );
  node.style.marginLeft = `${left}px`;
  let anchor = null; // where a span that is dragged began
  let fixed = null; // where a span that is stretched by keys began
  let end = state.span[1];
  const under = (event) => {
    const box = node.getBoundingClientRect();
    return Math.max(
      0,
      Math.min(items.length - 1, Math.floor(((event.clientX - box.left) / box.width) * items.length)),
    );
  };
  const finish = () => {
    anchor = null;
  };
  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    fixed = null;
    anchor = end = under(event);
    choose(anchor, end);
  });
  node.addEventListener("pointermove", (event) => {
    if (anchor === null || under(event) === end) return;
    end = under(event);
    choose(anchor, end);
  });
  node.addEventListener("pointerup", finish);
  node.addEventListener("pointercancel", finish);
  node.addEventListener("keydown", (event) => {
    const aim = { ArrowLeft: end - 1, ArrowRight: end + 1, Home: 0, End: items.length - 1 }[event.key];
    if (aim === undefined) return;
    event.preventDefault();
    if (!event.shiftKey) fixed = null;
    else if (fixed === null) fixed = end === state.span[0] ? state.span[1] : state.span[0];
    end = Math.max(0, Math.min(items.length - 1, aim));
    choose(fixed === null ? end : fixed, end);
  });
  const show = ([first, last]) => {
    if (end < first || end > last) end = last;
    if (fixed !== first && fixed !== last) fixed = null;
    items.forEach((item, k) => item.setAttribute("aria-selected", String(k >= first && k <= last)));
    node.setAttribute("aria-activedescendant", `${prefix}-${end}`);
  };
  const mark = () => items.forEach((item, k) => item.classList.toggle("marked", picked.depths.has(k + 1)));
  return { node, show, mark };
}
