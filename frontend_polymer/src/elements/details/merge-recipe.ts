// How a merged value came about, in words and as a small table.

import { readRecipe, type Recipe } from '../../data/recipe';
import type { NodeRecord, Parameter } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { rankList } from '../parts/format';

/** Whether something can be said about how this value was merged. */
export function isMerged(
  parameter: Parameter | undefined,
  record: NodeRecord | undefined,
): boolean {
  if (!parameter || !record || record.originRanks.length === 0) return false;
  return parameter.recipe !== '' || (parameter.dtype !== '' && record.originRanks.length > 1);
}

/** How one value was made; `side` is what its side is called. */
export function recipeView(
  parameter: Parameter,
  record: NodeRecord,
  side: string,
  text: Texts,
): HTMLElement {
  const recipe = readRecipe(parameter.recipe);
  const view = create('section', 'recipe');
  view.append(...account(recipe, side, record, text));
  for (const one of recipe.apart) {
    view.append(create('p', 'apart', text.origin.apart(text.verdict.word(one))));
  }
  if (recipe.stage) {
    const { number, ranks } = recipe.stage;
    view.append(create('p', '', text.origin.stage(number, rankList(ranks.map(Number)))));
  }
  return view;
}

/** What was done last, then what had been done before that to the value of one rank. */
function account(recipe: Recipe, title: string, record: NodeRecord, text: Texts): HTMLElement[] {
  const { before } = recipe;
  return [
    create('strong', '', `${title}: ${kindName(recipe, record, text)}`),
    create('p', '', explanation(recipe, record, text)),
    ...(recipe.because ? [create('p', 'muted', text.origin.because(because(recipe, text)))] : []),
    ...(recipe.combinations.length > 0 ? [combinations(recipe, text)] : []),
    ...(recipe.isOrderUntold ? [create('p', 'muted', text.origin.orderUntold)] : []),
    ...(before ? account(before.recipe, text.origin.before(before.rank), record, text) : []),
  ];
}

function because({ because }: Recipe, text: Texts): string {
  return text.verdict.word(because?.['why'] ?? '');
}

function kindName({ kind }: Recipe, { originRanks }: NodeRecord, text: Texts): string {
  const { kinds } = text.origin;
  if (kind !== 'asRecorded') return kinds[kind];
  return originRanks.length > 1 ? kinds.replica : kinds.copy;
}

function explanation(recipe: Recipe, { originRanks }: NodeRecord, text: Texts): string {
  const { origin } = text;
  const ranks = rankList(recipe.ranks.map(Number));
  switch (recipe.kind) {
    case 'shards':
      return recipe.dimension === undefined
        ? origin.shardsUnknown(ranks)
        : origin.shards(ranks, recipe.dimension);
    case 'partial':
      return origin.partial;
    case 'lostTotal':
      return origin.lostTotal;
    case 'unknown':
      return origin.unknownWhy;
    case 'asRecorded': {
      const stage = recipe.stage?.ranks.map(Number) ?? originRanks;
      const first = String(stage[0] ?? '');
      return originRanks.length > 1 ? origin.replica(first) : origin.copy(first);
    }
    case 'other':
      return text.verdict.word(recipe.made);
  }
}

function combinations({ ranks, combinations: rows }: Recipe, text: Texts): HTMLTableElement {
  const { origin } = text;
  const table = create('table', 'parts');
  const head = create('tr', '');
  const titles = [
    origin.statistic,
    ...ranks.map((rank) => origin.rank(rank)),
    origin.merged,
    origin.rule,
  ];
  head.append(
    ...titles.map((title) => {
      const cell = create('th', '', title);
      cell.scope = 'col';
      return cell;
    }),
  );
  const top = create('thead', '');
  top.append(head);
  const body = create('tbody', '');
  for (const { statistic, parts, merged } of rows) {
    const line = create('tr', '');
    const name = create('th', '', text.tensors[statistic]);
    name.scope = 'row';
    line.append(
      name,
      ...parts.map((part) => create('td', 'numeric', part)),
      create('td', 'numeric merged', merged),
      create('td', 'muted', origin.rules[statistic]),
    );
    body.append(line);
  }
  table.append(top, body);
  return table;
}
