// What the verdict adds to the picture.

import type { Marks } from '../../canvas/painter';
import { Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import { trailOf } from '../../session/tracing';
import { suspectIndexes } from '../../session/colours';
import { verdictOf } from '../../session/verdict';

let last: { readonly of: readonly unknown[]; readonly marks: Marks } | null = null;

/** The same object as long as nothing of it has changed. */
export function marksOf(state: AppState, text: Texts): Marks {
  const { graphs, groups, flow, selected, view } = state;
  const of = [graphs, groups, flow, selected, view.trail, verdictOf(state), text];
  if (last?.of.every((part, at) => part === of[at])) return last.marks;
  const bands = (key: 'npu' | 'bench') =>
    (groups?.groups ?? []).map((group) => ({
      label: text.match.group(group.operation, Math.round(100 * group.certainty)),
      nodes: group[key],
    }));
  const trail = graphs ? trailOf(state).filter((index) => index < graphs[Side.NPU].count) : null;
  const marks = {
    suspects: suspectIndexes(state),
    bands: [bands('npu'), bands('bench')] as const,
    trail: trail ?? new Int32Array(),
  };
  last = { of, marks };
  return marks;
}
