// Answers the questions of the viewer from the page itself, as the plugin would.

import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Fetch } from '../data/api';
import { packedIn, PageGraphs, type Packed } from '../data/page';
import {
  CandidatesSchema,
  CatalogSchema,
  NodeAcrossSchema,
  NodeDetailSchema,
  NodeFlowSchema,
  ProblemSchema,
  SearchResultSchema,
  Side,
} from '../generated/graph_pb';
import { SIDES } from '../layout/sides';
import { flowOf } from './page-flow';
import { acrossPage, searchPage, type Place } from './page-search';

type Bytes = Uint8Array<ArrayBuffer>;

/** What answers in this page; null when it has a server to ask. */
export function answersIn(page: Document): Fetch | null {
  const packed = packedIn(page);
  if (!packed) return null;
  const answers = new PageAnswers(packed);
  return async (url, { signal }) => {
    const body = await answers.answer(url);
    signal?.throwIfAborted();
    if (body) return new Response(body);
    const problem = create(ProblemSchema, {
      code: 'not_in_page',
      message: 'This page does not hold that.',
      remedy: 'Open the database itself in TensorBoard.',
    });
    return new Response(toBinary(ProblemSchema, problem), { status: 404 });
  };
}

class PageAnswers {
  private readonly opened = new Map<string, Promise<PageGraphs | null>>();

  constructor(private readonly packed: Packed) {}

  async answer(url: URL): Promise<Bytes | null> {
    const query = url.searchParams;
    const get = (key: string) => Number(query.get(key) ?? 0);
    const place = `${get('step')}/${get('rank')}`;
    const side = SIDES[get('side')] ?? Side.NPU;
    switch (url.pathname.split('/').at(-1)) {
      case 'catalog':
        return this.packed.read('catalog');
      case 'skeleton':
        return this.packed.read(`skeleton/${place}/${side}`);
      case 'measures':
        return this.packed.read(`measures/${place}`);
      case 'values':
        return this.packed.read(`values/${place}`);
      case 'groups':
        return this.packed.read(`groups/${place}`);
      case 'node': {
        const detail = await (await this.graphs(place))?.node(side, get('index'));
        return detail ? toBinary(NodeDetailSchema, detail) : null;
      }
      case 'flow': {
        const graphs = await this.graphs(place);
        if (!graphs?.graph(side)) return null;
        return toBinary(NodeFlowSchema, await flowOf(graphs, side, get('index')));
      }
      case 'search': {
        const { places, revision } = await this.places();
        return toBinary(SearchResultSchema, await searchPage(places, query, revision));
      }
      case 'across': {
        const { places, revision } = await this.places();
        const across = await acrossPage(places, query.get('name') ?? '', side, revision);
        return toBinary(NodeAcrossSchema, across);
      }
      case 'candidates': {
        const { revision } = await this.places();
        return toBinary(CandidatesSchema, create(CandidatesSchema, { revision }));
      }
      default:
        return null;
    }
  }

  private graphs(place: string): Promise<PageGraphs | null> {
    let graphs = this.opened.get(place);
    if (!graphs) this.opened.set(place, (graphs = PageGraphs.open(this.packed, place)));
    return graphs;
  }

  private async places(): Promise<{ places: Place[]; revision: string }> {
    const bytes = (await this.packed.read('catalog')) ?? new Uint8Array();
    const [file] = fromBinary(CatalogSchema, bytes).files;
    const places: Place[] = [];
    for (const pair of file?.graphs ?? []) {
      const graphs = await this.graphs(`${pair.step}/${pair.rank}`);
      if (graphs) places.push({ pair, graphs });
    }
    return { places, revision: file?.revision ?? '' };
  }
}
