import { create, toBinary } from '@bufbuild/protobuf';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import {
  CatalogSchema,
  ProblemSchema,
  SearchResultSchema,
  Side,
} from '../../src/generated/graph_pb';
import { Session } from '../../src/session/session';
import { INITIAL_VIEW } from '../../src/session/state';
import { add, at, catalog, detail, FILE, Line, opened, pair, SKELETONS } from './line';
import { encodePair, type Sketch } from '../graphs/synthetic';

beforeAll(() => {
  vi.stubGlobal('document', { baseURI: 'http://viewer.test/' });
});

describe('opening', () => {
  test('asks for the file, then for both sides of its graph', async () => {
    const { session, line } = await opened(at({ step: 1 }));
    expect(session.state).toMatchObject({ busy: null, problem: null, unmet: [] });
    expect(session.state.view).toMatchObject({ file: FILE, step: 1, rank: 0 });
    expect(session.state.graphs![Side.NPU].count).toBe(3);
    expect(line.asked).toEqual([]);
  });

  test('asks for one side where there is no reference', async () => {
    const line = new Line();
    const session = new Session(at(), line.fetch);
    void session.refresh();
    await line.next('catalog').answer(catalog('r1', [pair(0, 0, 0)]));
    await line.next('skeleton').answer(SKELETONS[0]);
    expect(session.state.graphs![Side.BENCH]).toBeNull();
    expect(line.asked).toEqual([]);
  });

  test('shows the overview of a file of several graphs without asking for any', async () => {
    const line = new Line();
    const session = new Session(INITIAL_VIEW, line.fetch);
    void session.refresh();
    await line.next('catalog').answer(catalog());
    expect(session.state).toMatchObject({ busy: null, graphs: null });
    expect(session.state.view.page).toBe('overview');
    expect(line.asked).toEqual([]);
  });

  test('a file that cannot be read says why', async () => {
    const line = new Line();
    const session = new Session(at(), line.fetch);
    void session.refresh();
    await line.next('catalog').answer(catalog('r1', [], 'damaged'));
    expect(session.state.problem).toMatchObject({ code: 'damaged', remedy: 'Build it.' });
    expect(session.state.busy).toBeNull();
  });

  test('a file that is not there is named, whatever else there is', async () => {
    const line = new Line();
    const session = new Session(at({ file: 'other.vis.db' }), line.fetch);
    void session.refresh();
    await line.next('catalog').answer(catalog());
    expect(session.state.problem).toMatchObject({ code: 'unknown_file' });
    expect(session.state.problem!.message).toContain('other.vis.db');
  });

  test('a server that refuses or does not answer says so', async () => {
    const problem = { code: 'gone', message: 'It is gone.', remedy: 'Look again.' };
    const line = new Line();
    const session = new Session(at(), line.fetch);
    void session.refresh();
    const body = toBinary(ProblemSchema, create(ProblemSchema, problem));
    await line.next('catalog').answer(body, 404);
    expect(session.state.problem).toMatchObject(problem);
    void session.refresh();
    await line.next('catalog').refuse();
    expect(session.state).toMatchObject({ busy: null, problem: { code: 'no-answer' } });
  });

  test('both sides have to be of one state of the file', async () => {
    const line = new Line();
    const session = new Session(at(), line.fetch);
    void session.refresh();
    await line.next('catalog').answer(catalog());
    const [npu, bench] = [line.next('skeleton'), line.next('skeleton')];
    await npu.answer(SKELETONS[0]);
    const other = Buffer.from(SKELETONS[1]!);
    other.write('r2', other.indexOf('r1'));
    await bench.answer(other);
    expect(session.state).toMatchObject({ graphs: null, problem: { code: 'changed' } });
  });
});

describe('a newer request', () => {
  test('aborts the older one, whose answer never shows', async () => {
    const { session, line } = await opened();
    void session.open({ rank: 1 });
    const [npu, bench] = [line.next('skeleton'), line.next('skeleton')];
    void session.open({ step: 1, rank: 0 });
    expect([npu.signal.aborted, bench.signal.aborted]).toEqual([true, true]);
    await npu.answer(SKELETONS[0]);
    await bench.answer(SKELETONS[1]!);
    expect(session.state).toMatchObject({ busy: 'graph', graphs: null, problem: null });
    expect(line.asked[0]!.query.get('step')).toBe('1');
    await line.skeletons();
    expect(session.state).toMatchObject({ busy: null, view: { step: 1, rank: 0 } });
  });

  test('also aborts the details of a node', async () => {
    const { session, line } = await opened();
    void session.select({ side: Side.NPU, index: 1 });
    const first = line.next('node');
    expect(first.query.get('index')).toBe('1');
    void session.select({ side: Side.NPU, index: 2 });
    expect(first.signal.aborted).toBe(true);
    const second = line.next('node');
    await first.answer(detail());
    expect(session.state).toMatchObject({ detail: null, detailBusy: true, detailProblem: null });
    await second.answer(detail());
    expect(session.state.detailBusy).toBe(false);
    expect(session.state.detail).not.toBeNull();
  });

  test('details wait for the frame that shows their node', async () => {
    const { session, line } = await opened();
    const frames: (() => void)[] = [];
    vi.stubGlobal('requestAnimationFrame', (draw: () => void) => frames.push(draw));
    void session.select({ side: Side.NPU, index: 1 });
    vi.stubGlobal('requestAnimationFrame', undefined);
    await line.next('node').answer(detail());
    expect(session.state).toMatchObject({ selected: { index: 1 }, detail: null, detailBusy: true });
    frames.forEach((draw) => draw());
    await vi.waitUntil(() => !session.state.detailBusy);
    expect(session.state.detail).not.toBeNull();
  });

  test('clearing the selection aborts them too', async () => {
    const { session, line } = await opened();
    void session.select({ side: Side.NPU, index: 1 });
    const asked = line.next('node');
    await session.select(null);
    expect(asked.signal.aborted).toBe(true);
    expect(session.state).toMatchObject({ selected: null, detailBusy: false, view: { node: '' } });
  });

  test('of a search replaces the older one', async () => {
    const { session, line } = await opened();
    session.finding.change({ dtype: 'float' });
    const first = line.next('search');
    session.finding.change({ dtype: 'float32' });
    expect(first.signal.aborted).toBe(true);
    const second = line.next('search');
    expect(second.query.get('dtype')).toBe('float32');
    const found = (index: number[]) =>
      toBinary(SearchResultSchema, create(SearchResultSchema, { revision: 'r1', index }));
    await first.answer(found([1, 2]));
    expect(session.state).toMatchObject({ searching: true, hits: null });
    await second.answer(found([2]));
    expect([...session.state.hits!.indices]).toEqual([2]);
    expect(session.state.searching).toBe(false);
  });
});

describe('a file that changes', () => {
  test('is noticed by the details of a node, which are not shown', async () => {
    const { session, line } = await opened();
    void session.select({ side: Side.NPU, index: 1 });
    await line.next('node').answer(detail('r2'));
    expect(session.state).toMatchObject({ news: 'changed', detail: null, detailBusy: false });
  });

  test.each([
    ['changed', catalog('r2')],
    ['broken', catalog('r2', [], 'damaged')],
    ['gone', toBinary(CatalogSchema, create(CatalogSchema))],
    [null, catalog('r1')],
  ])('looking around finds it %s', async (news, body) => {
    const { session, line } = await opened();
    const { graphs } = session.state;
    void session.lookAround();
    await line.next('catalog').answer(body);
    expect(session.state).toMatchObject({ news, busy: null, problem: null });
    expect(session.state.graphs).toBe(graphs);
    expect(line.asked).toEqual([]);
  });

  test('nobody hears of a look around that fails', async () => {
    const { session, line } = await opened();
    void session.lookAround();
    await line.next('catalog').refuse();
    expect(session.state).toMatchObject({ news: null, problem: null });
  });

  test('a search in another state of the file is refused', async () => {
    const { session, line } = await opened();
    session.finding.change({ dtype: 'float32' });
    const result = create(SearchResultSchema, { revision: 'r2', index: [1] });
    await line.next('search').answer(toBinary(SearchResultSchema, result));
    expect(session.state.hits!.failure).toContain('changed');
    expect([...session.state.hits!.indices]).toEqual([]);
  });

  test('reloading keeps the selected node and asks for its details again', async () => {
    const { session, line } = await opened();
    void session.select({ side: Side.BENCH, index: 2 });
    await line.next('node').answer(detail());
    void session.reload();
    await line.next('catalog').answer(catalog());
    await line.graphs();
    expect(session.state.selected).toEqual({ side: Side.BENCH, index: 2 });
    expect(session.state).toMatchObject({ detail: null, busy: null, news: null });
    const asked = line.next('node');
    expect(() => line.next('measures'), 'they wait for what is looked at').toThrow();
    await asked.answer(detail());
    expect(session.state.detail).not.toBeNull();
    line.next('measures');
  });
});

describe('what may be undone', () => {
  test('is of the same state of the file as the graphs it is asked of', async () => {
    const { session, line } = await opened();
    void session.reload();
    await line.next('catalog').answer(catalog('r2'));
    const { catalog: shown, graphs } = session.state;
    expect(shown!.files[0]!.revision).toBe(graphs![Side.NPU].revision);
  });
});

describe('jumps', () => {
  test('a walk through rows is one thing to go back from', async () => {
    const { session, line } = await opened();
    const { jumps } = session.state;
    for (const index of [0, 1, 2]) {
      void session.select({ side: Side.NPU, index }, 'walk');
      await line.next('node').answer(detail());
    }
    expect(session.state.jumps).toBe(jumps + 1);
    void session.select({ side: Side.NPU, index: 0 });
    expect(session.state.jumps).toBe(jumps + 2);
  });

  test('selecting what is selected does nothing once its details are there', async () => {
    const { session, line } = await opened();
    void session.select({ side: Side.NPU, index: 1 });
    await line.next('node').answer(detail());
    const before = session.state;
    await session.select({ side: Side.NPU, index: 1 });
    expect(session.state).toBe(before);
    expect(line.asked).toEqual([]);
  });

  test('a link into the same graph keeps it, and what it lacks is said', async () => {
    const { session, line } = await opened();
    const { graphs } = session.state;
    void session.follow(at({ node: 'Torch.add.1.forward' }));
    expect(session.state.graphs).toBe(graphs);
    expect(session.state.selected).toEqual({ side: Side.NPU, index: 2 });
    await line.next('node').answer(detail());
    await session.follow(at({ node: 'Torch.mul.0.forward' }));
    expect(session.state).toMatchObject({
      selected: null,
      unmet: [{ kind: 'node', wanted: 'Torch.mul.0.forward' }],
    });
  });

  test('coming back from the overview needs no request', async () => {
    const { session, line } = await opened();
    const { graphs } = session.state;
    session.showOverview();
    expect(session.state.view.page).toBe('overview');
    await session.enter(0, 0);
    expect(session.state.view.page).toBe('graph');
    expect(session.state.graphs).toBe(graphs);
    expect(line.asked).toEqual([]);
    void session.enter(0, 1);
    await line.skeletons();
    expect(session.state.view.rank).toBe(1);
  });
});

test('a proposal selects the node that has no match and picks the other', async () => {
  const lone: Sketch = { ...add(2), key: 'lone' };
  const pairs = encodePair(
    { stem: 'DefaultModel', key: 'root', children: [lone] },
    { stem: 'DefaultModel', key: 'root', children: [add(0)] },
  );
  const line = new Line();
  const session = new Session(at(), line.fetch);
  void session.refresh();
  await line.next('catalog').answer(catalog());
  const [npu, bench] = [line.next('skeleton'), line.next('skeleton')];
  await npu.answer(pairs[0]);
  await bench.answer(pairs[1]!);
  void session.propose({ side: Side.NPU, index: 1 }, { side: Side.BENCH, index: 1 });
  await line.next('node').answer(detail());
  expect(session.state.selected).toEqual({ side: Side.NPU, index: 1 });
  expect(session.state).toMatchObject({ pick: false, picked: { side: Side.BENCH, index: 1 } });
});
