// Scales of values and colors: level, logarithmic, or both around 0.

// The colors of the pictures on paper: viridis, and purple to orange; those of curves stand in the style.
const VIRIDIS = hexes(
  "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725",
);
const PUOR = hexes("7f3b08b25706e08214fcb761fee0b6f6f6f7d8daebb1aad18073ac5326872d004b");

const STEEP = 50; // largest to median, beyond which a level scale would show one point alone

function hexes(text) {
  return text.match(/.{6}/g).map((one) => one.match(/../g).map((pair) => parseInt(pair, 16)));
}

function blend(stops, share) {
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const k = Math.min(Math.floor(place), stops.length - 2);
  return stops[k].map((from, c) => Math.round(from + (place - k) * (stops[k + 1][c] - from)));
}

/** Black or white, whichever stands out: both do alike at a relative luminance of .179. */
function inkOn(color) {
  const line = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2] < 0.179 ? "#fff" : "#000";
}

/** A scale of colors: what share of the way a value has gone, and which color stands there. */
function colorScale({ lo, hi, diverging = false, near = null, label, digits }) {
  const turn = near === null ? (v) => v : (v) => Math.sign(v) * Math.log1p(Math.abs(v) / near);
  const share = (v) => (turn(v) - turn(lo)) / (turn(hi) - turn(lo));
  const shareColor = (part) => blend(diverging ? PUOR : VIRIDIS, part);
  const color = (v) => shareColor(share(v));
  return { lo, hi, near, share, shareColor, color, label, digits };
}

function evenTicks(lo, hi, most) {
  const raw = (hi - lo) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; k += 1) found.push(k * step);
  return {
    ticks: found,
    digits: Math.max(0, Math.min(8, -Math.floor(Math.log10(step * 1.0001)) + (step / power === 2.5 ? 1 : 0))),
  };
}

const powers = (lo, hi) => {
  const found = [];
  for (let k = Math.floor(Math.log10(lo)); k <= Math.ceil(Math.log10(hi)); k += 1) found.push(10 ** k);
  return found;
};

function levelScale(lo, hi, most) {
  const { ticks, digits } = evenTicks(lo, hi, most);
  return { share: (v) => (v - lo) / (hi - lo), ticks, tick: (v) => say(v, digits) };
}

function logScale(lo, hi) {
  const [from, to] = [Math.log10(lo), Math.log10(hi)];
  let ticks = powers(lo, hi);
  if (to - from < 2) ticks = ticks.flatMap((p) => [p, 2 * p, 5 * p]);
  if (to - from > 7) ticks = ticks.filter((_, k) => k % 2 === 0);
  ticks = ticks.filter((v) => v >= lo * 0.999 && v <= hi * 1.001);
  return { share: (v) => (Math.log10(Math.max(v, 1e-300)) - from) / (to - from), ticks, tick: powerName };
}

/** Level around 0 and logarithmic far from it, for differences over orders of magnitude. */
function bothScale(lo, hi, near) {
  const turn = (v) => Math.sign(v) * Math.log1p(Math.abs(v) / near);
  const sizes = powers(near, Math.max(-lo, hi)).filter((p) => p > near);
  const ticks = [...sizes.map((p) => -p), 0, ...sizes].filter((v) => v >= lo && v <= hi);
  return { share: (v) => (turn(v) - turn(lo)) / (turn(hi) - turn(lo)), ticks, tick: powerName };
}

function powerName(value) {
  const size = Math.abs(value);
  const text =
    size === 0 || (size >= 1e-3 && size < 1e5) ? String(Number(size.toPrecision(3))) : size.toExponential(0);
  return (value < 0 ? MINUS : "") + text;
}

const median = (values) => values.slice().sort((a, b) => a - b)[Math.floor(values.length / 2)];

function isSteep(values) {
  const sizes = values.filter((v) => v !== 0).map(Math.abs);
  return sizes.length > 2 && sizes.reduce((a, b) => Math.max(a, b)) > STEEP * median(sizes);
}
