import { CALL_ROLES, GRADES, OVERFLOWS } from '../../src/data/codes';
import { Direction, Kind, Overflow } from '../../src/generated/graph_pb';
import type { Sketch } from './synthetic';

/** Numbers that look random and are the same in every run (mulberry32). */
export class Random {
  constructor(private state: number) {}

  /** Of [0, 1). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Of 0 … limit - 1. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
}

const STEMS = [
  'Module.a.Linear',
  'Module.a.b.Linear',
  'Functional.linear',
  'Tensor.add',
  'Torch.cat',
];

/** A hierarchy of about this many nodes, with every node's key its own. */
export function randomTree(random: Random, size: number): Sketch {
  let made = 0;
  const node = (depth: number): Sketch => {
    const key = `k${made++}`;
    const isModule = depth === 0 || random.chance(0.4);
    const children: Sketch[] = [];
    while (isModule && made < size && random.chance(depth === 0 ? 1 : 0.8)) {
      children.push(node(depth + 1));
    }
    return {
      key,
      stem: depth === 0 ? 'DefaultModel' : random.pick(STEMS),
      kind: isModule ? Kind.MODULE : Kind.API,
      direction:
        depth === 0 ? Direction.NONE : random.pick([Direction.FORWARD, Direction.BACKWARD]),
      call: random.below(50),
      grade: random.pick(GRADES.slice(0, 6)),
      error: random.next(),
      overflow: random.chance(0.2) ? random.pick(OVERFLOWS.slice(1)) : Overflow.NONE,
      microStep: random.below(3),
      role: random.pick(CALL_ROLES),
      children,
    };
  };
  return node(0);
}

/** The other run of the same model: nodes missing, new, moved to other places, and reordered. */
export function disturbed(random: Random, { children = [], ...rest }: Sketch): Sketch {
  const changed = children
    .filter(() => !random.chance(0.1))
    .map((child) => (random.chance(0.1) ? withoutKey(child) : child))
    .map((child) => disturbed(random, child));
  if (changed.length > 1 && random.chance(0.3)) {
    const moved = changed.splice(random.below(changed.length), 1);
    const into = random.chance(0.3) ? random.pick(changed) : null;
    if (into) into.children = [...(into.children ?? []), ...moved];
    else changed.splice(random.below(changed.length + 1), 0, ...moved);
  }
  if (random.chance(0.2))
    changed.splice(random.below(changed.length + 1), 0, randomTree(random, 3));
  return { ...rest, children: changed.map((child) => child) };
}

function withoutKey({ key, ...rest }: Sketch): Sketch {
  return key === undefined ? rest : { ...rest };
}

/** Two runs of a model of about this many nodes, and what their keys say about matches. */
export function randomPair(random: Random, size: number): [Sketch, Sketch] {
  const npu = randomTree(random, size);
  const bench = disturbed(random, npu);
  renameNew(bench, new Set());
  return [npu, bench];
}

/** Keys of trees inserted by `disturbed` may repeat those of the model. */
function renameNew(sketch: Sketch, seen: Set<string>): void {
  if (sketch.key !== undefined) {
    if (seen.has(sketch.key)) delete sketch.key;
    else seen.add(sketch.key);
  }
  for (const child of sketch.children ?? []) renameNew(child, seen);
}

/** Under mutation testing every fault runs these again: a share of the seeds has to do. */
const SHARE = process.env['MUTANTS'] === undefined ? 1 : 0.25;

/** Runs a property for many seeds; a failure names its seed. */
export function forSeeds(count: number, property: (random: Random) => void): void {
  for (let seed = 1; seed <= Math.ceil(count * SHARE); seed++) {
    try {
      property(new Random(seed));
    } catch (error) {
      throw new Error(`seed ${seed}: ${String(error)}`, { cause: error });
    }
  }
}
