import { GRADES, OVERFLOWS } from '../../data/codes';
import { OF_MODULES } from '../../data/label';
import { Grade, Kind, Overflow, Side, type SearchResult } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import { moduleAround, modulePath } from '../../session/conditions';
import { create } from '../parts/create';
import { formatNumber } from '../parts/format';
import { gradeBars, gradeStyle } from '../parts/grade-style';
import { gradeName, overflowName, translated } from '../parts/words';

/** One result, in this graph or elsewhere. */
export interface HitRow {
  readonly name: string;
  /** Path of the module around it. */
  readonly module: string;
  readonly grade: Grade;
  /** Absent when there is none. */
  readonly error?: number;
  readonly overflow: Overflow;
  readonly reason: string;
  readonly place?: { readonly step: number; readonly rank: number };
}

/** How many results there are to list. */
export function hitCount({ hits, fileHits }: AppState): number {
  return fileHits ? fileHits.result.index.length : (hits?.sequence.length ?? 0);
}

export function hitPosition({ hits, fileHits }: AppState): number {
  return (fileHits ?? hits)?.position ?? -1;
}

/** What the results of a list are grouped by, and at which of them a group begins. */
export interface HitGroups {
  readonly starts: Int32Array;
  readonly title: (start: number) => string;
}

/** By module and, where all steps and ranks are searched, by these; not where the worst come first. */
export function hitGroups(state: AppState): HitGroups {
  const { fileHits, view } = state;
  const count = hitCount(state);
  if (view.find.order === 'severity') return { starts: new Int32Array(), title: () => '' };
  const key = fileHits ? placeKeys(fileHits.result) : moduleKeys(state);
  const starts: number[] = [];
  for (let at = 0; at < count; at++) if (at === 0 || key(at) !== key(at - 1)) starts.push(at);
  return { starts: Int32Array.from(starts), title: (start) => hitRow(state, start)?.module ?? '' };
}

function placeKeys({ step, rank, module }: SearchResult): (at: number) => string {
  return (at) => `${step[at]} ${rank[at]} ${module[at]}`;
}

/** The module around each result, by its number. */
function moduleKeys({ hits, graphs }: AppState): (at: number) => number {
  const graph = graphs?.[hits?.side ?? Side.NPU];
  return (at) => {
    let above = graph?.parent[hits!.sequence[at]!] ?? -1;
    while (above >= 0 && graph!.kindOf(above) !== Kind.MODULE) above = graph!.parent[above]!;
    return above;
  };
}

/** The result at this place of the list. */
export function hitRow({ hits, fileHits, graphs }: AppState, at: number): HitRow | undefined {
  if (fileHits) {
    const { result } = fileHits;
    const error = result.error[at]!;
    return {
      name: result.name[at]!,
      module: modulePath(result.module[at] ?? ''),
      grade: GRADES[result.grade[at]!] ?? Grade.UNGRADED,
      ...(error >= 0 ? { error } : {}),
      overflow: OVERFLOWS[result.overflow[at]!] ?? Overflow.NONE,
      reason: result.unmatchedReason[at]!,
      place: { step: result.step[at]!, rank: result.rank[at]! },
    };
  }
  const index = hits?.sequence[at];
  const graph = graphs?.[hits?.side ?? Side.NPU];
  if (index === undefined || !graph) return undefined;
  const error = graph.error[index]!;
  return {
    name: graph.name(index),
    module: moduleAround(graph, index),
    grade: graph.gradeOf(index),
    ...(error >= 0 ? { error } : {}),
    overflow: graph.overflowOf(index),
    reason: graph.unmatchedReasons[graph.unmatchedReason[index]!] ?? '',
  };
}

/** A result as two lines: its name, and what is known of it. */
export function hitElement(row: HitRow, isGrouped: boolean, text: Texts): HTMLElement {
  const element = create('div', 'hit');
  element.role = 'option';
  element.title = [row.module, row.name].filter((line) => line !== '').join('\n');
  const swatch = create('span', row.grade === Grade.UNMATCHED ? 'swatch dashed' : 'swatch');
  swatch.style.cssText = gradeStyle(row.grade);
  const bars = create('span', 'bars');
  bars.style.cssText = gradeBars(row.grade);
  swatch.append(bars);
  const facts = [
    row.place ? text.find.place(row.place.step, row.place.rank) : '',
    isGrouped || OF_MODULES.test(row.name) ? '' : row.module,
    row.error === undefined
      ? gradeName(row.grade, text)
      : `${gradeName(row.grade, text)} ${formatNumber(row.error)}`,
    row.overflow === Overflow.NONE
      ? ''
      : `${text.find.overflow}: ${overflowName(row.overflow, text).name}`,
    row.reason && translated<string>(text.reasons, row.reason, row.reason),
  ].filter((fact) => fact !== '');
  element.append(
    swatch,
    create('span', 'mono cut name', row.name),
    create('span', 'cut muted facts', facts.join(' · ')),
  );
  return element;
}
