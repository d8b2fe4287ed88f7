// The fields of an agent's form, and how they become the agent that is sent.

import { t } from '../messages.js';

/** @param {any[]} tools @returns {string} */
function checkTools(tools) {
  if (!Array.isArray(tools)) return t('agent.tools.list');
  for (const tool of tools) {
    if (!tool || typeof tool.name !== 'string' || !tool.name) return t('agent.tools.name');
    if ([tool.url, tool.client, tool.builtin].filter(Boolean).length !== 1) return t('agent.tools.one', { name: tool.name });
  }
  return '';
}

/** @param {any[]} servers @returns {string} */
function checkServers(servers) {
  if (!Array.isArray(servers)) return t('agent.tools.list');
  for (const server of servers) {
    if (!server || typeof server.name !== 'string' || !server.name) return t('agent.tools.name');
    if (!isURL(server.url)) return t('agent.servers.url', { name: server.name });
  }
  return '';
}

/** @param {any} text */
function isURL(text) {
  try { return ['http:', 'https:'].includes(new URL(text).protocol); } catch { return false; }
}

/** @param {string} text */
export const checkURL = (text) => (isURL(text) ? '' : t('agent.url.bad'));

const rails = ['inputGuardrailKey', 'outputGuardrailKey'];

/**
 * The fields that name guardrails of the project. What is chosen stays a choice, also where it is gone or could not be read.
 * @param {'agent'|'models'} of @param {any[]} guardrails @param {any} chosen @returns {Record<string, import('../components/form.js').Field>}
 */
export function railFields(of, guardrails, chosen) {
  return Object.fromEntries(rails.map((name) => {
    const key = chosen?.[name];
    const known = !key || guardrails.some((one) => one.key === key) ? guardrails : [...guardrails, { key, name: key }];
    return [name, { title: t(`rails.${name}`), description: t(`${of}.${name}.about`), enum: known.map((one) => one.key), names: known.map((one) => one.name) }];
  }));
}

/** @param {boolean} connected @param {any[]} models @param {boolean} [hasKey] of a connection @param {any[]} [guardrails] @param {any} [config] as it is @returns {import('../components/form.js').Schema} */
export function fields(connected, models, hasKey = false, guardrails = [], config = {}) {
  /** @type {Record<string, import('../components/form.js').Field>} */
  const own = connected ? {
    protocol: { title: t('agent.protocol'), enum: ['a2a', 'openai-chat', 'openai-responses'], names: ['A2A', 'OpenAI Chat Completions', 'OpenAI Responses'] },
    url: { title: t('agent.url'), check: checkURL },
    model: { title: t('agent.remoteModel'), description: t('agent.remoteModel.about') },
    apiKey: { title: t('agent.apiKey'), format: 'password', autocomplete: 'off', description: t(hasKey ? 'agent.apiKey.kept' : 'agent.apiKey.about') },
    headers: { title: t('agent.headers'), type: 'object', description: t('agent.headers.about') },
    responsePath: { title: t('agent.responsePath') },
  } : {
    modelKey: { title: t('agents.model'), enum: models.map((one) => one.key), names: models.map((one) => one.name) },
    systemPrompt: { title: t('agent.prompt'), format: 'multiline', description: t('agent.prompt.about') },
    temperature: { title: t('agent.temperature'), type: 'number', minimum: 0, maximum: 2 },
    topP: { title: t('agent.topP'), type: 'number', minimum: 0, maximum: 1 },
    maxTokens: { title: t('agent.maxTokens'), type: 'integer', minimum: 1, maximum: 1_000_000 },
    maxTurns: { title: t('agent.maxTurns'), type: 'integer', minimum: 0, maximum: 1000, description: t('agent.maxTurns.about') },
    titles: { title: t('agent.titles'), type: 'boolean' },
    askUser: { title: t('agent.askUser'), type: 'boolean' },
    tools: { title: t('agent.tools'), type: 'array', check: checkTools, description: t('agent.tools.about') },
    mcpServers: { title: t('agent.servers'), type: 'array', check: checkServers, description: t('agent.servers.about') },
  };
  return {
    properties: {
      name: { title: t('agents.name'), maxLength: 200 }, description: { title: t('agent.description'), maxLength: 2000 }, ...own,
      status: { title: t('agents.status'), enum: ['active', 'inactive', 'draft'], names: ['active', 'inactive', 'draft'].map((one) => t(`agents.status.${one}`)) },
      ...(connected ? {} : railFields('agent', guardrails, config)),
      shieldId: { title: t('agent.shield'), description: t('agent.shield.about'), placeholder: 'default' },
      background: { title: t('agent.background'), type: 'boolean' },
      budget: { title: t('agent.budget'), type: 'number', minimum: 0.000001, maximum: 1_000_000 },
    },
    required: ['name', ...(connected ? ['protocol', 'url'] : ['modelKey'])],
  };
}

const configured = ['modelKey', 'systemPrompt', 'temperature', 'topP', 'maxTokens', 'maxTurns', 'titles', 'askUser', 'tools', 'mcpServers', ...rails];
const connection = ['protocol', 'url', 'model', 'headers', 'responsePath'];

/** What the form shows of an agent. @param {any} agent */
export function shown(agent) {
  const from = agent.config.connection || agent.config;
  const names = agent.config.connection ? connection : configured;
  return {
    name: agent.name, description: agent.description || '', status: agent.status, shieldId: agent.config.shieldId, background: Boolean(agent.metadata?.background?.enabled),
    budget: agent.metadata?.session_budget?.max_cost_usd, ...Object.fromEntries(names.map((name) => [name, from[name]])),
  };
}

/** The agent as it is sent: what the form does not know of stays. @param {any} agent @param {any} value of the form */
export function draftOf(agent, value) {
  const config = { ...agent.config };
  delete config.hasApiKey;
  if (config.kind === 'external') {
    const to = { ...config.connection };
    delete to.hasApiKey;
    for (const name of connection) { if (value[name] === undefined) delete to[name]; else to[name] = value[name]; }
    if (value.apiKey) to.apiKey = value.apiKey;
    config.connection = to;
  } else {
    if (config.kind === 'native' && agent.key === undefined) delete config.kind;
    for (const name of configured) { if (value[name] === undefined || value[name] === false) delete config[name]; else config[name] = value[name]; }
  }
  if (value.shieldId) config.shieldId = value.shieldId; else delete config.shieldId;
  const metadata = { ...agent.metadata };
  if (value.background) metadata.background = { ...metadata.background, enabled: true }; else delete metadata.background;
  if (value.budget) metadata.session_budget = { ...metadata.session_budget, max_cost_usd: value.budget }; else delete metadata.session_budget;
  return {
    name: value.name, ...(agent.key !== undefined || value.description ? { description: value.description ?? '' } : {}),
    ...(value.status ? { status: value.status } : {}), config, metadata,
  };
}

/** Puts a refusal beside the field that its words name, as config.temperature does. @param {any} error */
export function besideField(error) {
  const named = /\b(?:config|connection|settings|pricing|cache|metadata)\.(?:connection\.)?(\w+)/.exec(error?.message || '');
  if (named && error.body && !error.body.field) error.body.field = { session_budget: 'budget', baseUrl: 'baseUrl' }[named[1]] || named[1];
  return error;
}

/**
 * What differs between two values, by path.
 * @param {any} from @param {any} to @param {string} [at] @returns {{path: string, from: any, to: any}[]}
 */
export function differences(from, to, at = '') {
  if (JSON.stringify(from) === JSON.stringify(to)) return [];
  const boxes = [from, to].every((one) => one !== null && typeof one === 'object') && Array.isArray(from) === Array.isArray(to);
  if (!boxes) return [{ path: at, from, to }];
  return [...new Set([...Object.keys(from), ...Object.keys(to)])].flatMap((name) => differences(from[name], to[name], at ? `${at}.${name}` : name));
}

/** What of an agent is published. @param {any} agent of a draft or a snapshot */
export const published = (agent) => ({ name: agent.name, description: agent.description || null, config: agent.config });
