// What a person can do with one message: copy, edit, have it answered anew, and say what they think of it.

import { button, copyButton, element, icon, labelled } from './dom.js';
import { call, startStream } from './stream.js';
import { when } from './words.js';

/** The buttons under a message; last = it is the newest of the conversation; form = its open form, if any. */
export function messageTools(message, { conversationId, experience, last, form, guarded, edit, changed }) {
  const tools = element('div', 'tools');
  tools.setAttribute('role', 'group');
  tools.setAttribute('aria-label', message.role === 'user' ? 'your message' : 'answer');
  const path = `/conversations/${conversationId}/messages/${message.id}`;
  const switches = experience?.messageActions || {};
  const again = (text) => button(text, 'tiny regenerate', guarded(async () => {
    document.getElementById('text').focus(); // the button goes
    await startStream(path + '/regenerate', {});
  }));
  if (switches.copy !== false) {
    tools.append(copyButton(() => message.content, 'tiny', 'copy this message', guarded));
  }
  const at = element('time', '', when(new Date(message.createdAt)));
  at.dateTime = message.createdAt;
  tools.append(at);
  if (message.role === 'user') {
    if (switches.edit) tools.append(button('Edit', 'tiny edit', () => edit(message)));
    if (last && switches.regenerate) tools.append(again('Answer again'));
    return tools;
  }
  if (last && switches.regenerate) tools.append(again('Regenerate'));
  const whole = message.status !== 'requires_action';
  if (whole && experience?.feedback?.enabled) rating(tools, message, { path, feedback: experience.feedback, form, guarded, changed });
  return tools;
}

function rating(tools, message, { path, feedback, form, guarded, changed }) {
  const given = message.metadata?.feedback?.rating;
  for (const value of ['up', 'down']) {
    const rate = button('', 'tiny rate', guarded(async () => {
      await call('POST', path + '/feedback', { rating: given === value ? null : value });
      if (value === 'down' && given !== 'down') {
        // The message may have been drawn anew meanwhile.
        document.querySelector(`.message[data-id="${message.id}"]`)?.append(reasons(path, feedback, guarded, changed));
      }
      await changed();
    }));
    rate.append(icon(value));
    rate.dataset.rating = value;
    rate.setAttribute('aria-pressed', String(given === value));
    rate.setAttribute('aria-label', value === 'up' ? 'good answer' : 'bad answer');
    tools.append(rate);
  }
  const { reasons: why = [], comment } = message.metadata?.feedback || {};
  const said = [...why.map(readable), comment].filter(Boolean).join(' · ');
  if (said && !form) tools.append(element('span', 'note', said));
}

const readable = (reason) => reason.replaceAll('_', ' ');

/** Asks what was bad about an answer. It may be left unanswered: the rating stands. */
function reasons(path, feedback, guarded, changed) {
  const form = element('form', 'rate-form');
  const set = element('fieldset');
  set.append(element('legend', '', 'What was wrong with it?'));
  for (const reason of feedback.reasons || []) {
    const input = element('input');
    input.type = 'checkbox';
    input.value = reason;
    set.append(labelled(input, readable(reason), 'chip'));
  }
  form.append(set);
  const comment = element('input', 'free');
  comment.placeholder = 'Anything else?';
  comment.maxLength = feedback.maxCommentLength || 1000;
  comment.setAttribute('aria-label', 'comment on the answer');
  if (feedback.comments) form.append(comment);
  const send = element('button', 'primary', 'Send');
  const row = element('div', 'row');
  row.append(button('Not now', 'quiet', () => form.remove()), send);
  form.append(row);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    guarded(async () => {
      const chosen = [...set.querySelectorAll('input:checked')].map((input) => input.value);
      const body = { rating: 'down', reasons: chosen };
      if (comment.value.trim()) body.comment = comment.value.trim();
      await call('POST', path + '/feedback', body);
      form.remove();
      await changed();
    })();
  });
  return form;
}
