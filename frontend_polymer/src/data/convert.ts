import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { ConvertedSchema, ConvertRequestSchema } from '../generated/graph_pb';
import { fetchBytes, routeUrl, type Fetch } from './api';

/** Has a file of the reference tool written as one of ours, beside it; the new file's name. */
export async function postConvert(fetch: Fetch, file: string): Promise<string> {
  const body = toBinary(ConvertRequestSchema, create(ConvertRequestSchema, { file }));
  const answer = await fetchBytes(fetch, routeUrl('convert'), undefined, body);
  return fromBinary(ConvertedSchema, answer).file;
}
