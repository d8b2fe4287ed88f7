// What was written and is not sent yet, in this browser: it outlives a reload, the tab and the server. A draft belongs to
// a conversation, or to one that does not exist yet, by its key.
//
// A draft is { text, files, edit, aside, pending, agentId }: files are those uploaded for it; edit is the message that the text
// is to replace, and aside the text that stood there before; pending is the message that was sent and not confirmed.

import { settings } from './stream.js';

const prefix = 'parley.draft.';
const held = new Map(); // by key: drafts that the browser would not take
const most = 50; // drafts that are kept; the oldest go

/** The key of a conversation that does not exist yet: one per tab, so that two tabs write two. */
export function newKey() {
  let key = sessionStorage.getItem('parley.new');
  if (!key) {
    const left = stored().filter(({ key, draft }) => key.startsWith('new-') && draft.user === settings.user);
    key = document.body.dataset.ready || left.length === 0 ? 'new-' + Math.random().toString(36).slice(2) : left.at(-1).key;
    sessionStorage.setItem('parley.new', key);
  }
  return key;
}

export const isNew = (key) => key.startsWith('new-');

/** Whether a name in the browser's storage is that of a draft. */
export const isOf = (name, key) => name === prefix + key;

export function readDraft(key) {
  if (held.has(key)) return held.get(key);
  try {
    return { text: '', files: [], ...JSON.parse(localStorage.getItem(prefix + key)) };
  } catch { // not as this page writes it
    return { text: '', files: [] };
  }
}

/** Keeps a draft, or forgets it when there is nothing in it. false = this browser keeps nothing. */
export function keepDraft(key, draft) {
  const { text, files, edit, pending } = draft;
  held.delete(key);
  if (!text && !files?.length && !edit && !pending) {
    localStorage.removeItem(prefix + key);
    return true;
  }
  const value = JSON.stringify({ ...draft, user: settings.user, at: Date.now() });
  const others = stored().filter((other) => other.key !== key);
  while (others.length >= most) localStorage.removeItem(prefix + others.shift().key);
  for (;;) {
    try {
      localStorage.setItem(prefix + key, value);
      return true;
    } catch { // full
      if (others.length === 0) {
        held.set(key, draft);
        return false;
      }
      localStorage.removeItem(prefix + others.shift().key);
    }
  }
}

export function changeDraft(key, change) { return keepDraft(key, { ...readDraft(key), ...change }); }

/** Gives a draft another key: its conversation exists now, or no longer. */
export function moveDraft(from, to) {
  changeDraft(to, readDraft(from));
  dropDraft(from);
  if (sessionStorage.getItem('parley.new') === from) sessionStorage.removeItem('parley.new');
}

export function dropDraft(key) {
  held.delete(key);
  localStorage.removeItem(prefix + key);
}

/** All drafts, the oldest first. */
function stored() {
  return Object.keys(localStorage).filter((name) => name.startsWith(prefix))
    .map((name) => ({ key: name.slice(prefix.length), draft: readDraft(name.slice(prefix.length)) }))
    .sort((a, b) => (a.draft.at || 0) - (b.draft.at || 0));
}
