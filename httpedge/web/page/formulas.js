// Formulas as MathML: their parts, by the vendored library, of which the page makes nodes by itself. Loaded with the first formula that is
// shown. Nothing can appear that is not named here: no link, no picture, no class, no address in a style.

import temml from './vendor/temml.mjs';

const tags = new Set(['math', 'menclose', 'merror', 'mfrac', 'mi', 'mmultiscripts', 'mn', 'mo', 'mover', 'mpadded', 'mphantom', 'mprescripts', 'mroot', 'mrow', 'ms',
  'mspace', 'msqrt', 'mstyle', 'msub', 'msubsup', 'msup', 'mtable', 'mtd', 'mtext', 'mtr', 'munder', 'munderover']);

const attributes = new Set(['accent', 'accentunder', 'columnspan', 'depth', 'display', 'displaystyle', 'fence', 'form', 'height', 'largeop', 'linethickness', 'lspace',
  'mathvariant', 'maxsize', 'minsize', 'movablelimits', 'notation', 'rowspan', 'rspace', 'scriptlevel', 'separator', 'stretchy', 'symmetric', 'voffset', 'width']);

const styles = new Set(['backgroundColor', 'borderBottom', 'borderLeft', 'borderRight', 'borderTop', 'color', 'fontSize', 'fontStyle', 'fontWeight', 'mathDepth', 'mathStyle',
  'paddingBottom', 'paddingLeft', 'paddingRight', 'paddingTop', 'textAlign', 'verticalAlign']);

/** Definitions could make much of little. */
const defines = /\\(?:[gex]?def|let|futurelet|(?:re)?newcommand|providecommand|global|long)(?![a-zA-Z])/;

const maxText = 1000;   // characters
const maxParts = 3000;  // elements and texts
const maxDepth = 60;    // elements inside each other: engines lay out recursively

const options = { trust: false, throwOnError: true, maxSize: [10, 20], maxExpand: 60, wrap: 'none' };

/**
 * The parts of a formula: a text, or {tag, attributes, style, children}; null = it cannot be read, and is shown as it is written.
 * @returns {any}
 */
export function formula(text, display) {
  if (text.length > maxText || defines.test(text)) return null;
  let left = maxParts;
  const parts = (node, depth) => {
    if (--left < 0 || depth > maxDepth) throw new Error('too large');
    if (typeof node.text === 'string') return [node.text];
    const children = (node.children || []).flatMap((child) => parts(child, depth + 1));
    if (!tags.has(node.type)) return children;
    const named = (all, known, fits) => Object.entries(all || {}).filter(([name, value]) => known.has(name) && fits.test(value));
    return [{ tag: node.type, attributes: named(node.attributes, attributes, /^[\w.%# +-]{0,40}$/), style: named(node.style, styles, /^[\w.%# ,()-]{0,60}$/), children }];
  };
  try {
    const [whole, more] = parts(temml.__renderToMathMLTree(text, { ...options, displayMode: display, macros: {} }), 0);
    return whole?.tag === 'math' && !more ? whole : null;
  } catch {
    return null;
  }
}

/** The nodes of a formula, of which there are few. */
export function drawn(part) {
  if (typeof part === 'string') return document.createTextNode(part);
  const node = document.createElementNS('http://www.w3.org/1998/Math/MathML', part.tag);
  for (const [name, value] of part.attributes) node.setAttribute(name, value);
  for (const [name, value] of part.style) node.style[name] = value;
  node.append(...part.children.map(drawn));
  return node;
}

const maxFormulas = 500; // of a text

/** Draws formulas in the nodes where they are as they were written. */
export async function typeset(nodes, written) {
  let begun = performance.now();
  for (const node of nodes.slice(0, maxFormulas)) {
    const { content, display } = written.get(node) || {};
    if (!written.delete(node)) continue;
    const parts = formula(content, display);
    if (parts) node.replaceChildren(drawn(parts));
    if (performance.now() - begun < 10) continue;
    await new Promise((go) => { setTimeout(go); }); // others may be waiting for the page
    begun = performance.now();
  }
}
