// Numbers in words, the same in every figure: a fixed count of decimals, a true minus sign.

const MINUS = "\u2212";

const known = (value) => typeof value === "number" && Number.isFinite(value);

// Making one takes longer than using it a thousand times.
const formatters = new Map();
function formatter(digits) {
  if (!formatters.has(digits)) {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    formatters.set(digits, new Intl.NumberFormat("en-US", options));
  }
  return formatters.get(digits);
}

function say(value, digits = 3) {
  if (!known(value)) return "undefined";
  const size = Math.abs(value);
  if (size >= 1e7) return value.toExponential(2).replace("-", MINUS);
  const text = formatter(digits).format(size);
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}

/** Decimals that tell apart values that lie within a range. */
function decimals(range) {
  if (range === 0 || !known(range)) return 3;
  return Math.max(0, Math.min(6, 3 - Math.ceil(Math.log10(range / 2.5))));
}

/** A bound rounded outward: down where `side` is -1, up where it is 1. */
function bound(value, side, digits = 3) {
  if (!known(value) || Math.abs(value) >= 1e7) return say(value, digits);
  const nearest = Number(value.toFixed(digits));
  // Beyond ten decimals an end is noise of arithmetic: 7.0000000000000009 is no reason to write 7.01.
  const short = side * (value - nearest) > 1e-10;
  return say(short ? nearest + side / 10 ** digits : nearest, digits);
}
const interval = (low, high, digits) =>
  known(low) && known(high) ? `[${bound(low, -1, digits)}, ${bound(high, 1, digits)}]` : "";
const count = (n) => (known(n) ? n.toLocaleString("en-US") : "");
const ends = (text, most) => (text.length <= most ? text : `\u2026${text.slice(1 - most)}`);
const starts = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}\u2026`);
const at = (matrix, i, j) => (matrix && matrix[i] ? (matrix[i][j] ?? null) : null);
const percent = (level) => `${Number((100 * level).toPrecision(4))} %`;

function cell(value) {
  if (value === null || value === undefined) return "\u2013";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-US").replace("-", MINUS);
  const size = Math.abs(value);
  return size < 1e-3
    ? value.toPrecision(3).replace("-", MINUS)
    : say(value, size < 10 ? 3 : size < 1000 ? 2 : 0);
}
