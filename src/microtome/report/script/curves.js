// Scores along layers and losses along training: curves that can be hidden one by one.

const MOST_SHADED = 3; // bands of more curves would cover one another

function curveSeries(section, difference) {
  const factor = difference ? (section.points ?? 1) : 1;
  const times = (v) => (known(v) ? v * factor : null);
  const all = section.curves.filter((one) => Boolean(one.difference) === difference);
  return all.map((one, k) => ({
    name: one.name,
    note: one.note,
    ...look(k),
    line: true,
    points: one.x.map((key, n) => ({
      key,
      y: times(one.values[n]),
      low: times((one.low || [])[n]),
      high: times((one.high || [])[n]),
      bandLow: times((one.band_low || [])[n]),
      bandHigh: times((one.band_high || [])[n]),
    })),
  }));
}

/** Room for values and intervals, and for bands as far as these do not press everything else onto a line. */
function curveScale(series, section, difference, levels, height) {
  const of = (...keys) =>
    series.flatMap((one) => one.points.flatMap((point) => keys.map((key) => point[key]))).filter(known);
  // Intervals that tell nothing are not drawn, and need no room.
  const drawn = section.few ? ["y"] : ["y", "low", "high"];
  const near = [...of(...drawn), ...levels.map((one) => one.value), ...(difference ? [0] : [])];
  if (near.length === 0) return levelScale(0, 1, 4);
  let [lo, hi] = [Math.min(...near), Math.max(...near)];
  const range = hi - lo || Math.abs(hi) || 1;
  const far = section.few ? [] : of("bandLow", "bandHigh");
  if (far.length)
    [lo, hi] = [
      Math.max(Math.min(lo, ...far), lo - range / 2),
      Math.min(Math.max(hi, ...far), hi + range / 2),
    ];
  const steep = section.points !== 100 && isSteep(near);
  if (steep && !difference && Math.min(...near) > 0) return logScale(Math.min(...near) * 0.8, hi * 1.25);
  if (steep && difference) return bothScale(lo, hi, median(near.filter((v) => v !== 0).map(Math.abs)));
  const pad = (hi - lo || Math.abs(hi) || 1) * 0.05;
  return levelScale(lo - pad, hi + pad, Math.max(3, Math.floor(height / 55)));
}

function drawCurves(state, host, width) {
  const { section } = state;
  state.hidden = state.hidden || [new Set(), new Set()]; // of scores, and of differences
  const marks = [];
  const parts = [false, true].flatMap((difference) => {
    const all = curveSeries(section, difference);
    return all.length ? [curvePart(state, all, difference, width, marks)] : [];
  });
  host.replaceChildren(...parts);
  views.set(section.id, () => marks.forEach((mark) => mark.now()));
  views.get(section.id)();
}

function curvePart(state, all, difference, width, marks) {
  const { section } = state;
  const hidden = state.hidden[Number(difference)];
  const levels = difference
    ? []
    : Object.entries(section.lines || {})
        .filter(([, value]) => known(value))
        .map(([name, value], k) => ({ name, value, dash: LEVELS[k % LEVELS.length] }));
  const height = Math.min(340, Math.max(240, width * 0.5));
  const body = el("div");
  const mark = { now: () => {} };
  const unit = section.points === 100 ? "points" : section.y_label;
  const redraw = () => {
    const series = all.filter((one) => !hidden.has(one.name));
    if (series.length === 0) {
      mark.now = () => {};
      return body.replaceChildren(el("p", { class: "basis", text: "All curves are hidden." }));
    }
    const scale = curveScale(all, section, difference, levels, height);
    const made = chart({
      width: Math.min(width, 820),
      height,
      series,
      scale,
      levels,
      zero: difference,
      shaded: series.length <= MOST_SHADED && !section.few,
      bare: Boolean(section.few),
      xLabel: section.x_label,
      yLabel: difference ? `difference in ${unit}` : section.y_label,
      digits: difference ? 2 : 3,
      label: section.title,
      layers: section.x_is_layer,
      picked: section.x_is_layer ? (key) => pick([key]) : null,
    });
    body.replaceChildren(made.svg);
    mark.now = made.mark;
    made.mark();
  };
  redraw();
  marks.push(mark);
  const notes = [...new Set(all.map((one) => one.note).filter(Boolean))];
  const remarks = notes.map((text) => el("p", { class: "basis", text }));
  return el("div", { class: "part" }, legend(all, hidden, redraw, levels), body, ...remarks);
}

function drawLines(state, host, width) {
  const { section } = state;
  state.hidden = state.hidden || new Set();
  const all = section.series.map((one, k) =>
    lineSeries(
      one.name,
      k,
      one.x.map((key, n) => ({ key, y: one.y[n] })),
    ),
  );
  const body = el("div");
  const redraw = () => {
    const series = all.filter((one) => !state.hidden.has(one.name));
    if (series.length === 0)
      return body.replaceChildren(el("p", { class: "basis", text: "All curves are hidden." }));
    const values = all.flatMap((one) => one.points.map((point) => point.y)).filter(known);
    const [lo, hi] = values.length
      ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))]
      : [0, 1];
    const pad = (hi - lo || 1) * 0.05;
    const scale =
      isSteep(values) && lo > 0 ? logScale(lo * 0.8, hi * 1.25) : levelScale(lo - pad, hi + pad, 5);
    return body.replaceChildren(
      chart({
        width: Math.min(width, 820),
        height: 260,
        series,
        scale,
        xLabel: section.x_label,
        yLabel: section.y_label,
        label: section.title,
        digits: 4,
      }).svg,
    );
  };
  redraw();
  host.replaceChildren(legend(all, state.hidden, redraw), body);
}
