import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pieces } from '../page/colors.js';

test('code has its pieces, and all of its text', () => {
  assert.deepEqual(pieces('return "a" // b\n', 'go', Infinity).filter(([, kind]) => kind), [['return', 'kwd'], ['"a"', 'str'], ['// b\n', 'cmnt']]);
  for (const language of ['js', 'html', 'c++', 'yml', 'sh']) {
    const text = '<a b="c">{d: `${e}`}</a>\n# f\n/* g';
    assert.equal(pieces(text, language, Infinity).map(([piece]) => piece).join(''), text);
  }
});

test('what is unknown, huge or slow is left plain', () => {
  assert.equal(pieces('a', 'toString', Infinity), null);
  assert.equal(pieces('a\n'.repeat(10_000), 'js', Infinity), null);
  assert.equal(pieces('a'.repeat(5000), 'js', Infinity), null);
  assert.equal(pieces(' '.repeat(5000), 'js', Infinity), null);
});
