// The colours of code: its pieces, by the vendored library, which makes no HTML. Loaded with the first code that needs it.

import bash from './vendor/highlight/languages/bash.js';
import c from './vendor/highlight/languages/c.js';
import css from './vendor/highlight/languages/css.js';
import diff from './vendor/highlight/languages/diff.js';
import docker from './vendor/highlight/languages/docker.js';
import go from './vendor/highlight/languages/go.js';
import html from './vendor/highlight/languages/html.js';
import java from './vendor/highlight/languages/java.js';
import js from './vendor/highlight/languages/js.js';
import jsdoc from './vendor/highlight/languages/jsdoc.js';
import json from './vendor/highlight/languages/json.js';
import md from './vendor/highlight/languages/md.js';
import py from './vendor/highlight/languages/py.js';
import regex from './vendor/highlight/languages/regex.js';
import rs from './vendor/highlight/languages/rs.js';
import sql from './vendor/highlight/languages/sql.js';
import todo from './vendor/highlight/languages/todo.js';
import toml from './vendor/highlight/languages/toml.js';
import ts from './vendor/highlight/languages/ts.js';
import uri from './vendor/highlight/languages/uri.js';
import xml from './vendor/highlight/languages/xml.js';
import yaml from './vendor/highlight/languages/yaml.js';
import { tokenizeWith } from './vendor/highlight/tokenize.js';

const languages = { bash, c, css, diff, docker, go, html, java, js, jsdoc, json, md, py, regex, rs, sql, todo, toml, ts, uri, xml, yaml };

/** The names that people give languages. */
const names = {
  sh: 'bash', shell: 'bash', console: 'bash', zsh: 'bash', bash: 'bash', c: 'c', cpp: 'c', 'c++': 'c', h: 'c', css: 'css', diff: 'diff', patch: 'diff', dockerfile: 'docker',
  go: 'go', html: 'html', java: 'java', javascript: 'js', js: 'js', jsx: 'js', mjs: 'js', json: 'json', markdown: 'md', md: 'md', python: 'py', py: 'py', rust: 'rs', rs: 'rs',
  sql: 'sql', toml: 'toml', typescript: 'ts', ts: 'ts', tsx: 'ts', xml: 'xml', svg: 'xml', yaml: 'yaml', yml: 'yaml',
};

/** What the library takes a square of the time for is left plain: long texts, and long runs of the same kind. */
const slow = /\w{300}|\s{300}|[^\n]{2000}/;
const most = 12_000; // characters

/** The pieces of a text, found within so many milliseconds, as [text, kind] in their order; null = it is left plain. */
export function pieces(text, named, patience = 40) {
  const language = Object.hasOwn(names, named) && names[named];
  if (!language || text.length > most || slow.test(text)) return null;
  const until = performance.now() + patience;
  const found = [];
  try {
    tokenizeWith(text, languages[language], (piece, kind) => {
      if (performance.now() > until) throw new Error('slow');
      if (piece) found.push([piece, kind]);
    }, { languages });
  } catch {
    return null;
  }
  return found.map(([piece]) => piece).join('') === text ? found : null;
}
