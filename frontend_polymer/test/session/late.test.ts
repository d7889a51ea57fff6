// Answers that nobody waits for any more: on their way when their request was aborted, or of another
// state of the file.
import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  MeasuresSchema,
  ProblemSchema,
  SearchResultSchema,
  Side,
} from '../../src/generated/graph_pb';
import { ProblemError } from '../../src/data/problem';
import { en } from '../../src/i18n/en';
import { zh } from '../../src/i18n/zh';
import { whyLate } from '../../src/session/measuring';
import { at, catalog, detail, Line, opened, SKELETONS } from './line';

const measures = (revision: string) =>
  toBinary(MeasuresSchema, create(MeasuresSchema, { revision, scaled: [0, 1, 2] }));

const found = (index: number[], revision = 'r1') =>
  toBinary(SearchResultSchema, create(SearchResultSchema, { revision, index, total: 2 }));

const openedLate = () => opened(at(), new Line(false));

beforeAll(() => {
  vi.stubGlobal('document', { baseURI: 'http://viewer.test/' });
});

describe('what arrives too late is not shown', () => {
  test('a graph', async () => {
    const { session, line } = await openedLate();
    void session.open({ rank: 1 });
    const [npu, bench] = [line.next('skeleton'), line.next('skeleton')];
    void session.open({ step: 1, rank: 0 });
    await npu.answer(SKELETONS[0]);
    await bench.answer(SKELETONS[1]!);
    expect(session.state).toMatchObject({ busy: 'graph', graphs: null, problem: null });
  });

  test('the graph of a reload', async () => {
    const { session, line } = await openedLate();
    void session.reload();
    await line.next('catalog').answer(catalog());
    const [npu, bench] = [line.next('skeleton'), line.next('skeleton')];
    void session.open({ step: 1, rank: 0 });
    await npu.answer(SKELETONS[0]);
    await bench.answer(SKELETONS[1]!);
    expect(session.state).toMatchObject({ busy: 'graph', graphs: null, problem: null });
  });

  test('the list of files', async () => {
    const { session, line } = await openedLate();
    void session.refresh();
    const older = line.next('catalog');
    void session.refresh();
    await older.answer(catalog('r9'));
    expect(session.state).toMatchObject({ busy: 'catalog' });
    expect(session.state.catalog!.files[0]!.revision).toBe('r1');
  });

  test('the details of a node', async () => {
    const { session, line } = await openedLate();
    void session.select({ side: Side.NPU, index: 1 });
    const asked = line.next('node');
    await session.select(null);
    await asked.answer(detail());
    expect(session.state).toMatchObject({ detail: null, detailBusy: false, news: null });
  });

  test('the details of a node of the graph before', async () => {
    const { session, line } = await openedLate();
    void session.select({ side: Side.NPU, index: 1 });
    const asked = line.next('node');
    void session.open({ rank: 1 });
    expect(asked.signal.aborted).toBe(true);
    await asked.answer(detail());
    expect(session.state.detail).toBeNull();
  });

  test('that the details of a node cannot be had', async () => {
    const { session, line } = await openedLate();
    void session.select({ side: Side.NPU, index: 1 });
    const asked = line.next('node');
    void session.select({ side: Side.NPU, index: 2 });
    await asked.refuse();
    expect(session.state).toMatchObject({ detailBusy: true, detailProblem: null });
  });

  test('measures', async () => {
    const line = new Line(false);
    const { session } = await opened(at(), line);
    void session.open({ rank: 1 });
    const asked = await line.skeletons();
    void session.open({ step: 1, rank: 0 });
    await asked.answer(measures('r1'));
    expect(session.state.measures).toBeNull();
  });

  test('a search', async () => {
    const { session, line } = await openedLate();
    session.finding.change({ dtype: 'float' });
    const older = line.next('search');
    session.finding.change({ dtype: 'float32' });
    await older.answer(found([1, 2]));
    expect(session.state).toMatchObject({ searching: true, hits: null });
    await line.next('search').answer(found([2]));
    expect([...session.state.hits!.indices]).toEqual([2]);
  });

  test('that a search failed', async () => {
    const { session, line } = await openedLate();
    session.finding.change({ dtype: 'float' });
    const older = line.next('search');
    session.finding.change({ dtype: 'float32' });
    await older.refuse();
    expect(session.state).toMatchObject({ searching: true, hits: null });
  });

  test('a search that a list from elsewhere replaced', async () => {
    const { session, line } = await openedLate();
    session.finding.change({ dtype: 'float32' });
    const asked = line.next('search');
    session.finding.change({ dtype: '', operator: 'add' });
    await asked.answer(found([2]));
    expect([...session.state.hits!.indices]).toEqual([1, 2]);
  });

  test('news of a look around', async () => {
    const { session, line } = await openedLate();
    void session.lookAround();
    const asked = line.next('catalog');
    void session.open({ rank: 1 });
    await line.skeletons();
    await asked.answer(catalog('r2'));
    expect(session.state).toMatchObject({ busy: null, news: null });
    expect(session.state.catalog!.files[0]!.revision).toBe('r1');
  });
});

describe('what is of another state of the file is not shown', () => {
  test.each([
    ['r1', true],
    ['r2', false],
  ])('measures of %s', async (revision, isShown) => {
    const line = new Line();
    const { session } = await opened(at(), line);
    void session.open({ rank: 1 });
    await (await line.skeletons()).answer(measures(revision));
    expect(session.state.measures !== null).toBe(isShown);
  });

  test('a place that the graph does not have', async () => {
    const { session, line } = await opened();
    session.finding.change({ dtype: 'float32' });
    await line.next('search').answer(found([3]));
    expect(session.state.hits!.failure).toContain('changed');
  });
});

describe('measures that take long', () => {
  beforeAll(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterAll(() => {
    vi.useRealTimers();
  });

  const asked = async () => {
    const line = new Line(false);
    const { session } = await opened(at(), line);
    void session.open({ rank: 1 });
    return { session, line, measured: await line.skeletons() };
  };

  test('are told to be on their way, and shown when they arrive', async () => {
    const { session, measured } = await asked();
    vi.advanceTimersByTime(9_000);
    expect(session.state).toMatchObject({ measures: null, measuring: null });
    vi.advanceTimersByTime(2_000);
    expect(session.state).toMatchObject({ measures: null, measuring: 'late' });
    await measured.answer(measures('r1'));
    expect(session.state.measuring).toBeNull();
    expect(session.state.measures).not.toBeNull();
  });

  test('are not spoken of where they came in time', async () => {
    const { session, measured } = await asked();
    await measured.answer(measures('r1'));
    vi.advanceTimersByTime(60_000);
    expect(session.state.measuring).toBeNull();
  });

  test('are not spoken of once another graph is shown', async () => {
    const { session, line, measured } = await asked();
    void session.open({ step: 1, rank: 0 });
    await measured.refuse();
    vi.advanceTimersByTime(60_000);
    expect(session.state.measuring).toBeNull();
    await line.skeletons();
    vi.advanceTimersByTime(11_000);
    expect(session.state.measuring).toBe('late');
  });

  test('say why they cannot be had', async () => {
    const { session, measured } = await asked();
    vi.advanceTimersByTime(11_000);
    const fields = { code: 'too_slow', message: 'It took too long.', remedy: 'Try again.' };
    await measured.answer(toBinary(ProblemSchema, create(ProblemSchema, fields)), 503);
    expect(session.state.measuring).toMatchObject(fields);
  });

  test.each([
    [en, 'chosen here once they are there', 'cannot be had: It took too long. Try again.'],
    [zh, '完成后即可在此选择', '：It took too long. Try again.'],
  ])('are told of in one sentence', (texts, late, failed) => {
    const problem = new ProblemError('too_slow', 'It took too long.', 'Try again.');
    expect(whyLate('late', texts)).toContain(late);
    expect(whyLate(problem, texts)).toContain(failed);
    expect(whyLate(null, texts)).toBe('');
  });

  test('are not missed where a server is too old to have them', async () => {
    const { session, measured } = await asked();
    await measured.answer(new Uint8Array(), 404);
    expect(session.state.measuring).toBeNull();
  });
});
