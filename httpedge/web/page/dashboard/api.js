// Calls of the server: same origin, by the session's cookie. The server refuses pages of other sites by what browsers say of them
// (Sec-Fetch-Site, Origin), which every fetch here carries.

/** Where the resources of a project are. */
export const API = '/api/console/v1';

/** A refusal, or a server that cannot be reached (status 0). */
export class Refused extends Error {
  /**
   * @param {string} message @param {number} status @param {string} [code] @param {string} [requestID] @param {any} [body]
   */
  constructor(message, status, code = '', requestID = '', body = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestID = requestID;
    this.body = body;
  }
}

/** What is done when nobody is signed in (any more): main.js leads to the login and back. */
export const whenSignedOut = { call: () => {} };

/** The project in which the page acts; '' = that of the cookie. Two tabs may so act in two. */
export const active = { project: '' };

/**
 * @param {string} method @param {string} path of the origin @param {any} [body] JSON, or a Blob as it is
 * @param {{signal?: AbortSignal, headers?: Record<string, string>, quiet?: boolean}} [options] quiet: a 401 is the caller's
 * @returns {Promise<any>} the answer's JSON, null without
 */
export async function call(method, path, body, { signal, headers = {}, quiet = false } = {}) {
  /** @type {Record<string, string>} */
  const sent = { Accept: 'application/json', ...headers };
  if (active.project) sent['X-Project-Id'] = active.project;
  let payload;
  if (body instanceof Blob) {
    payload = body;
    if (!sent['Content-Type'] && body.type) sent['Content-Type'] = body.type;
  } else if (body !== undefined) {
    payload = JSON.stringify(body);
    sent['Content-Type'] = 'application/json';
  }
  let response;
  try {
    response = await fetch(path, { method, headers: sent, body: payload, signal, credentials: 'same-origin' });
  } catch (error) {
    if (/** @type {Error} */ (error).name === 'AbortError') throw error;
    throw new Refused('', 0, 'unreachable');
  }
  const text = await response.text();
  let answer = null;
  try { answer = text ? JSON.parse(text) : null; } catch { answer = { error: text.slice(0, 500) }; }
  if (response.ok) return answer;
  if (response.status === 401 && !quiet) whenSignedOut.call();
  throw refusal(response, answer);
}

/** @param {Response} response @param {any} answer */
function refusal(response, answer) {
  const error = answer?.error;
  const message = answer?.message && typeof error === 'string' && error === 'Unauthorized' ? answer.message
    : typeof error === 'string' ? error : error?.message || answer?.message || response.statusText || String(response.status);
  return new Refused(message, response.status, answer?.code || error?.code || '', response.headers.get('X-Request-Id') || '', answer);
}

/** @param {string} path @param {Record<string, any>} [query] */
export function withQuery(path, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/** Calls of the project's resources: paths as in /api/client/v1. */
export const api = {
  /** @param {string} path @param {Record<string, any>} [query] @param {{signal?: AbortSignal}} [options] */
  get: (path, query, options) => call('GET', withQuery(API + path, query), undefined, options),
  /** @param {string} path @param {any} [body] @param {{signal?: AbortSignal}} [options] */
  post: (path, body = {}, options) => call('POST', API + path, body, options),
  /** @param {string} path @param {any} body */
  patch: (path, body) => call('PATCH', API + path, body),
  /** @param {string} path @param {any} body */
  put: (path, body) => call('PUT', API + path, body),
  /** @param {string} path @param {any} [body] */
  remove: (path, body) => call('DELETE', API + path, body),
};

/** Calls of accounts: paths below /api. */
export const account = {
  /** @param {string} path @param {Record<string, any>} [query] @param {{quiet?: boolean}} [options] */
  get: (path, query, options) => call('GET', withQuery(`/api${path}`, query), undefined, options),
  /** @param {string} path @param {any} [body] @param {{quiet?: boolean}} [options] */
  post: (path, body = {}, options) => call('POST', `/api${path}`, body, options),
};

/** The address of an event stream: an EventSource sets no header. @param {string} path @param {Record<string, any>} [query] */
export const streamURL = (path, query = {}) => withQuery(API + path, { ...query, x_project_id: active.project });

/** @param {string} path @param {Record<string, any>} [query] @returns a link to bytes, in the same project */
export const linkURL = streamURL;
