// The playground. Everything it shows of a turn comes from the conversation's event stream, so that what it shows after
// a lost connection or a restarted server is what the log says.

import { Nodes } from './cluster.js';
import { Attachments, fileChips } from './files.js';
import { Money } from './money.js';
import { Actions, element, messageTools } from './people.js';
import { Follow, Refused, call, docsPath, download, served, settings, startStream } from './stream.js';

const $ = (id) => document.getElementById(id);
const pageSize = 30;

let agents = [];
let rows = [];
const nodes = new Nodes($('nodes'), $('banner'));
let current = null; // { conversation, follow, lastSeq, streaming, messages, deltaRow, deltaCount, editing }

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
const money = new Money({ guarded, conversation: () => current?.conversation, changed: () => showHead() });

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
    const button = element('button');
    button.type = 'button';
    button.dataset.id = row.id;
    if (current?.conversation.id === row.id) button.setAttribute('aria-current', 'true');
    button.append(element('span', 'name', (row.pinned ? '★ ' : '') + (row.title || 'Untitled conversation')));
    const meta = element('span', 'meta');
    meta.append(element('span', '', row.agentName || row.agentId), element('span', '', ago(row.updatedAt)));
    if (row.runtime?.status === 'running') meta.append(element('span', 'on', 'answering'));
    button.append(meta);
    button.addEventListener('click', guarded(() => open(row.id)));
    const item = element('li');
    item.append(button);
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
  current = { conversation: read.conversation, messages: new Map(), lastSeq: 0, streaming: null, deltaRow: null, deltaCount: 0 };
  $('messages').replaceChildren();
  $('events').replaceChildren();
  showAll(read);
  showList();
  nodes.watch(id);
  current.follow = new Follow(id, 0, { onFrame: onEvent, onState: onLink });
}

function showAll(read) {
  current.conversation = read.conversation;
  const ids = new Set(read.messages.map((message) => message.id));
  for (const [id, node] of current.messages) {
    if (ids.has(id)) continue;
    node.remove();
    current.messages.delete(id);
  }
  const newest = read.messages.findLast((message) => message.role === 'assistant');
  for (const message of read.messages) showMessage(message, message === newest);
  if (read.messages.length === 0) showWelcome();
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
  actions.show('', []);
  attachments.clear();
  stopEditing();
  nodes.watch('');
  pill($('link'), 'off', 'not connected');
}

function showHead() {
  const conversation = current?.conversation;
  $('title').disabled = !conversation;
  $('title').value = conversation?.title || '';
  for (const id of ['pin', 'delete']) $(id).hidden = !conversation;
  const agent = agents.find((a) => a.id === (conversation?.agentId || $('agent').value));
  const formats = agent?.metadata?.experience?.export;
  $('export').hidden = !conversation || !formats?.enabled;
  if (!$('export').hidden) {
    $('export').replaceChildren(...['', ...formats.formats].map((format) => {
      const option = element('option', '', format || 'Export');
      option.value = format;
      return option;
    }));
  }
  $('attach').hidden = !(agent?.capabilities?.attachments?.enabled);
  money.show();
  $('pin').textContent = conversation?.pinned ? 'Unpin' : 'Pin';
  const status = conversation?.runtime?.status || 'off';
  const words = { idle: 'idle', running: 'answering', requires_action: 'waits for you', off: 'no conversation' };
  pill($('status'), status, words[status] || status);
  $('stop').hidden = status !== 'running' && status !== 'requires_action';
  $('send').disabled = status === 'running' || status === 'requires_action';
}

function showWelcome() {
  const agent = agents.find((a) => a.id === (current?.conversation.agentId || $('agent').value));
  const welcome = element('div', 'welcome');
  welcome.append(element('h2', '', agent?.name || 'Welcome'), element('p', '', agent?.metadata?.welcome || agent?.description || 'Start a conversation.'));
  const starters = element('div', 'starters');
  for (const starter of agent?.metadata?.starters || []) {
    const text = typeof starter === 'string' ? starter : starter.text || starter.label || '';
    const button = element('button', '', text);
    button.type = 'button';
    button.addEventListener('click', guarded(() => say(text)));
    starters.append(button);
  }
  welcome.append(starters);
  $('messages').replaceChildren(welcome);
}

function showMessage(message, newestAnswer) {
  document.querySelector('.welcome')?.remove();
  let node = current.messages.get(message.id);
  if (!node) {
    node = element('div', 'message ' + message.role);
    node.dataset.id = message.id;
    node.append(element('span', 'body'));
    current.messages.set(message.id, node);
    append(node);
  }
  node.firstChild.textContent = message.content;
  const status = message.status || message.metadata?.status;
  for (const old of node.querySelectorAll('.note, .tools, .chips, .call')) old.remove();
  for (const made of message.toolCalls || []) node.append(toolCall(made));
  if (message.files?.length) node.append(fileChips(message.files, guarded));
  if (message.role === 'assistant' && status && status !== 'completed') node.append(element('span', 'note', status));
  if (message.metadata?.edited) node.append(element('span', 'note', 'edited'));
  const agent = agents.find((a) => a.id === current.conversation.agentId);
  if (message.createdAt) {
    node.append(messageTools(message, {
      conversationId: current.conversation.id, experience: agent?.metadata?.experience, newestAnswer, guarded, edit: startEditing, changed: refresh,
    }));
  }
  return node;
}

function toolCall(made) {
  const details = element('details', 'call');
  details.append(element('summary', '', `${made.name}${made.error ? ' failed' : ''}`), element('pre', '', made.arguments), element('pre', '', made.error || made.result || ''));
  return details;
}

function append(node) {
  const box = $('messages');
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  box.append(node);
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function notice(text, bad) {
  append(element('div', 'notice' + (bad ? ' bad' : ''), text));
}

// ---- the turn, as the stream tells it ----

function streamingNode(runId) {
  if (current.streaming?.runId === runId) return current.streaming;
  current.streaming?.node.remove();
  const node = element('div', 'message assistant streaming');
  node.append(element('span', 'body'));
  append(node);
  current.streaming = { runId, node, text: '' };
  return current.streaming;
}

function showStreaming(runId, text) {
  const streaming = streamingNode(runId);
  streaming.text = text;
  streaming.node.firstChild.textContent = text;
  const box = $('messages');
  if (box.scrollHeight - box.scrollTop - box.clientHeight < 120) box.scrollTop = box.scrollHeight;
}

function endStreaming(runId) {
  // After a lost connection the running answer's snapshot comes before the ends of those that ran meanwhile.
  if (current.streaming && current.streaming.runId !== runId) return;
  current.streaming?.node.remove();
  current.streaming = null;
  current.deltaRow = null;
}

const liveHandlers = {
  'agent.message.snapshot'(event) {
    current.deltaRow = null;
    logRow(event);
    setStatus('running');
    showStreaming(event.run_id, event.data.text);
  },
  'agent.message.delta'(event) {
    logDelta(event);
    const before = current.streaming?.runId === event.run_id ? current.streaming.text : '';
    // An offset of 0 is a run that begins again after its node died.
    showStreaming(event.run_id, event.data.offset === 0 ? event.data.text : before + event.data.text);
  },
};

const handlers = {
  'user.message'(event) { showMessage({ id: event.data.message_id, role: 'user', content: event.data.content }); },
  'session.status_running'(event) {
    setStatus('running');
    streamingNode(event.run_id);
  },
  'session.recovered'(event) {
    // A snapshot says what there is of the new attempt, before this or after.
    notice('The node that answered is gone; the answer starts again.');
  },
  'agent.message'(event) {
    endStreaming(event.run_id);
    showMessage({ id: event.data.message_id, role: 'assistant', content: event.data.content, status: event.data.status });
  },
  'session.status_idle'(event) {
    endStreaming(event.run_id);
    setStatus('idle');
    const reason = event.data.stop_reason;
    if (event.data.error) notice(event.data.error.message || event.data.error.code, true);
    else if (reason && reason !== 'end_turn') notice({ cancelled: 'Stopped.', limit: 'The answer reached its length limit.' }[reason] || reason);
  },
  'session.status_waiting'() { setStatus('requires_action'); },
  'agent.tool_use'(event) {
    for (const made of event.data.tool_calls || event.data.calls || []) notice(`runs ${made.name}`);
  },
  'session.usage'(event) {
    if (event.data.spent_usd !== undefined) current.conversation.spentUsd = event.data.spent_usd;
    money.show();
  },
  'session.updated'(event) {
    Object.assign(current.conversation, event.data);
    showHead();
  },
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
  current.lastSeq = event.seq;
  $('log-seq').textContent = 'last ' + event.seq;
  logRow(event);
  // What was there when the conversation was read is on the page already.
  if (!replayed) handlers[event.type]?.(event);
  if (!replayed && telling.test(event.type)) refreshSoon();
  if (!replayed && event.type === 'session.status_idle') loadList().catch(toast);
}

function setStatus(status) {
  current.conversation.runtime = { ...current.conversation.runtime, status };
  showHead();
}

function onLink(state, status) {
  const words = { live: 'live', retry: 'reconnecting', refused: 'refused ' + status };
  pill($('link'), state, words[state]);
  nodes.link(state === 'live');
}

function logRow(event) {
  const item = element('li', event.seq === undefined ? 'live' : '');
  item.dataset.type = event.type;
  const details = element('details');
  const summary = element('summary');
  const at = event.created_at ? new Date(event.created_at) : new Date();
  summary.append(element('span', 'seq', event.seq === undefined ? '·' : String(event.seq)), element('span', 'type', event.type),
    element('span', 'time', at.toLocaleTimeString([], { hour12: false })));
  const body = element('pre', '', JSON.stringify(event.data, null, 2));
  details.append(summary, body);
  item.append(details);
  const log = $('events');
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  log.append(item);
  while (log.childElementCount > 500) log.firstChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
  return item;
}

function logDelta(event) {
  if (!current.deltaRow) {
    current.deltaCount = 0;
    current.deltaRow = logRow({ ...event, data: {} });
  }
  current.deltaCount++;
  current.deltaRow.querySelector('.type').textContent = `agent.message.delta × ${current.deltaCount}`;
  current.deltaRow.querySelector('pre').textContent = JSON.stringify(event.data, null, 2);
}

// ---- controls ----

async function say(text) {
  if (!text.trim()) return;
  if (!current) await create();
  const editing = current.editing;
  const fileIds = await attachments.take();
  const path = `/conversations/${current.conversation.id}/messages`;
  setStatus('running');
  try {
    if (editing) await startStream(`${path}/${editing.id}/edit`, fileIds.length > 0 ? { content: text, fileIds } : { content: text });
    else await startStream(path, fileIds.length > 0 ? { message: text, fileIds } : { message: text });
    stopEditing();
  } catch (error) {
    if (error instanceof Refused) {
      if (error.code !== 'conversation_busy') setStatus('idle');
      throw error;
    }
    notice('The connection broke before the server answered; the log will tell whether the message arrived.');
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
});

$('file').addEventListener('change', guarded(async () => {
  const chosen = [...$('file').files];
  $('file').value = '';
  await attachments.add(chosen);
}));
$('messages').addEventListener('dragover', (event) => { if (!$('attach').hidden) event.preventDefault(); });
$('messages').addEventListener('drop', guarded(async (event) => {
  event.preventDefault();
  await attachments.add([...event.dataTransfer.files]);
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
  current.conversation = { ...current.conversation, ...await call('PATCH', `/conversations/${current.conversation.id}`, { title: $('title').value }) };
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
  $('events').replaceChildren();
  showHead();
  showWelcome();
  await loadList();
}));
$('log-toggle').addEventListener('click', () => {
  const hidden = document.querySelector('main').classList.toggle('no-log');
  $('log-toggle').setAttribute('aria-pressed', String(!hidden));
});
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
