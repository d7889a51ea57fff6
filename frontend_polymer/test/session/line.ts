import { create, toBinary } from '@bufbuild/protobuf';
import { expect } from 'vitest';
import type { Fetch } from '../../src/data/api';
import {
  CatalogSchema,
  DatabaseFileSchema,
  Direction,
  Grade,
  GraphPairSchema,
  Kind,
  NodeDetailSchema,
} from '../../src/generated/graph_pb';
import { Session } from '../../src/session/session';
import { INITIAL_VIEW, type ViewState } from '../../src/session/state';
import { encodePair, type Sketch } from '../graphs/synthetic';

export const add = (call: number): Sketch => ({
  ...{ stem: 'Torch.add', kind: Kind.API, direction: Direction.FORWARD, call, key: `add${call}` },
  grade: Grade.OK,
});
const MODEL: Sketch = { stem: 'DefaultModel', key: 'root', children: [add(0), add(1)] };
export const SKELETONS = encodePair(MODEL, MODEL);
export const FILE = 'one.vis.db';

export const pair = (step: number, rank: number, benchNodes = 3) =>
  create(GraphPairSchema, { step, rank, npuNodes: 3, benchNodes, microSteps: 1 });

export function catalog(
  revision = 'r1',
  graphs = [pair(0, 0), pair(0, 1), pair(1, 0)],
  problem = '',
) {
  const file = create(DatabaseFileSchema, {
    ...{ file: FILE, revision, graphs },
    ...(problem
      ? { problem: { code: problem, message: 'It is broken.', remedy: 'Build it.' } }
      : {}),
  });
  return toBinary(CatalogSchema, create(CatalogSchema, { files: [file] }));
}

export const detail = (revision = 'r1') =>
  toBinary(NodeDetailSchema, create(NodeDetailSchema, { revision }));

/** A request that waits for its answer, as long as the test likes. */
export interface Asked {
  readonly route: string;
  readonly query: URLSearchParams;
  readonly signal: AbortSignal;
  answer(body: Uint8Array, status?: number): Promise<void>;
  refuse(): Promise<void>;
}

/** A server that answers when it is told to, in any order. */
export class Line {
  readonly asked: Asked[] = [];

  /** Not `heedsAborts`: an answer that is on its way already arrives all the same. */
  constructor(private readonly heedsAborts = true) {}

  readonly fetch: Fetch = (url, { signal }) =>
    new Promise((resolve, reject) => {
      if (this.heedsAborts) {
        signal?.addEventListener('abort', () => reject(signal.reason as Error));
      }
      this.asked.push({
        route: url.pathname.slice(1),
        query: url.searchParams,
        signal: signal!,
        answer: async (body, status = 200) => {
          resolve(new Response(new Uint8Array(body), { status }));
          await settled();
        },
        refuse: async () => {
          reject(new TypeError('Failed to fetch'));
          await settled();
        },
      });
    });

  /** The oldest request of a route that has not been taken yet. */
  next(route: string): Asked {
    const place = this.asked.findIndex((one) => one.route === route);
    expect(place, `no request for ${route}`).toBeGreaterThanOrEqual(0);
    return this.asked.splice(place, 1)[0]!;
  }

  /** Answers with both sides. */
  async graphs(): Promise<void> {
    const [npu, bench] = [this.next('skeleton'), this.next('skeleton')];
    await npu.answer(SKELETONS[0]);
    await bench.answer(SKELETONS[1]!);
  }

  /** The same where no node is selected; returns the request for their measures. */
  async skeletons(): Promise<Asked> {
    await this.graphs();
    return this.next('measures');
  }
}

/** Promises that wait for nothing but each other have run. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  await new Promise((resolve) => setImmediate(resolve));
}

export const at = (change: Partial<ViewState> = {}): ViewState => ({
  ...{ ...INITIAL_VIEW, file: FILE, page: 'graph' },
  ...change,
});

/** A session that shows the first graph. */
export async function opened(
  view = at(),
  line = new Line(),
): Promise<{ session: Session; line: Line }> {
  const session = new Session(view, line.fetch);
  void session.refresh();
  await line.next('catalog').answer(catalog());
  await line.skeletons();
  return { session, line };
}
