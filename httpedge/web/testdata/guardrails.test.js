import assert from 'node:assert/strict';
import { test } from 'node:test';

globalThis.navigator ??= /** @type {any} */ ({ language: 'en' }); // an older Node.js has none
const { draftOf, fields, shown } = await import('../page/dashboard/agent/fields.js');
const { modelFields, modelOf } = await import('../page/dashboard/model/fields.js');

const guardrails = [{ key: 'words', name: 'Words' }, { key: 'mails', name: 'Mails' }];

test('an agent names guardrails of its project, and keeps one that is not among them', () => {
  const config = { kind: 'native', modelKey: 'm', inputGuardrailKey: 'gone' };
  const { inputGuardrailKey, outputGuardrailKey } = fields(false, [], false, guardrails, config).properties;
  assert.deepEqual([inputGuardrailKey.enum, inputGuardrailKey.names], [['words', 'mails', 'gone'], ['Words', 'Mails', 'gone']]);
  assert.deepEqual(outputGuardrailKey.enum, ['words', 'mails']);
  assert.equal(fields(true, [], false, guardrails, {}).properties.inputGuardrailKey, undefined, 'a connected one has none');
  const agent = { key: 'a', name: 'A', config };
  const value = shown(agent);
  assert.equal(value.inputGuardrailKey, 'gone');
  assert.deepEqual(draftOf(agent, { ...value, inputGuardrailKey: undefined, outputGuardrailKey: 'words' }).config, { kind: 'native', modelKey: 'm', outputGuardrailKey: 'words' });
});

test('a model names them, and a choice that is taken away is cleared', () => {
  assert.deepEqual(modelFields([], guardrails, null).properties.outputGuardrailKey.enum, ['words', 'mails']);
  const sent = modelOf({ inputGuardrailKey: 'words', outputGuardrailKey: null }, { name: 'M', outputGuardrailKey: 'mails' });
  assert.deepEqual([sent.inputGuardrailKey, sent.outputGuardrailKey], [null, 'mails']);
  assert.equal(JSON.stringify(modelOf(null, { name: 'M' })).includes('ardrail'), false);
});

test('rules are the same after they were shown, and a rule that looks for nothing is none', async () => {
  const { rulesOf, rulesShown, wrongRules } = await import('../page/dashboard/guardrails/rules.js');
  for (const rules of [
    { pii: {} }, { pii: { action: 'flag', categories: { iban: 'redact', email: '' } } }, { wordFilter: { words: ['a b', 'c'] } }, { moderation: {} },
    { moderation: { action: 'warn', categories: ['fraud'] }, promptShield: { action: 'block' } },
  ]) {
    const draft = rulesShown(rules);
    assert.equal(wrongRules(draft), '');
    assert.deepEqual(JSON.parse(JSON.stringify(rulesOf(draft))), rules);
  }
  const draft = rulesShown();
  assert.match(wrongRules(draft), /at least one rule/);
  for (const nothing of [{ pii: { on: true, action: '', categories: {} } }, { wordFilter: { on: true, action: '', words: ' \n' } }, { moderation: { on: true, action: '', categories: [] } }]) {
    assert.match(wrongRules({ ...draft, ...nothing }), /at least one/);
  }
});
