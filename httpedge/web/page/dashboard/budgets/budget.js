// One budget or quota policy: what it bounds, for whom, and its form. A budget is a policy of which the spend limits are seen; both are
// brought into one shape here, so that the page has one form and one view.

import { html, useState } from '../lib.js';
import { ID, Money, Status, Time } from '../components/cells.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Form } from '../components/form.js';
import { Json } from '../components/json.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';

const scopes = ['tenant', 'user', 'token', 'resource', 'provider'];
const spendDomains = ['llm', 'embedding', 'stt', 'tts', 'global'];
const domains = ['global', 'llm', 'embedding', 'vector', 'file', 'tracing', 'stt', 'tts', 'ocr'];

/** @param {{usd: number|null}} props */
export function Limit({ usd }) {
  return usd === -1 ? html`<span class="faint">${t('budgets.unlimited')}</span>` : html`<${Money} usd=${usd} digits=${2} />`;
}

/** Whose calls it bounds. @param {any} one */
export const whose = (one) => `${t(`budgets.scope.${one.scope}`)}${one.scopeId ? ` (${one.scopeId})` : ''}`;

/** A budget or policy that is in force is active. @param {any} one */
export const inForce = (one) => (one.enabled ? 'active' : 'inactive');

/** @param {{kind: 'budgets'|'limits', value?: any, submit: string, onSubmit: (value: any) => any}} props */
export function BudgetForm({ kind, value, submit, onSubmit }) {
  const spend = kind === 'budgets';
  const offered = spend ? spendDomains : domains;
  const amount = (/** @type {string} */ title, /** @type {string} */ said) => ({ title, description: t('budgets.amount.about'), type: 'number', minimum: -1, said: [said] });
  const schema = { properties: {
    label: { title: t('budgets.label'), maxLength: 200 },
    ...(spend ? { daily: amount(t('budgets.day'), 'daily_limit_usd'), monthly: amount(t('budgets.month'), 'monthly_limit_usd') }
      : { limits: { title: t('limits.limits'), description: t('limits.limits.about'), type: 'object', said: ['rateLimit', 'perRequest', 'quotas', 'budget'], check: (/** @type {any} */ said) => (Array.isArray(said) || typeof said !== 'object' ? t('shields.object') : '') } }),
    domain: { title: t('budgets.domain'), enum: offered, names: offered.map((one) => t(`budgets.domain.${one}`)) },
    scope: { title: t('budgets.scope'), enum: scopes, names: scopes.map((one) => t(`budgets.scope.${one}`)) },
    scopeId: { title: t('budgets.scopeId'), description: t('budgets.scopeId.about'), said: ['scope_id'] },
    ...(value ? {} : { every: { title: t('budgets.projects.every'), type: 'boolean' } }),
    priority: { title: t('budgets.priority'), description: t('budgets.priority.about'), type: 'integer', minimum: 0 },
    description: { title: t('budgets.description'), format: 'multiline' },
    enabled: { title: t('budgets.enabled'), type: 'boolean' },
  }, required: ['label', 'domain', 'scope', ...(spend ? [] : ['limits'])] };
  const start = value || { domain: spend ? 'llm' : 'global', scope: 'tenant', priority: 100, enabled: true };
  return html`<${Form} autofocus keep=${`${kind} ${value?.id || ''} ${value?.updatedAt || ''}`} submit=${submit} value=${start} schema=${schema} onSubmit=${async (/** @type {any} */ form) => {
    if (form.scope !== 'tenant' && !form.scopeId) throw Object.assign(new Error(t('form.required')), { body: { field: 'scopeId' } });
    if (spend && form.daily === undefined && form.monthly === undefined) throw new Error(t('budgets.needs'));
    return onSubmit({ description: '', scopeId: '', ...(spend && { daily: null, monthly: null }), ...form });
  }} />`;
}

/** @param {{kind: 'budgets'|'limits', one: any, may: boolean, save: (value: any) => Promise<boolean>, remove: () => Promise<any>, gone: () => void}} props */
export function Budget({ kind, one, may, save, remove, gone }) {
  const [editing, setEditing] = useState(false);
  usePlace(one.label);
  const drop = async () => {
    if (await confirm({ title: t('budgets.delete'), text: t('budgets.delete.text', { name: one.label }), yes: t('budgets.delete'), act: remove })) gone();
  };
  return html`<article class="thing" data-ready="true" aria-label=${one.label}>
    <header class="session-head"><div><h1>${one.label}</h1><p class="facts"><${Status} value=${inForce(one)} /><span>${t('budgets.changed')} <${Time} at=${one.updatedAt} /></span><${ID} id=${one.id} whole /></p></div>
      ${may && html`<div class="do"><button class="button" id="edit" onClick=${() => setEditing(true)}>${t('budgets.edit')}</button><button class="button" id="delete" onClick=${drop}>${t('budgets.delete')}</button></div>`}</header>
    <dl class="pairs">
      ${kind === 'budgets' && html`<div><dt>${t('budgets.day')}</dt><dd><${Limit} usd=${one.daily} /></dd></div><div><dt>${t('budgets.month')}</dt><dd><${Limit} usd=${one.monthly} /></dd></div>`}
      <div><dt>${t('budgets.domain')}</dt><dd>${t(`budgets.domain.${one.domain}`)}</dd></div>
      <div><dt>${t('budgets.scope')}</dt><dd>${whose(one)}</dd></div>
      <div><dt>${t('budgets.projects')}</dt><dd>${t(one.projectId ? 'budgets.projects.this' : 'budgets.projects.all')}</dd></div>
      <div><dt>${t('budgets.priority')}</dt><dd>${one.priority}</dd></div>
      ${one.description && html`<div><dt>${t('budgets.description')}</dt><dd>${one.description}</dd></div>`}</dl>
    ${kind === 'limits' && html`<div class="padded"><${Json} value=${one.limits} label=${t('limits.limits')} open=${4} /></div>`}
    ${editing && html`<${Dialog} title=${t('budgets.edit')} onClose=${() => setEditing(false)}><${BudgetForm} kind=${kind} value=${one} submit=${t('do.save')} onSubmit=${async (/** @type {any} */ value) => {
      const saved = await save(value);
      if (saved) setEditing(false);
      return saved;
    }} /><//>`}
  </article>`;
}
