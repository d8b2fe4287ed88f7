// What the page says of failures, ends and decisions: once, for people. No codes, sizes as people say them, dates in words.

const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** A size in bytes: "10 MB". */
export function size(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
  return `${bytes < 10 && unit > 0 ? Number(bytes.toFixed(1)) : Math.round(bytes)} ${units[unit]}`;
}

/** What a server says of a failure, as a sentence. */
export function plainly(text) {
  const told = text.trim().replace(/\b(\d+) bytes\b/g, (_, count) => size(Number(count)));
  return told && told[0].toLocaleUpperCase() + told.slice(1) + (/[.!?…]$/.test(told) ? '' : '.');
}

const endings = {
  cancelled: ['stopped', 'Stopped.'],
  limit: ['cut short', 'Cut short: the answer reached its length limit.'],
  max_turns: ['cut short', 'Cut short: the agent used its tools as often as it may in one answer.'],
  budget_reached: ['cut short', 'Cut short: the budget was used up.'],
  error: ['failed', 'The answer failed.'],
};

/** Why a turn ended before its answer was whole: { state, text, bad }; null = it was. message is what is known of a failure. */
export function ending(reason, message) {
  if (!endings[reason]) return null;
  const [state, text] = endings[reason];
  const bad = reason === 'error';
  return { state, bad, text: bad && message ? 'The answer failed. ' + plainly(message) : text };
}

const deeds = { allow: 'allowed', deny: 'denied' };

/** What became of something that a turn asked, as an event tells it; me is who reads it. */
export function decided({ type, data }, me) {
  const by = data.by ? ' by ' + (data.by === me ? 'you' : data.by) : '';
  if (type === 'action.expired') return 'nobody answered in time';
  if (type === 'action.cancelled') return 'stopped' + by;
  const { decision, comment, cancelled, error, approvedArgs, rememberForSession } = data.resolution || {};
  if (!decision) return (cancelled ? 'left unanswered' : error ? 'refused' : 'answered') + by;
  const how = [approvedArgs && 'with other arguments', rememberForSession && 'for the rest of the conversation'].filter(Boolean);
  return deeds[decision] + by + (how.length > 0 ? ', ' + how.join(' and ') : '') + (comment ? `: “${comment}”` : '');
}

/** What a call that was not carried out was told, where the log does not reach back to the decision; '' = it failed otherwise. */
export function undone(error) {
  const [, comment] = /^not run: the user denied this call(?:: (.*))?$/s.exec(error) || [];
  if (comment) return `denied: “${comment}”`;
  if (/^not run: the user denied/.test(error)) return 'denied';
  return /^(not run: nobody approved|nobody answered in time|timed out: the client)/.test(error) ? 'nobody answered in time' : '';
}

const day = 86_400_000;
const format = (options) => new Intl.DateTimeFormat('en-GB', options); // made once: making one is slow
const dates = format({ day: 'numeric', month: 'long' });
const datesOfYears = format({ day: 'numeric', month: 'long', year: 'numeric' });
const times = format({ hour: '2-digit', minute: '2-digit' });

/** The day of a date: "today", "tomorrow", "3 December", "3 December 2025". */
export function dayOf(date, now = new Date()) {
  const at = (other) => new Date(other).setHours(0, 0, 0, 0);
  const days = Math.round((at(date) - at(now)) / day);
  if (days >= -1 && days <= 1) return ['yesterday', 'today', 'tomorrow'][days + 1];
  return (date.getFullYear() === now.getFullYear() ? dates : datesOfYears).format(date);
}

/** "today at 14:05" */
export const when = (date, now) => `${dayOf(date, now)} at ${times.format(date)}`;
