// Tables as text: CSV as RFC 4180 has it, and TSV for the clipboard, which spreadsheets take.

export type Field = number | string | boolean | undefined;

const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

/** Lines end in CR LF; numbers have every digit; absent is empty. */
export function toCsv(rows: readonly (readonly Field[])[]): string {
  return rows
    .map((row) => `${row.map((field) => quoted(field, /[",\r\n]/)).join(',')}\r\n`)
    .join('');
}

export function toTsv(rows: readonly (readonly Field[])[]): string {
  return rows
    .map((row) => `${row.map((field) => quoted(field, /["\t\r\n]/)).join('\t')}\n`)
    .join('');
}

function quoted(field: Field, special: RegExp): string {
  const text = typeof field === 'string' ? harmless(field) : String(field ?? '');
  return special.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A spreadsheet would run a text that looks like a formula; names come from whoever wrote the dump. */
function harmless(text: string): string {
  return FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
}
