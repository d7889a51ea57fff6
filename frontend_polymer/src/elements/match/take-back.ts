// Undo and redo of matches made by hand, from wherever the keys are.

import { asProblem } from '../../data/problem';
import { change } from '../../data/api';
import type { Texts } from '../../i18n';
import { fileOf, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { editHint, messageOf, outcomeOf } from './match-choices';
import { baseOf } from './match-request';

export type TakeBack = 'undo' | 'redo';

/** What would be taken back or done again; empty when there is nothing. */
export function takenBack(state: AppState, route: TakeBack, text: Texts): string {
  const { undoHint, redoHint } = text.match;
  return editHint(fileOf(state)?.edits?.[route], route === 'undo' ? undoHint : redoHint);
}

/** Does it, shows the graphs as they are then, and answers with what came of it. */
export async function takeBack(session: Session, route: TakeBack, text: Texts): Promise<string> {
  const { state } = session;
  if (!fileOf(state)?.writable) return text.match.readOnly;
  if (!takenBack(state, route, text)) return text.match.nothingToTakeBack;
  try {
    const report = await change(session.fetch, route, { ...baseOf(state), dryRun: false });
    await session.reload();
    return outcomeOf(report, text);
  } catch (error) {
    // Somebody else was faster: shows what they did.
    if (asProblem(error).status === 409) await session.reload();
    return messageOf(error);
  }
}
