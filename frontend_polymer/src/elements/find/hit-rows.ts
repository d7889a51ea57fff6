import { GRADES, OVERFLOWS } from '../../data/codes';
import { OF_MODULES } from '../../data/label';
import { Grade, Overflow, Side } from '../../generated/graph_pb';
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
export function hitElement(row: HitRow, text: Texts): HTMLElement {
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
    OF_MODULES.test(row.name) ? '' : row.module,
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
