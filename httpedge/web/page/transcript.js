// The messages of the open conversation, and the answer that is being streamed.

import { button, element } from './dom.js';
import { fileChips } from './files.js';
import { Growing, markdown } from './markdown.js';
import { messageTools } from './message.js';
import { Outcomes } from './outcomes.js';
import { settings } from './stream.js';
import { Usages } from './usage.js';
import { ending, undone } from './words.js';

const spokenText = 2000; // characters
const foldedAbove = 20_000; // characters of a message of which only the beginning is shown
const foldedTo = 4000;
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
    this.streaming?.view.end();
    this.usages = new Usages();
    this.outcomes = new Outcomes(settings.user);
    this.nodes = new Map();  // message id -> node
    this.waiting = [];       // nodes that are to be filled, the next one last
    this.modes = new Map();  // run id -> what kind of turn it is
    this.streaming = null;   // { runId, node, own, before, text, view }
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
    if (read.conversation.runtime?.status !== 'running') this.box.querySelectorAll('.call.live').forEach((live) => live.remove());
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
    let body = node.querySelector('.body');
    if (!body || node.content !== message.content) { // what is drawn stays
      body = element('div', 'body');
      if (message.role === 'user') body.dir = 'auto';
      const text = folded(message.content);
      body.append(drawnText(message, text));
      body.folded = text !== message.content;
    }
    node.content = message.content;
    node.replaceChildren(body);
    if (body.folded) node.append(unfold(body, message));
    for (const made of message.toolCalls || []) {
      this.box.querySelector(`.call.live[data-call="${CSS.escape(made.id)}"]`)?.remove();
      node.append(toolCall(made, this.outcomes.decisions));
    }
    if (message.files?.length) node.append(fileChips(message.files, this.guarded));
    if (message.metadata?.edited) node.append(element('span', 'note', 'edited'));
    const earlier = message.metadata?.previousContent || [];
    if (earlier.length) node.append(versions(earlier));
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
    if (shown) shown.replaceWith(toolCall(shown.made, this.outcomes.decisions));
  }

  /** Shows what an answer cost, beside its buttons. */
  cost(id) {
    const tools = this.nodes.get(id)?.querySelector('.tools');
    const words = this.usages.words(id);
    if (!tools || !words) return;
    tools.querySelector('.cost')?.remove();
    const cost = element('span', 'cost', words);
    cost.title = 'Tokens the model read and wrote, and what they cost';
    tools.append(cost);
  }

  append(node) { this.box.append(node); }

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
    if (mode === 'regenerate' && answer?.classList.contains('assistant')) answer.classList.add('replaced');
    const view = new Growing(node.querySelector('.body'));
    this.streaming = { runId, node, own: !goesOn, before, text: '', view };
    view.show(before);
    this.busy(true);
    this.say('The answer begins.');
    this.draw();
  }

  text(runId, text, offset) {
    this.begin(runId);
    // An offset of 0 is a run that begins again after its node died.
    this.streaming.text = offset > 0 ? this.streaming.text + text : text;
    this.draw();
  }

  draw() {
    if (!this.streaming) return;
    const { node, before, text, view } = this.streaming;
    node.classList.add('streaming');
    if (!node.contains(view.node)) { // the message was drawn anew meanwhile
      view.end();
      this.streaming.view = new Growing(node.querySelector('.body'));
    }
    node.drawn = ''; // whatever is in it now, it is drawn anew in the end
    if (text) this.streaming.view.show(before + text);
  }

  /** Has a screen reader say something, once. */
  say(text) { this.spoken.textContent = text.length > spokenText ? text.slice(0, spokenText) + ' …' : text; }

  /** The answer of a run as it is stored. What was drawn of it stays as it is, and where it is. */
  answer(runId, message) {
    const { streaming } = this;
    if (streaming?.runId === runId) {
      streaming.view.finish(message.content);
      streaming.node.content = message.content;
      if (streaming.own) {
        streaming.own = false;
        streaming.node.dataset.id = message.id;
        this.nodes.set(message.id, streaming.node);
      }
      this.drop();
    }
    this.message(message);
    const body = this.nodes.get(message.id).querySelector('.body');
    this.say([...body.children].map((block) => block.textContent).join('\n'));
  }

  /** Ends the streamed answer of a run; after a lost connection the running one may be another. */
  end(runId) {
    if (this.streaming && this.streaming.runId !== runId) return;
    this.drop();
  }

  drop() {
    this.streaming?.view.end();
    if (this.streaming?.own) this.streaming.node.remove();
    this.streaming?.node.classList.remove('streaming');
    this.streaming = null;
    this.box.querySelectorAll('.replaced').forEach((node) => node.classList.remove('replaced'));
    this.busy(false);
  }

  /** Tools that a running turn calls, until the answer holds them. */
  toolUse(calls) {
    for (const call of calls) {
      if (this.call(call.tool_call_id)) continue;
      const live = toolCall({ id: call.tool_call_id, name: call.tool_name, arguments: JSON.stringify(call.args), running: true }, this.outcomes.decisions);
      live.classList.add('live');
      this.append(live);
    }
  }

  toolResults(results) {
    for (const result of results) {
      const shown = this.call(result.tool_call_id);
      if (!shown) continue;
      const made = toolCall({ id: result.tool_call_id, name: result.tool_name, arguments: shown.made.arguments, result: result.result, error: result.error ?? result.result?.error }, this.outcomes.decisions);
      made.classList.toggle('live', shown.classList.contains('live'));
      shown.replaceWith(made);
    }
  }

  call(id) { return this.box.querySelector(`.call[data-call="${CSS.escape(id)}"]`); }
}

/** The beginning of a text that is huge, up to the end of a block; any other as it is. */
function folded(text) {
  if (text.length <= foldedAbove) return text;
  const end = text.lastIndexOf('\n\n', foldedTo);
  return text.slice(0, end > foldedTo / 2 ? end : foldedTo);
}

const drawnText = ({ role }, text) => (role === 'user' ? document.createTextNode(text) : markdown(text));

function unfold(body, message) {
  const all = button(`Show all ${message.content.length.toLocaleString('en')} characters`, 'unfold', () => {
    body.replaceChildren(drawnText(message, message.content));
    body.folded = false;
    all.remove();
  });
  return all;
}

function toolCall(made, decisions) {
  const details = element('details', 'call');
  details.dataset.call = made.id;
  details.made = made;
  const decided = decisions.get(made.id) || undone(made.error);
  const refused = /^(denied|nobody|stopped|left|refused)/.test(decided);
  const how = (decided ? ' · ' + decided : '') + (refused ? '' : made.error ? ' · failed' : made.running ? ' …' : made.result === undefined ? '' : ' ✓');
  details.append(element('summary', '', made.name + how), element('pre', '', made.arguments));
  const outcome = made.error || made.result;
  if (outcome && !refused) details.append(element('pre', '', typeof outcome === 'string' ? outcome : JSON.stringify(outcome, null, 2)));
  return details;
}

/** What a message said before it was regenerated or edited. */
function versions(earlier) {
  const details = element('details', 'versions');
  details.append(element('summary', '', earlier.length === 1 ? '1 earlier version' : `${earlier.length} earlier versions`));
  for (const text of earlier) {
    const version = element('p', '', text);
    version.dir = 'auto';
    details.append(version);
  }
  return details;
}
