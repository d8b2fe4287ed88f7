// Who is signed in, in which company and project.

import { account, active, api, call } from './api.js';
import { feed, Store, useRead, useStore } from './store.js';

/**
 * @typedef {{userId: string, role: string, name: string, email: string, mustChangePassword: boolean, secondFactor: boolean,
 *   projects: {id: string, name: string, key: string}[], project: string}} Who
 */

/** null = not known yet, or nobody. */
export const who = new Store(/** @type {Who|null} */ (null));

const kept = 'parley.project';

/** The project of this tab: the one it had, else the browser's choice. */
function chosenProject() {
  try {
    const own = sessionStorage.getItem(kept);
    if (own) return own;
  } catch { /* a browser that keeps nothing */ }
  const cookie = document.cookie.split('; ').find((text) => text.startsWith('active_project_id='));
  return cookie ? decodeURIComponent(cookie.slice(cookie.indexOf('=') + 1)) : '';
}

/** Reads who is signed in. A 401 is thrown as any refusal. @param {{quiet?: boolean}} [options] */
export async function load(options) {
  active.project = '';
  asked = null;
  const [session, listed] = await Promise.all([
    account.get('/auth/session', {}, options), account.get('/projects', {}, options).catch((error) => {
      if (error.status === 401) throw error;
      return { projects: [] };
    }),
  ]);
  const projects = listed.projects || [];
  const wanted = chosenProject();
  const project = projects.some((/** @type {any} */ p) => p.id === wanted) ? wanted : projects[0]?.id || '';
  active.project = project;
  who.set({ ...session, name: '', email: '', projects, project });
  // The name is for the corner of the page: nothing waits for it.
  account.get('/users', { limit: 100 }, { quiet: true }).then(({ users }) => {
    const me = users?.find((/** @type {any} */ user) => user.id === session.userId);
    if (me) who.set((now) => now && { ...now, name: me.name, email: me.email });
  }, () => {});
}

/** Another project, for this tab at once and for others that are opened later. @param {string} id */
export async function chooseProject(id) {
  try { sessionStorage.setItem(kept, id); } catch { /* then until the page is loaded again */ }
  active.project = id;
  feed.end();
  who.set((now) => now && { ...now, project: id });
  await account.post('/projects/active', { projectId: id });
}

/** @returns {Promise<void>} */
export async function signOut() {
  await call('POST', '/api/auth/logout', {}, { quiet: true }).catch(() => {});
  forget();
}

/** Nobody is signed in any more. */
export function forget() {
  try { sessionStorage.removeItem(kept); } catch { /* nothing is kept */ }
  active.project = '';
  feed.end();
  who.set(null);
}

/** Owners and admins see all of the company. */
export const rules = () => ['owner', 'admin'].includes(who.value?.role || '');

const levels = ['none', 'read', 'write', 'admin'];

/** @type {{of: string, answer: Promise<any>}|null} */
let asked = null;

/** What the person may do in the project: asked once for all who need it, and again for somebody else, another project, or after a failure. */
function permissions() {
  const of = `${who.value?.userId} ${active.project}`;
  if (asked?.of === of) return asked.answer;
  const answer = api.get('/permissions');
  asked = { of, answer };
  answer.catch(() => { if (asked?.answer === answer) asked = null; });
  return answer;
}

/**
 * Says whether the person may do something with a service in the project: buttons that would fail are left out. No, until it is known; yes,
 * where it cannot be found out: then the server says no.
 */
function useLevels() {
  const me = useStore(who);
  const read = useRead(permissions, [me?.userId, me?.project]);
  return (/** @type {string} */ service, /** @type {string} */ level) => Boolean(read.error) || levels.indexOf(read.value?.levels[service]) >= levels.indexOf(level);
}

/** @param {string} service @param {string} level */
export const useMay = (service, level) => useLevels()(service, level);

/** Says whether a page has something for the person. Owners and admins see all, at once. @returns {(route: {service?: string}) => boolean} */
export function useSees() {
  const may = useLevels();
  return ({ service }) => !service || rules() || may(service, 'read');
}
