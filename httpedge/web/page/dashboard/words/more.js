// Words of further pages: import a file of this folder here and add it to the list.

import agents from './agents.js';
import budgets from './budgets.js';
import guardrails from './guardrails.js';
import models from './models.js';
import people from './people.js';
import runs from './runs.js';
import shields from './shields.js';
import tracing from './tracing.js';
import usage from './usage.js';
import webhooks from './webhooks.js';

/** @type {import('../messages.js').Words[]} */
export const more = [
  agents,
  budgets,
  guardrails,
  models,
  people,
  runs,
  shields,
  tracing,
  usage,
  webhooks,
];
