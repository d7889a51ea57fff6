// Facts as sentences of a language: what msprobe_builder/facts says in Python, for the viewer.
// tests/data/wordings.json holds both to the same.

export interface Fact {
  readonly code: string;
  readonly [argument: string]: Argument;
}
export type Argument = string | number | boolean | Fact | readonly Argument[];
export type Wordings = Readonly<Record<string, string>>;

const PLACE = /\{(\w+)(?::(\w+)|\|([^{}|]*)\|([^{}|]*))?\}/g;
const CODE = /^[a-z][a-z0-9_.]{0,99}$/;
const DEEPEST = 8;

/** The facts of an answer; of an older file it is a sentence, which is a fact that says it. */
export function factsOf(stored: string): readonly Fact[] {
  if (stored.startsWith('[{"code":')) {
    try {
      const found: unknown = JSON.parse(stored);
      if (Array.isArray(found) && found.every((one) => isFact(one, DEEPEST))) return found;
    } catch {
      // It is no JSON: a text.
    }
  }
  return stored ? [{ code: 'text', text: stored }] : [];
}

function isFact(found: unknown, depth: number): found is Fact {
  if (typeof found !== 'object' || found === null || Array.isArray(found) || depth < 0)
    return false;
  const { code, ...others } = found as Record<string, unknown>;
  if (typeof code !== 'string' || !CODE.test(code)) return false;
  return Object.values(others).every((one) => isArgument(one, depth));
}

function isArgument(found: unknown, depth: number): found is Argument {
  if (['string', 'number', 'boolean'].includes(typeof found)) return true;
  if (Array.isArray(found)) return depth > 0 && found.every((one) => isArgument(one, depth - 1));
  return isFact(found, depth - 1);
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

/** A number as Python's format `g` writes it. */
function general(value: number, digits: number): string {
  if (!Number.isFinite(value)) return String(value);
  const [mantissa, exponent] = value.toExponential(digits - 1).split('e');
  const power = Number(exponent);
  if (power >= -4 && power < digits) return trimmed(value.toFixed(digits - 1 - power));
  const sign = power < 0 ? '-' : '+';
  return `${trimmed(mantissa!)}e${sign}${String(Math.abs(power)).padStart(2, '0')}`;
}

function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
