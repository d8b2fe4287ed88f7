// The route table: one line for each page. A page is a module of pages/ whose default export draws it, with {params, address}; it is
// loaded when it is opened. In the rail are those with an icon; key is the message of its name.

/**
 * @typedef {object} Route
 * @property {string} path
 * @property {() => Promise<{default: any}>} load
 * @property {string} [key] message of its name
 * @property {string} [icon] of the rail; see components/icon.js
 * @property {boolean} [open] for people who are not signed in
 * @property {string} [service] that one must be able to read for the page to have something
 */

const entry = () => import('./pages/entry.js');
const login = () => import('./pages/login.js');
const agents = () => import('./pages/agents.js');
const models = () => import('./pages/models.js');
const sessions = () => import('./pages/sessions.js');
const runs = () => import('./pages/runs.js');
const tracing = () => import('./pages/tracing.js');
const webhooks = () => import('./pages/webhooks.js');
const guardrails = () => import('./pages/guardrails.js');
const shields = () => import('./pages/shields.js');
const budgets = () => import('./pages/budgets.js');
const tokens = () => import('./pages/tokens.js');
const members = () => import('./pages/members.js');

/** @type {Route[]} */
export const routes = [
  { path: '/login', load: login, open: true, key: 'entry.login' },
  { path: '/register', load: () => entry().then((m) => ({ default: m.Register })), open: true, key: 'entry.register' },
  { path: '/forgot-password', load: () => entry().then((m) => ({ default: m.Forgot })), open: true, key: 'entry.forgot.title' },
  { path: '/reset-password', load: () => entry().then((m) => ({ default: m.Reset })), open: true, key: 'entry.reset.title' },
  { path: '/accept-invite', load: () => entry().then((m) => ({ default: m.Accept })), open: true, key: 'entry.invite.title' },
  { path: '/change-password', load: () => entry().then((m) => ({ default: m.Change })), key: 'entry.change.title' },

  { path: '/dashboard', load: () => import('./pages/overview.js'), key: 'nav.overview', icon: 'overview' },
  { path: '/dashboard/sessions', load: sessions, key: 'nav.sessions', icon: 'sessions' },
  { path: '/dashboard/sessions/:id', load: sessions, key: 'nav.sessions' },
  { path: '/dashboard/compare', load: () => import('./pages/compare.js'), key: 'nav.sessions' },
  { path: '/dashboard/agents', load: agents, key: 'nav.agents', icon: 'agents' },
  { path: '/dashboard/agents/:key', load: agents, key: 'nav.agents' },
  { path: '/dashboard/models', load: models, key: 'nav.models', icon: 'models', service: 'models' },
  { path: '/dashboard/models/:key', load: models, key: 'nav.models' },
  { path: '/dashboard/models/providers/:provider', load: models, key: 'nav.models' },
  // Further pages: one line each here.

  { path: '/dashboard/runs', load: runs, key: 'nav.runs', icon: 'runs' },
  { path: '/dashboard/runs/:id', load: runs, key: 'nav.runs' },
  { path: '/dashboard/tasks/:id', load: () => import('./pages/task.js'), key: 'nav.runs' },
  { path: '/dashboard/tracing', load: tracing, key: 'nav.tracing', icon: 'tracing', service: 'tracing' },
  { path: '/dashboard/tracing/:id', load: tracing, key: 'nav.tracing' },
  { path: '/dashboard/webhooks', load: webhooks, key: 'nav.webhooks', icon: 'webhooks', service: 'webhooks' },
  { path: '/dashboard/webhooks/:id', load: webhooks, key: 'nav.webhooks' },
  { path: '/dashboard/guardrails', load: guardrails, key: 'nav.guardrails', icon: 'guardrails', service: 'guardrails' },
  { path: '/dashboard/guardrails/:key', load: guardrails, key: 'nav.guardrails' },
  { path: '/dashboard/shields', load: shields, key: 'nav.shields', icon: 'shields', service: 'aegis' },
  { path: '/dashboard/shields/:id', load: shields, key: 'nav.shields' },
  { path: '/dashboard/approvals/:approval', load: shields, key: 'nav.shields' },
  { path: '/dashboard/usage', load: () => import('./pages/usage.js'), key: 'nav.usage', icon: 'usage', service: 'models' },
  { path: '/dashboard/budgets', load: budgets, key: 'nav.budgets', icon: 'budgets', service: 'models' },
  { path: '/dashboard/budgets/:id', load: budgets, key: 'nav.budgets' },
  { path: '/dashboard/limits/:limit', load: budgets, key: 'nav.budgets' },
  { path: '/dashboard/tokens', load: tokens, key: 'nav.tokens', icon: 'tokens', service: 'members' },
  { path: '/dashboard/tokens/:id', load: tokens, key: 'nav.tokens' },
  { path: '/dashboard/members', load: members, key: 'nav.members', icon: 'members', service: 'members' },
  { path: '/dashboard/members/:id', load: members, key: 'nav.members' },
  { path: '/dashboard/projects/:id', load: members, key: 'nav.members' },
  { path: '/dashboard/audit', load: () => import('./pages/audit.js'), key: 'nav.audit', icon: 'audit', service: 'audit' },
  { path: '/dashboard/settings', load: () => import('./pages/settings.js'), key: 'nav.settings', icon: 'settings' },

  { path: '/dashboard/go/:id', load: () => import('./pages/go.js'), key: 'palette.label' },
  { path: '/dashboard/gallery', load: () => import('./pages/gallery.js'), key: 'nav.gallery' },
];
