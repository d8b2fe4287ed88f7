// What a turn asks of a person: approvals, questions, tools of the browser.

import { button, element, labelled } from './dom.js';
import { markdown } from './markdown.js';
import { argsTable, givenTo } from './parts.js';
import { startStream } from './stream.js';
import { when } from './words.js';

/** The pending actions of one conversation, as cards. */
export class Actions {
  constructor(box, { guarded, said }) {
    this.box = box;
    this.guarded = guarded;
    this.said = said;
    this.id = '';
  }

  show(conversationId, actions) {
    if (this.id !== conversationId) this.box.replaceChildren();
    this.id = conversationId;
    const open = new Map(actions.map((action) => [action.id, action]));
    for (const card of [...this.box.children]) {
      if (!open.delete(card.dataset.id)) this.remove(card);
    }
    for (const action of open.values()) this.box.append(this.card(action));
    this.box.hidden = this.box.childElementCount === 0;
  }

  async resolve(card, resolution) {
    for (const control of card.querySelectorAll('button, input, textarea')) control.disabled = true;
    try {
      await startStream(`/conversations/${this.id}/actions/${card.dataset.id}`, { resolution });
      this.remove(card, true);
    } catch (error) {
      for (const control of card.querySelectorAll('button, input, textarea')) control.disabled = false;
      if (['action_not_pending', 'action_expired'].includes(error.code)) this.remove(card, true);
      throw error;
    } finally {
      this.box.hidden = this.box.childElementCount === 0;
      this.said();
    }
  }

  /** Takes a card away; whoever was in it goes on with the next one, or with the composer. */
  remove(card, decided) {
    const next = card.nextElementSibling || card.previousElementSibling;
    const lost = card.contains(document.activeElement) || (decided && document.activeElement === document.body);
    card.remove();
    if (lost) (next?.querySelector('button, input, textarea') || document.getElementById('text')).focus();
  }

  card(action) {
    const card = element('form', 'action');
    card.noValidate = true; // checked when it is sent, so that a word about it can be shown again
    card.dataset.id = action.id;
    card.dataset.kind = action.kind;
    card.dir = 'auto';
    const build = { tool_approval: approval, user_question: question, client_tool: clientTool }[action.kind] || unknown;
    build(card, action, this.guarded((resolution) => this.resolve(card, resolution)));
    if (action.expiresAt) {
      const lapse = element('p', 'hint', `Lapses ${when(new Date(action.expiresAt))} if nobody answers.`);
      card.insertBefore(lapse, card.querySelector(':scope > .row'));
    }
    card.addEventListener('submit', (event) => event.preventDefault());
    const head = card.querySelector('h3, legend');
    card.setAttribute('aria-label', head?.textContent || action.kind);
    return card;
  }
}

function row(...children) {
  const made = element('div', 'row');
  made.append(...children);
  return made;
}

function approval(card, action, resolve) {
  card.append(element('h3', '', action.details?.prompt || `Run ${action.toolName}?`));
  card.append(element('p', 'tool', action.toolName));
  if (action.unknownOutcome) {
    card.append(element('p', 'warn', 'The server that ran it is gone, and it is not known whether it was carried out. Allow runs it again.'));
  }
  const args = element('textarea');
  args.dir = 'ltr';
  args.value = JSON.stringify(action.args ?? {}, null, 2);
  args.rows = Math.min(8, args.value.split('\n').length);
  args.setAttribute('aria-label', 'arguments of ' + action.toolName);
  const asked = args.value;
  const table = argsTable(asked);
  const behind = element('details', 'json');
  behind.open = !table; // there is nothing else to see
  behind.append(element('summary', '', 'Change them, as JSON'), args);
  const remember = element('input');
  remember.type = 'checkbox';
  const why = element('input', 'free why');
  why.placeholder = 'A reason, if you deny it';
  why.maxLength = 1000;
  why.setAttribute('aria-label', `reason for denying ${action.toolName}`);
  const decide = (decision) => {
    const resolution = { type: 'tool_approval', decision, rememberForSession: remember.checked };
    if (decision === 'deny' && why.value.trim()) resolution.comment = why.value.trim();
    if (decision === 'allow' && args.value !== asked) {
      try {
        resolution.approvedArgs = JSON.parse(args.value);
      } catch (error) {
        behind.open = true;
        args.setCustomValidity(error.message);
        args.reportValidity();
        return;
      }
    }
    resolve(resolution);
  };
  args.addEventListener('input', () => args.setCustomValidity(''));
  if (table) card.append(table);
  card.append(behind, labelled(remember, 'Do not ask again in this conversation'), why,
    row(button('Deny', 'quiet danger deny', () => decide('deny')), button('Allow', 'primary allow', () => decide('allow'))));
}

function question(card, action, resolve) {
  const questions = action.questions?.length ? action.questions : [{ question: action.details?.prompt || 'The assistant asks.' }];
  const fields = questions.map((asked, index) => {
    const set = element('fieldset');
    const legend = element('legend');
    legend.append(markdown(asked.question));
    if (asked.header) legend.prepend(element('small', 'head', asked.header));
    set.append(legend);
    for (const option of asked.options || []) {
      const input = element('input');
      input.type = asked.multiSelect ? 'checkbox' : 'radio';
      input.name = 'q' + index;
      input.value = option.value ?? option.label ?? option;
      const label = labelled(input, option.label ?? String(option));
      if (option.description) label.append(element('small', '', option.description));
      set.append(label);
    }
    const free = element('input', 'free');
    free.placeholder = asked.placeholder || (asked.options?.length ? 'Or in your own words' : 'Your answer');
    free.setAttribute('aria-label', `${asked.question} In your own words`);
    free.addEventListener('input', () => free.setCustomValidity(''));
    set.addEventListener('change', () => free.setCustomValidity(''));
    if (action.details?.allowFreeText !== false || !asked.options?.length) set.append(free);
    card.append(set);
    return { asked, set, free };
  });
  card.addEventListener('submit', () => {
    const answers = {};
    for (const { asked, set, free } of fields) {
      const values = [...set.querySelectorAll('input:checked')].map((input) => input.value);
      if (asked.required && values.length === 0 && !free.value.trim()) {
        free.setCustomValidity('This one needs an answer.');
        free.reportValidity();
        return;
      }
      answers[asked.question] = free.value.trim() ? { values, freeText: free.value.trim() } : { values };
    }
    resolve({ type: 'user_question', answers });
  });
  const answer = element('button', 'primary answer', 'Answer');
  card.append(row(answer));
}

/** What this page can do for an agent; any other tool of the client is answered by hand. */
const ownTools = {
  browser_info: () => ({ language: navigator.language, screen: `${screen.width}x${screen.height}`, online: navigator.onLine }),
};

function clientTool(card, action, resolve) {
  const output = element('textarea');
  output.dir = 'ltr';
  output.value = JSON.stringify(ownTools[action.toolName]?.() ?? {}, null, 2);
  output.rows = Math.max(2, Math.min(8, output.value.split('\n').length));
  output.setAttribute('aria-label', 'output of ' + action.toolName);
  const send = () => {
    try {
      resolve({ type: 'client_tool', output: JSON.parse(output.value) });
    } catch (error) {
      output.setCustomValidity(error.message);
      output.reportValidity();
    }
  };
  output.addEventListener('input', () => output.setCustomValidity(''));
  card.append(element('h3', '', `The assistant asks this page to run ${action.toolName}`));
  if (Object.keys(action.args ?? {}).length > 0) card.append(...givenTo(JSON.stringify(action.args, null, 2)));
  const hint = ownTools[action.toolName] ? 'The page ran it. Nothing is sent before you say so:' : 'The page does not know this tool. Write what it answers, as JSON:';
  card.append(element('p', 'tool', hint), output,
    row(button('Refuse', 'quiet danger refuse', () => resolve({ type: 'client_tool', output: null, error: 'The person refused.' })),
      button('Send output', 'primary output', send)));
}

function unknown(card, action) {
  card.append(element('h3', '', `${action.kind}: ${action.toolName}`));
}
