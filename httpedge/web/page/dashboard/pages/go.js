// /dashboard/go/<id>: finds what an id names, and goes there.

import { html, useEffect, useState } from '../lib.js';
import { api } from '../api.js';
import { Failure } from '../components/failure.js';
import { t } from '../messages.js';
import { go } from '../router.js';

/** @param {{params: any}} props */
export default function Go({ params }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    setError(null);
    api.get(`/find/${encodeURIComponent(params.id)}`).then((found) => {
      if (found.page?.startsWith('/dashboard')) go(found.page, { replace: true });
      else setError({ status: 404, message: t('error.missing') });
    }, (failed) => {
      if (params.id.startsWith('conv_')) go(`/dashboard/sessions/${params.id}`, { replace: true });
      else setError(failed);
    });
  }, [params.id]);
  return error && html`<div class="page"><h1><code>${params.id}</code></h1><${Failure} error=${error} /></div>`;
}
