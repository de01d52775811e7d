// The pointer: values stand beside it, and a layer picked in one figure is marked in all.

const tip = {
  node: byId("tip"),
  /** Show a title, rows of cells and a remark near a point of the screen. */
  show(x, y, { title, head, rows, remark }) {
    const line = (tag) => (cells) => el("tr", {}, ...cells.map((text) => el(tag, { text })));
    this.node.replaceChildren(
      el("strong", { text: title }),
      el("table", {}, ...(head ? [line("th")(head)] : []), ...rows.map(line("td"))),
      ...(remark ? [el("p", { text: remark })] : []),
    );
    this.node.hidden = false;
    const { width, height } = this.node.getBoundingClientRect();
    const [wide, tall] = [document.documentElement.clientWidth, window.innerHeight];
    const left = x + 16 + width > wide ? Math.max(8, x - 16 - width) : x + 16;
    const top = y + 16 + height > tall ? Math.max(8, y - 16 - height) : y + 16;
    this.node.style.left = `${Math.min(left, Math.max(8, wide - width - 8))}px`;
    this.node.style.top = `${top}px`;
    byId("readout").textContent = [title, ...rows.map((cells) => cells.filter(Boolean).join(" ")), remark]
      .filter(Boolean)
      .join("; ");
  },
  hide() {
    this.node.hidden = true;
  },
};

const picked = { depths: new Set() };
const views = new Map(); // section id: what to call when the picked layers change

function pick(depths) {
  picked.depths = new Set(depths.filter((depth) => Number.isInteger(depth)));
  for (const mark of views.values()) mark();
  const box = byId("picked");
  box.hidden = picked.depths.size === 0;
  if (box.hidden) return;
  box.replaceChildren(
    el("span", { text: `${layersInWords([...picked.depths])} marked in every figure` }),
    el("button", {
      type: "button",
      "aria-label": "Clear the marks",
      text: "\u00d7",
      onclick: () => pick([]),
    }),
  );
}

function layersInWords(depths) {
  const sorted = depths.slice().sort((a, b) => a - b);
  const [first, last] = [sorted[0], sorted[sorted.length - 1]];
  if (sorted.length === 1) return `Layer ${first} is`;
  if (sorted.length === 2) return `Layers ${first} and ${last} are`;
  if (last - first === sorted.length - 1) return `Layers ${first} to ${last} are`;
  return `Layers ${sorted.slice(0, -1).join(", ")} and ${last} are`;
}

function depthOf(name, layers) {
  if (layers && Object.hasOwn(layers, name) && Number.isInteger(layers[name].depth))
    return layers[name].depth;
  const found = /(\d+)$/.exec(name);
  return found ? Number(found[1]) : null;
}

function modelOf(name, layers) {
  if (layers && Object.hasOwn(layers, name) && layers[name].model) return layers[name].model;
  return name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : "";
}

/** Neighboring layers of one model: [{name, start, size}]. */
function modelRuns(list, layers) {
  const runs = [];
  list.forEach((name, k) => {
    const model = modelOf(name, layers);
    const last = runs[runs.length - 1];
    if (last && last.name === model) last.size += 1;
    else runs.push({ name: model, start: k, size: 1 });
  });
  return runs;
}
