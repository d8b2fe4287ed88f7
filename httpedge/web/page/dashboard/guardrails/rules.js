// The rules of a guardrail, in the form and as they are sent: what is looked for, and what is done about it.

import { known, t } from '../messages.js';

/** What is done about what is found, the stricter ones last. */
export const actions = ['flag', 'warn', 'redact', 'block'];

/** Personal data that can be found; the usual ones are looked for where none are named. */
export const personal = [
  'email', 'phone', 'creditCard', 'iban', 'swift', 'nationalId', 'tckn', 'passport', 'birthDate', 'ipAddress', 'cryptoWallet', 'taxpayerId', 'vkn', 'routingNumber', 'apiKey',
];
const usual = ['email', 'phone', 'creditCard', 'tckn', 'apiKey'];

/** Topics that can be found; all of them where none are named. */
export const topics = [
  'harassment', 'harassment/threatening', 'hate', 'hate/threatening', 'illicit', 'illicit/violent', 'self-harm', 'self-harm/intent', 'self-harm/instructions', 'sexual', 'sexual/minors',
  'violence', 'violence/graphic', 'terrorism', 'weapons', 'fraud', 'drugs', 'cybercrime', 'child_safety', 'misinformation', 'privacy_violation', 'impersonation', 'manipulation',
  'radicalization', 'financial_advice', 'animal_cruelty',
];

/** The kinds of rules, as records spell them. */
export const kinds = ['pii', 'wordFilter', 'moderation', 'promptShield'];

/** A category of personal data does what its rule says. */
export const asRule = 'rule';

/** @typedef {{on: boolean, action: string}} Rule action: '' = the guardrail's */
/** @typedef {{pii: Rule & {categories: Record<string, string>}, wordFilter: Rule & {words: string}, moderation: Rule & {categories: string[]}, promptShield: Rule}} Draft */

/** What the form shows of a guardrail's rules. @param {any} [rules] @returns {Draft} */
export function rulesShown(rules = {}) {
  const base = (/** @type {string} */ kind) => ({ on: Boolean(rules[kind]), action: rules[kind]?.action || '' });
  const data = rules.pii?.categories || Object.fromEntries(usual.map((one) => [one, '']));
  return {
    pii: { ...base('pii'), categories: Object.fromEntries(Object.entries(data).map(([name, action]) => [name, action || asRule])) },
    wordFilter: { ...base('wordFilter'), words: (rules.wordFilter?.words || []).join('\n') },
    moderation: { ...base('moderation'), categories: rules.moderation?.categories || topics },
    promptShield: base('promptShield'),
  };
}

/** What is wrong with the rules, '' = nothing: the server takes a rule that looks for nothing, and then finds nothing. @param {Draft} draft */
export function wrongRules(draft) {
  if (!kinds.some((kind) => /** @type {any} */ (draft)[kind].on)) return t('guardrails.none');
  if (draft.pii.on && !Object.keys(draft.pii.categories).length) return t('guardrails.pii.none');
  if (draft.wordFilter.on && !wordsOf(draft).length) return t('guardrails.wordFilter.none');
  if (draft.moderation.on && !draft.moderation.categories.length) return t('guardrails.moderation.none');
  return '';
}

/** @param {Draft} draft */
const wordsOf = (draft) => draft.wordFilter.words.split('\n').map((word) => word.trim()).filter(Boolean);

/** The rules that a form says. @param {Draft} draft */
export function rulesOf(draft) {
  const { pii, wordFilter, moderation, promptShield } = draft;
  const rule = (/** @type {Rule} */ { on, action }, more = {}) => (on ? { ...(action && { action }), ...more } : undefined);
  const data = Object.entries(pii.categories);
  const asUsual = data.length === usual.length && usual.every((one) => pii.categories[one] === asRule);
  return {
    pii: rule(pii, asUsual ? {} : { categories: Object.fromEntries(data.map(([name, action]) => [name, action === asRule ? '' : action])) }),
    wordFilter: rule(wordFilter, { words: wordsOf(draft) }),
    moderation: rule(moderation, topics.every((one) => moderation.categories.includes(one)) ? {} : { categories: topics.filter((one) => moderation.categories.includes(one)) }),
    promptShield: rule(promptShield),
  };
}

/** The name of what was found or is looked for. @param {string} category */
export const categoryName = (category) => (known(`guardrails.category.${category}`) ? t(`guardrails.category.${category}`) : category);

/** What each rule looks for, as lines: what it is called, what it does, and of what. @param {any} guardrail */
export function rulesTold(guardrail) {
  const { pii, wordFilter, moderation, promptShield } = guardrail.rules;
  const does = (/** @type {any} */ rule) => rule.action || guardrail.action;
  const line = (/** @type {string} */ kind, /** @type {any} */ rule, /** @type {string[]} */ of = []) => (rule ? [{ kind, action: does(rule), of }] : []);
  const data = pii && Object.entries(pii.categories || Object.fromEntries(usual.map((one) => [one, ''])));
  return [
    ...line('pii', pii, data?.map((/** @type {[string, any]} */ [name, action]) => (action && action !== does(pii) ? `${categoryName(name)} (${t(`guardrails.action.${action}`)})` : categoryName(name)))),
    ...line('wordFilter', wordFilter, wordFilter?.words),
    ...line('moderation', moderation, moderation?.categories || [t('guardrails.moderation.all')]),
    ...line('promptShield', promptShield),
  ];
}
