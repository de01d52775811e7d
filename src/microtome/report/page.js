// The page: findings first, then the figures, then where they come from. The files of script/ come before
// this one, in one scope.

const MOST_FINDINGS = 8; // on the first screen

const THEME = "microtome-theme";
// Where a page may keep nothing, the choice lasts as long as the page.
const remember = (theme) => {
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    /* as said */
  }
};
const remembered = () => {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null;
  }
};

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = byId("theme");
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colors" : "Use dark colors");
}

function makeTop() {
  const tasks = new Set(DOCUMENT.sections.map((one) => one.task).filter(Boolean));
  const modelsOf = (one) => [one.model, ...Object.values(one.layers || {}).map((layer) => layer.model)];
  const models = new Set(DOCUMENT.sections.flatMap(modelsOf).filter(Boolean));
  const some = (n, word) => (n ? `${n} ${word}${n === 1 ? "" : "s"}` : "");
  const facts = [
    some(tasks.size, "task"),
    some(models.size, "model"),
    some(DOCUMENT.sections.length, "figure"),
    DOCUMENT.made,
    DOCUMENT.version ? `microtome ${DOCUMENT.version}` : "",
  ];
  byId("top").append(
    el(
      "div",
      {},
      el("h1", { text: DOCUMENT.title }),
      el("p", { class: "basis", text: facts.filter(Boolean).join(" \u00b7 ") }),
    ),
    el("button", {
      type: "button",
      id: "theme",
      onclick: () => {
        const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
        setTheme(theme);
        remember(theme);
      },
    }),
  );
  const system = matchMedia("(prefers-color-scheme: dark)");
  const fromSystem = () => remembered() || setTheme(system.matches ? "dark" : "light");
  setTheme(remembered() || (system.matches ? "dark" : "light"));
  system.addEventListener("change", fromSystem);
}

function depthsOf(layers) {
  const all = Object.assign({}, ...DOCUMENT.sections.map((one) => one.layers || {}));
  return [...new Set((layers || []).map((name) => depthOf(String(name), all)))];
}

function makeFindings() {
  const titles = new Map(DOCUMENT.sections.map((one) => [one.id, one]));
  const items = DOCUMENT.findings.map((one, k) => {
    const aim = titles.get(one.section);
    const text = el("span", { class: "sentence" }, ...sentence(one.text));
    const badge =
      one.sure === "inconclusive" ? el("span", { class: "badge", text: "inconclusive" }) : null;
    const where = aim
      ? el("span", {
          class: "where",
          text: [aim.title, aim.task, aim.model]
            .filter((part, n, all) => part && (n === 0 || !all[0].includes(part)))
            .join(" \u00b7 "),
        })
      : null;
    const inner = aim
      ? el(
          "a",
          { href: `#${encodeURIComponent(aim.id)}`, onclick: () => pick(depthsOf(one.layers)) },
          text,
          badge,
          where,
        )
      : el("span", {}, text, badge);
    return el(
      "li",
      { class: `${one.sure}${k >= MOST_FINDINGS ? " later" : ""}` },
      inner,
      folded("Evidence", one.evidence),
    );
  });
  const list = el("ol", { class: "findings" }, ...items);
  const more =
    items.length > MOST_FINDINGS
      ? el("button", {
          type: "button",
          class: "more",
          text: `Show all ${items.length} findings`,
          onclick: (event) => {
            list.classList.add("all");
            event.currentTarget.remove();
          },
        })
      : null;
  const key = items.length
    ? el(
        "p",
        { class: "basis key" },
        el("span", { class: "shown" }),
        " shown by the data ",
        el("span", { class: "inconclusive" }),
        " inconclusive: the data exclude neither side ",
        ...(DOCUMENT.findings.some((one) => one.sure === "note")
          ? [el("span", { class: "note" }), " a note"]
          : []),
      )
    : el("p", { class: "basis", text: "No finding was made." });
  return el(
    "section",
    { id: "findings", class: "section", "aria-label": "Findings", tabindex: -1 },
    el("h2", { text: "What was found" }),
    list,
    more,
    key,
  );
}

function makeContents() {
  const groups = new Map();
  for (const one of DOCUMENT.sections) {
    const group = one.group || one.task || "";
    groups.set(group, [...(groups.get(group) || []), one]);
  }
  const link = (id, text, model) =>
    el(
      "li",
      {},
      el(
        "a",
        { href: `#${encodeURIComponent(id)}`, "data-for": id },
        text,
        model ? el("small", { text: model }) : null,
      ),
    );
  const lists = [...groups].map(([group, list]) =>
    el(
      "div",
      {},
      group ? el("h3", { text: group }) : null,
      el(
        "ul",
        {},
        ...list.map((one) =>
          link(one.id, one.title, one.model && !one.title.includes(one.model) ? one.model : ""),
        ),
      ),
    ),
  );
  const wide = matchMedia("(min-width: 70rem)");
  const details = el(
    "details",
    {},
    el("summary", { text: "Contents" }),
    el("ul", {}, link("findings", "What was found")),
    ...lists,
    el("ul", {}, link("provenance", "Where it comes from")),
  );
  const follow = () => {
    details.open = wide.matches;
  };
  follow();
  wide.addEventListener("change", follow);
  details.addEventListener("click", (event) => {
    if (event.target.closest("a") && !wide.matches) details.open = false;
  });
  byId("contents").append(details);
}

function markContents(id) {
  for (const link of byId("contents").querySelectorAll("a")) {
    if (link.dataset.for === id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

async function copy(text, button) {
  const tell = (words) => {
    button.textContent = words;
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  };
  try {
    await navigator.clipboard.writeText(text);
    tell("Copied");
  } catch {
    // Some browsers lend the clipboard to no local file; then the text is selected for the reader's own keys.
    const range = document.createRange();
    range.selectNodeContents(button.parentElement.querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    tell("Selected");
  }
}

function makeProvenance() {
  const files = DOCUMENT.provenance.map((one) =>
    el(
      "details",
      { class: "source" },
      el("summary", {}, el("code", { text: one.file }), el("small", { text: one.format || "" })),
      one.command
        ? el(
            "div",
            { class: "command" },
            el("pre", {}, el("code", { text: one.command })),
            el("button", {
              type: "button",
              text: "Copy",
              "aria-label": `Copy the command of ${one.file}`,
              onclick: (event) => copy(one.command, event.currentTarget),
            }),
          )
        : null,
      el(
        "table",
        { class: "origin" },
        ...(one.facts || []).map(([name, value]) =>
          el("tr", {}, el("th", { scope: "row", text: name }), el("td", { text: cell(value) })),
        ),
      ),
    ),
  );
  if (files.length && files.length <= 3)
    files.forEach((one) => {
      one.open = true;
    });
  return el(
    "section",
    { id: "provenance", class: "section", "aria-label": "Where it comes from" },
    el("h2", { text: "Where it comes from" }),
    ...files,
    el(
      "div",
      { class: "tools" },
      el("span", { text: "Download data" }),
      el("button", {
        type: "button",
        text: "The whole report, JSON",
        onclick: () => save("report.json", "application/json", JSON.stringify(DOCUMENT, null, 1)),
      }),
    ),
  );
}

const DOCUMENT = JSON.parse(await embedded(document.getElementById("document")));

makeTop();
makeContents();
roomNow = measureRoom();
byId("main").append(makeFindings(), ...DOCUMENT.sections.map(makeSection), makeProvenance());
watch();
performance.mark("microtome-ready");
