// The project's guardrails, as the forms of agents and models offer them.

import { api } from '../api.js';
import { useRead } from '../store.js';

/** @type {any[]} */
const none = [];

/** Empty until they are read, and for who may not read them. */
export const useGuardrails = () => useRead((signal) => api.get('/guardrails', {}, { signal }).then((answer) => answer.guardrails), []).value || none;
