// The console: finds out who is signed in, and draws the page that the address names.

import { html, render, useEffect, useState } from './lib.js';
import { whenSignedOut } from './api.js';
import { Failure } from './components/failure.js';
import { Toasts } from './components/toast.js';
import { language, t } from './messages.js';
import { go, listen, match, useAddress } from './router.js';
import { routes } from './routes.js';
import { Shell } from './shell.js';
import { useStore } from './store.js';
import { startTheme } from './theme.js';
import { forget, load, who } from './who.js';

/** @type {Map<any, any>} modules that were loaded, so that going back draws at once */
const loaded = new Map();

/** Leads to the login, and back here afterwards. */
function toLogin() {
  const { pathname, search, hash } = location;
  if (match(routes, pathname)?.route.open) return;
  const back = pathname.startsWith('/dashboard') || pathname === '/change-password' ? pathname + search : '';
  const challenge = hash.startsWith('#challenge=') ? hash : '';
  go(`/login${back && back !== '/dashboard' ? `?back=${encodeURIComponent(back)}` : ''}${challenge}`, { replace: true });
}

whenSignedOut.call = () => { forget(); toLogin(); };

function App() {
  const address = useAddress();
  const me = useStore(who);
  useStore(language);
  const [state, set] = useState(/** @type {{route: any, Page: any, failed: any}} */ ({ route: null, Page: null, failed: null }));
  const [known, setKnown] = useState(false);
  const found = match(routes, address.path);
  const route = found?.route || null;
  const open = Boolean(route?.open);

  useEffect(() => {
    if (open || me) { setKnown(true); return; }
    load({ quiet: true }).then(() => setKnown(true), (error) => {
      if (error.status === 401) toLogin();
      else set({ route, Page: null, failed: error });
    });
  }, [open, me === null]);

  useEffect(() => {
    if (!route) return undefined;
    const before = loaded.get(route.load);
    if (before) { set({ route, Page: before, failed: null }); return undefined; }
    let here = true;
    route.load().then(
      ({ default: Page }) => { loaded.set(route.load, Page); if (here) set({ route, Page, failed: null }); },
      (failed) => { if (here) set({ route, Page: null, failed }); },
    );
    return () => { here = false; };
  }, [route]);

  useEffect(() => {
    document.documentElement.lang = language.value;
    document.title = route?.key ? `${t(route.key)} · Parley` : 'Parley';
  }, [route, language.value]);

  useEffect(() => {
    if (me?.mustChangePassword && address.path !== '/change-password') go('/change-password', { replace: true });
  }, [me, address.path]);

  const Page = route && (loaded.get(route.load) || (state.route?.load === route.load ? state.Page : null));
  let page = null;
  if (!route) page = html`<${Failure} error=${{ status: 404, message: t('error.missing') }} />`;
  else if (state.failed) page = html`<${Failure} error=${state.failed} retry=${() => location.reload()} />`;
  else if (Page && (open || me)) page = html`<${Page} params=${found?.params} address=${address} />`;
  useEffect(() => { if (page && Page) document.body.dataset.ready = 'true'; });
  if (open) return html`<main class="entry" id="content">${page}</main><${Toasts} />`;
  if (!me && !state.failed) return html`<div class="waits" aria-busy="true"></div>`;
  if (!known && !state.failed) return null;
  return html`<${Shell} route=${route} address=${address} key=${me?.project}>${page}<//><${Toasts} />`;
}

startTheme();
listen();
const root = document.getElementById('app');
if (root) render(html`<${App} />`, root);
