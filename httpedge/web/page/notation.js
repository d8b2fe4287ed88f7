// What answers write beyond the parser's Markdown: formulas between $$ $$, \( \) and \[ \], and footnotes. Rules of the parser, each of which
// takes time that grows with the text.

const marks = { '$$': '$$', '\\(': '\\)', '\\[': '\\]' };

const maxFormula = 2000; // characters
const maxLines = 60;     // of a formula, or of a footnote

/** Where a mark comes next, -1 = nowhere. What was found is kept: many that are open look for the same one. */
function next(state, mark, from) {
  const known = (state.marks ||= {})[mark];
  if (known === undefined || (known >= 0 && known < from)) state.marks[mark] = state.src.indexOf(mark, from);
  return state.marks[mark];
}

function formulaInline(state, silent) {
  const open = state.src.slice(state.pos, state.pos + 2);
  if (!Object.hasOwn(marks, open)) return false;
  const from = state.pos + 2;
  const to = next(state, marks[open], from);
  if (to < 0 || to >= state.posMax || to - from > maxFormula) return false;
  const content = state.src.slice(from, to);
  if (!content.trim()) return false;
  if (!silent) {
    const token = state.push('formula', 'math', 0);
    token.content = content;
    token.markup = state.src.slice(state.pos, to + 2);
    token.meta = { display: open !== '\\(' };
  }
  state.pos = to + 2;
  return true;
}

const line = (state, number) => state.src.slice(state.bMarks[number] + state.tShift[number], state.eMarks[number]).trimEnd();

function formulaBlock(state, start, end, silent) {
  if (state.sCount[start] - state.blkIndent >= 4) return false;
  const first = line(state, start);
  const open = first.slice(0, 2);
  if (open !== '$$' && open !== '\\[') return false;
  const close = marks[open];
  const lines = [];
  let at = start;
  for (let rest = first.slice(2); ; rest = line(state, at)) {
    lines.push(rest);
    const found = rest.indexOf(close);
    if (found >= 0 && found !== rest.length - 2) return false; // more follows it: a part of a paragraph
    if (found >= 0) break;
    if (++at >= end || at - start >= maxLines || (state.sCount[at] < state.blkIndent && !state.isEmpty(at))) return false;
  }
  const whole = lines.join('\n');
  const content = whole.slice(0, -2);
  if (!content.trim() || content.length > maxFormula) return false;
  if (silent) return true;
  const token = state.push('formula', 'math', 0);
  token.block = true;
  token.content = content;
  token.markup = open + whole;
  token.meta = { display: true };
  token.map = [start, at + 1];
  state.line = at + 1;
  return true;
}

const note = /^\[\^([^\]\s]{1,64})\]:[ \t]*/;

/** A footnote stands where it was written. Its number is that of the order in which they are. */
function footnote(state, start, end, silent) {
  if (state.sCount[start] - state.blkIndent >= 4) return false;
  const [head, label] = note.exec(line(state, start)) || [];
  if (!head) return false;
  if (silent) return true;
  const notes = (state.env.notes ||= new Map());
  if (!notes.has(label)) notes.set(label, notes.size + 1);
  const lines = [line(state, start).slice(head.length)];
  let at = start + 1;
  while (at < end && at - start < maxLines && !state.isEmpty(at) && state.sCount[at] >= state.blkIndent && !note.test(line(state, at))) lines.push(line(state, at++));
  const map = [start, at];
  const open = state.push('footnote_open', 'div', 1);
  open.meta = { number: notes.get(label) };
  open.map = map;
  const inline = state.push('inline', '', 0);
  inline.content = lines.join('\n');
  inline.map = map;
  inline.children = [];
  state.push('footnote_close', 'div', -1);
  state.line = at;
  return true;
}

function reference(state, silent) {
  if (!state.env.notes || !state.src.startsWith('[^', state.pos)) return false;
  const [whole, label] = /^\[\^([^\]\s]{1,64})\]/.exec(state.src.slice(state.pos, state.pos + 70)) || [];
  if (!whole || !state.env.notes.has(label)) return false;
  if (!silent) state.push('footnote', 'sup', 0).meta = { number: state.env.notes.get(label) };
  state.pos += whole.length;
  return true;
}

/** Teaches a parser the rules. */
export function notation(parser) {
  const within = { alt: ['paragraph', 'reference', 'blockquote', 'list'] };
  parser.block.ruler.before('fence', 'formula', formulaBlock, within);
  parser.block.ruler.before('reference', 'footnote', footnote, within);
  parser.inline.ruler.before('escape', 'formula', formulaInline);
  parser.inline.ruler.before('link', 'footnote', reference);
}
