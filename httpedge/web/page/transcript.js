// The messages of the open conversation, and the answer that is being streamed.

import { button, element } from './dom.js';
import { fileChips } from './files.js';
import { Growing } from './markdown.js';
import { messageTools } from './message.js';
import { Outcomes } from './outcomes.js';
import { textParts, toolCall, versions } from './parts.js';
import { Steps } from './steps.js';
import { settings } from './stream.js';
import { Usages } from './usage.js';
import { ending } from './words.js';

const spokenText = 2000; // characters
const filledAtOnce = 6; // messages of a conversation that is opened: what may be in sight. The others follow in slices of time
const slice = 8; // milliseconds

export class Transcript {
  /** scroll is the view around the box. */
  constructor(box, scroll, spoken, { guarded, edit, changed, earlier }) {
    this.box = box;
    this.scroll = scroll;
    this.spoken = spoken; // what a screen reader says: whole answers, not their pieces
    this.readEarlier = earlier; // reads the page of messages before one
    this.guarded = guarded;
    this.edit = edit;
    this.changed = changed;
    this.clear();
  }

  clear() {
    this.streaming?.view?.end();
    this.steps = new Steps();
    this.usages = new Usages();
    this.outcomes = new Outcomes(settings.user);
    this.nodes = new Map();  // message id -> node
    this.waiting = [];       // nodes that are to be filled, the next one last
    this.modes = new Map();  // run id -> what kind of turn it is
    this.streaming = null;   // { runId, node, own, stored, before, text, view }: stored are calls that the message had before
    this.older = null;       // messages before those that are read again and again; null = none were asked for
    this.newest = [];        // those that were read last
    this.box.replaceChildren();
    this.busy(false);
    this.scroll.follow();
  }

  busy(is) { this.scroll.box.ariaBusy = String(is); }

  welcome(agent, say) {
    const welcome = element('div', 'welcome');
    welcome.append(element('h2', '', agent?.name || 'Welcome'), element('p', '', agent?.metadata?.welcome || agent?.description || 'Start a conversation.'));
    const starters = element('div', 'starters');
    for (const starter of agent?.metadata?.starters || []) {
      const text = typeof starter === 'string' ? starter : starter.text || starter.label || '';
      starters.append(button(text, '', this.guarded(() => say(text))));
    }
    welcome.append(starters);
    this.box.replaceChildren(welcome);
  }

  /** Shows what was read of the conversation; what is no longer in it goes. */
  show(read, experience) {
    this.experience = experience;
    this.conversation = read.conversation;
    // What fell out of the newest page since it was read last stays below what was before it.
    if (this.older) this.older.push(...this.newest.slice(0, Math.max(0, this.newest.findIndex(({ id }) => id === read.messages[0]?.id))));
    this.newest = read.messages;
    const ids = new Set([...this.older || [], ...read.messages].map((message) => message.id));
    for (const [id, node] of this.nodes) {
      if (ids.has(id)) continue;
      node.remove();
      this.nodes.delete(id);
    }
    const last = read.messages.at(-1);
    const soon = read.messages.length - filledAtOnce;
    read.messages.forEach((message, at) => this.message(message, message === last, at < soon));
    if (!this.older) this.offerEarlier(read.messagesPage?.hasMoreBefore ? read.messages[0] : null);
    this.draw();
  }

  /** Offers the messages before the first that is shown. */
  offerEarlier(first) {
    this.box.querySelector('.earlier')?.remove();
    if (!first) return;
    this.box.prepend(button('Earlier messages', 'quiet earlier', this.guarded(async () => {
      const read = await this.readEarlier(first.id);
      this.older = [...read.messages, ...this.older || []];
      const at = this.nodes.get(first.id);
      this.scroll.around(at, () => {
        for (const message of read.messages) {
          this.message(message, false, true);
          at.before(this.nodes.get(message.id));
        }
        this.offerEarlier(read.messagesPage.hasMoreBefore ? read.messages[0] : null);
      });
    })));
  }

  /** Shows a message; later = it may have its place first, and be drawn when there is time. */
  message(message, last, later) {
    this.box.querySelector('.welcome')?.remove();
    let node = this.nodes.get(message.id);
    if (!node) {
      node = element('article', 'message ' + message.role);
      node.dataset.id = message.id;
      node.setAttribute('aria-label', message.role === 'user' ? 'you' : 'answer');
      this.nodes.set(message.id, node);
      this.append(node);
    }
    const form = node.querySelector('.rate-form'); // a person may be writing in it
    const drawn = JSON.stringify([message, last, this.experience]);
    node.content ??= message.content;
    if (node.drawn === drawn) return; // a selection, a focus, an opened detail stay
    node.drawn = drawn;
    node.redraw = () => this.message(message, last);
    node.fill = () => {
      node.fill = null;
      this.fill(node, message, last, form);
    };
    if (node.firstChild || !later) {
      node.fill();
      return;
    }
    this.waiting.push(node);
    this.timer ||= setTimeout(() => this.fillWaiting());
  }

  /** Fills what waits, the newest first, for a slice of time; then others have a turn. */
  fillWaiting() {
    this.timer = 0;
    for (const begun = performance.now(); this.waiting.length > 0 && performance.now() - begun < slice;) this.waiting.pop().fill?.();
    if (this.waiting.length > 0) this.timer = setTimeout(() => this.fillWaiting());
  }

  fill(node, message, last, form) {
    node.content = message.content;
    node.calls = message.toolCalls;
    const kept = this.streaming?.node === node ? [...node.children].filter(isFlow) : this.flow(node, message.role, message.content, message.toolCalls);
    put(node, kept, []); // not replaced: a focus and a selection in what stays are kept
    node.classList.remove('past');
    if (message.files?.length) node.append(fileChips(message.files, this.guarded));
    if (message.metadata?.edited) node.append(element('span', 'note', 'edited'));
    const earlier = message.metadata?.previousContent || [];
    if (earlier.length) versions(node, message.role, earlier);
    const end = this.outcomes.ends.get(message.id) || (message.role === 'assistant' && ending(message.metadata?.stopReason));
    if (end) {
      const told = element('p', end.bad ? 'outcome bad' : 'outcome', end.text);
      told.dir = 'auto';
      node.append(told);
    }
    if (!message.createdAt) return; // known by its event alone: it is read in full when the turn pauses or ends
    const tools = messageTools(message, {
      conversationId: this.conversation.id, experience: this.experience, last, form,
      guarded: this.guarded, edit: this.edit, changed: this.changed,
    });
    node.append(tools);
    this.cost(message.id);
    if (form && message.metadata?.feedback?.rating === 'down') node.append(form);
  }

  /** Takes an event that may tell what an answer cost. */
  usage(event) {
    const id = this.usages.take(event);
    if (id) this.cost(id);
    return Boolean(id);
  }

  /** Takes an event that may tell how a turn ended, or what was decided. */
  outcome(event, replayed) {
    const { message, call } = this.outcomes.take(event);
    const node = this.nodes.get(message);
    if (node && node !== this.streaming?.node) {
      node.drawn = '';
      if (node.firstChild) node.redraw(); // or it is drawn later, with all that is known then
    }
    if (message && !replayed) this.say(this.outcomes.ends.get(message)?.text || '');
    const shown = call && this.call(call);
    if (shown) shown.replaceWith(toolCall(shown.made, this.outcomes.decisions, shown));
  }

  /** Shows what an answer cost, beside its buttons. */
  cost(id) {
    const tools = this.nodes.get(id)?.querySelector('.tools');
    const exact = this.usages.words(id, true);
    if (!tools || !exact) return;
    tools.querySelectorAll('.cost').forEach((cost) => cost.remove());
    const cost = element('span', 'cost exact', exact);
    cost.title = 'Tokens the model read and wrote, and what they cost';
    const short = element('span', 'cost', this.usages.words(id, false));
    short.title = exact;
    tools.append(cost, short);
  }

  /**
   * The texts and calls of a message, in order; what is drawn of them stays. The last text of one that grows is drawn by view(body).
   */
  flow(node, role, content, calls, view) {
    const bodies = [...node.children].filter((child) => child.matches('.body'));
    const parts = this.steps.arrange(content, calls);
    const wanted = [];
    parts.forEach(({ text, call }, at) => {
      if (call) {
        wanted.push(toolCall(call, this.outcomes.decisions, node.querySelector(`.call[data-call="${CSS.escape(call.id)}"]`)));
        return;
      }
      const last = at === parts.length - 1;
      if (!text && !(last && (view || at === 0))) return;
      const body = bodies.shift();
      if (last && view) {
        const growing = body || element('div', 'body');
        wanted.push(growing);
        view(growing, text);
      } else {
        wanted.push(...(body?.text === text ? [body, body.rest].filter(Boolean) : this.finished(body, text) || textParts(role, text)));
      }
    });
    return wanted;
  }

  /** A text that was drawn while it grew, and is whole. */
  finished(body, text) {
    const view = this.streaming?.view;
    if (!body || view?.node !== body) return null;
    view.finish(text);
    this.streaming.view = null;
    body.text = text;
    return [body];
  }

  append(node) { this.box.append(node); }

  /** The messages that are here and have some words, in lower case: [{ id, text }], text being what is around the words. */
  find(words) { return [...this.nodes].flatMap(([id, { content = '' }]) => found(id, content, words)); }

  /** Brings a message into view. */
  reveal(id) { this.scroll.reveal(this.nodes.get(id)); }

  notice(text) { this.append(element('div', 'notice', text)); }

  /** An edit takes back the messages that the notices were about. */
  truncated() {
    this.older = null;
    this.box.querySelectorAll('.notice').forEach((notice) => notice.remove());
  }

  // ---- the turn, as the stream tells it ----

  /** Remembers what kind of turn a run is: its text may go on in an answer that is there already. */
  mode(runId, mode) { this.modes.set(runId, mode || ''); }

  begin(runId) {
    if (this.streaming?.runId === runId) return;
    this.drop();
    this.box.querySelector('.welcome')?.remove();
    const mode = this.modes.get(runId);
    const answer = [...this.box.querySelectorAll('.message[data-id]')].at(-1);
    const goesOn = (mode === 'resolve' || mode === 'continue') && answer?.classList.contains('assistant');
    const node = goesOn ? answer : element('article', 'message assistant');
    if (!goesOn) {
      node.setAttribute('aria-label', 'answer');
      node.append(element('div', 'body'));
      this.append(node);
    }
    let before = goesOn ? answer.content : '';
    if (before && mode === 'resolve') before += '\n\n';
    const stored = goesOn ? answer.calls : [];
    if (mode === 'regenerate' && answer?.classList.contains('assistant')) answer.classList.add('replaced');
    this.streaming = { runId, node, own: !goesOn, stored, before, text: '', view: null };
    this.busy(true);
    this.say('The answer begins.');
    this.draw();
  }

  /** What a run answers. A stream that joins in mid-answer tells the answer so far before it. */
  asked(runId, message) {
    this.message(message);
    if (this.streaming?.runId === runId && this.streaming.own) this.streaming.node.before(this.nodes.get(message.id));
  }

  text(runId, text, offset) {
    this.begin(runId);
    // An offset of 0 is a run that begins again after its node died.
    this.streaming.text = offset > 0 ? this.streaming.text + text : text;
    this.draw();
  }

  draw() {
    if (!this.streaming) return;
    const { runId, node, stored, before, text } = this.streaming;
    node.classList.add('streaming');
    node.drawn = ''; // whatever is in it now, it is drawn anew in the end
    const rest = [...node.children].filter((child) => !isFlow(child));
    put(node, this.flow(node, 'assistant', before + text, this.steps.all(stored, runId), (body, said) => {
      if (this.streaming.view?.node !== body) { // the message was drawn anew, or a tool was called
        this.streaming.view?.end();
        this.streaming.view = new Growing(body);
        body.text = undefined;
      }
      this.streaming.view.show(said);
    }), rest);
  }

  /** Has a screen reader say something, once. */
  say(text) { this.spoken.textContent = text.length > spokenText ? text.slice(0, spokenText) + ' …' : text; }

  /** The answer of a run as it is stored. What was drawn of it stays as it is, and where it is. */
  answer(runId, message) {
    const { streaming } = this;
    const here = streaming?.runId === runId;
    message.toolCalls = this.steps.all(here ? streaming.stored : this.nodes.get(message.id)?.calls, runId);
    if (here) {
      put(streaming.node, this.flow(streaming.node, 'assistant', message.content, message.toolCalls), []);
      if (streaming.own) {
        streaming.own = false;
        streaming.node.dataset.id = message.id;
        this.nodes.set(message.id, streaming.node);
      }
      this.drop();
    }
    this.message(message);
    this.say([...this.nodes.get(message.id).querySelectorAll('.body > *')].map((block) => block.textContent).join('\n'));
  }

  /** Ends the streamed answer of a run; after a lost connection the running one may be another. */
  end(runId) {
    if (this.streaming && this.streaming.runId !== runId) return;
    this.drop();
  }

  drop() {
    this.streaming?.view?.end();
    if (this.streaming?.own) this.streaming.node.remove();
    this.streaming?.node.classList.remove('streaming');
    this.streaming = null;
    this.box.querySelectorAll('.replaced').forEach((node) => node.classList.remove('replaced'));
    this.busy(false);
  }

  /** Takes an event that may tell of tool calls; replayed = it is on the page already, but for where it happened. */
  step(event, replayed) {
    for (const id of this.steps.take(event)) {
      const shown = this.call(id);
      if (shown && !replayed) shown.replaceWith(toolCall(this.steps.latest(shown.made), this.outcomes.decisions, shown));
    }
    if (event.type !== 'agent.tool_use') return;
    if (!replayed) this.begin(event.run_id);
    if (this.streaming?.runId === event.run_id) this.draw();
    else this.inPlace(event.data.tool_calls[0]?.tool_call_id);
  }

  /** A message was drawn before the log told where a call of it happened. */
  inPlace(id) {
    const node = this.call(id)?.closest('.message');
    if (!node?.redraw) return;
    node.drawn = '';
    node.redraw();
  }

  call(id) { return this.box.querySelector(`.call[data-call="${CSS.escape(id)}"]`); }
}

function found(id, content, words) {
  const at = content.toLocaleLowerCase().indexOf(words);
  return at < 0 ? [] : [{ id, text: (at > 20 ? '… ' : '') + content.slice(Math.max(0, at - 20), at + 60) }];
}

const isFlow = (child) => child.matches('.body, .unfold, .call');

/** Puts the parts of a message in their places, before the rest; what is in its place is not moved: it may be read, or hold the focus. */
function put(node, parts, rest) {
  const wanted = new Set(parts);
  for (const child of [...node.children]) {
    if (!wanted.has(child) && !rest.includes(child)) child.remove();
  }
  let at = node.firstChild;
  for (const part of parts) {
    if (part === at) at = at.nextSibling;
    else node.insertBefore(part, at);
  }
}
