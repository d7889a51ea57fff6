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
import { fetchBytes, routeUrl, type GraphKey } from './api';

/** What a message is made from. */
type Content<T> = Omit<T, '$typeName' | '$unknown'>;

/** Nodes of the other side that a node may belong to, the likeliest first. */
export async function fetchCandidates(
  key: GraphKey,
  index: number,
  signal: AbortSignal,
): Promise<Candidates> {
  return fromBinary(
    CandidatesSchema,
    await fetchBytes(routeUrl('candidates', { ...key, index }), signal),
  );
}

export function postMatch(request: Content<MatchRequest>): Promise<MatchReport> {
  return post('match', toBinary(MatchRequestSchema, create(MatchRequestSchema, request)));
}

export function postUndo(
  route: 'undo' | 'redo',
  request: Content<UndoRequest>,
): Promise<MatchReport> {
  return post(route, toBinary(UndoRequestSchema, create(UndoRequestSchema, request)));
}

export function postImport(request: Content<ImportRequest>): Promise<MatchReport> {
  return post('matches', toBinary(ImportRequestSchema, create(ImportRequestSchema, request)));
}

async function post(route: string, body: Uint8Array<ArrayBuffer>): Promise<MatchReport> {
  const bytes = await fetchBytes(routeUrl(route), undefined, body);
  return fromBinary(MatchReportSchema, bytes);
}
