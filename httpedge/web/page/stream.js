// The conversation server's API as the page uses it: plain requests, and an event stream that outlives its connection.

const base = document.querySelector('meta[name="base-path"]').content;

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
  get token() { return localStorage.getItem('parley.token') || ''; },
  set token(value) { localStorage.setItem('parley.token', value.trim()); },
};

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

async function send(method, path, body, options = {}) {
  const response = await fetch(base + path, {
    method,
    headers: headers(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    body: body === undefined ? undefined : JSON.stringify(body),
    ...options,
  });
  served.hear(response.headers.get('X-Served-By'));
  if (!response.ok) {
    throw new Refused(response.status, await response.json().catch(() => null));
  }
  return response;
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
  const response = await fetch(`${base}/files?${query}`, {
    method: 'POST', headers: headers({ 'Content-Type': file.type || 'application/octet-stream' }), body: file,
  });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => null));
  return (await response.json()).file;
}

/** Saves what a path answers under a name. A link could not carry the token. */
export async function download(path, name) {
  const response = await fetch(base + path, { headers: headers({}) });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => null));
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Reads the frames of an event stream: calls onFrame({event, id, data}) for each. Returns when the stream ends. */
async function readFrames(body, onFrame, onComment) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf('\n\n')) >= 0) {
      const frame = { event: 'message', id: '', data: '' };
      for (const line of rest.slice(0, end).split('\n')) {
        const colon = line.indexOf(':');
        const name = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === '') onComment(text);
        else if (name === 'data') frame.data += (frame.data ? '\n' : '') + text;
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
    let pause = 250;
    while (!this.abort.signal.aborted) {
      let attempt;
      try {
        attempt = new AbortController();
        this.abort.signal.addEventListener('abort', () => attempt.abort(), { once: true });
        const response = await fetch(`${base}/conversations/${this.id}/events/stream`, {
          headers: headers({ Accept: 'text/event-stream', 'Last-Event-ID': String(this.after) }),
          signal: attempt.signal,
          cache: 'no-store',
        });
        if (response.status === 404 || response.status === 401 || response.status === 403) {
          this.onState('refused', response.status);
          return;
        }
        if (!response.ok) throw new Error('HTTP ' + response.status);
        served.hear(response.headers.get('X-Served-By'));
        pause = 250;
        this.onState('live');
        await readFrames(response.body, (frame) => this.take(frame), () => {});
      } catch (error) {
        if (this.abort.signal.aborted) return;
      } finally {
        attempt.abort();
      }
      if (this.abort.signal.aborted) return;
      this.onState('retry');
      await new Promise((wake) => setTimeout(wake, pause));
      pause = Math.min(pause * 1.7, 4000);
    }
  }

  take(frame) {
    if (this.abort.signal.aborted) return;
    if (frame.id) this.after = Number(frame.id);
    this.onFrame(JSON.parse(frame.data));
  }
}
