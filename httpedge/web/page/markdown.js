// Answers as Markdown. The parser is vendored (VENDORED.md); this file makes nodes of its tokens. No text of an
// answer is ever parsed as HTML, here or elsewhere on the page (its policy forbids it: require-trusted-types-for), so
// there is nothing to sanitize: what is not made below cannot appear.

import { copyButton, element } from './dom.js';
import { guarded } from './toast.js';
import MarkdownIt from './vendor/markdown-it.mjs';

const parser = new MarkdownIt({ html: false, linkify: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

const maxText = 400_000;  // characters that are read as Markdown; more is shown as it is
const maxNodes = 30_000;  // tokens that are drawn; a text of more is shown as it is
const maxDepth = 40;      // elements inside each other: engines lay out recursively
const maxTail = 16_000;   // characters of an unfinished block that are read as Markdown while it grows
const share = 5;          // at most one part in so many of the time goes into drawing a growing answer

const foreign = /\$\$|\\[([]|\[\^/; // begins a formula, or a footnote
let learning; // the parser has its rules, or they are on their way

/** Teaches the parser what a text needs, unless it knows. Says whether it does: then the text is to be read again. */
function learn(text, again) {
  if (learning === true || !foreign.test(text)) return false;
  learning ||= import('./notation.js').then(({ notation }) => { notation(parser); learning = true; });
  learning.then(again, () => { learning = undefined; });
  return true;
}

const kinds = {
  paragraph_open: 'p', blockquote_open: 'blockquote', bullet_list_open: 'ul', ordered_list_open: 'ol', list_item_open: 'li',
  thead_open: 'thead', tbody_open: 'tbody', tr_open: 'tr', th_open: 'th', td_open: 'td',
  em_open: 'em', strong_open: 'strong', s_open: 's',
};

/** Where a link may lead; null = nowhere. */
export function safeLink(href) {
  try {
    const url = new URL(href); // relative ones have no place to be relative to
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(href, title) {
  const made = element('a');
  made.href = href;
  made.target = '_blank';
  made.rel = 'noopener noreferrer';
  if (title) made.title = title;
  return made;
}

/** What may be wider than the page is scrolled, by keyboard, too. */
function scrolled(node, label) {
  node.tabIndex = 0;
  node.role = 'group';
  node.ariaLabel = label;
  return node;
}

/** Makes nodes of tokens, without recursion. */
class Builder {
  /** level is that of the heading before: no level is left out. */
  constructor(level = 2) {
    this.level = level;
    this.root = document.createDocumentFragment();
    this.path = [this.root];
    this.skipped = 0; // elements that are open but not made, being too deep
  }

  get at() { return this.path.at(-1); }

  open(node, inner = node) {
    if (this.skipped > 0 || this.path.length > maxDepth) {
      this.skipped++;
      return;
    }
    this.at.append(node);
    this.path.push(inner);
  }

  close() {
    if (this.skipped > 0) {
      this.skipped--;
      return;
    }
    this.path.pop();
    // Each block in its own direction, what is in it in that of the block. Said at its end: an engine looks for the first letter again
    // with each node that is added to such an element, and a block without letters has none.
    if (this.path.length === 1) this.root.lastChild.dir = 'auto';
  }

  add(tokens) {
    for (const token of tokens) this.take(token);
    return this;
  }

  take(token) {
    const { type, content } = token;
    if (type === 'inline') {
      this.task(token.children[0]);
      this.add(token.children);
    } else if (token.nesting < 0) this.end(token);
    else if (token.nesting > 0) this.start(token);
    else if (type === 'softbreak' || type === 'hardbreak') this.at.append(element('br'));
    else if (type === 'hr') this.at.append(element('hr'));
    else if (type === 'code_inline') this.at.append(element('code', '', content));
    else if (type === 'image') this.picture(token);
    else if (type === 'formula') this.at.append(written(token));
    else if (type === 'footnote') this.at.append(noteMark(token.meta.number));
    else if (type === 'fence' || type === 'code_block') this.at.append(codeBlock(content, token.info));
    else this.at.append(content); // text, and whatever else there may be
  }

  start(token) {
    switch (token.type) {
      case 'heading_open':
        this.level = Math.min(this.level + 1, Number(token.tag[1]) + 2, 6);
        return this.open(element('h' + this.level));
      case 'table_open': {
        const frame = scrolled(element('div', 'table'), 'table');
        const table = element('table');
        frame.append(table);
        return this.open(frame, table);
      }
      case 'link_open': return this.startLink(token);
      case 'footnote_open': {
        const note = element('div', 'footnote');
        note.dataset.note = token.meta.number;
        note.tabIndex = -1; // where its mark leads
        note.append(element('span', 'faint', `${token.meta.number}. `));
        return this.open(note);
      }
    }
    if (token.type === 'paragraph_open' && token.hidden) return undefined; // of a tight list
    const node = element(kinds[token.type] || 'span');
    if (token.type !== 'paragraph_open') this.item = token.type === 'list_item_open' ? node : null; // whose first words may be a box
    if (token.type === 'ordered_list_open') node.start = Number(token.attrGet('start') ?? 1);
    const align = /text-align:(\w+)/.exec(token.attrGet('style') || '');
    if (align) node.className = 'align-' + align[1];
    return this.open(node);
  }

  /** The box of a task, with which the item of a list begins: "[ ] " or "[x] ". */
  task(first) {
    const [box, mark] = (this.item && first?.type === 'text' && /^\[([ xX])\] /.exec(first.content)) || [];
    if (box && this.skipped === 0) {
      first.content = first.content.slice(box.length);
      const input = element('input');
      input.type = 'checkbox';
      input.disabled = true;
      input.defaultChecked = mark !== ' ';
      input.ariaLabel = mark === ' ' ? 'to do' : 'done';
      this.item.className = 'task';
      this.at.append(input);
    }
    this.item = null;
  }

  startLink(token) {
    const href = safeLink(token.attrGet('href'));
    const node = href ? link(href, token.attrGet('title')) : element('span');
    if (!href) node.dataset.refused = token.attrGet('href'); // told behind the text
    this.open(node);
  }

  /** A picture is not loaded: nothing is asked of other servers without a click. It is a link. */
  picture(token) {
    const source = token.attrGet('src');
    const href = safeLink(source);
    const text = token.content || 'picture';
    if (!href || this.path.some((node) => node.localName === 'a')) {
      this.at.append(href ? text : `${text} (${source})`);
      return;
    }
    const made = link(href, token.attrGet('title'));
    made.append(text);
    this.at.append(made);
  }

  end(token) {
    if (token.type === 'paragraph_close' && token.hidden) return;
    const refused = this.skipped === 0 && this.at.dataset?.refused;
    if (refused) this.at.append(` (${refused})`);
    this.close();
  }
}

function codeBlock(content, info = '') {
  const text = content.replace(/\n$/, '');
  const frame = element('div', 'code');
  const head = element('div', 'code-head');
  head.append(element('span', '', info.trim().split(/\s+/)[0] || 'code'), copyButton(() => text, 'tiny', 'copy this code', guarded));
  const pre = element('pre');
  frame.dir = 'ltr';
  scrolled(pre, 'code');
  const code = element('code', '', text);
  const [language] = info.trim().toLowerCase().split(/\s+/);
  if (language) code.dataset.language = language;
  pre.append(code);
  frame.append(head, pre);
  return frame;
}

/** A formula as it was written, until it is drawn. */
function written({ content, markup, meta, block }) {
  const node = element(block ? 'div' : 'span', 'math', markup);
  node.dir = 'ltr';
  if (block) scrolled(node, 'formula');
  formulas.set(node, { content, display: meta.display });
  return node;
}

/** The mark of a footnote, which leads to it. */
function noteMark(number) {
  const mark = element('sup');
  const button = element('button', 'note-mark', String(number));
  button.type = 'button';
  button.ariaLabel = `footnote ${number}`;
  button.onclick = () => button.closest('.body, .prose').querySelector(`[data-note="${number}"]`)?.focus();
  mark.append(button);
  return mark;
}

const formulas = new WeakMap(); // those that are not drawn yet

const colored = new WeakSet();

/** Draws formulas in a node and gives code its colours, soon. They are read as they are until then, and for good where no module can be loaded. */
function embellish(root) {
  const waiting = [...root.querySelectorAll('.math')].filter((node) => formulas.has(node));
  if (waiting.length > 0) import('./formulas.js').then(({ typeset }) => typeset(waiting, formulas), () => {});
  const codes = [...root.querySelectorAll('code[data-language]')].filter((code) => !colored.has(code));
  if (codes.length === 0) return;
  for (const code of codes) colored.add(code);
  import('./colors.js').then(({ pieces }) => {
    for (const code of codes) {
      const found = pieces(code.textContent, code.dataset.language);
      if (found) code.replaceChildren(...found.map(([piece, kind]) => (kind ? element('span', 'code-' + kind, piece) : piece)));
    }
  }, () => {});
}

function plain(text) {
  const root = document.createDocumentFragment();
  const whole = element('div', 'plain', text);
  whole.dir = 'auto';
  root.append(whole);
  return root;
}

function count(tokens) {
  let all = tokens.length;
  for (const token of tokens) all += token.children?.length || 0;
  return all;
}

/** A finished text as nodes. */
export function markdown(text) {
  if (text.length > maxText) return plain(text);
  const tokens = parser.parse(text, {});
  if (count(tokens) > maxNodes) return plain(text);
  const { root } = new Builder().add(tokens);
  const [first, ...others] = root.childNodes;
  learn(text, () => {
    if (!first.parentNode) return;
    first.replaceWith(markdown(text));
    for (const node of others) node.remove();
  });
  embellish(root);
  return root;
}

/** What a person wrote, as it is, but for code between fences. */
export function fenced(text) {
  const root = document.createDocumentFragment();
  const lines = text.split('\n');
  let done = 0;
  const fences = text.length <= maxText && /^ {0,3}(```|~~~)/m.test(text) ? parser.parse(text, {}).filter(({ type, level }) => type === 'fence' && level === 0) : [];
  for (const { map: [from, to], content, info } of fences) {
    if (from > done) root.append(lines.slice(done, from).join('\n'));
    root.append(codeBlock(content, info));
    done = to;
  }
  const rest = lines.slice(done).join('\n');
  if (rest || done === 0) root.append(rest);
  embellish(root);
  return root;
}

/**
 * A text that grows inside a node. Blocks that are complete are drawn once; only the last, which may still grow, is
 * drawn anew, at most once per frame and not more often than it is worth.
 */
export class Growing {
  constructor(node) {
    this.node = node;
    this.text = '';
    this.reset();
  }

  reset() {
    this.done = 0; // characters that are drawn for good
    this.tail = []; // nodes of the last block
    this.level = undefined; // of the last heading that is drawn for good
  }

  /** Shows a text, soon. */
  show(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.reset();
    this.text = text;
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const begun = performance.now();
    this.update();
    const cost = performance.now() - begun;
    if (cost < 4) return;
    // What came meanwhile is drawn after the pause.
    this.frame = -1;
    this.timer = setTimeout(() => {
      this.frame = 0;
      if (!this.ended && this.shown !== this.text) this.draw();
    }, cost * share);
  }

  update() {
    const rest = this.text.slice(this.done);
    this.shown = this.text;
    this.learns ||= learn(rest, () => {
      this.reset();
      this.update();
      embellish(this.node);
    });
    if (this.done === 0) this.node.replaceChildren();
    for (const node of this.tail) node.remove();
    const at = this.node.childNodes.length;
    if (this.text.length > maxText || (rest.length > maxTail && !/^\s*(```|~~~)/.test(rest))) {
      this.node.append(plain(rest));
    } else {
      const tokens = parser.parse(rest, {});
      const last = tokens.findLastIndex((token) => token.level === 0 && token.nesting >= 0);
      const line = last > 0 ? tokens[last].map?.[0] : 0;
      const whole = line > 0 ? startOfLine(rest, line) : 0;
      if (whole > 0) {
        const builder = new Builder(this.level).add(tokens.slice(0, last));
        embellish(builder.root);
        this.node.append(builder.root);
        this.level = builder.level;
        this.done += whole;
      }
      const kept = this.node.childNodes.length;
      this.node.append(new Builder(this.level).add(tokens.slice(whole > 0 ? last : 0)).root);
      this.tail = [...this.node.childNodes].slice(kept);
      return;
    }
    this.tail = [...this.node.childNodes].slice(at);
  }

  /** Shows the whole text, at once, and ends. */
  finish(text) {
    this.end();
    // What a block says of a link may stand in another one.
    const anew = !text.startsWith(this.text) || /^ {0,3}\[[^\]]+\]:/m.test(text);
    if (anew) this.reset();
    this.text = text;
    if (anew || this.shown !== text) this.update();
    embellish(this.node);
  }

  end() {
    this.ended = true;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }
}

function startOfLine(text, line) {
  let at = 0;
  for (; line > 0; line--) at = text.indexOf('\n', at) + 1;
  return at;
}
