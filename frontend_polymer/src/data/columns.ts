import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { SkeletonSchema } from '../generated/graph_pb';
import { damaged } from './problem';

/** The columns of a Skeleton message as they came, before they are checked against each other. */
export interface SkeletonColumns {
  revision: string;
  nodeCount: number;
  stems: string[];
  stem: Int32Array;
  direction: Int32Array;
  call: Int32Array;
  kind: Int32Array;
  subtreeSize: Int32Array;
  microStep: Int32Array;
  grade: Int32Array;
  partnerOffset: Int32Array;
  error: Float32Array;
  overflow: Int32Array;
  unmatchedReason: Int32Array;
  unmatchedReasons: string[];
  role: Int32Array;
  matchSource: Int32Array;
  matchCertainty: Int32Array;
  group: Int32Array;
}

const number = (name: string): number => {
  const field = SkeletonSchema.fields.find((candidate) => candidate.localName === name);
  if (!field) throw new Error(`proto/graph.proto has no Skeleton field ${name}`);
  return field.number;
};

type IntegerColumn = {
  [K in keyof SkeletonColumns]: SkeletonColumns[K] extends Int32Array ? K : never;
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
        columns[column] = append(columns[column], values, Int32Array);
      } else if (field === ERROR && wire === WireType.LengthDelimited) {
        const packed = reader.bytes();
        if (packed.length % 4 !== 0) throw damaged('column error is cut off');
        // A copy, because the values may lie at any offset of the message.
        const values = new Float32Array(packed.slice().buffer);
        columns.error = append(columns.error, values, Float32Array);
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

function append<T extends Int32Array | Float32Array>(
  head: T,
  tail: T,
  make: new (length: number) => T,
): T {
  if (head.length === 0) return tail;
  const joined = new make(head.length + tail.length);
  joined.set(head);
  joined.set(tail, head.length);
  return joined;
}

function unpack(bytes: Uint8Array, zigzag: boolean): Int32Array {
  if (bytes.length > 0 && bytes[bytes.length - 1]! >= 0x80) throw damaged('a column is cut off');
  if (!zigzag && areSmall(bytes)) return new Int32Array(bytes);
  const values = new Int32Array(bytes.length);
  let count = 0;
  for (let position = 0; position < bytes.length;) {
    let byte = bytes[position++]!;
    let value = byte & 0x7f;
    for (let shift = 7; byte >= 0x80; shift += 7) {
      if (shift > 28) throw damaged('a number is too large');
      byte = bytes[position++]!;
      value |= (byte & 0x7f) << shift;
    }
    values[count++] = zigzag ? (value >>> 1) ^ -(value & 1) : value;
  }
  return count === values.length ? values : values.slice(0, count);
}

/** Whether every byte is a number of its own, as in most columns. */
function areSmall(bytes: Uint8Array): boolean {
  let at = 0;
  while (at < bytes.length && bytes[at]! < 0x80) at++;
  return at === bytes.length;
}
