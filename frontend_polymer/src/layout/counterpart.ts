import type { Graph } from '../data/graph';
import { damaged } from '../data/problem';
import type { Graphs, PerSide } from './sides';

/**
 * Which node stands at the same place on the other side, -1 where there is none.
 *
 * That is the matched node. Nodes without a match stand beside the node that is evidently the same
 * call although its tensors differ (same name, neither matched), or, for a module, beside the one
 * that holds the partners of its children: users then see both at the same height.
 */
export function counterparts(graphs: Graphs): PerSide<Int32Array> {
  const [npu, bench] = graphs;
  if (bench === null) return [new Int32Array(npu.count).fill(-1), new Int32Array()];
  const beside: PerSide<Int32Array> = [npu.partner.slice(), bench.partner.slice()];
  checkMutual(beside);
  pair(beside, 0, 0);
  pairByName(npu, bench, beside);
  pairByChildren(npu, bench, beside);
  return beside;
}

function checkMutual([npu, bench]: PerSide<Int32Array>): void {
  let pairs = 0;
  for (let index = 0; index < npu.length; index++) {
    const other = npu[index]!;
    if (other < 0) continue;
    if (bench[other] !== index) throw damaged('the two sides match differently');
    pairs++;
  }
  for (const other of bench) if (other >= 0) pairs--;
  if (pairs !== 0) throw damaged('the two sides match differently');
}

function pair([npu, bench]: PerSide<Int32Array>, n: number, b: number): void {
  if (npu[n] !== -1 || bench[b] !== -1) return;
  npu[n] = b;
  bench[b] = n;
}

function pairByName(npu: Graph, bench: Graph, beside: PerSide<Int32Array>): void {
  const named = new Map<string, number>();
  for (let index = 0; index < bench.count; index++) {
    if (beside[1][index] === -1) named.set(bench.name(index), index);
  }
  if (named.size === 0) return;
  for (let index = 0; index < npu.count; index++) {
    if (beside[0][index] !== -1) continue;
    const same = named.get(npu.name(index));
    if (same !== undefined) pair(beside, index, same);
  }
}

/** Children come after their parents, so walking backwards carries a pairing all the way up. */
function pairByChildren(npu: Graph, bench: Graph, beside: PerSide<Int32Array>): void {
  for (let index = npu.count - 1; index > 0; index--) {
    const other = beside[0][index]!;
    if (other > 0) pair(beside, npu.parent[index]!, bench.parent[other]!);
  }
}
