// Series over an axis: lines, error bars, and a guide that reads values.

const CURVES = Array.from({ length: 7 }, (_, k) => `var(--curve-${k})`);
const DASHES = ["", "6 2.5", "1.5 2.5", "7 2 1.5 2", "10 2 1.5 2 1.5 2"];
const LEVELS = ["7 4", "3 3", "1 3", "9 3 1 3"];
const MARKERS = ["circle", "square", "triangle", "diamond", "nabla", "plus", "left"];

const UNORDERED = new Set(["seed of the order", "order", "reversed"]); // numbers that are mere names

const look = (k) => ({
  color: CURVES[k % CURVES.length],
  dash: DASHES[k % DASHES.length],
  marker: MARKERS[k % MARKERS.length],
});
const lineSeries = (name, k, points) => ({ name, ...look(k), marker: null, points, line: true });

function markerPath(kind, r) {
  const paths = {
    circle: `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`,
    square: `M${-r * 0.9} ${-r * 0.9}H${r * 0.9}V${r * 0.9}H${-r * 0.9}Z`,
    triangle: `M0 ${-r * 1.15}L${r * 1.1} ${r * 0.85}H${-r * 1.1}Z`,
    nabla: `M0 ${r * 1.15}L${r * 1.1} ${-r * 0.85}H${-r * 1.1}Z`,
    diamond: `M0 ${-r * 1.3}L${r * 1.1} 0L0 ${r * 1.3}L${-r * 1.1} 0Z`,
    left: `M${-r * 1.15} 0L${r * 0.85} ${-r * 1.1}V${r * 1.1}Z`,
    plus: `M${-r * 1.2} 0H${r * 1.2}M0 ${-r * 1.2}V${r * 1.2}`,
    cross: `M${-r} ${-r}L${r} ${r}M${r} ${-r}L${-r} ${r}`,
  };
  return paths[kind];
}

/** Names of the curves with the look of their lines; pressing one hides or shows it. */
function legend(series, hidden, toggled, levels = []) {
  const lines = levels.map(({ name, value, dash }) =>
    el(
      "span",
      { class: "entry level" },
      draw(
        "svg",
        { width: 30, height: 12, viewBox: "0 0 30 12", "aria-hidden": true },
        draw("line", { class: "level", x1: 1, x2: 29, y1: 6, y2: 6, "stroke-dasharray": dash }),
      ),
      el("span", { text: `${name} ${say(value)}` }),
    ),
  );
  return el(
    "div",
    { class: "legend", role: "group", "aria-label": "Curves" },
    ...series.map((one) => {
      const sample = draw(
        "svg",
        { width: 30, height: 12, viewBox: "0 0 30 12", "aria-hidden": true },
        one.line
          ? draw("line", {
              x1: 1,
              x2: 29,
              y1: 6,
              y2: 6,
              stroke: one.color,
              "stroke-width": 2,
              "stroke-dasharray": one.dash,
            })
          : null,
        one.marker
          ? draw("path", {
              d: markerPath(one.marker, 4),
              transform: "translate(15 6)",
              fill: one.color,
              stroke: one.color,
            })
          : null,
      );
      if (!toggled) return el("span", { class: "entry" }, sample, el("span", { text: one.name }));
      return el(
        "button",
        {
          type: "button",
          class: "entry",
          "aria-pressed": String(!hidden.has(one.name)),
          title: one.note || null,
          onclick: (event) => {
            if (hidden.has(one.name)) hidden.delete(one.name);
            else hidden.add(one.name);
            event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(one.name)));
            toggled();
          },
        },
        sample,
        el("span", { text: one.name }),
      );
    }),
    ...lines,
  );
}

/**
 * Draw series over one axis, with bars for doubt, level lines and a guide that reads values.
 * spec: width, height, series, scale (of y), xLabel, yLabel, label, levels, shaded, bare, zero, digits,
 * layers (whether x is a layer), picked(key).
 */
function chart(spec) {
  const { width, height, series, scale } = spec;
  const room = { left: 54, right: 14, top: 10, below: 42 };
  const places = placesOf(series, spec.xLabel);
  const spots = places.keys.map((key) => places.at.get(key));
  const [lo, hi] = [spots[0], spots[spots.length - 1]];
  const pad = spots.length > 40 ? 0 : 0.5 * places.gap;
  const inner = { wide: width - room.left - room.right, tall: height - room.top - room.below };
  const x = (v) => room.left + (inner.wide * (v - lo + pad)) / (hi - lo + 2 * pad || 1);
  const y = (v) => room.top + inner.tall * (1 - scale.share(v));
  const clip = freshId();
  const guide = draw("line", {
    class: "guide",
    y1: room.top,
    y2: room.top + inner.tall,
    visibility: "hidden",
  });
  const marks = draw("g", { class: "marks" });
  const body = draw(
    "g",
    { "clip-path": `url(#${clip})` },
    ...series.map((one, k) => drawSeries(one, k, spec, { x, y, places, room, inner })),
  );
  const svg = draw(
    "svg",
    {
      class: "chart",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      tabindex: 0,
      "aria-roledescription": "chart",
      "aria-label": `${spec.label}. Arrow keys read values${spec.picked ? ", Enter marks a layer" : ""}.`,
    },
    draw(
      "defs",
      {},
      draw(
        "clipPath",
        { id: clip },
        draw("rect", { x: room.left, y: room.top - 5, width: inner.wide, height: inner.tall + 10 }),
      ),
    ),
    ...chartAxes(spec, { x, y, places, room, inner }),
    marks,
    guide,
    body,
    draw("rect", { class: "ground", x: room.left, y: room.top, width: inner.wide, height: inner.tall }),
  );
  const walker = { x, y, places, spots, room, guide, active: null };
  chartEvents(svg, spec, walker);
  return { svg, mark: () => markPoints(marks, spec, walker, inner) };
}

/** Where on the axis each x stands: numbers at themselves, names in a row. */
function placesOf(series, label) {
  const found = [...new Set(series.flatMap((one) => one.points.map((point) => point.key)))];
  const named = UNORDERED.has(label) || found.some((key) => typeof key !== "number");
  const keys = named ? found : found.sort((a, b) => a - b);
  const place = new Map(keys.map((key, k) => [key, named ? k : key]));
  let gap = Infinity;
  for (let k = 1; k < keys.length; k += 1) gap = Math.min(gap, place.get(keys[k]) - place.get(keys[k - 1]));
  return { keys, named, at: place, gap: Number.isFinite(gap) ? gap : 1 };
}

function chartAxes(spec, { x, y, places, room, inner }) {
  const bottom = room.top + inner.tall;
  const parts = spec.scale.ticks.flatMap((v) => [
    draw("line", { class: "rule", x1: room.left, x2: room.left + inner.wide, y1: y(v), y2: y(v) }),
    draw("text", { class: "tick row", x: room.left - 8, y: y(v), text: spec.scale.tick(v) }),
  ]);
  if (spec.zero)
    parts.push(
      draw("line", { class: "zero", x1: room.left, x2: room.left + inner.wide, y1: y(0), y2: y(0) }),
    );
  for (const [v, text] of xTicks(places, inner.wide))
    parts.push(draw("text", { class: "tick col", x: x(v), y: bottom + 16, text }));
  parts.push(
    draw("text", { class: "side", x: room.left + inner.wide / 2, y: bottom + 35, text: spec.xLabel }),
  );
  const middle = room.top + inner.tall / 2;
  parts.push(
    draw("text", {
      class: "side",
      x: 10,
      y: middle,
      transform: `rotate(-90 10 ${middle})`,
      text: starts(spec.yLabel, Math.floor(inner.tall / 5.6)),
    }),
  );
  (spec.levels || []).forEach(({ value, dash }) =>
    parts.push(
      draw("line", {
        class: "level",
        x1: room.left,
        x2: room.left + inner.wide,
        y1: y(value),
        y2: y(value),
        "stroke-dasharray": dash,
      }),
    ),
  );
  return parts;
}

function xTicks(places, wide) {
  const most = Math.max(2, Math.floor(wide / 34));
  if (places.named) {
    const step = Math.ceil(places.keys.length / most);
    const room = Math.max(4, Math.floor(((wide / places.keys.length) * step) / 6.4));
    return places.keys
      .filter((_, k) => k % step === 0)
      .map((key) => [places.at.get(key), ends(String(key), room)]);
  }
  if (places.keys.length <= most) return places.keys.map((key) => [key, powerName(key)]);
  const { ticks } = evenTicks(places.keys[0], places.keys[places.keys.length - 1], Math.min(most, 8));
  return ticks.map((v) => [v, v.toLocaleString("en-US")]);
}

function drawSeries(one, k, spec, { x, y, places, room, inner }) {
  const group = draw("g", { class: "series" });
  // Side by side, so that bars of different curves do not hide one another.
  const step = x(places.gap) - x(0);
  const apart = Math.min(7, 0.1 * step, (0.5 * step) / spec.series.length);
  const aside = one.marker ? (k - (spec.series.length - 1) / 2) * apart : 0;
  const spot = (point) => x(places.at.get(point.key)) + aside;
  const sound = one.points.filter((point) => known(point.y));
  const bar = (point, low, high, style) =>
    known(low) && known(high)
      ? draw("line", {
          class: style,
          x1: spot(point),
          x2: spot(point),
          y1: y(low),
          y2: y(high),
          stroke: one.color,
        })
      : null;
  if (spec.shaded)
    group.append(
      shade(
        sound.filter((point) => known(point.bandLow) && known(point.bandHigh)),
        one,
        spot,
        y,
      ),
    );
  for (const point of one.marker && !spec.bare ? sound : []) {
    group.append(
      ...[
        bar(point, point.bandLow, point.bandHigh, "thin"),
        bar(point, point.low, point.high, "thick"),
      ].filter(Boolean),
    );
  }
  if (one.line && !places.named)
    group.append(
      draw("path", {
        class: "line",
        d: sound
          .map((point, n) => `${n ? "L" : "M"}${spot(point).toFixed(1)} ${y(point.y).toFixed(1)}`)
          .join(""),
        stroke: one.color,
        "stroke-dasharray": one.dash,
      }),
    );
  for (const point of one.marker ? one.points : []) {
    const undefinedPoint = !known(point.y);
    const height = undefinedPoint ? room.top + inner.tall - 5 : y(point.y);
    const place = `translate(${spot(point).toFixed(1)} ${height.toFixed(1)})`;
    group.append(
      draw("path", {
        class: undefinedPoint ? "missing" : `point ${one.marker}`,
        transform: place,
        style: `--own: ${one.color}`,
        d: markerPath(undefinedPoint ? "cross" : one.marker, 4),
        fill: undefinedPoint ? "none" : one.color,
        "data-x": point.key,
      }),
    );
  }
  return group;
}

function shade(points, one, spot, y) {
  const there = points.map((point) => `${spot(point)} ${y(point.bandHigh)}`);
  const back = points
    .slice()
    .reverse()
    .map((point) => `${spot(point)} ${y(point.bandLow)}`);
  return draw("path", {
    class: "shade",
    d: points.length > 1 ? `M${[...there, ...back].join("L")}Z` : "",
    fill: one.color,
  });
}

function chartEvents(svg, spec, walker) {
  const { places, spots, guide } = walker;
  if (spots.length === 0) return;
  const show = (k, left, top) => {
    walker.active = k;
    const place = walker.x(spots[k]);
    fill(guide, { x1: place, x2: place, visibility: "visible" }, []);
    tip.show(left, top, pointFacts(spec, places.keys[k]));
  };
  const leave = () => {
    guide.setAttribute("visibility", "hidden");
    tip.hide();
  };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) * spec.width) / box.width;
    return spots.reduce(
      (best, v, k) => (Math.abs(walker.x(v) - place) < Math.abs(walker.x(spots[best]) - place) ? k : best),
      0,
    );
  };
  const showByKey = (k) => {
    const box = svg.getBoundingClientRect();
    show(k, box.left + (walker.x(spots[k]) * box.width) / spec.width, box.top + box.height / 3);
  };
  svg.addEventListener("pointermove", (event) => show(nearest(event), event.clientX, event.clientY));
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("focus", () => svg.matches(":focus-visible") && showByKey(walker.active ?? 0));
  if (spec.picked) svg.addEventListener("click", (event) => spec.picked(places.keys[nearest(event)]));
  svg.addEventListener("keydown", (event) => {
    const k = walker.active ?? 0;
    const aim = { ArrowLeft: k - 1, ArrowRight: k + 1, Home: 0, End: spots.length - 1, Enter: k, " ": k }[
      event.key
    ];
    if (aim === undefined) return;
    event.preventDefault();
    if ((event.key === "Enter" || event.key === " ") && spec.picked) spec.picked(places.keys[k]);
    showByKey(Math.max(0, Math.min(spots.length - 1, aim)));
  });
}

function pointFacts(spec, key) {
  const rows = spec.series.flatMap((one) => {
    const point = one.points.find((each) => each.key === key);
    if (!point) return [];
    return [
      [
        one.name,
        say(point.y, spec.digits),
        interval(point.low, point.high, spec.digits),
        interval(point.bandLow, point.bandHigh, spec.digits),
      ],
    ];
  });
  const used = [true, true, rows.some((row) => row[2]), rows.some((row) => row[3])];
  const keep = (row) => row.filter((_, k) => used[k]);
  const head = used[2] || used[3] ? keep(["", "", "each alone", "all at once"]) : null;
  return { title: `${spec.xLabel}: ${key}`, head, rows: rows.map(keep) };
}

function markPoints(marks, spec, walker, inner) {
  marks.replaceChildren();
  if (!spec.layers) return;
  for (const key of walker.places.keys.filter((one) => picked.depths.has(one))) {
    const place = walker.x(walker.places.at.get(key));
    const wide = Math.min(96, Math.max(6, (inner.wide / walker.spots.length) * 0.72));
    marks.append(
      draw("rect", {
        class: "band",
        x: place - wide / 2,
        y: walker.room.top,
        width: wide,
        height: inner.tall,
        "data-layer": key,
      }),
    );
  }
}
