import {
  type CallRole,
  Direction,
  Grade,
  Kind,
  MatchSource,
  type Overflow,
} from '../generated/graph_pb';
import { decodeColumns, SMALLEST_LARGE, type Numbers, type SkeletonColumns } from './columns';
import { labelOf, type Label } from './label';
import { damaged } from './problem';
import { CALL_ROLES, DIRECTIONS, GRADES, KINDS, OVERFLOWS } from './codes';
import { narrowed, type Depths, type Integers } from './narrow';
import { Rollup } from './rollup';

/** Real models nest a few dozen levels; what exceeds this is an attack on the call stack. */
const DEEPEST = 1000;

/**
 * One side of one rank of one step: every node of the hierarchy, in columns.
 *
 * Nodes are numbered in execution order, parents before their children (pre-order), so the subtree
 * of node `i` is the range `i … end[i]`, `end` excluded, and its first child is `i + 1`.
 */
export class Graph {
  readonly revision: string;
  readonly count: number;
  /** -1 for the root. */
  readonly parent: Int32Array;
  /** One past the last node of the subtree. */
  readonly end: Int32Array;
  readonly depth: Depths;
  readonly kind: Uint8Array;
  readonly direction: Uint8Array;
  readonly call: Integers;
  readonly stem: Integers;
  readonly stems: readonly string[];
  readonly microStep: Integers;
  readonly grade: Uint8Array;
  /** 0…1, -1 when there is none. */
  readonly error: Float32Array | Int8Array;
  readonly overflow: Uint8Array;
  /** The matched node of the other side, -1 when there is none. */
  readonly partner: Int32Array;
  /** Place in `unmatchedReasons`, -1 when matched or unknown. */
  readonly unmatchedReason: Integers;
  readonly unmatchedReasons: readonly string[];
  /** What the verdict says of the node; `UNKNOWN` on the bench side and without a verdict. */
  readonly role: Uint8Array;
  /** Which rule or person matched the node; that of names where it has no partner. */
  readonly source: Uint8Array;
  /** How sure a match by evidence is, 50 … 100 percent; 0 for all others. */
  readonly certainty: Uint8Array;
  /** Place in the groups of the step and rank, -1 for none. */
  readonly group: Integers;
  readonly rollup: Rollup;
  /** All that has children, ascending. */
  readonly folders: Int32Array;
  readonly deepest: number;
  private readonly labels = new Map<number, Label>();

  constructor(columns: SkeletonColumns) {
    const { nodeCount, stems, unmatchedReasons } = columns;
    if (nodeCount === 0) throw damaged('it holds no node');
    this.revision = columns.revision;
    this.count = nodeCount;
    this.stems = stems;
    this.unmatchedReasons = unmatchedReasons;
    this.stem = narrowed(checked(columns, 'stem', stems.length));
    this.direction = bytesOf(checked(columns, 'direction', DIRECTIONS.length));
    this.kind = bytesOf(checked(columns, 'kind', KINDS.length));
    this.call = narrowed(checked(columns, 'call'));
    this.microStep = narrowed(checked(columns, 'microStep'));
    this.grade = bytesOf(checked(columns, 'grade', GRADES.length));
    // Of a million nodes each column has a megabyte: those that say nothing are one.
    const [zeros, none] = [new Uint8Array(nodeCount), new Int8Array(nodeCount).fill(-1)];
    const has = (name: Optional) => columns[name].length > 0;
    const bytes = (name: Optional, limit: number) =>
      has(name) ? bytesOf(checked(columns, name, limit)) : zeros;
    const places = (name: Optional, limit?: number) =>
      has(name) ? lowered(checked(columns, name, limit)) : none;
    this.overflow = bytes('overflow', OVERFLOWS.length);
    this.role = bytes('role', CALL_ROLES.length);
    this.unmatchedReason = places('unmatchedReason', unmatchedReasons.length + 1);
    this.group = places('group');
    this.error = columns.error.some((error) => error !== -1) ? columns.error : none;
    const errors = columns.error.length;
    if (errors > 0 && errors !== nodeCount) throw damaged('column error has the wrong length');

    const size = checked(columns, 'subtreeSize', nodeCount + 1);
    const { parent, end, depth, deepest, folders } = nest(size);
    [this.parent, this.end, this.deepest, this.folders] = [parent, end, deepest, folders];
    this.depth = deepest < 2 ** 8 ? new Uint8Array(depth) : depth;
    this.partner = partners(columns.partnerOffset, this.grade);
    const ofMatched = (values: Integers) =>
      values.length > 0 ? spread(values, this.grade) : zeros;
    this.source = ofMatched(columns.matchSource);
    this.certainty = ofMatched(columns.matchCertainty);
    this.rollup = new Rollup(this.grade, this.overflow);
  }

  /** Whether evidence alone matched the node, and nobody has confirmed it. */
  isAutomatic(index: number): boolean {
    return this.source[index] === AUTOMATIC && this.partner[index]! >= 0;
  }

  /** The same graph as if nothing had been matched by evidence. */
  withoutAutomatic(): Graph {
    const [grade, partner] = [this.grade.slice(), this.partner.slice()];
    const error = this.error.slice();
    for (let index = 0; index < this.count; index++) {
      if (!this.isAutomatic(index)) continue;
      [grade[index], partner[index], error[index]] = [Grade.UNMATCHED, -1, -1];
    }
    const rollup = new Rollup(grade, this.overflow);
    const made: Graph = Object.create(this) as Graph;
    return Object.defineProperties(made, {
      grade: { value: grade },
      partner: { value: partner },
      error: { value: error },
      rollup: { value: rollup },
    });
  }

  static decode(bytes: Uint8Array): Graph {
    return new Graph(decodeColumns(bytes));
  }

  kindOf(index: number): Kind {
    return KINDS[this.kind[index]!]!;
  }

  directionOf(index: number): Direction {
    return DIRECTIONS[this.direction[index]!]!;
  }

  gradeOf(index: number): Grade {
    return GRADES[this.grade[index]!]!;
  }

  overflowOf(index: number): Overflow {
    return OVERFLOWS[this.overflow[index]!]!;
  }

  roleOf(index: number): CallRole {
    return CALL_ROLES[this.role[index]!]!;
  }

  hasChildren(index: number): boolean {
    return this.end[index]! > index + 1;
  }

  /** The children of a node in execution order. */
  *children(index: number): Generator<number> {
    const end = this.end[index]!;
    for (let child = index + 1; child < end; child = this.end[child]!) yield child;
  }

  /** The ancestors of a node, root first. */
  ancestors(index: number): number[] {
    const path: number[] = [];
    for (let above = this.parent[index]!; above >= 0; above = this.parent[above]!) path.push(above);
    return path.reverse();
  }

  /** The full name of a node, as the dump has it. */
  name(index: number): string {
    return this.stems[this.stem[index]!]! + this.suffix(index);
  }

  /** What follows the stem in the name: `.forward.0` for a module, `.0.forward` for an API. */
  suffix(index: number): string {
    const direction = this.directionOf(index);
    if (direction === Direction.NONE) return '';
    const word = direction === Direction.BACKWARD ? 'backward' : 'forward';
    const call = this.call[index]!;
    return this.kindOf(index) === Kind.API ? `.${call}.${word}` : `.${word}.${call}`;
  }

  /** The parts of the name that tell a node from its siblings. */
  label(index: number): Label {
    const above = this.parent[index]!;
    const key = (above < 0 ? 0 : this.stem[above]! + 1) * this.stems.length + this.stem[index]!;
    const keyed = (key * 3 + this.direction[index]!) * 3 + this.kind[index]!;
    let label = this.labels.get(keyed);
    if (label === undefined) {
      label = labelOf(
        this.stems[this.stem[index]!]!,
        above < 0 ? '' : this.stems[this.stem[above]!]!,
        this.kindOf(index),
        this.directionOf(index),
      );
      this.labels.set(keyed, label);
    }
    return label;
  }

  /** The worst grade (ok … severe) of a node and everything below it. */
  worstGrade(index: number): Grade {
    return this.rollup.worstGrade(index, this.end[index]!);
  }
}

const AUTOMATIC: number = MatchSource.AUTOMATIC;
const UNMATCHED = GRADES.indexOf(Grade.UNMATCHED);

type IntegerColumn = 'stem' | 'direction' | 'kind' | 'call' | 'microStep' | 'grade' | 'subtreeSize';

type Optional = 'overflow' | 'unmatchedReason' | 'role' | 'group';

/** A column with one value of [0, limit) per node. */
function checked(
  columns: SkeletonColumns,
  name: IntegerColumn | Optional,
  limit = Infinity,
): Numbers {
  const values = columns[name];
  if (values.length !== columns.nodeCount) {
    throw damaged(`column ${name} has ${values.length} values for ${columns.nodeCount} nodes`);
  }
  if (values instanceof Uint8Array && limit > SMALLEST_LARGE) return values;
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    if (value < 0 || value >= limit)
      throw damaged(`column ${name} holds ${value} at node ${index}`);
  }
  return values;
}

/** Codes, of which there are few. */
function bytesOf(values: Numbers): Uint8Array {
  return values instanceof Uint8Array ? values : new Uint8Array(values);
}

/** Places that cross the wire from 1, with 0 for none. */
function lowered(values: Numbers): Integers {
  const places = values instanceof Uint8Array ? new Int8Array(values) : values;
  for (let index = 0; index < places.length; index++) places[index]!--;
  return places instanceof Int8Array ? places : narrowed(places);
}

function nest(size: Numbers) {
  const count = size.length;
  const parent = new Int32Array(count);
  const end = new Int32Array(count);
  const depth = new Uint16Array(count);
  const folders = new Int32Array(count);
  let [above, deepest, folderCount] = [-1, 0, 0];
  for (let index = 0; index < count; index++) {
    while (above >= 0 && end[above] === index) above = parent[above]!;
    const last = index + size[index]!;
    // All are below the first.
    const limit = above < 0 ? (index === 0 ? count : 0) : end[above]!;
    if (size[index]! < 1 || last > limit) throw damaged('its subtrees do not nest');
    parent[index] = above;
    end[index] = last;
    const level = above < 0 ? 0 : depth[above]! + 1;
    if (level > DEEPEST) throw damaged(`it nests more than ${DEEPEST} levels`);
    if (level > deepest) deepest = level;
    depth[index] = level;
    if (last > index + 1) folders[folderCount++] = index;
    above = index;
  }
  return { parent, end, depth, deepest, folders: folders.slice(0, folderCount) };
}

/** Values come only for nodes that are matched, in their order. */
function spread(values: Integers, grade: Uint8Array): Uint8Array {
  const result = new Uint8Array(grade.length);
  let next = 0;
  for (let index = 0; index < grade.length; index++) {
    if (grade[index] !== UNMATCHED) result[index] = values[next++] ?? 0;
  }
  if (next !== values.length) throw damaged('a column of matches has the wrong length');
  return result;
}

/** Offsets come only for nodes that are matched, in their order. */
function partners(offsets: Integers, grade: Uint8Array): Int32Array {
  const partner = new Int32Array(grade.length).fill(-1);
  if (offsets.length === 0) return partner;
  let next = 0;
  for (let index = 0; index < grade.length; index++) {
    if (grade[index] === UNMATCHED) continue;
    if (next === offsets.length) throw damaged('partners are missing');
    partner[index] = index + offsets[next++]!;
    if (partner[index]! < 0) throw damaged('a partner lies outside the graph');
  }
  if (next !== offsets.length) throw damaged('there are more partners than matched nodes');
  return partner;
}
