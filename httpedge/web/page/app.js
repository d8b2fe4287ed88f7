// The playground. Everything it shows of a turn comes from the conversation's event stream, so that what it shows after
// a lost connection or a restarted server is what the log says.

import { Nodes } from './cluster.js';
import { element } from './dom.js';
import { Attachments } from './files.js';
import { List, statusWords } from './list.js';
import { EventLog, keptEvents } from './log.js';
import { Money } from './money.js';
import { Actions } from './people.js';
import { Follow, Refused, call, docsPath, download, served, settings, startStream } from './stream.js';
import { guarded, toast } from './toast.js';
import { Transcript } from './transcript.js';

const $ = (id) => document.getElementById(id);

let agents = [];
const nodes = new Nodes($('nodes'), $('banner'));
let current = null; // { conversation, follow, editing }
let opening = '';   // id of the conversation chosen last

function pill(node, state, text) {
  node.dataset.state = state;
  node.textContent = text;
}

const actions = new Actions($('actions'), { guarded, said: () => refreshSoon() });
const attachments = new Attachments($('files'), {
  guarded,
  conversation: async () => {
    if (!current) await create();
    return current.conversation.id;
  },
});
const money = new Money({ guarded, conversation: () => current?.conversation, changed: () => refresh() });
const transcript = new Transcript($('messages'), {
  guarded, edit: (message) => startEditing(message), changed: () => refresh(),
  earlier: (id) => call('GET', `/conversations/${current.conversation.id}?limit=200&before=${id}`),
});
const list = new List($('list'), $('more'), { guarded, open: (id) => open(id), current: () => current?.conversation.id });
const log = new EventLog($('events'), $('log-seq'));

served.hear = (node) => { if (node) $('served').textContent = 'served by ' + node; };

// ---- conversations ----

async function create() {
  const body = { agentId: $('agent').value };
  if (!settings.token) body.userId = settings.user;
  const { conversation } = await call('POST', '/conversations', body);
  await Promise.all([open(conversation.id), list.load()]);
  $('text').focus();
}

async function open(id) {
  close();
  opening = id;
  const read = await call('GET', `/conversations/${id}?limit=200`);
  if (opening !== id) return; // another was chosen meanwhile
  history.replaceState(null, '', '#' + id);
  current = { conversation: read.conversation, editing: null };
  $('agent').value = read.conversation.agentId;
  showAll(read);
  list.draw();
  nodes.watch(id);
  // The log of a long life is not read from its beginning: as much as the page keeps is enough.
  const after = Math.max(0, (read.conversation.runtime?.lastEventSeq || 0) - keptEvents);
  current.follow = new Follow(id, after, { onFrame: onEvent, onState: onLink });
}

function showAll(read) {
  current.conversation = { ...read.conversation, reachedUsd: current.conversation.reachedUsd };
  transcript.show(read, agentOf(read.conversation)?.metadata?.experience);
  if (read.messages.length === 0 && read.conversation.runtime?.status === 'idle') showWelcome();
  actions.show(read.conversation.id, read.pendingActions || []);
  showHead();
}

/** Reads the conversation anew, for what the events do not tell in full. */
async function refresh() {
  const { id } = current?.conversation || {};
  if (!id) return;
  const read = await call('GET', `/conversations/${id}?limit=200`);
  if (current?.conversation.id === id) showAll(read);
}

let refreshTimer;
function refreshSoon() {
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(() => refresh().catch(toast), 30);
}

function close() {
  current?.follow?.close();
  current = null;
  transcript.clear();
  log.clear();
  actions.show('', []);
  attachments.clear();
  stopEditing();
  nodes.watch('');
  pill($('link'), 'off', 'not connected');
  document.querySelector('main').classList.remove('show-side');
}

const agentOf = (conversation) => agents.find((agent) => agent.id === (conversation?.agentId || $('agent').value));

function showHead() {
  const conversation = current?.conversation;
  const agent = agentOf(conversation);
  const { history: may = {}, export: formats } = agent?.metadata?.experience || {};
  $('title').disabled = !conversation || may.rename === false;
  if (document.activeElement !== $('title')) $('title').value = conversation?.title || '';
  $('delete').hidden = !conversation;
  $('pin').hidden = !conversation || may.pin === false;
  $('pin').textContent = conversation?.pinned ? 'Unpin' : 'Pin';
  showExport(conversation && formats?.enabled ? formats.formats : []);
  $('attach').hidden = !agent?.capabilities?.attachments?.enabled;
  money.show();
  const status = conversation?.runtime?.status || 'off';
  pill($('status'), status, statusWords[status] || status);
  document.querySelector('.chat').dataset.status = status;
  $('stop').hidden = status !== 'running' && status !== 'waiting';
  $('send').disabled = status === 'running' || status === 'waiting';
}

/** The formats to export in; an open list is left alone while they are the same. */
function showExport(formats) {
  $('export').hidden = formats.length === 0;
  if ($('export').dataset.formats === formats.join()) return;
  $('export').dataset.formats = formats.join();
  $('export').replaceChildren(...['', ...formats].map((format) => {
    const option = element('option', '', format || 'Export');
    option.value = format;
    return option;
  }));
}

function showWelcome() { transcript.welcome(agentOf(current?.conversation), say); }

// ---- what the stream tells ----

const liveHandlers = {
  'agent.message.snapshot'(event) {
    log.endDeltas();
    log.add(event);
    setStatus('running');
    transcript.text(event.run_id, event.data.text, 0);
  },
  'agent.message.delta'(event) {
    log.addDelta(event);
    transcript.text(event.run_id, event.data.text, event.data.offset);
  },
};

function endAnswer(event) {
  transcript.end(event.run_id);
  log.endDeltas();
}

const handlers = {
  'user.message'(event) {
    transcript.message({ id: event.data.message_id, role: 'user', content: event.data.content, files: event.data.files });
  },
  'session.status_running'(event) {
    current.conversation.continuable = false;
    setStatus('running');
    transcript.begin(event.run_id);
  },
  'session.recovered'() {
    // A snapshot says what there is of the new attempt, before this or after.
    transcript.notice('The node that answered is gone; the answer starts again.');
  },
  'agent.message'(event) {
    endAnswer(event);
    transcript.message({ id: event.data.message_id, role: 'assistant', content: event.data.content, status: event.data.status });
  },
  'session.status_waiting'(event) {
    endAnswer(event);
    setStatus('waiting');
    transcript.message({ id: event.data.message_id, role: 'assistant', content: event.data.content, status: 'requires_action' });
  },
  'session.status_idle'(event) {
    endAnswer(event);
    current.conversation.continuable = Boolean(event.data.continuable);
    setStatus('idle');
    const reason = event.data.stop_reason;
    if (event.data.error) transcript.notice(event.data.error.message || event.data.error.code, true);
    else if (stopWords[reason]) transcript.notice(stopWords[reason]);
  },
  'session.truncated'() { transcript.truncated(); },
  'agent.tool_use'(event) { transcript.toolUse(event.data.tool_calls); },
  'agent.tool_result'(event) { transcript.toolResults(event.data.results); },
  'action.expired'() { transcript.notice('Nobody answered in time.'); },
  'session.usage'(event) {
    if (event.data.spent_usd !== undefined) current.conversation.spentUsd = event.data.spent_usd;
    money.show();
  },
  'session.updated'(event) {
    Object.assign(current.conversation, event.data);
    showHead();
    list.load().catch(toast);
  },
};

const stopWords = {
  cancelled: 'Stopped.', limit: 'The answer reached its length limit.', max_turns: 'The agent used its tools as often as it may in one answer.',
};

/** Events after which the page reads the conversation again: they say that something changed, not all of what. */
const telling = /^(session\.(truncated|status_idle|status_waiting)|action\.|message\.|file\.)/;

function onEvent(event) {
  if (!current) return;
  if (event.seq === undefined) {
    liveHandlers[event.type]?.(event);
    return;
  }
  const replayed = event.seq <= (current.conversation.runtime?.lastEventSeq || 0);
  log.add(event);
  if (event.type === 'session.status_running') transcript.mode(event.run_id, event.data.mode);
  if (event.type === 'budget.reached') money.reached(event);
  // What was there when the conversation was read is on the page already.
  if (!replayed) handlers[event.type]?.(event);
  if (!replayed && telling.test(event.type)) refreshSoon();
  if (!replayed && event.type === 'session.status_idle') list.load().catch(toast);
}

function setStatus(status) {
  current.conversation.runtime = { ...current.conversation.runtime, status };
  list.status(current.conversation.id, status);
  showHead();
}

function onLink(state, status) {
  const words = { live: 'live', retry: 'reconnecting', refused: 'refused ' + status };
  pill($('link'), state, words[state]);
  nodes.link(state === 'live');
}

// ---- controls ----

async function say(text) {
  if (!text.trim()) return;
  if (!current) await create();
  const editing = current.editing;
  const fileIds = await attachments.ids();
  const path = `/conversations/${current.conversation.id}/messages`;
  setStatus('running');
  transcript.follow();
  try {
    if (editing) await startStream(`${path}/${editing.id}/edit`, fileIds.length > 0 ? { content: text, fileIds } : { content: text });
    else await startStream(path, fileIds.length > 0 ? { message: text, fileIds } : { message: text });
    stopEditing();
    attachments.clear();
  } catch (error) {
    if (error instanceof Refused) {
      refreshSoon();
      throw error;
    }
    transcript.notice('The connection broke before the server answered; the log will tell whether the message arrived.');
  }
}

function startEditing(message) {
  current.editing = message;
  $('editing').hidden = false;
  $('text').value = message.content;
  fit();
  $('text').focus();
}

function stopEditing() {
  if (current) current.editing = null;
  $('editing').hidden = true;
}

$('edit-cancel').addEventListener('click', () => {
  stopEditing();
  $('text').value = '';
  fit();
});

$('file').addEventListener('change', guarded(async () => {
  const chosen = [...$('file').files];
  $('file').value = '';
  await attachments.add(chosen);
}));
$('messages').addEventListener('dragover', (event) => { if (!$('attach').hidden) event.preventDefault(); });
$('messages').addEventListener('drop', guarded(async (event) => {
  event.preventDefault();
  if (!$('attach').hidden) await attachments.add([...event.dataTransfer.files]);
}));
$('export').addEventListener('change', guarded(async () => {
  const format = $('export').value;
  $('export').value = '';
  if (format) await download(`/conversations/${current.conversation.id}/export?format=${format}`, `${current.conversation.title || 'conversation'}.${format}`);
}));

$('composer').addEventListener('submit', guarded(async (event) => {
  event.preventDefault();
  const text = $('text').value;
  if ($('send').disabled || !text.trim()) return;
  $('text').value = '';
  fit();
  try {
    await say(text);
  } catch (error) {
    $('text').value = text;
    throw error;
  }
}));

function fit() {
  const text = $('text');
  text.rows = Math.min(6, Math.max(1, text.value.split('\n').length));
}
$('text').addEventListener('input', fit);
$('text').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $('composer').requestSubmit();
  }
});

$('stop').addEventListener('click', guarded(() => call('POST', `/conversations/${current.conversation.id}/cancel`)));
$('new').addEventListener('click', guarded(create));
$('title').addEventListener('change', guarded(async () => {
  Object.assign(current.conversation, await call('PATCH', `/conversations/${current.conversation.id}`, { title: $('title').value }));
  await list.load();
}));
$('pin').addEventListener('click', guarded(async () => {
  const changed = await call('PATCH', `/conversations/${current.conversation.id}`, { pinned: !current.conversation.pinned });
  Object.assign(current.conversation, { pinned: changed.pinned });
  showHead();
  await list.load();
}));
$('delete').addEventListener('click', guarded(async () => {
  const id = current.conversation.id;
  close();
  await call('DELETE', `/conversations/${id}`);
  history.replaceState(null, '', location.pathname);
  showHead();
  showWelcome();
  await list.load();
}));
function showLog(shown) {
  document.querySelector('main').classList.toggle('no-log', !shown);
  $('log-toggle').setAttribute('aria-pressed', String(shown));
}
const wide = matchMedia('(min-width: 1081px)');
wide.addEventListener('change', () => showLog(wide.matches));
showLog(wide.matches);
$('log-toggle').addEventListener('click', () => showLog($('log-toggle').getAttribute('aria-pressed') !== 'true'));
$('side-toggle').addEventListener('click', () => document.querySelector('main').classList.toggle('show-side'));

$('settings-button').addEventListener('click', () => {
  $('user').value = settings.user;
  $('token').value = settings.token;
  $('settings').showModal();
});
$('settings').addEventListener('close', guarded(async () => {
  if ($('settings').returnValue !== 'save') return;
  settings.user = $('user').value;
  settings.token = $('token').value;
  close();
  showHead();
  await start();
}));
$('agent').addEventListener('change', () => {
  if (current) return;
  showWelcome();
  showHead();
});

async function start() {
  $('docs').href = docsPath;
  ({ agents } = await call('GET', '/agents'));
  $('agent').replaceChildren(...agents.map((agent) => {
    const option = element('option', '', agent.name);
    option.value = agent.id;
    return option;
  }));
  // "#conv_..." or, from a page of another node, "#conv_...&user=..."
  const [wanted, ...rest] = location.hash.slice(1).split('&');
  const user = new URLSearchParams(rest.join('&')).get('user');
  if (user) settings.user = user;
  await list.load();
  if (wanted) await open(wanted);
  else {
    showWelcome();
    showHead();
  }
  document.body.dataset.ready = 'true';
}

guarded(start)();
