// Every component with one example of each of its states, for people who build pages and for the browser test.

import { html, useState } from '../lib.js';
import { ID, Money, Status, Time } from '../components/cells.js';
import { Chart } from '../components/chart.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Json } from '../components/json.js';
import { Panes, Tabs } from '../components/panes.js';
import { Table } from '../components/table.js';
import { toast } from '../components/toast.js';
import { money } from '../format.js';

const people = ['Ada', 'Bob', 'Cem', 'Deniz', 'Eve'];
const states = ['idle', 'running', 'requires_action', 'budget_paused', 'failed', 'succeeded', 'queued'];
const begun = Date.now();
const rows = Array.from({ length: 2000 }, (_, i) => ({
  id: `conv_${String(i).padStart(6, '0')}abcdefghijkl`, name: people[i % 5], status: states[i % 7], spent: i * 0.0137, at: new Date(begun - i * 97_000).toISOString(),
}));
const columns = [
  { key: 'name', title: 'Name', cell: (/** @type {any} */ row) => row.name, kind: /** @type {const} */ ('wide') },
  { key: 'status', title: 'Status', cell: (/** @type {any} */ row) => html`<${Status} value=${row.status} />` },
  { key: 'spent', title: 'Spent', cell: (/** @type {any} */ row) => html`<${Money} usd=${row.spent} />`, kind: /** @type {const} */ ('number') },
  { key: 'at', title: 'Changed', cell: (/** @type {any} */ row) => html`<${Time} at=${row.at} />`, kind: /** @type {const} */ ('number') },
  { key: 'id', title: 'Id', cell: (/** @type {any} */ row) => html`<${ID} id=${row.id} />`, phone: false },
];
const points = Array.from({ length: 24 }, (_, i) => ({ name: `${String(i).padStart(2, '0')}:00`, values: [0.2 + Math.abs(Math.sin(i / 3)), 0.1 + Math.abs(Math.cos(i / 5)) / 2] }));
const schema = { properties: {
  name: { title: 'Name', description: 'As people see it.' }, size: { title: 'Size', type: 'integer', minimum: 1, maximum: 10 },
  kind: { title: 'Kind', enum: ['a', 'b'] }, on: { title: 'Switched on', type: 'boolean' }, settings: { title: 'Settings', type: 'object' },
}, required: ['name'] };

/** @param {{title: string, children?: any}} props */
const Part = ({ title, children }) => html`<section class="part"><h2>${title}</h2>${children}</section>`;

export default function Gallery() {
  const [open, setOpen] = useState(false);
  return html`<div class="page gallery"><h1>Components</h1>
    <${Part} title="Status"><p class="row">${[...states, 'active', 'disabled', 'pending', 'up', 'down', 'draining'].map((one) => html`<${Status} key=${one} value=${one} />`)}</p><//>
    <${Part} title="Cells"><p class="row"><${Money} usd=${0.1120} /> <${Money} usd=${null} /> <${Money} usd=${0.00001} /> <${Time} at=${begun - 240_000} /> <${ID} id="conv_wFgd5g1KckDY1tw-FBMUk" /></p><//>
    <${Part} title="Table of 2,000 rows"><div class="sample"><${Table} label="People" columns=${columns} rows=${rows} changed=${new Set([rows[2].id])} fresh=${3} onFresh=${() => {}}
      selected=${rows[1].id} href=${(/** @type {any} */ row) => `/dashboard/gallery?row=${row.id}`} /></div><//>
    <${Part} title="Two panes and tabs"><div class="sample"><${Panes} back="/dashboard/gallery" list=${html`<p class="note">The list</p>`} thing=${html`<${Tabs} label="Views" open="b" href=${(/** @type {string} */ key) => `?tab=${key}`}
      tabs=${[{ key: 'a', title: 'One' }, { key: 'b', title: 'Two', count: 3 }]} /><p class="note">The thing</p>`} /></div><//>
    <${Part} title="Form from a schema"><${Form} schema=${schema} value=${{ name: 'Ada', settings: { a: 1 } }} submit="Save" onSubmit=${async (/** @type {any} */ value) => toast(JSON.stringify(value))} /><//>
    <${Part} title="JSON"><${Json} find value=${{ order: 1182, amount: 140.5, paid: true, note: null, lines: [{ sku: 'a-1', n: 2 }, { sku: 'b-2', n: 1 }], deep: { er: { est: { of: 'all' } } } }} /><//>
    <${Part} title="Chart"><${Chart} label="Cost by hour" series=${['gpt', 'claude']} points=${points} format=${(/** @type {number} */ value) => money(value, 2)} /><//>
    <${Part} title="Dialog, question, toast"><p class="row"><button class="button" id="open-dialog" onClick=${() => setOpen(true)}>Open</button>
      <button class="button" id="open-question" onClick=${() => confirm({ title: 'Delete', text: 'Delete the session “Refund order 1182” and its 3 files?', yes: 'Delete' })}>Ask</button>
      <button class="button" id="open-toast" onClick=${() => toast('Saved.', { label: 'Undo', act: () => {} })}>Say</button></p>
      ${open && html`<${Dialog} title="A dialog" onClose=${() => setOpen(false)}><p>Focus returns to where it was.</p><//>`}<//>
    <${Part} title="Empty"><${Empty} text="No sessions yet. A session is one conversation with an agent." action=${html`<button class="primary">Open one</button>`}
      curl=${{ path: '/agents/responses', body: { model: 'teller', input: 'Hello' } }} /><//>
    <${Part} title="Failure"><${Failure} error=${{ status: 503, message: 'The session’s owner is away. Nothing was changed.', requestID: 'req_1' }} retry=${() => {}} /><//>
  </div>`;
}
