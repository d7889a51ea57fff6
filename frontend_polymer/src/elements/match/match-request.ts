import type { MatchRequest as Message } from '../../generated/graph_pb';
import { MatchAction, Side } from '../../generated/graph_pb';
import type { AppState } from '../../session/app-state';
import type { Chosen } from './match-choices';

/** What the user has set beside the two nodes. */
export interface MatchOptions {
  readonly dryRun: boolean;
  readonly author: string;
  readonly reason: string;
  readonly descendants: boolean;
  readonly replace: boolean;
  readonly twin: boolean;
  readonly everywhere: boolean;
}

/** What is to be changed, and the state of it that the user was looking at. */
export function baseOf({ view, graphs }: AppState): { file: string; revision: string } {
  return { file: view.file, revision: graphs?.[Side.NPU].revision ?? '' };
}

export function isMatched(detail: AppState['detail']): boolean {
  return detail?.npu !== undefined && detail.bench !== undefined;
}

/** The match of the selected node with the chosen one, or the end of the one that it has. */
export function matchRequest(
  state: AppState,
  chosen: Chosen | null,
  { descendants, replace, twin, everywhere, ...options }: MatchOptions,
): Omit<Message, '$typeName' | '$unknown'> | null {
  const { selected, view, detail } = state;
  if (!selected) return null;
  const isNpu = selected.side === Side.NPU;
  const isEnd = isMatched(detail);
  const partner = isEnd ? (isNpu ? detail?.bench : detail?.npu)?.index : chosen?.index;
  if (partner === undefined) return null;
  return {
    ...{ ...baseOf(state), step: view.step, rank: view.rank, ...options },
    operations: [
      {
        $typeName: 'msprobe.graph.v1.MatchOperation',
        action: isEnd ? MatchAction.UNMATCH : MatchAction.MATCH,
        npu: isNpu ? selected.index : partner,
        bench: isNpu ? partner : selected.index,
        ...{ descendants, replace, twin, everywhere },
      },
    ],
  };
}
