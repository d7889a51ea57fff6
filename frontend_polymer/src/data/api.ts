import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type MessageShape,
} from '@bufbuild/protobuf';
import { Changes, Questions, type SearchResult, type Side } from '../generated/graph_pb';
import { Graph } from './graph';
import { damaged, decodeProblem, ProblemError } from './problem';

/** As many nodes as the search route answers at once. */
const LARGEST_PAGE = 10_000;

/** How requests leave: the browser's own `fetch`, or what answers without any server. */
export type Fetch = (url: URL, init: RequestInit) => Promise<Response>;

export const browserFetch: Fetch = (url, init) => globalThis.fetch(url, init);

export type Question = keyof typeof Questions.method;
export type Change = keyof typeof Changes.method;

/** What a message is made from. */
type Fields<M extends DescMessage> = Omit<MessageShape<M>, '$typeName' | '$unknown'>;

/** Parameters of a search by their names, as docs/design/http-api.md has them. */
type Parameters = Readonly<Record<string, string | number>>;

/** Names one graph in a request. */
export interface GraphKey {
  readonly file: string;
  readonly step: number;
  readonly rank: number;
  readonly side: Side;
}

/**
 * The address of a route of the plugin. TensorBoard sets the page's base to the plugin's own folder,
 * below whatever prefix or forwarded port the browser came through.
 * Parameters inside a parameter stand beside the others.
 */
export function routeUrl(route: string, query: object = {}): URL {
  const url = new URL(route, document.baseURI);
  const set = (values: object) => {
    for (const [name, value] of Object.entries(values) as [string, unknown][]) {
      if (typeof value === 'object' && value) set(value);
      else url.searchParams.set(name, String(value));
    }
  };
  set(query);
  return url;
}

/**
 * What the plugin answers to a question of the contract; each is a GET route of its name, with the
 * fields of its query as parameters.
 */
export async function ask<Q extends Question>(
  fetch: Fetch,
  question: Q,
  query: Fields<(typeof Questions.method)[Q]['input']>,
  signal?: AbortSignal,
): Promise<MessageShape<(typeof Questions.method)[Q]['output']>> {
  const body = await fetchBytes(fetch, routeUrl(question, query), signal);
  const schema: (typeof Questions.method)[Q]['output'] = Questions.method[question].output;
  return decoded(() => fromBinary(schema, body));
}

/** Has the plugin change something: posts the body that the contract has for this route. */
export async function change<C extends Change>(
  fetch: Fetch,
  route: C,
  content: Fields<(typeof Changes.method)[C]['input']>,
): Promise<MessageShape<(typeof Changes.method)[C]['output']>> {
  const { input, output }: { input: DescMessage; output: (typeof Changes.method)[C]['output'] } =
    Changes.method[route];
  const body = toBinary(input, create(input, content));
  return fromBinary(output, await fetchBytes(fetch, routeUrl(route), undefined, body));
}

/** The whole hierarchy of one side. */
export async function fetchGraph(
  fetch: Fetch,
  key: GraphKey,
  signal?: AbortSignal,
): Promise<Graph> {
  return Graph.decode(await fetchBytes(fetch, routeUrl('skeleton', { ...key }), signal));
}

/** Nodes of all steps and ranks; `query` as docs/design/http-api.md has it. */
export async function fetchSearch(
  fetch: Fetch,
  query: Parameters,
  signal: AbortSignal,
): Promise<SearchResult> {
  const { file = '', ...conditions } = query;
  return ask(fetch, 'search', { file: String(file), conditions: texts(conditions) }, signal);
}

/** Places in a graph of all nodes that the server finds there, in execution order. */
export async function fetchIndices(
  fetch: Fetch,
  query: Parameters,
  graph: Graph,
  signal: AbortSignal,
): Promise<Int32Array> {
  const found: number[] = [];
  let cursor = '';
  do {
    const page = await fetchSearch(
      fetch,
      { ...query, limit: LARGEST_PAGE, ...(cursor && { cursor }) },
      signal,
    );
    if (page.revision !== graph.revision || page.index.some((index) => index >= graph.count)) {
      throw new ProblemError('changed', 'The file has changed since it was loaded.', 'Reload it.');
    }
    for (const index of page.index) found.push(index);
    cursor = page.next;
  } while (cursor);
  return Int32Array.from(found);
}

/**
 * Fetches a protobuf body, or posts one and fetches the answer. Whatever goes wrong becomes a
 * `ProblemError`, except that an aborted request fails with the signal's own reason (`AbortError`).
 */
export async function fetchBytes(
  fetch: Fetch,
  url: URL,
  signal?: AbortSignal,
  sent?: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  let response: Response;
  let body: Uint8Array<ArrayBuffer>;
  try {
    response = await fetch(url, {
      signal: signal ?? null,
      ...(sent && {
        method: 'POST',
        headers: { 'Content-Type': 'application/x-protobuf' },
        body: sent,
      }),
    });
    body = new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ProblemError(
      'no-answer',
      'The server does not answer.',
      'Check that TensorBoard is still running and that the connection to it is open, then retry.',
    );
  }
  if (!response.ok) throw decodeProblem(response.status, body);
  return body;
}

export function decoded<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error));
  }
}

function texts(parameters: Parameters): Record<string, string> {
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => [name, String(value)]),
  );
}
