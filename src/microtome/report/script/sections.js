// Figures are drawn when they come near the screen, when the room for them changes, and all for print.

const FIGURES = {
  map: drawMap,
  curves: drawCurves,
  spans: drawSpans,
  scores: drawScores,
  lines: drawLines,
};
const states = new Map(); // section id: what the reader chose there
// Said once, at the first figure of a kind.
const HINTS = new Map(
  Object.entries({
    map:
      "Point at a cell, or walk with the arrow keys, to read it; click or Enter opens its two layers. " +
      "A click on a number at the side marks that layer in every figure.",
    curves:
      "Point at the chart, or walk with the arrow keys, to read it; press a name to hide its curve. " +
      "A click or Enter marks a layer in every figure.",
    spans: "Drag over the row of blocks, or press shift and an arrow key, to read what a span costs.",
  }),
);

function hint(kind) {
  const text = HINTS.get(kind);
  HINTS.delete(kind);
  return text ? el("p", { class: "basis hint", text }) : null;
}

/** Doubt in brackets is part of a sentence, but not what to read first. */
function sentence(text) {
  // A number and its percent sign stay together.
  return text
    .replace(/(\d) %/g, "$1\u00a0%")
    .split(/(\([^()]*\))/)
    .filter(Boolean)
    .map((part) => (part.startsWith("(") ? el("span", { class: "doubt", text: part }) : part));
}

/** A text behind a word that opens it. */
const folded = (title, text) =>
  text
    ? el("details", { class: "folded" }, el("summary", { text: title }), el("p", {}, ...sentence(text)))
    : null;

/** How many findings at the top a figure has, and its sentences that stand here only, folded. */
function statements(section) {
  const above = DOCUMENT.findings.filter((one) => one.section === section.id).length;
  const below = section.below || [];
  const toTop = {
    href: "#findings",
    text: `${above} finding${above === 1 ? "" : "s"} at the top`,
    onclick: () => document.querySelector("#findings .more")?.click(),
  };
  return [
    above ? el("p", { class: "basis" }, el("a", toTop)) : null,
    below.length
      ? el(
          "details",
          { class: "folded" },
          el("summary", { text: `${below.length} further sentence${below.length === 1 ? "" : "s"}` }),
          ...below.map((one) =>
            el("div", {}, el("p", { class: "sentence" }, ...sentence(one.text)), folded("Evidence", one.evidence)),
          ),
        )
      : null,
  ];
}

/** About how tall a figure will be, so that little moves when it is drawn. */
const HEIGHTS = {
  map: ({ panels, blocks }, width) => {
    const across = panelsAcross(panels, width);
    const size = panelCell(panels, Math.floor(width / across) - 16);
    const rows = Math.max(...panels.map((panel) => panel.left.length));
    return Math.ceil(panels.length / across) * (rows * size + 88) + 140 + 24 * blocks.length;
  },
  curves: ({ curves }, width) =>
    new Set(curves.map((one) => Boolean(one.difference))).size *
    (Math.min(340, Math.max(240, width * 0.5)) + 60),
  spans: ({ depth }, width) => depth * spanCell(depth, width) + 76 + (width < 640 ? 280 : 0),
  scores: ({ rows }) => 36 * (rows.length + 1),
  lines: () => 300,
};

function makeSection(section) {
  if (section.kind === "map")
    Object.assign(section, { blocks: section.blocks || [], layers: section.layers || {} });
  const host = el("div", { class: "figure" });
  const state = { section, host, body: el("div"), drawn: false, options: {} };
  states.set(section.id, state);
  const heading = freshId();
  const above = [section.group, section.task, section.model]
    .filter((part) => part && !section.title.includes(part))
    .join(" \u00b7 ");
  const node = el(
    "section",
    { id: section.id, class: `section ${section.kind}`, "aria-labelledby": heading },
    above ? el("p", { class: "eyebrow", text: above }) : null,
    el("h2", { id: heading, text: section.title }),
    hint(section.kind),
    host,
    section.basis ? el("p", { class: "basis", text: section.basis }) : null,
    ...statements(section),
    takeAway(section),
  );
  host.style.minHeight = `${HEIGHTS[section.kind](section, roomFor())}px`;
  return node;
}

/** One figure that cannot be drawn must not take the others with it. */
function guarded(state, work) {
  try {
    work();
  } catch (error) {
    console.error(error);
    const text = `This figure could not be drawn (${error.message}); its data can be downloaded below.`;
    state.body.replaceChildren(el("p", { class: "basis", text }));
  }
}

function drawSection(id) {
  const state = states.get(id);
  if (state.drawn) return;
  state.drawn = true;
  state.redraw = () => guarded(state, () => FIGURES[state.section.kind](state, state.body, roomFor()));
  if (state.section.kind === "map") {
    guarded(state, () => state.host.append(mapControls(state, state.redraw)));
  }
  state.host.append(state.body);
  state.redraw();
  state.host.style.minHeight = "";
  // From now on the browser may leave it out while it is far away, and remembers its size.
  requestAnimationFrame(() => byId(id).classList.add("drawn"));
}

/** Go to a section; what is drawn only now, above it, must not push it away. */
function goTo(id) {
  const ids = [...states.keys()];
  const k = ids.indexOf(id);
  for (const near of k < 0 ? [] : ids.slice(Math.max(0, k - 2), k + 2)) drawSection(near);
  const aim = byId(id);
  let left = 4;
  const settle = () => {
    aim.scrollIntoView({ block: "start", behavior: "instant" });
    left -= 1;
    if (left > 0) requestAnimationFrame(settle);
  };
  settle();
}

let roomNow = 0;
const roomFor = () => Math.max(220, roomNow);
const measureRoom = () => {
  const main = byId("main");
  const style = getComputedStyle(main);
  return Math.floor(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
};

const drawAll = () => {
  for (const id of states.keys()) drawSection(id);
  for (const details of document.querySelectorAll("main details")) details.open = true;
};

function watch() {
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) drawSection(entry.target.id);
    },
    { rootMargin: "700px 0px" },
  );
  const here = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) markContents(entry.target.id);
    },
    { rootMargin: "-15% 0px -75% 0px" },
  );
  for (const id of states.keys()) near.observe(byId(id));
  for (const id of ["findings", ...states.keys(), "provenance"]) here.observe(byId(id));
  const fromAddress = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (id && byId("main").contains(byId(id))) goTo(id);
  };
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
  new ResizeObserver(() => {
    const room = measureRoom();
    if (Math.abs(room - roomNow) < 4) return;
    roomNow = room;
    for (const state of states.values()) if (state.drawn) state.redraw();
  }).observe(byId("main"));
  window.addEventListener("beforeprint", drawAll);
  matchMedia("print").addEventListener("change", (event) => event.matches && drawAll());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    tip.hide();
    if (!byId("cell").hidden) closeCell();
    else pick([]);
  });
  document.addEventListener("scroll", () => tip.hide(), { passive: true });
}
