import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formula } from '../page/formulas.js';

const written = (part) => (typeof part === 'string' ? part : `${part.tag}(${part.children.map(written).join(' ')})`);

test('a formula has its parts', () => {
  assert.equal(written(formula('\\frac{a}{b^2}', true)), 'math(mfrac(mi(a) msup(mi(b) mn(2))))');
  assert.deepEqual(formula('x', true).attributes, [['display', 'block']]);
  assert.deepEqual(formula('\\color{red}x', false).children[0].children[0].style, [['color', '#ff0000']]);
});

test('what is wrong, large, deep or defines something is not read', () => {
  for (const text of ['\\frac{', 'x'.repeat(3000), 'x^{'.repeat(300) + 'y' + '}'.repeat(300),
    '\\def\\a#1{#1#1}\\a{\\a{\\a{x}}}', '\\newcommand{\\a}{x}\\a', '\\sqrt'.repeat(300) + 'x']) assert.equal(formula(text, true), null, text.slice(0, 40));
});

test('nothing but formulas can appear', () => {
  const seen = JSON.stringify(['\\href{javascript:alert(1)}{x}', '\\url{http://a}', '\\includegraphics{http://a/b.png}', '\\class{a}{x}', '\\id{a}{x}', '\\style{background:url(http://a)}{x}',
    '\\data{a=b}{x}', '\\text{<img src=x onerror=alert(1)>}', '\\colorbox{url(http://a)}{x}', '\\unicode{x3c}', '\\rule{9999em}{9999em}'].map((text) => formula(text, true)));
  assert.doesNotMatch(seen, /href|"src|class|javascript|"data|url\(|9999/);
  assert.match(seen, /<img.src=x/); // a text
});
