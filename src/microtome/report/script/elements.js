// Elements by their names and attributes: every text of the document goes through textContent
// or setAttribute, so that no name in it can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...present(children));
  return node;
}
// Parts that a figure lacks are null, and would otherwise be written out as that word.
const present = (children) => children.filter((child) => child !== null && child !== undefined);
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);
let names = 0;
const freshId = () => `made-${(names += 1)}`;

/** The document's text; a large one is packed, so that the file stays small. */
function embedded(node) {
  if (node.dataset.coding !== "gzip") return node.textContent;
  const bytes = Uint8Array.from(atob(node.textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
