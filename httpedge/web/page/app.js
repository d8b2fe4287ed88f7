// The playground. Everything it shows of a turn comes from the conversation's event stream, so that what it shows after
// a lost connection or a restarted server is what the log says.

import { Nodes } from './cluster.js';
import { Composer } from './composer.js';
import { confirmed, retitled } from './dialogs.js';
import { element } from './dom.js';
import { dropDraft, newKey } from './drafts.js';
import { Events } from './events.js';
import { takeFiles } from './files.js';
import { List, standing, title } from './list.js';
import { EventLog, keptEvents } from './log.js';
import { Money } from './money.js';
import { Panes } from './panes.js';
import { Scroll } from './scroll.js';
import { Follow, call, docsPath, download, pause, served, settings } from './stream.js';
import { guarded, toast } from './toast.js';
import { Transcript } from './transcript.js';

const $ = (id) => document.getElementById(id);

let agents = [];
// The open conversation, or the one that begins with the next message: its id is ''.
let current = { conversation: { id: '' }, follow: null };
let opening = ''; // id of the conversation chosen last

const conversation = () => current.conversation;
const path = () => '/conversations/' + conversation().id;
const busy = () => ['running', 'waiting'].includes(conversation().runtime?.status);

function pill(node, state, text) {
  node.dataset.state = state;
  if (node.textContent !== text) node.textContent = text;
}

const nodes = new Nodes($('nodes'), $('banner'));
const log = new EventLog($('event-rows'), $('log-seq'));
new Scroll($('events'), $('event-rows'));
const panes = new Panes(log);
$('log-toggle').addEventListener('click', () => money.show());
const money = new Money({ guarded, conversation, priced, changed: () => refresh() });
const composer = new Composer({
  guarded,
  host: {
    agentId: () => $('agent').value, blocked: busy,
    create, made, unmade, changed: () => { refreshSoon(); view.follow(); },
  },
});
const view = new Scroll($('messages'), $('thread'), $('to-end'));
const transcript = new Transcript($('thread'), view, $('spoken'), {
  guarded, edit: (message) => composer.edit(message), changed: () => refresh(),
  earlier: (id) => call('GET', `${path()}?limit=200&before=${id}`),
});
const list = new List({ box: $('list'), more: $('more'), search: $('search'), note: $('list-note') }, {
  guarded, current: () => conversation().id,
  open: async (id) => {
    await open(id);
    panes.closeSide();
  },
  rename: async (row) => {
    const to = await retitled(row.title || '');
    if (to !== null) await rename(row.id, to);
  },
  remove: (row) => remove(row),
  drawn: () => showTitle(),
  messages: { find: (words) => transcript.find(words), show: (id) => { transcript.reveal(id); panes.closeSide(); } },
});
const events = new Events({
  transcript, log, money, list, composer, conversation, head: showHead, refresh: refreshSoon, status: setStatus,
});

served.hear = (node) => { if (node) $('served').textContent = 'served by ' + node; };

// ---- conversations ----

/** Makes the conversation that a first message is for. */
async function create(agentId, metadata) {
  const { budget } = conversation();
  const body = { agentId, metadata };
  if (budget) body.budget = budget;
  if (!settings.token) body.userId = settings.user;
  return (await call('POST', '/conversations', body)).conversation.id;
}

/** The new conversation that is shown exists now: it is followed from its first event on. */
function made(id) {
  current.conversation = { ...conversation(), id, agentId: $('agent').value };
  opening = id;
  history.pushState(null, '', '#' + id);
  follow(0);
  nodes.watch(id);
  showHead();
  list.load().catch(toast);
}

/** It was made for a message that was refused: nothing is in it, and it goes. */
function unmade(id) {
  call('DELETE', '/conversations/' + id).catch(() => {}).finally(() => list.load().catch(toast));
  const { budget } = conversation();
  begin();
  conversation().budget = budget;
  money.show();
}

/** Shows the place where a new conversation begins. */
function begin() {
  close();
  if (location.hash) history.pushState(null, '', location.pathname);
  composer.show(newKey());
  showHead();
  showWelcome();
  list.draw();
}

async function open(id) {
  opening = id;
  const read = await call('GET', `/conversations/${id}?limit=200`);
  if (opening !== id) return; // another was chosen meanwhile
  close();
  opening = id;
  if (location.hash !== '#' + id) history.pushState(null, '', '#' + id);
  current.conversation = read.conversation;
  showAll(read);
  composer.show(id);
  list.draw();
  if (document.body.dataset.ready && !list.rows.some((row) => row.id === id)) list.load().catch(toast); // made elsewhere
  nodes.watch(id);
  // The log of a long life is not read from its beginning: as much as the page keeps is enough.
  follow(Math.max(0, (read.conversation.runtime?.lastEventSeq || 0) - keptEvents));
}

function follow(after) {
  const mine = current;
  mine.follow = new Follow(conversation().id, after, {
    onFrame: (event) => { if (mine === current) events.take(event); },
    onState: (state, status) => { if (mine === current) onLink(state, status); },
  });
}

function showAll(read) {
  current.conversation = { ...read.conversation, reachedUsd: conversation().reachedUsd };
  transcript.show(read, agentOf()?.metadata?.experience);
  if (read.messages.length === 0 && read.conversation.runtime?.status === 'idle') showWelcome();
  showActions(read.conversation.id, read.pendingActions || []);
  showHead();
}

let actions;
let asked = ['', []]; // the conversation, and what it waits for

/** Shows what a turn asks of a person, by a module that comes with the first question. */
async function showActions(...what) {
  asked = what;
  if (what[1].length > 0) actions ||= import('./people.js').then(({ Actions }) => new Actions($('actions'), { guarded, said: () => refreshSoon() }));
  try {
    (await actions)?.show(...asked);
  } catch (error) { // it could not be loaded: the next look tries again
    actions = null;
    toast(error);
  }
}

/** Reads the conversation anew, for what the events do not tell in full. */
async function refresh() {
  const { id } = conversation();
  if (!id) return;
  const read = await call('GET', `/conversations/${id}?limit=200`);
  if (conversation().id === id) showAll(read);
}

let refreshTimer;
function refreshSoon() {
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(() => refresh().catch(toast), 30);
}

function close() {
  current.follow?.close();
  current = { conversation: { id: '' }, follow: null };
  opening = '';
  transcript.clear();
  log.clear();
  showActions('', []);
  nodes.watch('');
  pill($('link'), 'off', '');
}

/** Whether the agent's answers have a price. */
function priced() { return Boolean(agentOf()?.priced); }

const agentOf = () => agents.find((agent) => agent.id === (conversation().agentId || $('agent').value));

function showHead() {
  const { id, pinned, runtime } = conversation();
  const agent = agentOf();
  const { history: may = {}, export: formats } = agent?.metadata?.experience || {};
  $('title').disabled = !id || may.rename === false;
  $('title').placeholder = id ? 'Untitled conversation' : 'New conversation';
  if (document.activeElement !== $('title')) $('title').value = conversation().title || '';
  $('delete').hidden = !id;
  $('pin').hidden = !id || may.pin === false;
  $('pin').textContent = pinned ? 'Unpin' : 'Pin';
  showExport(id && formats?.enabled ? formats.formats : []);
  $('attach').hidden = !agent?.capabilities?.attachments?.enabled;
  money.show();
  const { status, outcome, text } = standing(runtime);
  pill($('status'), status, text);
  $('status').dataset.outcome = outcome;
  $('with').textContent = id ? 'with ' + (agent?.name || conversation().agentId) : '';
  showTitle();
  document.querySelector('.chat').dataset.status = status;
  $('stop').hidden = !busy();
  composer.draw();
}

/** The tab says what is open, and that something waits. */
function showTitle() {
  const { id, runtime } = conversation();
  const waiting = list?.waiting() || 0;
  const waits = runtime?.status === 'waiting' ? '● Waits for you · ' : waiting > 0 ? `● ${waiting} waiting · ` : '';
  document.title = waits + (id ? `${title(conversation())} · Parley` : 'Parley playground');
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

function showWelcome() { transcript.welcome(agentOf(), (text) => composer.submit(text)); }

function setStatus(status, stopReason) {
  current.conversation.runtime = { ...conversation().runtime, status, stopReason };
  list.status(conversation().id, status, stopReason);
  showHead();
}

/** A link that is there again may have missed what the stream does not tell: all that is shown is read anew. */
function onLink(state, status) {
  const words = { live: 'live', retry: 'reconnecting', refused: 'refused ' + status };
  const back = state === 'live' && $('link').dataset.state === 'retry';
  pill($('link'), state, words[state]);
  nodes.link(state === 'live');
  if (!back) return;
  refreshSoon();
  list.load().catch(toast);
  composer.check();
}

// ---- controls ----

$('file').addEventListener('change', () => {
  composer.files.add([...$('file').files]);
  $('file').value = '';
});
takeFiles(document.querySelector('.chat'), $('text'), () => !$('attach').hidden, (files) => composer.files.add(files));
$('export').addEventListener('change', guarded(async () => {
  const format = $('export').value;
  $('export').value = '';
  if (format) await download(`${path()}/export?format=${format}`, `${$('title').value.trim() || 'conversation'}.${format}`);
}));

const stop = guarded(async () => {
  if (document.activeElement === $('stop')) $('text').focus(); // the button goes
  await call('POST', path() + '/cancel');
});
$('stop').addEventListener('click', stop);
document.addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === 'k') {
    event.preventDefault();
    panes.openSide();
    $('search').focus();
  }
  if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return;
  if (panes.escape()) return;
  if (!$('editing').hidden) composer.stopEditing();
  else if (busy()) stop();
});
$('new').addEventListener('click', () => {
  begin();
  panes.closeSide();
  $('text').focus();
});
async function rename(id, to) {
  const changed = await call('PATCH', '/conversations/' + id, { title: to });
  if (conversation().id === id) {
    Object.assign(conversation(), changed);
    showHead();
  }
  await list.load();
}

$('title').addEventListener('change', guarded(() => rename(conversation().id, $('title').value)));
$('pin').addEventListener('click', guarded(async () => {
  const changed = await call('PATCH', path(), { pinned: !conversation().pinned });
  Object.assign(conversation(), { pinned: changed.pinned });
  showHead();
  await list.load();
}));
$('delete').addEventListener('click', guarded(() => remove(conversation())));

async function remove({ id, title: called, runtime }) {
  const named = called ? `“${called}”` : 'This conversation';
  const running = ['running', 'waiting'].includes(runtime?.status) ? ' What runs in it is stopped.' : '';
  if (!await confirmed('Delete the conversation?', `${named}, its messages and its files will be gone for good.${running}`, 'Delete')) return;
  await call('DELETE', '/conversations/' + id);
  dropDraft(id);
  list.forget(id);
  if (conversation().id === id) {
    history.replaceState(null, '', location.pathname);
    begin();
    $('text').focus();
  }
  await list.load();
}

$('theme').addEventListener('change', () => {
  localStorage.setItem('parley.theme', $('theme').value);
  document.documentElement.dataset.theme = $('theme').value;
});
$('settings-button').addEventListener('click', () => {
  $('user').value = settings.user;
  $('theme').value = document.documentElement.dataset.theme || 'auto';
  $('token').value = settings.token;
  $('settings').returnValue = '';
  $('settings').showModal();
});
$('settings').addEventListener('close', guarded(async () => {
  const { user, token } = settings;
  if ($('settings').returnValue === 'save') {
    settings.user = $('user').value;
    settings.token = $('token').value;
  }
  $('token').value = '';
  if (settings.user !== user || settings.token !== token) await start();
}));
$('agent').addEventListener('change', () => {
  if (conversation().id) return;
  showWelcome();
  showHead();
});
addEventListener('popstate', guarded(route));

/** Shows what the address names: "#conv_..." or, from a page of another node, "#conv_...&user=..." */
async function route() {
  const [wanted, ...rest] = location.hash.slice(1).split('&');
  const user = new URLSearchParams(rest.join('&')).get('user');
  if (user) settings.user = user;
  if (!wanted) return begin();
  if (wanted === conversation().id) return undefined;
  try {
    return await open(wanted);
  } catch (error) {
    if (!conversation().id) begin(); // there is nothing else to show
    throw error;
  }
}

async function start() {
  close();
  showHead();
  for (const link of document.querySelectorAll('.docs')) link.href = docsPath;
  ({ agents } = await call('GET', '/agents'));
  $('agent').replaceChildren(...agents.map((agent) => {
    const option = element('option', '', agent.name);
    option.value = agent.id;
    return option;
  }));
  await route().catch(toast);
  await list.load();
  // A phone would open its keyboard.
  if (document.activeElement === document.body && !matchMedia('(pointer: coarse)').matches) $('text').focus();
  document.body.dataset.ready = 'true';
}

/** The page came from the server, so it is there or soon will be again. */
async function begun() {
  for (let wait = 500; ; wait = Math.min(wait * 1.7, 8000)) {
    try {
      return await start();
    } catch (error) {
      toast(error);
      if (error.status >= 400 && error.status < 500) return undefined; // the person is asked, in the settings
    }
    await pause(wait);
  }
}

begun();
