import { describe, expect, test } from 'vitest';
import { contentWidth, geometryOf, Placer } from '../../src/canvas/geometry';
import { sceneOf } from '../../src/canvas/scene';
import { Direction, Grade, Kind, Side } from '../../src/generated/graph_pb';
import { Hierarchy } from '../../src/layout/hierarchy';
import { otherSide, SIDES } from '../../src/layout/sides';
import { openOf, restoreOpen } from '../../src/layout/state';
import { parentOf, stepFrom } from '../../src/layout/walk';
import { llamaPair } from '../graphs/llama';
import { disturbed, forSeeds, type Random } from '../graphs/random';
import { graphPair, singleGraph, type Sketch } from '../graphs/synthetic';

interface Made {
  class?: string;
  grade?: Grade;
  direction?: Direction;
  children?: Sketch[];
}

function layer(list: string, number: number, made: Made = {}): Sketch {
  const { class: name = 'Block', direction = Direction.FORWARD, grade, children } = made;
  const stem = `Module.${list}.${number}.${name}`;
  const key = `${stem}.${direction}`;
  const inner = children ?? [
    { stem: 'Torch.add', kind: Kind.API, direction, call: number, key: `${key}.add`, grade },
  ];
  return { stem, direction, key, grade, children: inner } as Sketch;
}

function model(...children: Sketch[]): Sketch {
  return { stem: 'DefaultModel', key: 'root', children };
}

function layers(list: string, count: number, made: Made = {}): Sketch[] {
  return Array.from({ length: count }, (_, number) => layer(list, number, made));
}

const api = (name: string): Sketch => ({
  ...{ stem: `Torch.${name}`, kind: Kind.API, direction: Direction.FORWARD, key: name },
});

/** Lists of layers, nested, counting up and down, with gaps and things between. */
function randomModel(random: Random): Sketch {
  let made = 0;
  const list = (path: string, depth: number): Sketch[] => {
    const numbers: number[] = [];
    for (let number = 0; number < 14; number++) if (random.chance(0.8)) numbers.push(number);
    if (random.chance(0.3)) numbers.reverse();
    const direction = random.pick([Direction.FORWARD, Direction.BACKWARD]);
    return numbers.flatMap((number) => {
      const name = random.chance(0.05) ? 'Other' : 'Block';
      const key = `k${made++}`;
      const inner = depth < 2 && random.chance(0.15) ? list(`${path}.${number}.l`, depth + 1) : [];
      const children = [...inner, { ...api('add'), key: `k${made++}` }];
      const grade = random.pick([Grade.OK, Grade.SLIGHT, Grade.SERIOUS]);
      const one = { ...layer(path, number, { class: name, direction, children, grade }), key };
      return random.chance(0.06) ? [{ ...api('mul'), key: `k${made++}` }, one] : [one];
    });
  };
  return model(...list('a', 0), { ...api('cat'), key: `k${made++}` }, ...list('b', 0));
}

function randomPair(random: Random): [Sketch, Sketch] {
  const npu = randomModel(random);
  const bench = random.chance(0.5) ? disturbed(random, npu) : npu;
  const seen = new Set<string>();
  const unique = (sketch: Sketch): void => {
    if (sketch.key !== undefined && seen.has(sketch.key)) delete sketch.key;
    if (sketch.key !== undefined) seen.add(sketch.key);
    sketch.children?.forEach(unique);
  };
  if (bench !== npu) unique(bench);
  return [npu, bench];
}

function folded(npu: Sketch, bench: Sketch): Hierarchy {
  const hierarchy = new Hierarchy(graphPair(npu, bench));
  hierarchy.foldsLayers = true;
  hierarchy.relayout();
  return hierarchy;
}

function unfolded(npu: Sketch, bench: Sketch): Hierarchy {
  const hierarchy = new Hierarchy(graphPair(npu, bench));
  hierarchy.foldsLayers = false;
  hierarchy.expansion.expandAll();
  hierarchy.relayout();
  return hierarchy;
}

const ids = (hierarchy: Hierarchy, side: Side) =>
  [...hierarchy.rows.node[side]].filter((id) => id >= 0);

function labels(hierarchy: Hierarchy): string[][] {
  const { rows, trees } = hierarchy;
  return Array.from({ length: rows.count }, (_, row) =>
    SIDES.map((side) => {
      const id = rows.node[side][row]!;
      return id < 0 ? '' : trees[side]!.label(id).title;
    }),
  );
}

/** The layers of a series, by counting siblings in the graph itself. */
function layersOf(hierarchy: Hierarchy, side: Side, series: number): number[] {
  const { graph, series: all } = hierarchy.trees[side]!;
  const { first, last } = all[series]!;
  return [...graph.children(graph.parent[first]!)].filter((node) => node >= first && node <= last);
}

describe('folded layers', () => {
  test('show each node once and in order, whatever is open', () => {
    forSeeds(150, (random) => {
      const hierarchy = folded(...randomPair(random));
      hierarchy.expansion.sync = random.chance(0.5);
      for (const side of SIDES) {
        const tree = hierarchy.trees[side]!;
        for (let id = 0; id < tree.size; id++) {
          if (random.chance(0.6)) hierarchy.expansion.set(side, id, true);
        }
      }
      hierarchy.relayout();
      for (const side of SIDES) {
        const tree = hierarchy.trees[side]!;
        const covered = ids(hierarchy, side).flatMap((id) => {
          const isOpen = hierarchy.expansion.isOpen(side, id);
          if (id >= tree.graph.count) {
            return isOpen ? [] : layersOf(hierarchy, side, id - tree.graph.count);
          }
          return [id];
        });
        const expected: number[] = [];
        const visit = (node: number) => {
          expected.push(node);
          const isHidden = tree.series.some(
            (_, at) =>
              !hierarchy.expansion.isOpen(side, tree.graph.count + at) &&
              layersOf(hierarchy, side, at).includes(node),
          );
          if (isHidden || !hierarchy.expansion.isOpen(side, node)) return;
          for (const child of tree.graph.children(node)) visit(child);
        };
        visit(0);
        expect(covered).toEqual(expected);
        ids(hierarchy, side).forEach((id) => {
          expect(hierarchy.rows.node[side][hierarchy.rows.rowOf[side][id]!]).toBe(id);
        });
      }
    });
  });

  test('stand side by side as they would one by one', () => {
    forSeeds(100, (random) => {
      const pair = randomPair(random);
      const hierarchy = folded(...pair);
      const [npu, bench] = hierarchy.graphs;
      for (const [at] of hierarchy.trees[0].series.entries()) {
        const other = hierarchy.beside[0][npu.count + at]!;
        if (other < 0) continue;
        expect(hierarchy.beside[1][other]).toBe(npu.count + at);
        const opposite = layersOf(hierarchy, Side.BENCH, other - bench!.count);
        const mine = layersOf(hierarchy, Side.NPU, at);
        expect(mine.map((node) => hierarchy.beside[0][node])).toEqual(opposite);
      }
      hierarchy.expansion.expandAll();
      hierarchy.relayout();
      const together = (one: Hierarchy) =>
        Array.from({ length: one.rows.count }, (_, row) => SIDES.map((s) => one.rows.node[s][row]!))
          .filter(([left, right]) => left! < npu.count && right! < bench!.count)
          .filter(([left, right]) => left! >= 0 || right! >= 0);
      // Without anything reordered, what is aligned does not depend on what is folded.
      if (pair[0] === pair[1]) expect(together(hierarchy)).toEqual(together(unfolded(...pair)));
    });
  });

  test('are all that can be: siblings of a list, next to each other on both sides', () => {
    forSeeds(80, (random) => {
      const hierarchy = folded(...randomPair(random));
      for (const side of SIDES) {
        const { graph, series } = hierarchy.trees[side]!;
        const number = (node: number) =>
          Number(/\.(\d+)\.\w+\.\w+\.\d+$/.exec(graph.name(node))![1]);
        series.forEach((_, at) => {
          const nodes = layersOf(hierarchy, side, at);
          expect(nodes.length).toBeGreaterThanOrEqual(4);
          expect(new Set(nodes.map((node) => graph.name(node).replace(/\d+/g, '*'))).size).toBe(1);
          const steps = nodes.slice(1).map((node, place) => number(node) - number(nodes[place]!));
          expect(new Set(steps.map(Math.sign)).size).toBe(1);
          expect(steps).not.toContain(0);
        });
        const inSeries = new Set(series.flatMap((_, at) => layersOf(hierarchy, side, at)));
        expect(inSeries.size).toBe(series.reduce((sum, { count }) => sum + count, 0));
      }
    });
  });

  test('leave out none when both sides are alike', () => {
    forSeeds(60, (random) => {
      const made = randomModel(random);
      const hierarchy = folded(made, made);
      const { graph, series } = hierarchy.trees[0];
      const runs: number[][] = [];
      for (let parent = 0; parent < graph.count; parent++) {
        let before = '';
        for (const child of graph.children(parent)) {
          const name = graph.name(child).replace(/\d+/g, '*');
          if (name === before && name.startsWith('Module')) runs.at(-1)!.push(child);
          else runs.push([child]);
          before = name;
        }
      }
      const found = series.map((_, at) => layersOf(hierarchy, Side.NPU, at));
      expect(found).toEqual(runs.filter(({ length }) => length >= 4));
    });
  });

  test('fold back to what was there before', () => {
    forSeeds(40, (random) => {
      const pair = randomPair(random);
      const hierarchy = folded(...pair);
      hierarchy.expansion.expandAll();
      hierarchy.foldsLayers = false;
      hierarchy.relayout();
      expect([...hierarchy.rows.node[0]]).toEqual([...unfolded(...pair).rows.node[0]]);
    });
  });

  test('come back from a link', () => {
    forSeeds(40, (random) => {
      const pair = randomPair(random);
      const hierarchy = folded(...pair);
      for (const side of SIDES) {
        for (let id = 0; id < hierarchy.trees[side]!.size; id++) {
          hierarchy.expansion.set(side, id, random.chance(0.5));
        }
      }
      const texts = openOf(hierarchy);
      expect(texts.join('')).toMatch(/^[\w.-]*$/);
      const again = folded(...pair);
      restoreOpen(again, texts);
      expect(again.expansion.open).toEqual(hierarchy.expansion.open);
    });
  });

  test('open for a node that is looked for, on both sides', () => {
    forSeeds(60, (random) => {
      const hierarchy = folded(...randomPair(random));
      hierarchy.expansion.sync = random.chance(0.5);
      const node = { side: random.pick(SIDES), index: 0 };
      node.index = random.below(hierarchy.graphs[node.side]!.count);
      hierarchy.expansion.reveal(node.side, node.index);
      hierarchy.relayout();
      expect(hierarchy.rowOf(node)).toBeGreaterThanOrEqual(0);
      const other = hierarchy.counterpart(node);
      if (other) expect(hierarchy.rowOf(other)).toBeGreaterThanOrEqual(0);
    });
  });
});

describe('which layers are folded', () => {
  const shown = (npu: Sketch[], bench: Sketch[] = npu) =>
    labels(folded(model(...npu), model(...bench)));
  const ROOT = ['DefaultModel', 'DefaultModel'];

  test('those that count up, and those that count down', () => {
    const back = layers('layers', 80, { direction: Direction.BACKWARD }).reverse();
    expect(shown([api('a'), ...layers('layers', 80), ...back])).toEqual([
      ROOT,
      ['a', 'a'],
      ['layers.0 … 79', 'layers.0 … 79'],
      ['layers.79 … 0', 'layers.79 … 0'],
    ]);
  });

  test('not three, nor those of another class', () => {
    const mixed = layers('l', 6).map((one, at) =>
      at < 3 ? one : layer('l', at, { class: 'Other' }),
    );
    expect(shown(mixed).length).toBe(7);
    expect(shown(layers('l', 4))).toEqual([ROOT, ['l.0 … 3', 'l.0 … 3']]);
  });

  test('in two parts around what one side alone does between', () => {
    const all = layers('l', 10);
    expect(shown(all, [...all.slice(0, 5), api('extra'), ...all.slice(5)])).toEqual([
      ROOT,
      ['l.0 … 4', 'l.0 … 4'],
      ['', 'extra'],
      ['l.5 … 9', 'l.5 … 9'],
    ]);
  });

  test('in parts by whether the other side has them', () => {
    const all = layers('l', 10);
    expect(shown(all.slice(0, 4), all)).toEqual([ROOT, ['l.0 … 3', 'l.0 … 3'], ['', 'l.4 … 9']]);
  });

  test('in parts by micro-step and by direction', () => {
    const steps = layers('l', 8).map((one, at) => ({ ...one, microStep: at < 4 ? 0 : 1 }));
    const halves = [['l.0 … 3', 'l.0 … 3'], ['l.4 … 7', 'l.4 … 7']]; // prettier-ignore
    expect(shown(steps)).toEqual([ROOT, ...halves]);
    const turned = Array.from({ length: 8 }, (_, at) =>
      layer('l', at, { direction: at < 4 ? Direction.FORWARD : Direction.BACKWARD }),
    );
    expect(shown(turned)).toEqual([ROOT, ...halves]);
  });

  test('none whose counterparts are of no list', () => {
    const npu = layers('l', 6);
    const mixed = npu.map(({ key }, at) => ({
      ...{ ...layer('l', at, { class: at % 2 === 0 ? 'A' : 'B' }), key: key! },
    }));
    expect(shown(npu, mixed)).toHaveLength(7);
    expect(shown(mixed, npu)).toHaveLength(7);
  });

  test('of one graph alone', () => {
    const hierarchy = new Hierarchy([singleGraph(model(...layers('l', 9))), null]);
    expect(labels(hierarchy)).toEqual([
      ['DefaultModel', ''],
      ['l.0 … 8', ''],
    ]);
  });

  test('without being asked only where there are many', () => {
    const fold = (count: number) => {
      const made = model(...layers('l', count));
      return new Hierarchy(graphPair(made, made)).foldsLayers;
    };
    expect([fold(4), fold(7), fold(8)]).toEqual([false, false, true]);
  });
});

describe('a row of layers', () => {
  const bad = (at: number) => (at === 5 ? Grade.SEVERE : at === 3 ? Grade.SLIGHT : Grade.OK);
  const graded = model(
    ...Array.from({ length: 10 }, (_, at) => layer('model.layers', at, { grade: bad(at) })),
  );
  const pair = () => folded(graded, graded);

  test('stands for its worst layer, tells how many there are, and can be unfolded', () => {
    const hierarchy = pair();
    const [, row] = scene(hierarchy, Side.NPU);
    expect(row).toMatchObject({
      ...{ label: 'model.layers.0 … 9 · Block ×10', layers: 10, depth: 1, index: 11 },
      ...{ name: 'Module.model.layers.0…9.Block.forward.0', expandable: true, expanded: false },
      ...{ grade: Grade.SEVERE, worstGrade: Grade.SEVERE },
    });
    expect(hierarchy.graphs[0].name(11)).toBe('Module.model.layers.5.Block.forward.0');
    hierarchy.expansion.set(Side.NPU, row!.id, true);
    hierarchy.relayout();
    const opened = scene(hierarchy, Side.BENCH);
    expect(opened[1]!.expanded).toBe(true);
    expect(opened.slice(2).map(({ label, depth }) => [label, depth])).toEqual(
      Array.from({ length: 10 }, (_, at) => [`model.layers.${at} · Block`, 2]),
    );
  });

  test('stands for the layer of the largest error among those of one grade, the first of equals', () => {
    const errors = [0.3, 0.39, 0.39, 0.2, 0.1];
    const sketch = model(
      ...errors.map((error, at) => ({ ...layer('l', at, { grade: Grade.SLIGHT }), error })),
    );
    const { trees } = folded(sketch, sketch);
    for (const tree of trees) {
      const worst = tree!.node(tree!.graph.count);
      expect(tree!.graph.name(worst)).toBe('Module.l.1.Block.forward.0');
    }
  });

  test('is opened below a module that holds nothing else', () => {
    const sketch = model({ stem: 'Module.net.Net', key: 'net', children: layers('net.l', 5) });
    const hierarchy = folded(sketch, sketch);
    hierarchy.expansion.expandBelow(Side.NPU, 1);
    hierarchy.relayout();
    expect(hierarchy.expansion.isOpen(Side.NPU, hierarchy.graphs[0].count)).toBe(true);
    expect(hierarchy.rows.count).toBe(1 + 1 + 1 + 5 * 2);
    expect(Math.max(...hierarchy.rows.depth)).toBe(hierarchy.trees[0].deepest);
  });

  test('leaves the sides in step, or out of step', () => {
    const hierarchy = pair();
    for (const sync of [false, true]) {
      hierarchy.expansion.sync = sync;
      hierarchy.foldsLayers = !hierarchy.foldsLayers;
      expect(hierarchy.expansion.sync).toBe(sync);
    }
  });

  test('opens on the way to errors, and only there', () => {
    const healthy = layers('other', 6, { grade: Grade.OK });
    const both = model(...graded.children!, ...healthy);
    const hierarchy = folded(both, both);
    hierarchy.expansion.toErrors(Grade.SERIOUS);
    hierarchy.relayout();
    const titles = labels(hierarchy).map(([title]) => title);
    expect(titles.slice(0, 9)).toEqual([
      ...[
        'DefaultModel',
        'model.layers.0 … 9',
        ...[0, 1, 2, 3, 4, 5].map((n) => `model.layers.${n}`),
      ],
      'add',
    ]);
    expect(titles.at(-1)).toBe('other.0 … 5');
  });

  test('unfolds with a level only when its layers do', () => {
    const hierarchy = pair();
    hierarchy.expansion.toLevel(1);
    hierarchy.relayout();
    expect(hierarchy.rows.count).toBe(2);
    hierarchy.expansion.toLevel(2);
    hierarchy.relayout();
    expect(hierarchy.rows.count).toBe(22);
  });

  test('is passed when walking with the keys, and left outwards from its layers', () => {
    const hierarchy = pair();
    const row = stepFrom(hierarchy, Side.NPU, { side: Side.NPU, index: 0 }, 1);
    expect(hierarchy.trees[0].isSeries(row.index)).toBe(true);
    hierarchy.expansion.set(Side.NPU, row.index, true);
    hierarchy.relayout();
    expect(stepFrom(hierarchy, Side.NPU, row, 1).index).toBe(1);
    expect(parentOf(hierarchy, { side: Side.NPU, index: 1 })).toEqual(row);
    expect(parentOf(hierarchy, row)).toEqual({ side: Side.NPU, index: 0 });
  });

  test('goes along on the other side', () => {
    const [npu, bench] = llamaPair({ layers: 12 });
    const hierarchy = folded(npu, bench);
    for (const side of SIDES) {
      const tree = hierarchy.trees[side]!;
      const id = tree.graph.count;
      hierarchy.expansion.set(side, id, !hierarchy.expansion.isOpen(side, id));
      const other = hierarchy.beside[side][id]!;
      expect(hierarchy.expansion.isOpen(otherSide(side), other)).toBe(
        hierarchy.expansion.isOpen(side, id),
      );
    }
  });
});

function scene(hierarchy: Hierarchy, side: Side) {
  const width = contentWidth(24, 600, hierarchy.trees[side]!.deepest);
  const view = { rowHeight: 24, top: -1, left: 0 };
  const placer = new Placer(hierarchy.rows, view, geometryOf(24), width, 1);
  const pane = { side, x: 0, surface: { height: 2000 } };
  return sceneOf(hierarchy, placer, pane, null);
}

describe('layers that one side wraps', () => {
  const wrappers = (count: number): Sketch[] =>
    layers('net', count).map((inner, number) => ({
      stem: `Module.net.${number}.Wrapper`,
      direction: Direction.FORWARD,
      children: [{ ...inner, stem: `Module.net.${number}.inner.Block` }],
    }));
  const around = (...children: Sketch[]): Sketch => ({ stem: 'Module.parallel.Wrapper', children });

  const nested = (one: Sketch, count: number, name: string): Sketch => {
    let whole = one;
    for (let at = 0; at < count; at++) whole = { stem: `Module.${name}${at}.W`, children: [whole] };
    return whole;
  };

  test.each([1, 2, 3, 4, 5])('are found in and around %i modules, up to four', (count) => {
    const plain = model(...layers('net', 6));
    const each = layers('net', 6).map((inner, number): Sketch => ({
      ...nested(inner, count - 1, `net.${number}.inner`),
    }));
    const single = each.map((inner, number): Sketch => ({
      ...{ stem: `Module.net.${number}.Wrapper`, direction: Direction.FORWARD, children: [inner] },
    }));
    let around: Sketch[] = layers('net', 6);
    for (let at = 0; at < count; at++) around = [{ stem: `Module.w${at}.W`, children: around }];
    for (const [npu, bench] of [
      [model(...single), plain],
      [plain, model(...single)],
      [model(...around), plain],
      [plain, model(...around)],
    ] as const) {
      const hierarchy = folded(npu, bench);
      const series = hierarchy.graphs[0].count;
      const isPaired = hierarchy.trees[0].size > series && hierarchy.beside[0][series]! >= 0;
      expect(isPaired).toBe(count <= 4);
    }
  });

  test.each([
    ['each', [model(...wrappers(12)), model(...layers('net', 12))]],
    ['all', [model(around(...layers('net', 12))), model(...layers('net', 12))]],
    ['each and all', [model(around(...wrappers(12))), model(...layers('net', 12))]],
  ])('are one row with their counterparts, and unfold with them: %s', (_name, [wrapped, plain]) => {
    for (const isTurned of [false, true]) {
      const pair = isTurned ? ([plain!, wrapped!] as const) : ([wrapped!, plain!] as const);
      const hierarchy = new Hierarchy(graphPair(...pair));
      hierarchy.expansion.expandAll();
      hierarchy.foldsLayers = true;
      const [npu, bench] = hierarchy.graphs;
      for (const node of [npu.count, bench!.count]) {
        expect(hierarchy.beside[node === npu.count ? 0 : 1][node]).toBeGreaterThanOrEqual(0);
      }
      const together = () => {
        const { rowOf } = hierarchy.rows;
        return rowOf[0][npu.count] === rowOf[1][bench!.count];
      };
      hierarchy.expansion.set(Side.NPU, npu.count, false);
      hierarchy.expansion.set(Side.BENCH, bench!.count, false);
      hierarchy.relayout();
      expect(together()).toBe(true);
      hierarchy.expansion.expandAll();
      hierarchy.relayout();
      expect(together()).toBe(true);
      for (let node = 1; node < npu.count; node++) {
        const partner = npu.partner[node]!;
        if (partner < 0) continue;
        expect(hierarchy.rows.rowOf[0][node]).toBe(hierarchy.rows.rowOf[1][partner]);
      }
    }
  });
});
