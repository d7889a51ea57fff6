// The view in the address bar, so that reloading and sending a link bring it back.
//
// TensorBoard's own fragment names the tab, `#graph_ascend`, and keeps what follows as
// `&p.graph_ascend.key=value`. A page outside TensorBoard uses a fragment of its own.

import { GRADES, OVERFLOWS } from './data/codes';
import type { Find } from './find';
import { Side } from './generated/graph_pb';
import { ALL_MICRO_STEPS, INITIAL_VIEW, type ViewState } from './state';

const TAB = '#graph_ascend';
const PREFIX = 'p.graph_ascend.';

/** The fragment for a view; a step and a rank mean their graph, none of them that the file decides. */
export function toFragment(view: ViewState): string {
  const parameters = new URLSearchParams();
  const set = (key: string, value: string | number) => parameters.set(PREFIX + key, String(value));
  if (view.file) set('file', view.file);
  if (view.page === 'overview') set('page', view.page);
  if (view.page === 'graph') {
    set('step', view.step);
    set('rank', view.rank);
  }
  if (view.micro !== ALL_MICRO_STEPS) set('micro', view.micro);
  if (view.node) {
    set('side', view.side === Side.BENCH ? 'bench' : 'npu');
    set('node', view.node);
  }
  for (const [key, value] of Object.entries(findParameters(view.find))) {
    if (value) set(key, value);
  }
  const text = parameters.toString();
  return text ? `${TAB}&${text}` : TAB;
}

/** Reads a fragment; whatever is missing or malformed keeps its initial value. */
export function fromFragment(fragment: string): ViewState {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ''));
  const get = (key: string) => parameters.get(PREFIX + key);
  const natural = (key: string, otherwise: number) => {
    const text = get(key);
    return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
  };
  const isGraph = natural('step', -1) >= 0 || natural('rank', -1) >= 0 || get('node') !== null;
  return {
    page: get('page') === 'overview' ? 'overview' : isGraph ? 'graph' : 'auto',
    file: get('file') ?? '',
    step: natural('step', INITIAL_VIEW.step),
    rank: natural('rank', INITIAL_VIEW.rank),
    micro: natural('micro', ALL_MICRO_STEPS),
    side: get('side') === 'bench' ? Side.BENCH : Side.NPU,
    node: get('node') ?? '',
    find: readFind(get),
  };
}

function findParameters(find: Find): Record<string, string> {
  return {
    q: find.text,
    regex: find.isPattern ? '1' : '',
    in: find.side === Side.BENCH ? 'bench' : '',
    grades: find.grades.join(','),
    overflow: find.overflows.join(','),
    reasons: find.reasons.join(','),
    operator: find.operator,
    scope: find.scope === 'file' ? 'file' : '',
    order: find.order === 'severity' ? 'severity' : '',
  };
}

function readFind(get: (key: string) => string | null): Find {
  const list = (key: string) => (get(key) ?? '').split(',').filter((part) => part !== '');
  const codes = <T extends number>(key: string, known: readonly T[]) =>
    known.filter((code) => list(key).includes(String(code)));
  return {
    text: get('q') ?? '',
    isPattern: get('regex') === '1',
    side: get('in') === 'bench' ? Side.BENCH : Side.NPU,
    grades: codes('grades', GRADES),
    overflows: codes('overflow', OVERFLOWS),
    reasons: list('reasons'),
    operator: get('operator') ?? '',
    scope: get('scope') === 'file' ? 'file' : 'graph',
    order: get('order') === 'severity' ? 'severity' : 'execution',
  };
}

export function readAddress(): ViewState {
  return fromFragment(addressed().location.hash);
}

/** Shows the view in the address bar, unless another of TensorBoard's tabs is in front. */
export function writeAddress(view: ViewState): void {
  const { location, history } = addressed();
  const fragment = toFragment(view);
  const isOurs = location.hash === '' || location.hash.split('&')[0] === TAB;
  if (!isOurs || location.hash === fragment) return;
  // The page may have a base elsewhere, against which a bare fragment would be resolved.
  history.replaceState(history.state, '', location.href.replace(/#.*$/, '') + fragment);
}

/** Calls the listener when the user opens a link or goes back; returns how to stop it. */
export function onAddressChange(listener: (view: ViewState) => void): () => void {
  const page = addressed();
  const changed = () => {
    if (page.location.hash.startsWith(`${TAB}&`)) listener(readAddress());
  };
  page.addEventListener('hashchange', changed);
  return () => page.removeEventListener('hashchange', changed);
}

/** The window whose address the user sees and sends. */
function addressed(): Window {
  try {
    return window.parent.location.href ? window.parent : window;
  } catch {
    return window; // another origin embeds us
  }
}
