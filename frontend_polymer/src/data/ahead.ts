// What every page asks first, asked while the program is still on its way and being read. Nothing of
// the program is imported here: it would have to come first.

import type { Fetch } from './api';

const PREFIX = 'p.graph_ascend.';

/**
 * Asks for the catalogue and for the graph that the address names, if it names one. Each answer is
 * given once, to who asks for the same; whatever else is asked is asked of the server.
 */
export function askAhead(fragment: string): Fetch {
  const urls = [new URL('catalog', document.baseURI), ...graphUrls(fragment)];
  const asked = new Map(urls.map((url) => [url.href, globalThis.fetch(url).then(read)]));
  // Who asks for the same hears of it.
  for (const answer of asked.values()) answer.catch(() => undefined);
  return async (url, init) => {
    const answer = init.method === undefined ? asked.get(url.href) : undefined;
    // Something else: the page does not begin any more, and what is left would be out of date.
    if (!answer) asked.clear();
    asked.delete(url.href);
    const response = await answer?.catch(() => undefined);
    init.signal?.throwIfAborted();
    return response ?? globalThis.fetch(url, init);
  };
}

/** Reads the body, too: a large one does not wait for who asks. */
function read(response: Response): Response {
  const body = response.arrayBuffer();
  body.catch(() => undefined);
  return Object.assign(response, { arrayBuffer: () => body });
}

/** Both sides of the graph; see session/address.ts for what addresses say. */
function graphUrls(fragment: string): URL[] {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ''));
  const get = (key: string) => parameters.get(PREFIX + key) ?? '';
  const natural = (key: string) => (/^\d{1,9}$/.test(get(key)) ? Number(get(key)) : null);
  const [file, step, rank] = [get('file'), natural('step'), natural('rank')];
  const isGraph = step !== null || rank !== null || parameters.has(`${PREFIX}node`);
  if (file === '' || !isGraph || get('page') === 'overview' || get('trend') !== '') return [];
  return [0, 1].map((side) => {
    const url = new URL('skeleton', document.baseURI);
    const query = { file, step: step ?? 0, rank: rank ?? 0, side };
    for (const [key, value] of Object.entries(query)) url.searchParams.set(key, String(value));
    return url;
  });
}
