import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { SkeletonSchema } from '../generated/graph_pb';
import { damaged } from './problem';

/** A column as it is unpacked: bytes where all its numbers are below `SMALLEST_LARGE`. */
export type Numbers = Uint8Array | Int32Array;

/** The least number that takes two bytes on the wire. */
export const SMALLEST_LARGE = 0x80;

/** The columns of a Skeleton message as they came, before they are checked against each other. */
export interface SkeletonColumns {
  revision: string;
  nodeCount: number;
  stems: string[];
  stem: Numbers;
  direction: Numbers;
  call: Numbers;
  kind: Numbers;
  subtreeSize: Numbers;
  microStep: Numbers;
  grade: Numbers;
  partnerOffset: Numbers;
  error: Float32Array;
  overflow: Numbers;
  unmatchedReason: Numbers;
  unmatchedReasons: string[];
  role: Numbers;
  matchSource: Numbers;
  matchCertainty: Numbers;
  group: Numbers;
}

const number = (name: string): number => {
  const field = SkeletonSchema.fields.find((candidate) => candidate.localName === name);
  if (!field) throw new Error(`proto/graph.proto has no Skeleton field ${name}`);
  return field.number;
};

type IntegerColumn = {
  [K in keyof SkeletonColumns]: Numbers extends SkeletonColumns[K] ? K : never;
}[keyof SkeletonColumns];

const INTEGER_COLUMNS = new Map<number, IntegerColumn>(
  (
    [
      ...['stem', 'direction', 'call', 'kind', 'subtreeSize', 'microStep', 'grade'],
      ...['partnerOffset', 'overflow', 'unmatchedReason', 'role'],
      ...['matchSource', 'matchCertainty', 'group'],
    ] as IntegerColumn[]
  ).map((name) => [number(name), name]),
);
const REVISION = number('revision');
const NODE_COUNT = number('nodeCount');
const STEMS = number('stems');
const ERROR = number('error');
const PARTNER_OFFSET = number('partnerOffset');
const REASONS = number('unmatchedReasons');

/**
 * Decodes a Skeleton into typed arrays.
 *
 * The generated decoder makes one JavaScript number per value and is ten times slower, which the
 * user would wait for: a skeleton of 200,000 nodes holds two million values.
 */
export function decodeColumns(bytes: Uint8Array): SkeletonColumns {
  const columns = emptyColumns();
  const reader = new BinaryReader(bytes);
  try {
    while (reader.pos < reader.len) {
      const [field, wire] = reader.tag();
      const column = INTEGER_COLUMNS.get(field);
      if (column !== undefined) {
        const zigzag = field === PARTNER_OFFSET;
        const values =
          wire === WireType.LengthDelimited
            ? unpack(reader.bytes(), zigzag)
            : Int32Array.of(zigzag ? reader.sint32() : reader.uint32());
        columns[column] = joined(columns[column], values);
      } else if (field === ERROR && wire === WireType.LengthDelimited) {
        const packed = reader.bytes();
        if (packed.length % 4 !== 0) throw damaged('column error is cut off');
        // A copy, because the values may lie at any offset of the message.
        const values = new Float32Array(packed.slice().buffer);
        columns.error = columns.error.length === 0 ? values : joinedErrors(columns.error, values);
      } else if (field === REVISION) columns.revision = reader.string();
      else if (field === NODE_COUNT) columns.nodeCount = reader.uint32();
      else if (field === STEMS) columns.stems.push(reader.string());
      else if (field === REASONS) columns.unmatchedReasons.push(reader.string());
      else reader.skip(wire, field);
    }
  } catch (error) {
    if (error instanceof Error && error.name === 'ProblemError') throw error;
    throw damaged(error instanceof Error ? error.message : String(error));
  }
  return columns;
}

function emptyColumns(): SkeletonColumns {
  const none = new Int32Array();
  return {
    ...{ revision: '', nodeCount: 0, stems: [], unmatchedReasons: [] },
    ...{ stem: none, direction: none, call: none, kind: none, subtreeSize: none },
    ...{ microStep: none, grade: none, partnerOffset: none, overflow: none },
    ...{
      unmatchedReason: none,
      role: none,
      matchSource: none,
      matchCertainty: none,
      group: none,
      error: new Float32Array(),
    },
  };
}

function joined(head: Numbers, tail: Numbers): Numbers {
  if (head.length === 0) return tail;
  const whole = new Int32Array(head.length + tail.length);
  whole.set(head);
  whole.set(tail, head.length);
  return whole;
}

function joinedErrors(head: Float32Array, tail: Float32Array): Float32Array {
  const whole = new Float32Array(head.length + tail.length);
  whole.set(head);
  whole.set(tail, head.length);
  return whole;
}

function unpack(bytes: Uint8Array, zigzag: boolean): Numbers {
  if (bytes.length > 0 && bytes[bytes.length - 1]! >= 0x80) throw damaged('a column is cut off');
  // A copy, so that nothing keeps the message.
  const copy = bytes.slice();
  if (!zigzag && areSmall(copy)) return copy;
  const values = new Int32Array(copy.length);
  let count = 0;
  for (let position = 0; position < copy.length;) {
    let byte = copy[position++]!;
    let value = byte & 0x7f;
    for (let shift = 7; byte >= 0x80; shift += 7) {
      if (shift > 28) throw damaged('a number is too large');
      byte = copy[position++]!;
      value |= (byte & 0x7f) << shift;
    }
    values[count++] = zigzag ? (value >>> 1) ^ -(value & 1) : value;
  }
  return count === values.length ? values : values.slice(0, count);
}

/** Whether every byte is a number of its own, as in most columns; asked of four at once. */
function areSmall(bytes: Uint8Array): boolean {
  const fours = new Int32Array(bytes.buffer, 0, bytes.length >> 2);
  let at = 0;
  while (at < fours.length && (fours[at]! & 0x80808080) === 0) at++;
  if (at < fours.length) return false;
  for (let byte = 4 * at; byte < bytes.length; byte++) if (bytes[byte]! >= 0x80) return false;
  return true;
}
