// Facts as sentences of a language: what msprobe_builder/facts says in Python, for the viewer.
// tests/data/wordings.json holds both to the same.

import { general, type Argument, type Fact } from '../data/facts';

export type Wordings = Readonly<Record<string, string>>;

const PLACE = /\{(\w+)(?::(\w+)|\|([^{}|]*)\|([^{}|]*))?\}/g;

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
  } else if (typeof value === 'object') text = filled(value, wordings);
  else if (form === 'count') text = value.toLocaleString('en-US');
  else if (typeof value === 'number' && /^g\d$/.test(form)) text = general(value, Number(form[1]));
  else text = String(value);
  return form === 'capital' ? text.slice(0, 1).toUpperCase() + text.slice(1) : text;
}

function filled(fact: Fact, wordings: Wordings): string {
  const wording = Object.hasOwn(wordings, fact.code) ? wordings[fact.code]! : fact.code;
  return wording.replaceAll(
    PLACE,
    (_, name: string, form: string | undefined, one: string | undefined, several: string) => {
      if (name === 'code' || !Object.hasOwn(fact, name)) return '';
      const value = fact[name]!;
      if (one !== undefined) return value === 1 ? one : several;
      return shown(value, form ?? '', wordings);
    },
  );
}

function listed(texts: readonly string[], form: string, wordings: Wordings): string {
  if (form !== 'and') return texts.join(wordings[`list.${form}`]);
  const head = listed(texts.slice(0, -1), 'comma', wordings);
  return listed(head ? [head, ...texts.slice(-1)] : texts, 'ands', wordings);
}

function isList(value: Argument): value is readonly Argument[] {
  return Array.isArray(value);
}
