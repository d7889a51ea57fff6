import type { Texts } from '../../i18n';
import type { NodeRef } from '../../layout/hierarchy';
import { moduleAt } from '../../session/conditions';
import { searchBelow } from '../../session/finding';
import type { Session } from '../../session/session';
import { copyText } from '../parts/copy-text';
import type { NodeAction } from './ga-node-menu';

/** What can be done with a node of the graph. */
export function nodeActions(
  session: Session,
  { side, index }: NodeRef,
  text: Texts,
  { expand, say }: { readonly expand: () => void; readonly say: (message: string) => void },
): NodeAction[] {
  const graph = session.state.graphs?.[side];
  if (!graph) return [];
  const path = moduleAt(graph, index);
  const below = {
    label: text.find.searchBelow(path),
    run: () => searchBelow(session, side, path),
  };
  return [
    ...(path === '' ? [] : [below]),
    ...(graph.hasChildren(index) ? [{ label: text.view.expandBelow, run: expand }] : []),
    {
      label: text.details.copyName,
      run: () => void copyText(graph.name(index)).then(() => say(text.details.copied)),
    },
  ];
}
