// Numbers as a person wants to read them; the full value belongs in the tooltip.

const SHORT_DIGITS = 5;

/** Kept: a number's own `toLocaleString` makes another each time. */
const GROUPED = new Intl.NumberFormat('en-US');

/** A count with grouped digits. */
export function formatCount(value: number): string {
  return GROUPED.format(value);
}

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** A size in decimal units, two digits at least. */
export function formatBytes(value: number): string {
  let size = value;
  let unit = 0;
  for (; size >= 1000 && unit < UNITS.length - 1; unit++) size /= 1000;
  return `${size.toFixed(unit === 0 || size >= 10 ? 0 : 1)} ${UNITS[unit]}`;
}

/** At most five significant digits; `NaN` and the infinities by name. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return formatExact(value);
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e6 || size < 1e-4) return trimExponent(value.toExponential(SHORT_DIGITS - 2));
  return trimZeros(value.toPrecision(SHORT_DIGITS));
}

/** Every digit there is. */
export function formatExact(value: number): string {
  return String(value);
}

/** A fraction as percent, four significant digits. */
export function formatPercent(fraction: number): string {
  const percent = fraction * 100;
  if (!Number.isFinite(percent)) return formatExact(percent);
  if (percent === 0) return '0 %';
  const size = Math.abs(percent);
  const text =
    size >= 1e6 || size < 1e-3
      ? trimExponent(percent.toExponential(2))
      : trimZeros(percent.toPrecision(4));
  return `${text} %`;
}

function trimZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

function trimExponent(text: string): string {
  const [mantissa = '', exponent = ''] = text.split('e');
  return `${trimZeros(mantissa)}e${exponent.replace('+', '')}`;
}

/** "0, 1, 2, 3, 8" as "0–3, 8". */
export function rankList(ranks: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const rank of ranks) {
    const last = runs.at(-1);
    if (last && rank === last[1] + 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  return runs
    .map(([from, to]) => (from === to ? from : `${from}${to === from + 1 ? ', ' : '–'}${to}`))
    .join(', ');
}
