import type { Texts } from '../../i18n';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import { communicates } from './communication-table';

export type Tab = 'tensors' | 'flow' | 'stack' | 'communication' | 'across' | 'match';

export interface TabItem {
  readonly id: Tab;
  readonly label: string;
}

/** What there is to say about the selected node. */
export function detailTabs(state: AppState, text: Texts): TabItem[] {
  const { detail } = state;
  const peers = Math.max(
    detail?.npu?.communication.length ?? 0,
    detail?.bench?.communication.length ?? 0,
  );
  const talk = peers > 0 ? `${text.communication.tab} (${peers})` : text.communication.tab;
  const graphs = fileOf(state)?.graphs.length ?? 0;
  return [
    { id: 'tensors', label: text.details.tensors },
    { id: 'flow', label: text.flow.tab },
    { id: 'stack', label: text.details.stack },
    ...(detail && communicates(detail) ? [{ id: 'communication', label: talk } as const] : []),
    ...(graphs > 1 ? [{ id: 'across', label: text.across.tab } as const] : []),
    ...(hasBench(state) && !state.catalog?.page
      ? [{ id: 'match', label: text.match.tab } as const]
      : []),
  ];
}
