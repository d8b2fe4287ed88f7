// Forks: a new session that goes on from a message of another one. Only where the server has the route.

import { api, call } from '../api.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { go } from '../router.js';

/** @type {Promise<boolean>|null} */
let known = null;

/** @returns {Promise<boolean>} whether the server's description has the route */
export function canFork() {
  known ||= call('GET', '/api/openapi.json', undefined, { quiet: true }).then(
    (document) => Object.keys(document.paths || {}).some((path) => path.endsWith('/console/v1/agents/sessions/{id}/fork')), () => false,
  );
  return known;
}

/** @param {string} id @param {string} message '' = from the end */
export async function fork(id, message) {
  const made = await api.post(`/agents/sessions/${encodeURIComponent(id)}/fork`, message ? { message_id: message } : {});
  go(`/dashboard/sessions/${(made.session || made).id}`);
  toast(t('session.forked'));
}
