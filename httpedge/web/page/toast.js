// What went wrong, told to the person for a while.

import { Refused } from './stream.js';
import { plainly } from './words.js';

const shown = 6000; // milliseconds
const box = document.getElementById('toast');
let timer = 0;

export function toast(error) {
  box.textContent = plainly(String(error.message || error));
  box.dataset.code = error instanceof Refused ? error.code : ''; // for programs
  box.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { box.hidden = true; }, shown);
}

/** The action, with its failure told. */
export const guarded = (action) => async (...args) => {
  try {
    await action(...args);
    box.hidden = true; // what went wrong before is over
  } catch (error) {
    toast(error);
  }
};
