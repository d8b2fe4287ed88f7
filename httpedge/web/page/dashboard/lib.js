// What every module draws with: preact and its hooks, and templates bound to it.

import htm from '../vendor/htm.mjs';
import { createContext, Fragment, h, render } from '../vendor/preact.mjs';
import {
  useCallback, useContext, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from '../vendor/preact-hooks.mjs';

export const html = htm.bind(h);
export {
  createContext, Fragment, h, render, useCallback, useContext, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState,
};

/** @typedef {import('../vendor/preact.mjs').ComponentChildren} Children */

/** @type {(...names: (string|false|null|undefined)[]) => string} class names that are there */
export const names = (...list) => list.filter(Boolean).join(' ');

let last = 0;

/** An id that no other element of the page has. */
export const newID = () => `id-${++last}`;

/** The same id for as long as a component lives. */
export const useID = () => useMemo(newID, []);
