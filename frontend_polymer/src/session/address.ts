// The view as the fragment of an address, so that reloading and sending a link bring it back.
//
// TensorBoard's own fragment names the tab, `#graph_ascend`, and keeps what follows as
// `&p.graph_ascend.key=value`. A page outside TensorBoard uses a fragment of its own.

import { COLOUR_MODES, GRADES, OVERFLOWS } from '../data/codes';
import { TEXT_CONDITIONS, type ConditionKey } from './conditions';
import { textsOf, type Find } from './find';
import { Side } from '../generated/graph_pb';
import { SIDES } from '../layout/sides';
import type { Place } from '../layout/state';
import { ALL_MICRO_STEPS, INITIAL_VIEW, type Look, type ViewState } from './state';

export const TAB = '#graph_ascend';
/** Tabs of the panel at the bottom, besides the tensors. */
const TABS = ['flow', 'stack', 'communication', 'across', 'match'];
const PREFIX = 'p.graph_ascend.';

/** Whether none of TensorBoard's other tabs is in front. */
export function isTabInFront({ hash }: Location): boolean {
  return hash === '' || hash.split('&')[0] === TAB;
}

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
    set('side', SIDE_NAMES[view.side]);
    set('node', view.node);
  }
  const { find, look } = view;
  const more = {
    ...findParameters(find),
    ...(look && view.page !== 'overview' ? lookParameters(look) : {}),
    sync: view.sync ? '' : '0',
    colours: view.colours === 'auto' ? '' : view.colours,
    powers: view.powers ? '1' : '',
    trail: view.trail ? '1' : '',
    automatic: view.automatic ? '' : '0',
    only: view.only === null ? '' : SIDE_NAMES[view.only],
    unified: view.unified ? '1' : '',
    tab: view.tab,
    trend: view.trend,
  };
  for (const [key, value] of Object.entries(more)) {
    if (value) set(key, value);
  }
  const text = parameters.toString();
  return text ? `${TAB}&${text}` : TAB;
}

/** Reads a fragment; whatever is missing or malformed keeps its initial value. */
export function fromFragment(fragment: string): ViewState {
  const parameters = parametersOf(fragment);
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
    sync: get('sync') !== '0',
    colours: COLOUR_MODES.find((mode) => mode === get('colours')) ?? 'auto',
    powers: get('powers') === '1',
    trail: get('trail') === '1',
    automatic: get('automatic') !== '0',
    only: SIDES.find((side) => SIDE_NAMES[side] === get('only')) ?? null,
    unified: get('unified') === '1',
    tab: TABS.find((tab) => tab === get('tab')) ?? '',
    trend: get('trend') ?? '',
    look: readLook(get),
  };
}

/** What of a fragment is malformed, as `key=value`. */
export function notUnderstood(fragment: string): string[] {
  const known = parametersOf(toFragment(fromFragment(fragment)));
  return [...parametersOf(fragment)]
    .filter(([key, value]) => key.startsWith(PREFIX) && value !== '' && known.get(key) !== value)
    .map(([key, value]) => `${key.slice(PREFIX.length)}=${value}`)
    .filter((text) => !HARMLESS.includes(text));
}

/** What may be left out. */
const HARMLESS = [
  'side=npu',
  'in=npu',
  'scope=graph',
  'order=execution',
  'sync=1',
  'automatic=1',
  'page=graph',
  'colours=precision',
];

function parametersOf(fragment: string): URLSearchParams {
  return new URLSearchParams(fragment.replace(/^#/, ''));
}

const SIDE_NAMES = { [Side.NPU]: 'npu', [Side.BENCH]: 'bench' } as const;

/** Rows are counted from a node, `n12` or `b12`; both sides mostly have the same unfolded. */
function lookParameters({ open, openInView, ...look }: Look): Record<string, string> {
  const [npu, bench] = openInView ?? open;
  const { foldLayers, other } = look;
  return {
    open: npu === bench || bench === '' ? npu : `${npu}~${bench}`,
    at: placeText(look),
    at2: other ? placeText(other) : '',
    fold: foldLayers === undefined ? '' : foldLayers ? '1' : '0',
  };
}

function placeText({ anchor, zoom, top, left }: Place): string {
  const from = anchor ? `_${SIDE_NAMES[anchor.side][0]}${anchor.index}` : '';
  return `${Math.round(zoom * 100)}_${Math.round(top * 10) / 10}_${Math.round(left)}${from}`;
}

function readLook(get: (key: string) => string | null): Look | null {
  const place = readPlace(get('at'));
  const other = readPlace(get('at2'));
  const fold = get('fold');
  if (!place) return null;
  const [npu = '', bench = npu] = (get('open') ?? '').split('~');
  return {
    open: [npu, bench],
    ...place,
    ...(other ? { other } : {}),
    ...(fold === '1' || fold === '0' ? { foldLayers: fold === '1' } : {}),
  };
}

function readPlace(text: string | null): Place | null {
  const at = /^(\d{1,4})_(-?\d{1,9}(?:\.\d)?)_(\d{1,6})(?:_([nb])(\d{1,9}))?$/.exec(text ?? '');
  if (!at) return null;
  const side = at[4] === 'b' ? Side.BENCH : Side.NPU;
  return {
    ...{ zoom: Number(at[1]) / 100, top: Number(at[2]), left: Number(at[3]) },
    ...(at[5] !== undefined ? { anchor: { side, index: Number(at[5]) } } : {}),
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
    ...textsOf(find),
    scope: find.scope === 'file' ? 'file' : '',
    order: find.order === 'severity' ? 'severity' : '',
  };
}

function readFind(get: (key: string) => string | null): Find {
  const list = (key: string) => (get(key) ?? '').split(',').filter((part) => part !== '');
  const codes = <T extends number>(key: string, known: readonly T[]) =>
    known.filter((code) => list(key).includes(String(code)));
  const texts = TEXT_CONDITIONS.map(({ key }) => [key, get(key) ?? '']);
  return {
    text: get('q') ?? '',
    isPattern: get('regex') === '1',
    side: get('in') === 'bench' ? Side.BENCH : Side.NPU,
    grades: codes('grades', GRADES),
    overflows: codes('overflow', OVERFLOWS),
    reasons: list('reasons'),
    ...(Object.fromEntries(texts) as Record<ConditionKey, string>),
    scope: get('scope') === 'file' ? 'file' : 'graph',
    order: get('order') === 'severity' ? 'severity' : 'execution',
  };
}
