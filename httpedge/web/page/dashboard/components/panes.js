// Two panes where a list leads to things: beside each other, one at a time on a phone.

import { html } from '../lib.js';
import { t } from '../messages.js';
import { Icon } from './icon.js';

/** @param {{list: any, thing: any, back: string}} props thing: null while nothing is open; back: address of the list */
export function Panes({ list, thing, back }) {
  return html`<div class="two-panes" data-open=${Boolean(thing)}>
    <div class="pane-list">${list}</div>
    <div class="pane-thing">
      ${thing && html`<a class="pane-back" href=${back} data-link><${Icon} name="back" /> ${t('do.back')}</a>`}
      ${thing || html`<p class="choose">${t('list.choose')}</p>`}
    </div>
  </div>`;
}

/** @param {{tabs: {key: string, title: string, count?: number}[], open: string, href: (key: string) => string, label: string}} props */
export function Tabs({ tabs, open, href, label }) {
  return html`<nav class="tabs" aria-label=${label}>${tabs.map((tab) => html`<a key=${tab.key} href=${href(tab.key)} data-link
    aria-current=${tab.key === open ? 'page' : undefined}>${tab.title}${tab.count ? html` <small>${tab.count}</small>` : null}</a>`)}</nav>`;
}
