import { asProblem } from '../../data/problem';
import { fetchBytes, routeUrl, type Fetch } from '../../data/api';
import type { Texts } from '../../i18n';
import { saveBlob } from './save-file';

const WORKBOOK = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet';

/** What a table is of: parameters of the route `table`. */
export type TableQuery = Readonly<Record<string, string | number>>;

/** Downloads the table that the server writes, and says how that went. */
export async function saveTable(
  host: HTMLElement,
  fetch: Fetch,
  query: TableQuery,
  name: string,
  text: Texts,
): Promise<void> {
  const { code: language } = text.language;
  await saveAnswer(host, fetch, routeUrl('table', { ...query, form: 'xlsx', language }), {
    name,
    type: WORKBOOK,
    text,
  });
}

/** Downloads the report on a file, and says how that went. */
export async function saveReport(
  host: HTMLElement,
  fetch: Fetch,
  file: string,
  text: Texts,
): Promise<void> {
  const stem = file.replace(/^.*\//, '').replace(/\.vis\.db$/, '');
  const name = `${stem}_report.html`;
  const url = routeUrl('report', { file, language: text.language.code });
  await saveAnswer(host, fetch, url, { name, type: 'text/html', text });
}

async function saveAnswer(
  host: HTMLElement,
  fetch: Fetch,
  url: URL,
  { name, type, text }: { readonly name: string; readonly type: string; readonly text: Texts },
): Promise<void> {
  const say = (detail: string) =>
    host.dispatchEvent(new CustomEvent('say', { detail, bubbles: true, composed: true }));
  say(text.shell.savingTable);
  try {
    saveBlob(name, new Blob([await fetchBytes(fetch, url)], { type }));
    say(text.shell.saved(name));
  } catch (error) {
    const { message, remedy } = asProblem(error);
    say(text.shell.saveFailed(`${message} ${remedy}`.trim()));
  }
}
