// The budget of a session: set, raised, and the session goes on.

import { html, useState } from '../lib.js';
import { errorText } from '../components/failure.js';
import { toast } from '../components/toast.js';
import { money } from '../format.js';
import { t } from '../messages.js';
import { useMay } from '../who.js';

/** @param {{log: import('./log.js').SessionLog, session: any}} props */
export function Budget({ log, session }) {
  const paused = session.runtime_status === 'budget_paused';
  const spent = session.spent_usd || 0;
  const most = session.budget?.max_cost_usd;
  const [text, setText] = useState(() => String(most ? Number((Math.max(most, spent) * 2).toFixed(4)) : 1));
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const may = useMay('agents', 'write');
  const amount = Number(text.replace(',', '.'));
  const good = Number.isFinite(amount) && amount > 0 && (!paused || amount > spent);
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!good) return;
    setBusy(true);
    setFailed('');
    try {
      await log.budget({ max_cost_usd: amount, ...(session.budget?.on_reach && { on_reach: session.budget.on_reach }) });
      toast(t('session.budget.done', { budget: money(amount, 2) }));
    } catch (error) {
      setFailed(errorText(error));
    }
    setBusy(false);
  };
  return html`<form class="budget" data-paused=${paused} onSubmit=${save}>
    <p>${paused ? t('session.stopped.budget', { budget: money(most), spent: money(spent) }) : most ? t('session.spentOf', { spent: money(spent), budget: money(most) }) : t('session.budget.none')}</p>
    ${may && html`<div class="decide"><label class="hidden" for="budget-amount">${t('session.budget.amount')}</label><span class="soft" aria-hidden="true">$</span>
      <input id="budget-amount" type="text" class="small" inputmode="decimal" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      <button class=${paused ? 'primary' : 'button'} id="budget-raise" disabled=${busy || !good}>${t(paused ? 'session.budget.raise' : 'session.budget.set')}</button></div>`}
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
  </form>`;
}
