import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  CandidatesSchema,
  ImportRequestSchema,
  MatchReportSchema,
  MatchRequestSchema,
  UndoRequestSchema,
  type Candidates,
  type ImportRequest,
  type MatchReport,
  type MatchRequest,
  type UndoRequest,
} from '../generated/graph_pb';
import { fetchBytes, routeUrl, type Fetch, type GraphKey } from './api';

/** What a message is made from. */
type Content<T> = Omit<T, '$typeName' | '$unknown'>;

/** Nodes of the other side that a node may belong to, the likeliest first. */
export async function fetchCandidates(
  fetch: Fetch,
  key: GraphKey,
  index: number,
  signal: AbortSignal,
): Promise<Candidates> {
  return fromBinary(
    CandidatesSchema,
    await fetchBytes(fetch, routeUrl('candidates', { ...key, index }), signal),
  );
}

export function postMatch(fetch: Fetch, request: Content<MatchRequest>): Promise<MatchReport> {
  return post(fetch, 'match', toBinary(MatchRequestSchema, create(MatchRequestSchema, request)));
}

export function postUndo(
  fetch: Fetch,
  route: 'undo' | 'redo',
  request: Content<UndoRequest>,
): Promise<MatchReport> {
  return post(fetch, route, toBinary(UndoRequestSchema, create(UndoRequestSchema, request)));
}

export function postImport(fetch: Fetch, request: Content<ImportRequest>): Promise<MatchReport> {
  return post(
    fetch,
    'matches',
    toBinary(ImportRequestSchema, create(ImportRequestSchema, request)),
  );
}

async function post(
  fetch: Fetch,
  route: string,
  body: Uint8Array<ArrayBuffer>,
): Promise<MatchReport> {
  const bytes = await fetchBytes(fetch, routeUrl(route), undefined, body);
  return fromBinary(MatchReportSchema, bytes);
}
