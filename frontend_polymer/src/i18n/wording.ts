// Facts as sentences of a language: what msprobe_builder/facts says in Python, for the viewer.
// tests/data/wordings.json holds both to the same.

import { general, type Argument, type Fact } from '../data/facts';

export type Wordings = Readonly<Record<string, string>>;

/** What the user calls both sides; empty where nobody said. */
export interface SideNames {
  readonly debug: string;
  readonly reference: string;
}

/** The codes of a side, in place of whose wording its name stands. */
const SIDES: Readonly<Record<string, keyof SideNames>> = {
  this_run: 'debug',
  'side.npu': 'debug',
  the_reference: 'reference',
  'side.bench': 'reference',
};
const CHINESE = /^[\u3400-\u9fff]/;
let names: SideNames = { debug: '', reference: '' };

const PLACE = /\{(\w+|@[\w.]+)(?::(\w+)|\|([^{}|]*)\|([^{}|]*))?\}/g;

/** From now on facts call the sides so. */
export function callSides(next: SideNames): void {
  names = next;
}

/** A fact, or several as sentences, one after the other; an unknown code stands for itself. */
export function word(said: Argument, wordings: Wordings): string {
  return shown(said, 'sentences', wordings);
}

function shown(value: Argument, form: string, wordings: Wordings): string {
  let text: string;
  if (typeof value === 'string') text = value;
  else if (isList(value)) {
    const isJoint = form === 'and' || Object.hasOwn(wordings, `list.${form}`);
    const parts = value.map((one) => shown(one, isJoint ? '' : form, wordings));
    text = listed(parts, isJoint ? form : 'comma', wordings);
  } else if (typeof value === 'object') {
    const name = nameOf(value);
    if (name) return name; // as the user wrote it, wherever it stands
    text = filled(value, wordings);
  } else if (form === 'count') text = value.toLocaleString('en-US');
  else if (typeof value === 'number' && /^g\d$/.test(form)) text = general(value, Number(form[1]));
  else text = String(value);
  return form === 'capital' ? text.slice(0, 1).toUpperCase() + text.slice(1) : text;
}

function filled(fact: Fact, wordings: Wordings): string {
  const wording = Object.hasOwn(wordings, fact.code) ? wordings[fact.code]! : fact.code;
  return wording.replaceAll(
    PLACE,
    (
      place: string,
      name: string,
      form: string | undefined,
      one: string | undefined,
      several: string,
      at: number,
    ) => {
      const isOfCode = name.startsWith('@');
      if (name === 'code' || (!isOfCode && !Object.hasOwn(fact, name))) return '';
      const value = isOfCode ? { code: name.slice(1) } : fact[name]!;
      if (one !== undefined) return value === 1 ? one : several;
      const text = shown(value, form ?? '', wordings);
      return nameOf(value) ? apart(text, wording[at - 1], wording[at + place.length]) : text;
    },
  );
}

/** What the user calls the side that the fact stands for; empty where it stands for none. */
function nameOf(value: Argument): string {
  if (typeof value !== 'object' || isList(value) || !Object.hasOwn(SIDES, value.code)) return '';
  return names[SIDES[value.code]!];
}

/** A name between Chinese characters, which a space parts from it. */
function apart(name: string, before = '', behind = ''): string {
  const front = CHINESE.test(before) && !CHINESE.test(name) ? ' ' : '';
  const back = CHINESE.test(behind) && !CHINESE.test(name.slice(-1)) ? ' ' : '';
  return `${front}${name}${back}`;
}

function listed(texts: readonly string[], form: string, wordings: Wordings): string {
  if (form !== 'and') return texts.join(wordings[`list.${form}`]);
  const head = listed(texts.slice(0, -1), 'comma', wordings);
  return listed(head ? [head, ...texts.slice(-1)] : texts, 'ands', wordings);
}

function isList(value: Argument): value is readonly Argument[] {
  return Array.isArray(value);
}
