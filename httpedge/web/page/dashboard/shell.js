// Around every page of signed-in people: rail, line of place and actions, search, keys.

import { html, useEffect, useRef, useState } from './lib.js';
import { Icon } from './components/icon.js';
import { KeyHelp } from './components/keyhelp.js';
import { toast } from './components/toast.js';
import { useKeys } from './keys.js';
import { language, languages, speak, t } from './messages.js';
import { Palette } from './palette.js';
import { go } from './router.js';
import { routes } from './routes.js';
import { feed, Store, useStore } from './store.js';
import { setTheme, theme } from './theme.js';
import { chooseProject, signOut, useSees, who } from './who.js';

/** What the open page calls itself, behind the name of its kind. */
export const place = new Store('');

/** Names the thing that is open in the line of place. @param {string} name */
export function usePlace(name) {
  useEffect(() => {
    place.set(name);
    return () => place.set('');
  }, [name]);
}

/** @param {{route: any, address: any, children?: any}} props */
export function Shell({ route, address, children }) {
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [more, setMore] = useState(false);
  const link = useStore(feed.link);
  const name = useStore(place);
  useKeys({ 'mod+k': () => setPalette(true), '?': () => setHelp(true), '/': () => setPalette(true) });
  useEffect(() => { setMore(false); setPalette(false); }, [address.path]);
  const section = routes.find((one) => one.icon && (one.path === route?.path || (one.path !== '/dashboard' && route?.path.startsWith(`${one.path}/`))))
    || routes.find((one) => one.icon && one.key === route?.key);
  return html`<div class="shell">
    <a class="skip" href="#content" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById('content')?.focus(); }}>${t('nav.skip')}</a>
    <${Rail} section=${section} open=${more} close=${() => setMore(false)} />
    <div class="body">
      <header class="place">
        <button class="quiet phone-only" aria-expanded=${more} aria-label=${t('nav.main')} onClick=${() => setMore(!more)}>☰</button>
        <nav aria-label=${t('place.label')}>
          ${section && html`<a href=${section.path} data-link>${t(section.key || '')}</a>`}
          ${!section && route?.key && html`<span>${t(route.key)}</span>`}
          ${name && html`<span aria-hidden="true"> ▸ </span><strong>${name}</strong>`}
        </nav>
        <button class="find" id="find" onClick=${() => setPalette(true)}><${Icon} name="search" /><span class="no-phone">${t('palette.open')}</span><kbd class="no-phone">${navigator.platform.startsWith('Mac') ? '⌘K' : 'Ctrl K'}</kbd>
          <span class="hidden phone-only">${t('palette.open')}</span></button>
        <${Projects} />
        <${You} help=${() => setHelp(true)} />
      </header>
      ${link === 'lost' && html`<p class="lost" role="status">${t('live.lost')}</p>`}
      <main id="content" tabindex="-1">${children}</main>
    </div>
    ${palette && html`<${Palette} close=${() => setPalette(false)} />`}
    ${help && html`<${KeyHelp} close=${() => setHelp(false)} />`}
  </div>`;
}

/** @param {{section: any, open: boolean, close: () => void}} props */
function Rail({ section, open, close }) {
  const sees = useSees();
  return html`<nav class="rail" data-open=${open} aria-label=${t('nav.main')}>
    <a class="brand" href="/dashboard" data-link><img src="/icon.svg" alt="" width="22" height="22" /><span>Parley</span></a>
    ${routes.filter((one) => one.icon && sees(one)).map((one) => html`<a key=${one.path} href=${one.path} data-link onClick=${close}
      aria-current=${one === section ? 'page' : undefined}><${Icon} name=${one.icon} /><span>${t(one.key || '')}</span></a>`)}
    <a class="last" href="/"><${Icon} name="playground" /><span>${t('nav.playground')}</span></a>
  </nav>${open && html`<div class="shade" onClick=${close}></div>`}`;
}

function Projects() {
  const me = useStore(who);
  if (!me || me.projects.length < 2) return me?.projects[0] ? html`<span class="project no-phone">${me.projects[0].name}</span>` : null;
  return html`<label class="project"><span class="hidden">${t('project.label')}</span>
    <select id="project" value=${me.project} onChange=${(/** @type {any} */ event) => {
      // What is open belongs to the project that is left.
      go(location.pathname.split('/').slice(0, 3).join('/'));
      chooseProject(event.target.value).catch(toast);
    }}>${me.projects.map((project) => html`<option key=${project.id} value=${project.id}>${project.name}</option>`)}</select></label>`;
}

/** @param {{help: () => void}} props */
function You({ help }) {
  const me = useStore(who);
  const look = useStore(theme);
  const spoken = useStore(language);
  const [open, setOpen] = useState(false);
  const own = useRef(/** @type {HTMLDivElement|null} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    const outside = (/** @type {Event} */ event) => { if (!own.current?.contains(/** @type {Node} */ (event.target))) setOpen(false); };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => { document.removeEventListener('pointerdown', outside); document.removeEventListener('focusin', outside); };
  }, [open]);
  const initials = (me?.name || me?.email || '·').split(/\s+/).map((part) => part[0]).slice(0, 2).join('').toUpperCase();
  const leave = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    setOpen(false);
    /** @type {HTMLElement|null|undefined} */ (own.current?.querySelector('button'))?.focus();
  };
  return html`<div class="you" ref=${own} onKeyDown=${leave}>
    <button class="face" id="you" aria-expanded=${open} aria-label=${t('you.label')} onClick=${() => setOpen(!open)}>${initials}</button>
    ${open && html`<div class="menu">
      <p class="who"><strong>${me?.name}</strong><span class="faint">${me?.email}</span></p>
      <label>${t('you.theme')}<select value=${look} onChange=${(/** @type {any} */ event) => setTheme(event.target.value)}>
        ${['auto', 'light', 'dark'].map((one) => html`<option key=${one} value=${one}>${t(`theme.${one}`)}</option>`)}</select></label>
      <label>${t('you.language')}<select value=${spoken} onChange=${(/** @type {any} */ event) => speak(event.target.value)}>
        ${languages.map((one) => html`<option key=${one} value=${one}>${t(`language.${one}`)}</option>`)}</select></label>
      <a href="/change-password" data-link onClick=${() => setOpen(false)}>${t('you.password')}</a>
      <button class="quiet" onClick=${() => { setOpen(false); help(); }}>${t('keys.title')} <kbd>?</kbd></button>
      <button class="quiet" id="sign-out" onClick=${async () => { await signOut(); go('/login'); }}>${t('you.signout')}</button>
    </div>`}
  </div>`;
}
