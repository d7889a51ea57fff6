import { fromBinary } from '@bufbuild/protobuf';
import {
  CatalogSchema,
  MeasuresSchema,
  NodeAcrossSchema,
  NodeDetailSchema,
  NodeFlowSchema,
  SearchResultSchema,
  GroupsSchema,
  type Catalog,
  type Groups,
  type Measures,
  type NodeAcross,
  type NodeDetail,
  type NodeFlow,
  type SearchResult,
  type Side,
} from '../generated/graph_pb';
import { Graph } from './graph';
import { damaged, decodeProblem, ProblemError } from './problem';

/** As many nodes as the search route answers at once. */
const LARGEST_PAGE = 10_000;

/** How requests leave: the browser's own `fetch`, or what answers without any server. */
export type Fetch = (url: URL, init: RequestInit) => Promise<Response>;

export const browserFetch: Fetch = (url, init) => globalThis.fetch(url, init);

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
 */
export function routeUrl(route: string, query: Record<string, string | number> = {}): URL {
  const url = new URL(route, document.baseURI);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  return url;
}

/** The files below the log directory, with what can be seen in each. */
export async function fetchCatalog(fetch: Fetch, signal?: AbortSignal): Promise<Catalog> {
  const body = await fetchBytes(fetch, routeUrl('catalog'), signal);
  return decoded(() => fromBinary(CatalogSchema, body));
}

/** The whole hierarchy of one side. */
export async function fetchGraph(
  fetch: Fetch,
  key: GraphKey,
  signal?: AbortSignal,
): Promise<Graph> {
  return Graph.decode(await fetchBytes(fetch, routeUrl('skeleton', { ...key }), signal));
}

/** Tensors, errors and stack of a node and of its partner. */
export async function fetchNode(
  fetch: Fetch,
  key: GraphKey,
  index: number,
  signal?: AbortSignal,
): Promise<NodeDetail> {
  const body = await fetchBytes(fetch, routeUrl('node', { ...key, index }), signal);
  return decoded(() => fromBinary(NodeDetailSchema, body));
}

/** Where the tensors of a node come from and where they go. */
export async function fetchFlow(
  fetch: Fetch,
  key: GraphKey,
  index: number,
  signal: AbortSignal,
): Promise<NodeFlow> {
  const body = await fetchBytes(fetch, routeUrl('flow', { ...key, index }), signal);
  return decoded(() => fromBinary(NodeFlowSchema, body));
}

/** How far the outputs of each node of the debug side are off, by the size of their tensors. */
export async function fetchMeasures(
  fetch: Fetch,
  key: Omit<GraphKey, 'side'>,
  signal: AbortSignal,
): Promise<Measures> {
  const body = await fetchBytes(fetch, routeUrl('measures', { ...key }), signal);
  return decoded(() => fromBinary(MeasuresSchema, body));
}

/** Calls that do together what calls of the other side do. */
export async function fetchGroups(
  fetch: Fetch,
  key: Omit<GraphKey, 'side'>,
  signal: AbortSignal,
): Promise<Groups> {
  const body = await fetchBytes(fetch, routeUrl('groups', { ...key }), signal);
  return decoded(() => fromBinary(GroupsSchema, body));
}

/** Nodes of all steps and ranks; `query` as docs/http-api.md has it. */
export async function fetchSearch(
  fetch: Fetch,
  query: Record<string, string | number>,
  signal: AbortSignal,
): Promise<SearchResult> {
  const body = await fetchBytes(fetch, routeUrl('search', query), signal);
  return decoded(() => fromBinary(SearchResultSchema, body));
}

/** Places in a graph of all nodes that the server finds there, in execution order. */
export async function fetchIndices(
  fetch: Fetch,
  query: Record<string, string | number>,
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

/** The nodes of one name in all steps and ranks. */
export async function fetchAcross(
  fetch: Fetch,
  query: { readonly file: string; readonly name: string; readonly side: Side },
  signal: AbortSignal,
): Promise<NodeAcross> {
  const body = await fetchBytes(fetch, routeUrl('across', query), signal);
  return decoded(() => fromBinary(NodeAcrossSchema, body));
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
