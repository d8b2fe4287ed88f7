// Small makers of what the page is made of.

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function button(text, className, action) {
  const made = element('button', className, text);
  made.type = 'button';
  if (action) made.addEventListener('click', action);
  return made;
}

/** A label around a control and what it is called. */
export function labelled(control, text, className = 'check') {
  const label = element('label', className, text);
  label.prepend(control);
  return label;
}

const drawn = {
  up: 'M7 10v11H3V10zM7 11l4-8c2 0 3 1 3 3v4h6c1 0 2 1 2 2l-2 7c0 1-1 2-2 2H7',
  down: 'M17 14V3h4v11zM17 13l-4 8c-2 0-3-1-3-3v-4H4c-1 0-2-1-2-2l2-7c0-1 1-2 2-2h11',
};

/** A drawing in the color of the text: fonts with such signs are not everywhere. */
export function icon(name) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('class', 'icon');
  const path = document.createElementNS(space, 'path');
  path.setAttribute('d', drawn[name]);
  svg.append(path);
  return svg;
}

/** Copies a text, also where the page is served over plain HTTP and has no clipboard of its own. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const held = element('textarea', 'hidden');
  held.value = text;
  const focused = document.activeElement;
  document.body.append(held);
  held.select();
  const done = document.execCommand('copy');
  held.remove();
  focused?.focus();
  if (!done) throw new Error('The browser does not let this page copy.');
}

/** A button that copies what text() says, and says for a moment that it did. */
export function copyButton(text, className, label, guarded) {
  const made = button('Copy', className, guarded(async () => {
    await copy(text());
    made.textContent = 'Copied';
    setTimeout(() => { made.textContent = 'Copy'; }, 1500);
  }));
  made.setAttribute('aria-label', label);
  return made;
}
