// The conversation server's API as the page uses it: plain requests, and an event stream that outlives its connection.

const base = document.querySelector('meta[name="base-path"]')?.content || ''; // the console shares some modules, and has none

export const settings = {
  get user() {
    let user = localStorage.getItem('parley.user');
    if (!user) {
      user = 'guest-' + Math.random().toString(36).slice(2, 10);
      localStorage.setItem('parley.user', user);
    }
    return user;
  },
  set user(value) { localStorage.setItem('parley.user', value.trim()); },
  // For as long as the tab is open, and in no other: it opens what is somebody's.
  get token() { return sessionStorage.getItem('parley.token') || ''; },
  set token(value) { sessionStorage.setItem('parley.token', value.trim()); },
};
localStorage.removeItem('parley.token'); // where earlier releases kept it

const patience = 30_000;     // milliseconds until a request without an answer is given up
const longPatience = 600_000; // for one that carries a file
const silence = 45_000;      // without a word on a stream, which is three pings of the server: its link is dead

export const docsPath = base + '/docs';

/** A refusal of the server, with its code. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.message || (typeof body?.error === 'string' ? body.error : `HTTP ${status}`));
    this.status = status;
    this.code = body?.code || '';
    this.details = body?.details;
  }
}

function headers(extra) {
  const all = { ...extra };
  if (settings.token) all.Authorization = 'Bearer ' + settings.token;
  return all;
}

/** Heard after every answer with the name of the node that gave it. */
export const served = { hear() {} };

/** Asks the person for a token after one ('' = none) was refused; false = they would not say. */
export const identity = { async ask() { return false; } };

/** A request with the token, given up after wait milliseconds (0 = never). Whom the server does not know is asked for one, until they give one or would not. */
async function request(path, { headers: extra, wait = patience, signal, ...options } = {}) {
  for (;;) {
    const token = settings.token;
    const signals = [wait && AbortSignal.timeout(wait), signal].filter(Boolean);
    const response = await fetch(base + path, { ...options, headers: headers(extra), signal: AbortSignal.any(signals) });
    served.hear(response.headers.get('X-Served-By'));
    if (response.ok) return response;
    if (response.status !== 401 || !(await identity.ask(token))) {
      throw new Refused(response.status, await response.json().catch(() => null));
    }
  }
}

function send(method, path, body, options = {}) {
  return request(path, {
    method,
    headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
    ...options,
  });
}

export async function call(method, path, body) {
  const response = await send(method, path, body);
  return response.status === 204 ? null : response.json();
}

/** What the node that serves the page knows of all nodes; null where it does not tell. */
export async function fetchCluster(conversationId) {
  const response = await fetch('cluster.json?conversation=' + encodeURIComponent(conversationId), { cache: 'no-store' });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error('HTTP ' + response.status);
  return response.json();
}

/**
 * Asks for something that runs a turn, and returns when the server has accepted it. The turn does not hang on this
 * connection: its text and its end come by the event stream, whatever becomes of this request.
 */
export async function startStream(path, body) {
  const abort = new AbortController();
  const response = await send('POST', path, { ...body, stream: true }, { signal: abort.signal });
  if ((response.headers.get('Content-Type') || '').startsWith('application/json')) return response.json();
  const reader = response.body.getReader();
  await reader.read();
  abort.abort();
  return null;
}

/** Sends a file as its own bytes and returns its record. */
export async function upload(conversationId, file) {
  const query = new URLSearchParams({ name: file.name, conversationId });
  const response = await request('/files?' + query, {
    method: 'POST', headers: { 'Content-Type': file.type || 'application/octet-stream' }, body: file, wait: longPatience,
  });
  return (await response.json()).file;
}

/** A picture for an <img>: the page may show no other addresses than its own, and a link could not carry the token. */
export async function picture(blob) {
  const { promise, resolve, reject } = Promise.withResolvers();
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
  return promise;
}

/** The bytes of a file that was sent, as what they are. */
export async function content(file) {
  const response = await request(`/files/${file.id}/content`, { wait: longPatience });
  return new Blob([await response.blob()], { type: file.mimeType });
}

/** Saves what a path answers under a name. A link could not carry the token. */
export async function download(path, name) {
  const response = await request(path, { wait: longPatience });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Waits, but not longer than until the browser says that there is a network, or the person looks at the page again. */
export function pause(milliseconds) {
  const { promise, resolve } = Promise.withResolvers();
  const look = () => { if (!document.hidden) resolve(); };
  const timer = setTimeout(resolve, milliseconds);
  addEventListener('online', resolve);
  document.addEventListener('visibilitychange', look);
  return promise.then(() => {
    clearTimeout(timer);
    removeEventListener('online', resolve);
    document.removeEventListener('visibilitychange', look);
  });
}

/** Reads the frames of an event stream: calls onFrame({event, id, data}) for each. Returns when the stream ends. */
async function readFrames(body, onFrame, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    rest += value;
    let end;
    while ((end = rest.indexOf('\n\n')) >= 0) {
      const frame = { event: 'message', id: '', data: '' };
      for (const line of rest.slice(0, end).split('\n')) {
        const colon = line.indexOf(':');
        const name = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === 'data') frame.data += (frame.data ? '\n' : '') + text;
        else frame[name] = text;
      }
      rest = rest.slice(end + 2);
      if (frame.data) onFrame(frame);
    }
  }
}

/**
 * Follows a conversation's events from a number on, for as long as it is not closed. A lost connection is made anew
 * from the last number seen, with growing pauses.
 */
export class Follow {
  constructor(conversationId, after, { onFrame, onState }) {
    this.id = conversationId;
    this.after = after;
    this.onFrame = onFrame;
    this.onState = onState;
    this.abort = new AbortController();
    this.run();
  }

  close() { this.abort.abort(); }

  async run() {
    let wait = 250;
    while (!this.abort.signal.aborted) {
      try {
        await this.attempt(() => { wait = 250; });
      } catch (error) {
        if (this.abort.signal.aborted) return;
        if ([401, 403, 404].includes(error.status)) {
          this.onState('refused', error.status);
          return;
        }
      }
      if (this.abort.signal.aborted) return;
      this.onState('retry');
      await pause(wait);
      wait = Math.min(wait * 1.7, 4000);
    }
  }

  /** One connection, for as long as something is heard on it. */
  async attempt(connected) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    this.abort.signal.addEventListener('abort', end, { once: true });
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(end, silence);
    };
    try {
      // The wait of a request covers its whole answer, and this one has no end: silence ends it.
      heard();
      const response = await request(`/conversations/${this.id}/events/stream`, {
        headers: { Accept: 'text/event-stream', 'Last-Event-ID': String(this.after) },
        signal: attempt.signal, cache: 'no-store', wait: 0,
      });
      connected();
      this.onState('live');
      await readFrames(response.body, (frame) => this.take(frame), heard);
    } finally {
      clearTimeout(timer);
      this.abort.signal.removeEventListener('abort', end);
      end();
    }
  }

  take(frame) {
    if (this.abort.signal.aborted) return;
    if (frame.id) this.after = Number(frame.id);
    this.onFrame(JSON.parse(frame.data));
  }
}
