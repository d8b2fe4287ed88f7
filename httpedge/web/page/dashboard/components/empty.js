// An empty list: one sentence, one button, one line for the command line.

import { html } from '../lib.js';
import { t } from '../messages.js';
import { copy } from './cells.js';
import { Icon } from './icon.js';

/** A line of curl for this server. @param {{method?: string, path: string, body?: any}} props path below /api/client/v1 */
export function Curl({ method = 'GET', path, body }) {
  const data = body === undefined ? '' : ` -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  const verb = method === 'GET' || (method === 'POST' && data) ? '' : ` -X ${method}`;
  const line = `curl -H "Authorization: Bearer $TOKEN"${verb} ${location.origin}/api/client/v1${path}${data}`;
  return html`<div class="curl"><span class="faint">${t('curl.label')}</span>
    <pre tabindex="0"><code>${line}</code></pre><button class="tiny" aria-label=${t('do.copy')} onClick=${() => copy(line)}><${Icon} name="copy" /></button>
    <span class="faint">${t('curl.token')}</span></div>`;
}

/** @param {{text: string, action?: any, curl?: {method?: string, path: string, body?: any}}} props */
export function Empty({ text, action, curl }) {
  return html`<div class="empty"><p>${text}</p>${action}${curl && html`<${Curl} ...${curl} />`}</div>`;
}
