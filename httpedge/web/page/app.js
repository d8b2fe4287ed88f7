// The playground. Everything it shows of a turn comes from the conversation's event stream, so that what it shows after
// a lost connection or a restarted server is what the log says.

import { Nodes } from './cluster.js';
import { button, element } from './dom.js';
import { Attachments } from './files.js';
import { EventLog } from './log.js';
import { Money } from './money.js';
import { Actions } from './people.js';
import { Follow, Refused, call, docsPath, download, served, settings, startStream } from './stream.js';
import { Transcript } from './transcript.js';

const $ = (id) => document.getElementById(id);
const pageSize = 30;

let agents = [];
let rows = [];
const nodes = new Nodes($('nodes'), $('banner'));
let current = null; // { conversation, follow, editing }

function pill(node, state, text) {
  node.dataset.state = state;
  node.textContent = text;
}

let toastTimer;
function toast(error) {
  const text = error instanceof Refused && error.code ? `${error.message} (${error.code})` : String(error.message || error);
  $('toast').textContent = text;
  $('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $('toast').hidden = true; }, 6000);
}

const guarded = (action) => async (...args) => {
  try {
    await action(...args);
    $('toast').hidden = true; // what went wrong before is over
  } catch (error) {
    toast(error);
  }
};

const actions = new Actions($('actions'), { guarded, said: () => refreshSoon() });
const attachments = new Attachments($('files'), {
  guarded,
  conversation: async () => {
    if (!current) await create();
    return current.conversation.id;
  },
});
const money = new Money({ guarded, conversation: () => current?.conversation, changed: () => refresh() });
const transcript = new Transcript($('messages'), { guarded, edit: (message) => startEditing(message), changed: () => refresh() });
const log = new EventLog($('events'), $('log-seq'));

served.hear = (node) => { if (node) $('served').textContent = 'served by ' + node; };

// ---- conversations ----

function identity() {
  return settings.token ? '' : '&userId=' + encodeURIComponent(settings.user);
}

async function loadList() {
  const page = await call('GET', `/conversations?limit=${pageSize}&orderBy=updatedAt${identity()}`);
  rows = page.conversations;
  $('more').hidden = !page.hasMore;
  showList();
}

async function loadMore() {
  const page = await call('GET', `/conversations?limit=${pageSize}&offset=${rows.length}&orderBy=updatedAt${identity()}`);
  rows = rows.concat(page.conversations);
  $('more').hidden = !page.hasMore;
  showList();
}

function ago(iso) {
  const seconds = Math.max(0, (Date.now() - new Date(iso)) / 1000);
  if (seconds < 60) return 'now';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h';
  return new Date(iso).toLocaleDateString();
}

function showList() {
  $('list').replaceChildren(...rows.map((row) => {
    const choose = button('', '', guarded(() => open(row.id)));
    choose.dataset.id = row.id;
    if (current?.conversation.id === row.id) choose.setAttribute('aria-current', 'true');
    choose.append(element('span', 'name', (row.pinned ? '★ ' : '') + (row.title || 'Untitled conversation')));
    const meta = element('span', 'meta');
    meta.append(element('span', '', row.agentName || row.agentId), element('span', '', ago(row.updatedAt)));
    const status = row.runtime?.status;
    if (status === 'running' || status === 'waiting') meta.append(element('span', status, statusWords[status]));
    choose.append(meta);
    const item = element('li');
    item.append(choose);
    return item;
  }));
}

async function create() {
  const body = { agentId: $('agent').value };
  if (!settings.token) body.userId = settings.user;
  const { conversation } = await call('POST', '/conversations', body);
  await Promise.all([open(conversation.id), loadList()]);
  $('text').focus();
}

async function open(id) {
  close();
  const read = await call('GET', `/conversations/${id}?limit=200`);
  history.replaceState(null, '', '#' + id);
  current = { conversation: read.conversation, editing: null };
  $('agent').value = read.conversation.agentId;
  showAll(read);
  showList();
  nodes.watch(id);
  current.follow = new Follow(id, 0, { onFrame: onEvent, onState: onLink });
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
const statusWords = { idle: 'idle', running: 'answering', waiting: 'waits for you', off: 'no conversation' };

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
    loadList().catch(toast);
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
  if (!replayed && event.type === 'session.status_idle') loadList().catch(toast);
}

function setStatus(status) {
  current.conversation.runtime = { ...current.conversation.runtime, status };
  const row = rows.find((other) => other.id === current.conversation.id);
  if (row && row.runtime?.status !== status) {
    row.runtime = { ...row.runtime, status };
    showList();
  }
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
$('more').addEventListener('click', guarded(loadMore));
$('title').addEventListener('change', guarded(async () => {
  Object.assign(current.conversation, await call('PATCH', `/conversations/${current.conversation.id}`, { title: $('title').value }));
  await loadList();
}));
$('pin').addEventListener('click', guarded(async () => {
  const changed = await call('PATCH', `/conversations/${current.conversation.id}`, { pinned: !current.conversation.pinned });
  Object.assign(current.conversation, { pinned: changed.pinned });
  showHead();
  await loadList();
}));
$('delete').addEventListener('click', guarded(async () => {
  const id = current.conversation.id;
  close();
  await call('DELETE', `/conversations/${id}`);
  history.replaceState(null, '', location.pathname);
  showHead();
  showWelcome();
  await loadList();
}));
function showLog(shown) {
  document.querySelector('main').classList.toggle('no-log', !shown);
  $('log-toggle').setAttribute('aria-pressed', String(shown));
}
showLog(!matchMedia('(max-width: 1080px)').matches);
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
  await loadList();
  if (wanted) await open(wanted);
  else {
    showWelcome();
    showHead();
  }
  document.body.dataset.ready = 'true';
}

guarded(start)();
