// Who is signed in, in which company and project.

import { account, active, api, call } from './api.js';
import { feed, Store, useRead } from './store.js';

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

/**
 * Whether the person may do something with a service in the project: buttons that would fail are left out. No, until it is known; yes, where
 * it cannot be found out: then the server says no.
 * @param {string} service @param {string} level
 */
export function useMay(service, level) {
  const read = useRead((signal) => api.get('/permissions', {}, { signal }), [active.project]);
  return Boolean(read.error) || levels.indexOf(read.value?.levels[service]) >= levels.indexOf(level);
}
