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
  const say = (detail: string) =>
    host.dispatchEvent(new CustomEvent('say', { detail, bubbles: true, composed: true }));
  say(text.shell.savingTable);
  try {
    const body = await fetchBytes(fetch, routeUrl('table', { ...query, form: 'xlsx' }));
    saveBlob(name, new Blob([body], { type: WORKBOOK }));
    say(text.shell.saved(name));
  } catch (error) {
    const { message, remedy } = asProblem(error);
    say(text.shell.saveFailed(`${message} ${remedy}`.trim()));
  }
}
