// How an endpoint is: its status, and whether it fails.

import { known, t } from '../messages.js';

/** @param {any} endpoint @returns {{value: string, word?: string}} */
export function health(endpoint) {
  if (endpoint.status !== 'active') return { value: 'disabled' };
  return endpoint.failingSince ? { value: 'failed', word: t('webhooks.failing') } : { value: 'active' };
}

/** Why an endpoint is disabled. @param {string} reason */
export const reasonText = (reason) => (known(`webhooks.why.${reason}`) ? t(`webhooks.why.${reason}`) : reason);
