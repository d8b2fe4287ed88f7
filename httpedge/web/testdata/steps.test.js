import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Steps, named } from '../page/steps.js';

const use = (run_id, text, ...ids) => ({ type: 'agent.tool_use', run_id, data: { text, tool_calls: ids.map((id) => ({ tool_call_id: id, tool_name: 'look', args: { at: id } })) } });
const told = (parts) => parts.map(({ text, call }) => (call ? '#' + call.id : text));

test('calls stand where they happened between the texts', () => {
  const steps = new Steps();
  assert.deepEqual(steps.take(use('r', 'First.', 'a', 'b')), ['a', 'b']);
  steps.take(use('r', '', 'c'));
  steps.take(use('r', 'Then\n', 'd'));
  const calls = steps.all([], 'r');
  assert.deepEqual(told(steps.arrange('First.\n\nThen\n\nFirst. Done.', calls)), ['First.', '#a', '#b', '#c', 'Then', '#d', 'First. Done.']);
  assert.deepEqual(told(steps.arrange('First.', calls)), ['First.', '#a', '#b', '#c', '#d', ''], 'while it grows');
  assert.deepEqual(told(steps.arrange('  code', [])), ['  code'], 'a text without calls is left alone');
  assert.deepEqual(told(new Steps().arrange('Done.', [{ id: 'x' }])), ['#x', 'Done.'], 'the log does not reach back');
});

test('a call that was read gets the outcome that was told since', () => {
  const steps = new Steps();
  steps.take(use('r1', '', 'a'));
  steps.take({ type: 'agent.tool_result', run_id: 'r2', data: { results: [{ tool_call_id: 'a', tool_name: 'look', result: { n: 1 } }] } });
  steps.take(use('r2', 'So.', 'b'));
  const parts = steps.arrange('So.\n\nEnd', steps.all([{ id: 'a', name: 'look', arguments: '{}' }], 'r2'));
  assert.deepEqual(told(parts), ['#a', 'So.', '#b', 'End']);
  assert.deepEqual(parts[0].call.result, { n: 1 });
  assert.deepEqual(steps.take(use('r2', 'So.', 'b')), ['b'], 'what is told twice is told once');
});

test('arguments are names and values', () => {
  assert.deepEqual(named('{"order":7,"why":"too late","to":{"a":[1]}}'), [['order', '7'], ['why', 'too late'], ['to', '{\n "a": [\n  1\n ]\n}']]);
  for (const none of ['{}', '[]', 'null', '"x"', 'no JSON', '']) assert.equal(named(none), null);
});
