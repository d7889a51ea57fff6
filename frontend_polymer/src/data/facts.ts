// Facts as the file stores them: a code and its arguments.

export interface Fact {
  readonly code: string;
  readonly [argument: string]: Argument;
}
export type Argument = string | number | boolean | Fact | readonly Argument[];

const CODE = /^[a-z][a-z0-9_.]{0,99}$/;
const DEEPEST = 24;

/** The facts of an answer; of an older file it is a sentence, which is a fact that says it. */
export function factsOf(stored: string): readonly Fact[] {
  if (stored === '[]') return [];
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

/** A number as Python's format `g` writes it. */
export function general(value: number, digits: number): string {
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
