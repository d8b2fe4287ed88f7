// What a message is made of: its text, folded where it is huge; its tool calls; what it said before.

import { button, element } from './dom.js';
import { fenced, markdown } from './markdown.js';
import { named } from './steps.js';
import { undone } from './words.js';

const foldedAbove = 20_000; // characters of a text of which only the beginning is shown
const foldedTo = 4000;

/** A text of a message: its body, and the button that shows the rest of a huge one. */
export function textParts(role, text) {
  const draw = (shown) => (role === 'user' ? fenced(shown) : markdown(shown));
  const body = element('div', 'body');
  if (role === 'user') body.dir = 'auto';
  body.text = text;
  const beginning = folded(text);
  body.append(draw(beginning));
  if (beginning === text) return [body];
  body.rest = button(`Show all ${text.length.toLocaleString('en')} characters`, 'unfold', () => {
    body.replaceChildren(draw(text));
    body.rest.remove();
    body.rest = null;
  });
  return [body, body.rest];
}

/** The beginning of a text that is huge, up to the end of a block; any other as it is. */
function folded(text) {
  if (text.length <= foldedAbove) return text;
  const end = text.lastIndexOf('\n\n', foldedTo);
  return text.slice(0, end > foldedTo / 2 ? end : foldedTo);
}

/** A tool call; old is what was shown of it so far: it stays when nothing is different, and open when it was. */
export function toolCall(made, decisions, old) {
  const decided = decisions.get(made.id) || undone(made.error);
  const told = JSON.stringify([made, decided]);
  if (old?.told === told) return old;
  const details = element('details', 'call');
  details.dataset.call = made.id;
  details.told = told;
  details.made = made;
  details.open = Boolean(old?.open);
  const refused = /^(denied|nobody|stopped|left|refused)/.test(decided);
  const how = (decided ? ' · ' + decided : '') + (refused ? '' : made.error ? ' · failed' : made.running ? ' …' : made.result === undefined ? '' : ' ✓');
  details.append(element('summary', '', made.name + how), ...givenTo(made.arguments));
  const outcome = made.error || made.result;
  if (outcome && !refused) details.append(element('pre', '', typeof outcome === 'string' ? outcome : JSON.stringify(outcome, null, 2)));
  return details;
}

/** Arguments as names and values, with the JSON behind them. */
export function givenTo(args) {
  const table = argsTable(args);
  if (!table) return args && args !== '{}' ? [element('pre', '', args)] : [];
  const behind = element('details', 'json');
  behind.append(element('summary', '', 'JSON'), element('pre', '', args));
  return [table, behind];
}

/** Arguments as a table of names and values; null where they have none. */
export function argsTable(args) {
  const rows = named(args);
  if (!rows) return null;
  const table = element('table', 'args');
  for (const [name, value] of rows) {
    const row = table.insertRow();
    const head = element('th', '', name);
    head.scope = 'row';
    const cell = element('td', '', value);
    cell.dir = 'auto';
    row.append(head, cell);
  }
  return table;
}

/** Appends the switch between what a message says and what it said before it was regenerated or edited, in its place. A message that is drawn
 * again stays at the version that was chosen (node.chosen). */
export function versions(node, role, earlier) {
  const box = element('div', 'versions');
  box.role = 'group';
  box.ariaLabel = 'versions';
  const count = earlier.length + 1;
  if (node.chosen?.count !== count) node.chosen = { at: count, count };
  const told = element('span');
  told.role = 'status';
  const step = (by, sign, label) => {
    const made = button(sign, 'tiny', () => {
      node.chosen.at += by;
      show();
    });
    made.ariaLabel = label;
    return made;
  };
  const back = step(-1, '‹', 'earlier version');
  const on = step(1, '›', 'later version');
  const show = () => {
    const { at } = node.chosen;
    told.textContent = `version ${at} of ${count}`;
    back.disabled = at === 1;
    on.disabled = at === count;
    node.querySelector(':scope > .old')?.remove();
    node.classList.toggle('past', at < count);
    if (at === count) return;
    const old = element('div', 'old');
    old.append(...textParts(role, earlier[at - 1]));
    box.before(old);
  };
  box.append(back, told, on);
  node.append(box);
  show();
}
