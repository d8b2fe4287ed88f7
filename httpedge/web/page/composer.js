// What is written and sent. A text leaves the composer only when the server confirmed it, by its answer or by the
// conversation's log, whichever is heard first. What was sent and not confirmed is looked up before it can be sent again.

import { Attachments } from './files.js';
import { changeDraft, isNew, isOf, keepDraft, moveDraft, newKey, readDraft } from './drafts.js';
import { Refused, call, pause, settings, startStream } from './stream.js';
import { toast } from './toast.js';

const $ = (id) => document.getElementById(id);

const words = {
  sending: '',
  unknown: 'The server has not confirmed this message. It is kept here; whether it arrived is checked as soon as the server answers.',
  absent: 'The message did not arrive. It is kept here: send it again.',
};

/**
 * Whether a failure leaves open if the message was taken: there is no answer, or the server or what is before it gave up in
 * the middle, or the conversation is busy, perhaps with this very message: browsers repeat a request by themselves when a
 * connection that was used before breaks.
 */
const open = (error) => !(error instanceof Refused) || error.status >= 500 || error.code === 'conversation_busy';

export class Composer {
  /**
   * host: create(agentId, metadata) makes a conversation and returns its id; made(id) hears that the draft that is shown
   * has a conversation now, unmade(id) that it has none after all; agentId() of a new conversation; blocked() while a
   * turn runs; changed() after the server took a message, or refused it.
   */
  constructor({ guarded, host }) {
    this.host = host;
    this.key = '';
    this.sending = new Set(); // keys whose message is under way, in this tab
    this.settling = new Set();
    this.live = Promise.withResolvers(); // resolved when there is a link to the server again
    this.text = $('text');
    this.files = new Attachments($('files'), {
      guarded,
      changed: (key, files) => changeDraft(key, { files }),
    });
    $('composer').addEventListener('submit', guarded(async (event) => {
      event.preventDefault();
      await this.submit();
    }));
    $('edit-cancel').addEventListener('click', () => this.stopEditing());
    this.text.addEventListener('input', () => {
      this.fit();
      clearTimeout(this.keeping);
      this.keeping = setTimeout(() => this.keep(), 150);
      this.draw();
    });
    const touch = matchMedia('(pointer: coarse)'); // whose keyboards have no Shift and Enter: Enter makes a line
    this.text.enterKeyHint = touch.matches ? 'enter' : 'send';
    this.text.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing || touch.matches) return;
      event.preventDefault();
      $('composer').requestSubmit();
    });
    addEventListener('pagehide', () => this.keep());
    document.addEventListener('visibilitychange', () => this.keep());
    addEventListener('storage', (event) => this.elsewhere(event));
    addEventListener('resize', () => this.fit());
  }

  /** Shows another draft; the one before is kept. */
  show(key) {
    this.keep();
    this.key = key;
    const { text, files } = readDraft(key);
    this.write(text);
    this.files.show(key, files);
    this.check();
    this.draw();
  }

  /** There is a link to the server (again): what was not confirmed can be looked up. */
  check() {
    this.live.resolve();
    this.live = Promise.withResolvers();
    if (!this.sending.has(this.key)) this.settle(this.key);
  }

  /** Another tab changed the draft that is shown here: what it sent is not to be sent again. */
  elsewhere({ key, oldValue }) {
    if (!isOf(key, this.key) || !oldValue) return;
    const { text } = readDraft(this.key);
    if (this.text.value === JSON.parse(oldValue).text && this.text.value !== text) this.write(text);
    this.draw();
  }

  /** Keeps what is written. */
  keep() {
    clearTimeout(this.keeping);
    if (!this.key) return;
    const draft = readDraft(this.key);
    if (draft.text !== this.text.value) keepDraft(this.key, { ...draft, text: this.text.value });
  }

  write(text) {
    this.text.value = text;
    this.fit();
  }

  /** As high as its text, within what the style sheet allows. */
  fit() {
    this.text.style.height = 'auto';
    this.text.style.height = this.text.scrollHeight + 2 + 'px';
  }

  draw() {
    const { pending, edit } = readDraft(this.key);
    const state = this.sending.has(this.key) ? 'sending' : pending?.state;
    $('editing').hidden = !edit;
    $('unsent').hidden = !words[state];
    if ($('unsent').textContent !== (words[state] || '')) $('unsent').textContent = words[state] || '';
    $('unsent').dataset.state = state || '';
    $('send').textContent = state === 'sending' ? 'Sending…' : 'Send';
    $('send').disabled = this.host.blocked() || state === 'sending' || state === 'unknown' || !this.text.value.trim();
  }

  // ---- editing an earlier message ----

  edit(message) {
    this.keep();
    const draft = readDraft(this.key);
    keepDraft(this.key, { ...draft, edit: { id: message.id }, aside: draft.edit ? draft.aside : draft.text, text: message.content });
    this.write(message.content);
    this.draw();
    this.text.focus();
  }

  stopEditing() {
    const { edit, aside = '' } = readDraft(this.key);
    if (!edit) return;
    changeDraft(this.key, { edit: null, aside: '', text: aside });
    this.write(aside);
    this.draw();
    this.text.focus();
  }

  // ---- sending ----

  /** Sends a text, or what is written. */
  async submit(text = this.text.value) {
    let key = this.key;
    if (!text.trim() || this.host.blocked() || this.sending.has(key)) return;
    this.keep();
    const draft = readDraft(key);
    if (draft.pending?.state === 'unknown') return;
    const pending = { id: crypto.getRandomValues(new Uint32Array(4)).join('-'), text, edit: draft.edit?.id, files: [], state: 'unknown' };
    if (isNew(key)) pending.agentId = this.host.agentId();
    // A new conversation that was asked for and not confirmed is known by the id of its first message.
    if (draft.pending?.agentId && draft.pending.agentId === pending.agentId) pending.id = draft.pending.id;
    if (!changeDraft(key, { pending })) toast(new Error('This browser keeps no drafts: a reload would lose the text.'));
    this.sending.add(key);
    this.draw();
    let made = '';
    try {
      if (isNew(key)) {
        made = await this.host.create(pending.agentId, { firstMessageId: pending.id });
        key = this.adopt(key, made);
      }
      await this.post(key, pending);
      this.confirm(key, pending.id);
    } catch (error) {
      this.failed(key, pending, error, made);
    } finally {
      this.sending.delete(key);
      this.draw();
    }
  }

  /** The draft of a new conversation goes on as that of a stored one. */
  adopt(key, id) {
    const shown = this.key === key;
    if (shown) this.keep();
    moveDraft(key, id);
    if (this.sending.delete(key)) this.sending.add(id);
    this.files.move(key, id);
    if (shown) {
      this.key = id;
      this.host.made(id);
    }
    return id;
  }

  async post(key, pending) {
    const path = `/conversations/${key}/messages`;
    pending.files = await this.files.ids(key);
    changeDraft(key, { pending });
    const body = pending.files.length > 0 ? { fileIds: pending.files } : {};
    if (pending.edit) await startStream(`${path}/${pending.edit}/edit`, { ...body, content: pending.text });
    else await startStream(path, { ...body, message: pending.text, metadata: { clientMessageId: pending.id } });
  }

  failed(key, pending, error, made) {
    if (readDraft(key).pending?.id !== pending.id) return; // the log confirmed it meanwhile
    this.keepText(key, pending);
    if (open(error)) {
      this.settle(key, 1000); // what is still under way may arrive until then
      return;
    }
    changeDraft(key, { pending: null });
    this.sending.delete(key);
    const back = newKey();
    if (made && this.key === key && !readDraft(back).text) { // nothing was ever said in it: it is not kept
      this.files.move(key, back);
      moveDraft(key, back);
      this.key = back;
      this.host.unmade(made);
    }
    this.host.changed();
    throw error;
  }

  /** A text that was not typed (a starter) is there to be sent again, too. */
  keepText(key, pending) {
    if (this.key === key && !this.text.value) this.write(pending.text);
    this.keep();
  }

  /** The server has the message. What was typed since stays. */
  confirm(key, id) {
    if (this.key === key) this.keep();
    const draft = readDraft(key);
    const { pending } = draft;
    if (pending?.id !== id) return;
    const without = (written = '') => (written.startsWith(pending.text) ? written.slice(pending.text.length) : written);
    const files = draft.files.filter((file) => !pending.files.includes(file.id));
    const next = { ...draft, files, pending: null };
    if (draft.edit?.id !== pending.edit) next.aside = without(draft.aside); // another message is being edited meanwhile
    else Object.assign(next, { text: without(draft.text) || (pending.edit && draft.aside) || '', edit: null, aside: '' });
    const { text } = next;
    keepDraft(key, next);
    if (this.key === key && this.text.value !== text) this.write(text);
    this.files.taken(key, pending.files);
    this.draw();
    this.host.changed();
  }

  /** A user's message of the log may be the one that waits to be confirmed. */
  heard(key, data) {
    const { pending } = readDraft(key);
    if (pending && is(pending, data.metadata, data.edited_from)) this.confirm(key, pending.id);
  }

  // ---- what became of a message that was not confirmed ----

  /** Looks until the server says whether a message arrived. */
  async settle(key, wait = 0) {
    if (this.settling.has(key)) return;
    const begun = key;
    this.settling.add(begun);
    try {
      for (let next = 500; readDraft(key).pending?.state === 'unknown'; next = Math.min(next * 1.7, 8000)) {
        if (wait > 0) await Promise.race([pause(wait), this.live.promise]);
        wait = next;
        try {
          key = await this.look(key);
        } catch (error) {
          if (error.status === 401) return; // goes on once the person said who they are
          if (error.status === 403 || error.status === 404) this.verdict(key, 'absent');
        }
      }
    } finally {
      this.settling.delete(begun);
      this.draw();
    }
  }

  verdict(key, state) {
    const { pending } = readDraft(key);
    if (pending) changeDraft(key, { pending: { ...pending, state } });
    this.draw();
  }

  async look(key) {
    const { pending } = readDraft(key);
    if (!pending) return key;
    if (isNew(key)) {
      const identity = settings.token ? '' : '&userId=' + encodeURIComponent(settings.user);
      const { conversations } = await call('GET', '/conversations?limit=100&pinned=none' + identity);
      const found = conversations.find((conversation) => conversation.metadata?.firstMessageId === pending.id);
      if (found) key = this.adopt(key, found.id);
      else {
        this.verdict(key, 'absent');
        return key;
      }
    }
    const { messages } = await call('GET', `/conversations/${key}?limit=200`);
    if (messages.some((message) => is(pending, message.metadata, message.metadata?.editedFrom))) this.confirm(key, pending.id);
    else this.verdict(key, 'absent');
    return key;
  }
}

/** Whether a user's message is the one that was sent. */
function is(pending, metadata, editedFrom) {
  return pending.edit ? editedFrom === pending.edit : metadata?.clientMessageId === pending.id;
}
