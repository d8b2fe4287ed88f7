// Answers as Markdown: nodes made of tokens, as on the page at /; text never becomes HTML.

import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib.js';

/** @type {any} */ let loaded = null;
const module = '/markdown.js'; // shared with the page at /; loaded when there is something to show

/** @param {{text: string}} props */
export function Markdown({ text }) {
  const place = useRef(/** @type {HTMLDivElement|null} */ (null));
  const [ready, setReady] = useState(Boolean(loaded));
  useEffect(() => { if (!ready) import(module).then((all) => { loaded = all; setReady(true); }, () => {}); }, []);
  useLayoutEffect(() => {
    if (!place.current) return;
    if (ready) place.current.replaceChildren(loaded.markdown(text));
    else place.current.textContent = text;
  }, [text, ready]);
  return html`<div class="prose" ref=${place}></div>`;
}
