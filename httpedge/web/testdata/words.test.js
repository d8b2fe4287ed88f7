import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Outcomes } from '../page/outcomes.js';
import { decided, ending, plainly, size, undone, when } from '../page/words.js';

test('sizes, sentences and dates are those of people', () => {
  assert.deepEqual([0, 900, 1024, 1536, 10 << 20, 5 * 2 ** 30].map(size), ['0 bytes', '900 bytes', '1 KB', '1.5 KB', '10 MB', '5 GB']);
  assert.equal(plainly('the file is larger than 10485760 bytes'), 'The file is larger than 10 MB.');
  assert.equal(plainly('Really?'), 'Really?');
  assert.equal(plainly(''), '');
  const now = new Date(2026, 11, 31, 12);
  const told = [new Date(2026, 11, 31, 9, 5), new Date(2027, 0, 1, 0, 30), new Date(2026, 11, 30, 23, 59), new Date(2026, 2, 3, 8), new Date(2025, 2, 3, 8)];
  assert.deepEqual(told.map((date) => when(date, now)),
    ['today at 09:05', 'tomorrow at 00:30', 'yesterday at 23:59', '3 March at 08:00', '3 March 2025 at 08:00']);
});

test('ends and decisions', () => {
  assert.equal(ending('end_turn'), null);
  assert.deepEqual(ending('error', 'the model broke'), { state: 'failed', bad: true, text: 'The answer failed. The model broke.' });
  const resolved = (resolution, by) => decided({ type: 'action.resolved', data: { resolution, by } }, 'ada');
  assert.equal(resolved({ type: 'tool_approval', decision: 'allow', approvedArgs: {}, rememberForSession: true }, 'ada'),
    'allowed by you, with other arguments and for the rest of the conversation');
  assert.equal(resolved({ type: 'tool_approval', decision: 'deny', comment: 'too much' }, 'bob'), 'denied by bob: “too much”');
  assert.equal(resolved({ type: 'tool_approval', decision: 'deny' }), 'denied');
  assert.equal(resolved({ type: 'user_question', answers: {} }, 'bob'), 'answered by bob');
  assert.equal(decided({ type: 'action.expired', data: {} }), 'nobody answered in time');
  assert.equal(undone('not run: the user denied this call: too\nmuch'), 'denied: “too\nmuch”');
  assert.equal(undone('the disk is full'), '');
});

test('an end belongs to its answer, or to the message that has none', () => {
  const outcomes = new Outcomes('ada');
  const take = (type, run_id, data) => outcomes.take({ type, run_id, data });
  take('user.message', 'r1', { message_id: 'u1' });
  take('session.status_running', 'r1', {});
  assert.deepEqual(take('session.status_idle', 'r1', { stop_reason: 'error', error: { message: 'gone' } }), { message: 'u1' });
  take('user.message', 'r2', { message_id: 'u2' });
  take('session.status_running', 'r2', {});
  take('agent.message', 'r2', { message_id: 'a2' });
  assert.deepEqual(take('session.status_idle', 'r2', { stop_reason: 'cancelled' }), { message: 'a2' });
  assert.deepEqual([...outcomes.ends].map(([id, { state }]) => [id, state]), [['u1', 'failed'], ['a2', 'stopped']]);
  assert.deepEqual(take('session.status_running', 'r3', { mode: 'continue' }), { message: 'a2' }, 'it goes on');
  assert.deepEqual(take('action.resolved', 'r3', { tool_call_id: 'c', by: 'ada', resolution: { decision: 'deny' } }), { call: 'c' });
  assert.equal(outcomes.decisions.get('c'), 'denied by you');
  assert.deepEqual(take('session.status_idle', 'r3', { stop_reason: 'end_turn' }), {});
});

test('what is told twice is told once', () => {
  const outcomes = new Outcomes('ada');
  assert.deepEqual(outcomes.take({ type: 'session.status_idle', run_id: 'r', data: { stop_reason: 'error' } }), {}, 'nothing is known of its messages');
});
