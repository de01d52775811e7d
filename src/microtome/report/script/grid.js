// A grid of cells with names at its sides, walked over by pointer and keys: for maps of
// layers and for maps of spans.

/** The smallest round step at which labels of some length do not touch. */
const tickStep = (room, length) =>
  [1, 2, 3, 4, 5, 6, 10, 12, 20, 24, 50].find((s) => s * room >= length) || 100;

/**
 * Draw cells with names at their sides, and let pointer and keys walk over them.
 * spec: rows, cols, size (pixels of a cell), up (whether row 0 is the lowest), color(i, j) -> [r, g, b],
 * null for undefined or undefined for no cell, text(i, j), dot(i, j), name(i, j), label, rowTicks, colTicks,
 * rowRuns, colRuns, hover(i, j, x, y), open(i, j), tickPicked("row" | "col", k).
 */
function grid(spec) {
  const { rows, cols, size } = spec;
  const room = gridRoom(spec);
  const [wide, tall] = [room.left + cols * size + 8, room.top + rows * size + room.below];
  const yOf = (i) => room.top + (spec.up ? rows - 1 - i : i) * size;
  const xOf = (j) => room.left + j * size;
  const cells = draw("g", { class: size >= 22 ? "cells" : "cells tight" });
  const marks = draw("g", { class: "marks" });
  const cursor = draw(
    "g",
    { class: "cursor", visibility: "hidden" },
    ...["casing", "ring"].map((name) => draw("rect", { class: name, width: size, height: size })),
  );
  const chosen = draw("g", { class: "chosen" });
  const svg = draw(
    "svg",
    {
      class: "grid",
      width: wide,
      height: tall,
      viewBox: `0 0 ${wide} ${tall}`,
      role: "grid",
      tabindex: 0,
      "aria-label": spec.label,
      "aria-rowcount": rows,
      "aria-colcount": cols,
    },
    cells,
    sideNames(spec, room, xOf, yOf),
    marks,
    chosen,
    cursor,
  );
  const nodes = gridCells(spec, cells, xOf, yOf);
  const view = { svg, marks, chosen, xOf, yOf, room, active: null };
  const there = (i, j) => nodes[i] && nodes[i][j];

  view.goto = (i, j) => {
    view.active = [i, j];
    cursor.setAttribute("visibility", "visible");
    for (const rect of cursor.children) fill(rect, { x: xOf(j), y: yOf(i) }, []);
    svg.setAttribute("aria-activedescendant", there(i, j).id);
    for (const text of svg.querySelectorAll(".tick")) {
      const k = Number(text.dataset.k);
      text.classList.toggle("near", text.dataset.side === "row" ? k === i : k === j);
    }
  };
  view.leave = () => {
    cursor.setAttribute("visibility", "hidden");
    for (const text of svg.querySelectorAll(".near")) text.classList.remove("near");
    tip.hide();
  };
  const hoverAtCell = () => {
    const [i, j] = view.active;
    const box = there(i, j).getBoundingClientRect();
    spec.hover(i, j, box.right, box.bottom);
  };
  const cellUnder = (event) => {
    const node = event.target.closest("[data-i]");
    return node ? [Number(node.dataset.i), Number(node.dataset.j)] : null;
  };
  svg.addEventListener("pointermove", (event) => {
    const found = cellUnder(event);
    if (!found) return view.leave();
    view.goto(...found);
    spec.hover(...found, event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", view.leave);
  svg.addEventListener("click", (event) => {
    const found = cellUnder(event);
    const tick = event.target.closest(".tick");
    if (found) spec.open(...found);
    else if (tick && spec.tickPicked) spec.tickPicked(tick.dataset.side, Number(tick.dataset.k));
  });
  const from = () => view.active || spec.start || firstCell(nodes);
  svg.addEventListener("focus", () => {
    // A click brings its own cell; only whoever comes by keyboard needs one to begin with.
    if (!svg.matches(":focus-visible")) return;
    view.goto(...from());
    hoverAtCell();
  });
  svg.addEventListener("blur", view.leave);
  svg.addEventListener("keydown", (event) => {
    const aim = walk(event, from(), spec);
    if (aim === null) return;
    event.preventDefault();
    if (aim === "open") return spec.open(...from());
    view.goto(...(there(...aim) ? aim : from()));
    hoverAtCell();
  });
  return view;
}

function firstCell(nodes) {
  const i = nodes.findIndex((row) => row.some(Boolean));
  return [i, nodes[i].findIndex(Boolean)];
}

/** Where a key leads from a cell, "open" for Enter and space, and null where it leads nowhere. */
function walk(event, [i, j], { rows, cols, up }) {
  const within = (k, size) => Math.min(size - 1, Math.max(0, k));
  const higher = up ? 1 : -1;
  switch (event.key) {
    case "ArrowUp":
      return [within(i + higher, rows), j];
    case "ArrowDown":
      return [within(i - higher, rows), j];
    case "ArrowLeft":
      return [i, within(j - 1, cols)];
    case "ArrowRight":
      return [i, within(j + 1, cols)];
    case "Home":
      return [i, 0];
    case "End":
      return [i, cols - 1];
    case "Enter":
    case " ":
      return "open";
    default:
      return null;
  }
}

function gridRoom({ rowTicks, colTicks, colRuns, size }) {
  const longest = (ticks) => Math.max(1, ...ticks.map((text) => text.length));
  const turned = longest(colTicks) > 3 && longest(colTicks) * 6.4 > size;
  return {
    left: Math.ceil(longest(rowTicks) * 6.4) + 28,
    top: 4,
    turned,
    below: (turned ? longest(colTicks) * 4.7 + 14 : 18) + (colRuns.length ? 20 : 4),
  };
}

function gridCells(spec, host, xOf, yOf) {
  const { rows, cols, size } = spec;
  const gap = size >= 22 ? 1 : 0;
  const prefix = freshId();
  const nodes = [];
  for (let i = 0; i < rows; i += 1) {
    const row = draw("g", { role: "row" });
    nodes.push([]);
    for (let j = 0; j < cols; j += 1) {
      const color = spec.color(i, j);
      if (color === undefined) {
        nodes[i].push(null);
        continue;
      }
      const rect = draw("rect", {
        id: `${prefix}-${i}-${j}`,
        role: "gridcell",
        "data-i": i,
        "data-j": j,
        "aria-label": spec.name(i, j),
        x: xOf(j),
        y: yOf(i),
        width: size - gap,
        height: size - gap,
        rx: gap ? 2 : 0,
        fill: color ? `rgb(${color.join(" ")})` : "url(#hatch)",
      });
      nodes[i].push(rect);
      row.append(rect);
      if (color) row.append(...present(cellSigns(spec, i, j, color, xOf(j), yOf(i), size - gap)));
    }
    host.append(row);
  }
  return nodes;
}

/** What stands on a cell: its value where there is room, and a dot for what the band sets apart from 0. */
function cellSigns(spec, i, j, color, x, y, side) {
  const text = spec.text(i, j);
  const dot = spec.dot(i, j);
  const look = { fill: inkOn(color), "aria-hidden": "true" };
  const middle = { x: x + side / 2, y: y + side / 2 };
  const written = { class: "written", ...middle, "font-size": Math.min(12, side * 0.37), text, ...look };
  return [text ? draw("text", written) : null, dot ? dotSign(dot, text, x, y, side, look) : null];
}

function dotSign(sign, text, x, y, side, look) {
  if (text) return draw("circle", { class: "dot", r: 2, cx: x + side - 5, cy: y + 5, ...look });
  if (sign > 0) {
    return draw("circle", {
      class: "dot",
      r: Math.max(1.2, side * 0.1),
      cx: x + side / 2,
      cy: y + side / 2,
      ...look,
    });
  }
  // Where no value is written, a dash says that something is gained.
  return draw("rect", {
    class: "dot",
    x: x + side * 0.3,
    y: y + side * 0.45,
    width: side * 0.4,
    height: 1.5,
    ...look,
  });
}

/** Names of rows and columns, and of the models that they belong to, with lines between models. */
function sideNames(spec, room, xOf, yOf) {
  const { rows, cols, size, rowTicks, colTicks, rowRuns, colRuns, tickPicked } = spec;
  const host = draw("g", { class: tickPicked ? "names can-pick" : "names", "aria-hidden": "true" });
  const widest = Math.max(...colTicks.map((text) => text.length)) * 6.4 + 4;
  const steps = { row: tickStep(size, 12), col: tickStep(size, room.turned ? 12 : widest) };
  rowTicks.forEach(
    (text, k) =>
      k % steps.row ||
      host.append(
        draw("text", {
          class: "tick row",
          "data-side": "row",
          "data-k": k,
          x: room.left - 6,
          y: yOf(k) + size / 2,
          text,
        }),
      ),
  );
  const below = room.top + rows * size;
  colTicks.forEach((text, k) => {
    if (k % steps.col) return;
    const [x, y] = [xOf(k) + size / 2, below + (room.turned ? 8 : 13)];
    host.append(
      draw("text", {
        class: room.turned ? "tick col turned" : "tick col",
        "data-side": "col",
        "data-k": k,
        x,
        y,
        text,
        transform: room.turned ? `rotate(-45 ${x} ${y})` : null,
      }),
    );
  });
  for (const run of rowRuns) {
    const [x, y] = [10, (yOf(run.start) + yOf(run.start + run.size - 1) + size) / 2];
    host.append(runName(run, run.size * size, { x, y, transform: `rotate(-90 ${x} ${y})` }));
  }
  for (const run of colRuns) {
    host.append(
      runName(run, run.size * size, {
        x: xOf(run.start) + (run.size * size) / 2,
        y: below + room.below - 6,
      }),
    );
  }
  for (const run of rowRuns.slice(1)) {
    const y = spec.up ? yOf(run.start) + size : yOf(run.start);
    host.append(draw("line", { class: "border", x1: room.left, x2: xOf(cols), y1: y, y2: y }));
  }
  for (const run of colRuns.slice(1)) {
    host.append(
      draw("line", { class: "border", x1: xOf(run.start), x2: xOf(run.start), y1: room.top, y2: below }),
    );
  }
  return host;
}

function runName(run, room, attributes) {
  const text = draw("text", {
    class: "side",
    ...attributes,
    text: ends(run.name, Math.max(4, Math.floor(room / 6.2))),
  });
  text.append(draw("title", { text: run.name }));
  return text;
}

/** Outline rows and columns of a grid. */
function markLines(view, spec, rowMarks, colMarks) {
  const { rows, cols, size } = spec;
  const frame = (x, y, width, height) =>
    ["casing", "ring"].map((name) => draw("rect", { class: name, x, y, width, height }));
  view.marks.replaceChildren(
    ...rowMarks.flatMap((i) => frame(view.room.left, view.yOf(i), cols * size, size)),
    ...colMarks.flatMap((j) => frame(view.xOf(j), view.room.top, size, rows * size)),
  );
  for (const text of view.svg.querySelectorAll(".tick")) {
    const list = text.dataset.side === "row" ? rowMarks : colMarks;
    text.classList.toggle("marked", list.includes(Number(text.dataset.k)));
  }
}

/** The bar of colors below a figure, with a pointer to the value under the cursor. */
function colorBar(scale, from = scale.lo) {
  const [wide, tall, side] = [220, 10, 16];
  const start = scale.share(from);
  const xOf = (v) => side + (wide * (scale.share(v) - start)) / (1 - start);
  const id = freshId();
  const shares = Array.from({ length: 25 }, (_, k) => start + ((1 - start) * k) / 24);
  const stops = shares.map((share, k) => {
    const stop = draw("stop", { offset: k / 24 });
    stop.setAttribute("stop-color", `rgb(${scale.shareColor(share).join(" ")})`);
    return stop;
  });
  const ticks =
    scale.near === null ? evenTicks(from, scale.hi, 4).ticks : bothScale(from, scale.hi, scale.near).ticks;
  const digits = scale.near === null ? evenTicks(from, scale.hi, 4).digits : null;
  const pointer = draw("path", { class: "pointer", d: "M-4 0L4 0L0 5Z", visibility: "hidden" });
  const svg = draw(
    "svg",
    {
      class: "bar",
      width: wide + 2 * side,
      height: 34,
      viewBox: `0 0 ${wide + 2 * side} 34`,
      "aria-hidden": true,
    },
    draw("defs", {}, draw("linearGradient", { id }, ...stops)),
    draw("rect", { x: side, y: 7, width: wide, height: tall, fill: `url(#${id})`, rx: 2 }),
    ...ticks.map((v) =>
      draw("text", {
        class: "tick col",
        x: xOf(v),
        y: 30,
        text: digits === null ? powerName(v) : say(v, digits),
      }),
    ),
    pointer,
  );
  const show = (v) => {
    pointer.setAttribute("visibility", known(v) ? "visible" : "hidden");
    if (known(v))
      pointer.setAttribute("transform", `translate(${Math.min(side + wide, Math.max(side, xOf(v)))} 1)`);
  };
  return { node: el("div", { class: "scale" }, el("span", { text: scale.label }), svg), show };
}
