// Builds and updates the document, and asks the server. Text from data becomes text nodes only, never markup.

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

const SVG = "http://www.w3.org/2000/svg";
// Control characters, and characters that hide or reorder text.
const UNSEEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Returns the text with invisible characters written out, so that they cannot disguise anything. */
export const clean = (text) =>
  String(text).replace(UNSEEN, (c) => `<U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

/** Creates an element: `h("a.card", { href }, "text", [children])`. Empty children and attributes are left out. */
export const h = (tag, ...rest) => build(null, tag, rest);
/** Creates an SVG element. */
export const s = (tag, ...rest) => build(SVG, tag, rest);

function build(namespace, tag, rest) {
  const [name, ...classes] = tag.split(".");
  const element = namespace ? document.createElementNS(namespace, name) : document.createElement(name);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  const isAttributes = rest[0] && rest[0].constructor === Object;
  for (const [key, value] of Object.entries(isAttributes ? rest.shift() : {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.setAttribute("class", [...classes, value].filter(Boolean).join(" "));
    // The content security policy allows styles through the object model only.
    else if (key === "style") for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
    else element.setAttribute(key, value === true ? "" : clean(value));
  }
  append(element, rest);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== undefined && child !== null && child !== false && child !== "") element.append(clean(child));
  }
}

export const icon = (name, state) => s(`svg.ic.s-${state || name}`, { "aria-hidden": "true" }, s("use", { href: `#i-${name}` }));

/** Changes `from` into `to` with as few changes as possible: focus, scrolling and typed text stay. */
export function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || from.id !== to.id) return from.replaceWith(to);
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  // A part with a life of its own updates itself, and becomes nothing else.
  if (from.dataset?.own || to.dataset?.own) return from.dataset.own === to.dataset.own || from.replaceWith(to);
  for (const { name } of [...from.attributes]) {
    if (name !== "open" && name !== "style" && !to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (name === "style" ? false : from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  if (from.style && from.style.cssText !== to.style.cssText) from.style.cssText = to.style.cssText;
  morphChildren(from, [...to.childNodes]);
}

const keyOf = (node) => node.dataset?.key;

function morphChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let place = parent.firstChild;
  for (const next of wanted) {
    const key = keyOf(next);
    const old = key ? keyed.get(key) : place && !keyOf(place) && place.nodeName === next.nodeName ? place : null;
    if (!old) {
      parent.insertBefore(next, place);
    } else if (old === place) {
      place = place.nextSibling;
      morph(old, next);
    } else {
      parent.insertBefore(old, place);
      morph(old, next);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Returns the address of something, relative to the page. */
export const api = (...parts) => `api/${parts.map(encodeURIComponent).join("/")}`;

/** Asks the server; throws `{ message, hint }`. */
export async function get(url, options) {
  const answer = await fetch(url, options).catch(() => null);
  if (!answer) throw { message: "The server does not answer.", hint: "Is `mahabharatha serve` still running? What is shown stays." };
  const body = await answer.json().catch(() => null);
  if (!answer.ok || !body) throw body?.message ? body : { message: `The server answered with an error (${answer.status}).` };
  return body;
}

/** Tells screen readers. */
export const say = (text) => ($("#say").textContent = text);
