// What the page asks before it goes on: whether something is really to be deleted, and who the person is.

import { identity, settings } from './stream.js';

const $ = (id) => document.getElementById(id);

// Only what a dialog is for is sent by Enter; all else closes it by a click.
for (const button of document.querySelectorAll('dialog .close')) {
  button.addEventListener('click', () => button.closest('dialog').close(button.value));
}

/** Opens a dialog and returns which of its buttons closed it; Esc says ''. Focus goes back to where it was. */
function answer(dialog) {
  const { promise, resolve } = Promise.withResolvers();
  const closed = () => {
    if (dialog.open) return; // the event of an earlier closing, late: a dialog can be opened again before it is told
    dialog.removeEventListener('close', closed);
    resolve(dialog.returnValue);
  };
  dialog.returnValue = '';
  dialog.addEventListener('close', closed);
  dialog.showModal();
  return promise;
}

/** Asks before something that cannot be undone. */
export async function confirmed(title, text, verb) {
  $('confirm-title').textContent = title;
  $('confirm-text').textContent = text;
  $('confirm-yes').textContent = verb;
  return await answer($('confirm')) === 'yes';
}

/** Asks for another title; null = it stays. */
export async function retitled(title) {
  $('rename-text').value = title;
  return await answer($('rename')) === 'yes' ? $('rename-text').value : null;
}

let asking = null;
let declined = false; // the person would not say; what the page does by itself does not ask again before they do something
for (const gesture of ['pointerdown', 'keydown']) addEventListener(gesture, () => { declined = false; }, true);

// Requests that are refused at once share one question.
identity.ask = async (refused) => {
  if (settings.token !== refused) return true; // given meanwhile
  if (declined) return false;
  asking ||= (async () => {
    $('signin-why').hidden = !refused;
    $('signin-token').value = '';
    try {
      declined = await answer($('signin')) !== 'yes' || !$('signin-token').value.trim();
      if (declined) return false;
      settings.token = $('signin-token').value;
      return true;
    } finally {
      $('signin-token').value = '';
      asking = null;
    }
  })();
  return asking;
};
