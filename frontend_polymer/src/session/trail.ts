// Jumps to other steps and ranks, and the way back from them.

import type { NodePlace } from './finding';
import type { Session } from './session';

const LONGEST = 50;

/** Shows a node elsewhere, leaving a way back to what is shown now. */
export async function visit(session: Session, place: NodePlace): Promise<void> {
  const { trail, view } = session.state;
  session.store.update({ trail: [...trail.slice(1 - LONGEST), view] });
  await session.goTo(place);
}

/** Shows again what the last visit set out from; what is looked for stays. */
export async function back(session: Session): Promise<void> {
  const { trail, view } = session.state;
  const last = trail.at(-1);
  if (!last) return;
  session.store.update({ trail: trail.slice(0, -1) });
  await session.follow({ ...last, find: view.find, look: null }, true);
}
