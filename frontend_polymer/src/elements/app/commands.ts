// Everything that can be done from the keyboard or the command palette.

import { MatchAction, Side, type Grade } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, hasServer, pairOf, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { colourModesOf } from '../../session/colours';
import type { ViewCommand } from '../graph/ga-view-tools';
import { goBack, goToFirstError, goUpstream, stepError, stepSuspect, type Walker } from './walks';
import { takenBack, type TakeBack } from '../match/take-back';

/** What a command acts on: the viewer as a whole. */
export interface CommandTarget {
  readonly session: Session;
  readonly state: AppState;
  help(): void;
  openPalette(): void;
  toggleOverview(): void;
  toggleList(): void;
  toggleTheme(): void;
  toggleLanguage(): void;
  focusSearch(): void;
  stepHit(direction: 1 | -1): void;
  readonly walker: Walker;
  findBelow(): void;
  toggleCard(): void;
  toggleDock(): void;
  nextColours(): void;
  togglePowers(): void;
  pickPartner(): void;
  takeBack(route: TakeBack): void;
  readonly judge: (action: MatchAction) => void;
  copyLink(): void;
  runView(command: ViewCommand): void;
}

export interface Command {
  readonly name: string;
  /** As `KeyboardEvent.key` has them; none for what only the palette offers. */
  readonly keys: readonly string[];
  readonly run: () => void;
  /** It changes the file: a key first tells its name, and does it when it is pressed again. */
  readonly isNamedFirst?: boolean;
  /** Of the node or graph that it leads to. */
  readonly grade?: Grade;
  /** What kind of thing it leads to, where it is no command. */
  readonly kind?: string;
  /** It takes the focus along; after all others that is in the graph. */
  readonly takesFocus?: boolean;
  /** While all steps and ranks are shown, others enter the graph first. */
  readonly isEverywhere?: boolean;
  /** It makes no sense now: its key says so, the palette does without it. */
  readonly isIdle?: boolean;
  /** Where the list of keys has it; what has no key needs none. */
  readonly group?: KeyGroup;
}

/** What keys are for, in the order of the list of keys. */
export const KEY_GROUPS = ['find', 'fault', 'view', 'match', 'other'] as const;
export type KeyGroup = (typeof KEY_GROUPS)[number];

/** All commands, those that make no sense now among them. */
export function commandsOf(target: CommandTarget, text: Texts): Command[] {
  const { state } = target;
  if (!fileOf(state)) return everywhere(target, text);
  const isTwo = hasBench(state);
  return [
    ...grouped('find', finding(target, text)),
    ...grouped('fault', faults(target, text)),
    ...grouped('fault', flowing(target, text)),
    ...grouped('view', viewing(target, text)),
    ...grouped('match', matching(target, text)).map((one) => {
      return { ...one, isIdle: !isTwo || one.isIdle === true };
    }),
    ...grouped('view', neighbouring(target, text)),
    ...grouped('other', everywhere(target, text)),
  ];
}

function grouped(group: KeyGroup, commands: readonly Command[]): Command[] {
  return commands.map((command) => ({ ...command, group }));
}

function everywhere(target: CommandTarget, text: Texts): Command[] {
  const { session, state } = target;
  const { shell, help, toolbar } = text;
  return [
    { name: help.help, keys: ['?'], run: () => target.help(), takesFocus: true },
    { name: shell.palette, keys: [':'], run: () => target.openPalette(), takesFocus: true },
    { name: help.overview, keys: ['o'], run: () => target.toggleOverview(), takesFocus: true },
    { name: shell.copyLink, keys: [], run: () => target.copyLink() },
    ...(hasServer(state)
      ? [{ name: toolbar.refresh, keys: [], run: () => void session.refresh() }]
      : []),
    { name: toolbar.theme, keys: [], run: () => target.toggleTheme() },
    { name: `${toolbar.language} / Language / 语言`, keys: [], run: () => target.toggleLanguage() },
  ].map((command) => ({ ...command, isEverywhere: true }));
}

function finding(target: CommandTarget, text: Texts): Command[] {
  const { help, search } = text;
  const isIdle = !target.state.hits && !target.state.fileHits;
  return [
    { name: help.search, keys: ['/'], run: () => target.focusSearch(), takesFocus: true },
    { name: search.next, keys: ['n', '.'], run: () => target.stepHit(1), isIdle },
    { name: search.previous, keys: ['p', 'N', ','], run: () => target.stepHit(-1), isIdle },
    { name: text.find.below, keys: ['b'], run: () => target.findBelow() },
    { name: text.find.panelHint, keys: ['l'], run: () => target.toggleList() },
  ];
}

function faults(target: CommandTarget, text: Texts): Command[] {
  const { verdict } = text;
  const { walker, state } = target;
  const isIdle = !hasBench(state);
  const suspect = (name: string, key: string, by: 1 | -1): Command => {
    return { name, keys: [key], run: () => stepSuspect(walker, by), isEverywhere: true };
  };
  return [
    { name: text.shell.firstError, keys: [], run: () => goToFirstError(walker), isIdle },
    suspect(verdict.nextSuspect, 'v', 1),
    suspect(verdict.previousSuspect, 'V', -1),
    { name: verdict.nextError, keys: ['e'], run: () => stepError(walker, 1), isIdle },
    { name: verdict.previousError, keys: ['E'], run: () => stepError(walker, -1), isIdle },
    { name: verdict.card, keys: ['j'], run: () => target.toggleCard(), takesFocus: true },
    { name: text.view.pathToErrors, keys: [], run: () => target.runView('path-to-errors'), isIdle },
  ];
}

function flowing({ session, state, walker }: CommandTarget, { flow }: Texts): Command[] {
  const draw = () => session.setView({ trail: !state.view.trail });
  return [
    { name: flow.upstream, keys: ['g'], run: () => void goUpstream(walker, false) },
    { name: flow.origin, keys: ['G'], run: () => void goUpstream(walker, true) },
    { name: flow.back, keys: ['Backspace'], run: () => void goBack(walker) },
    { name: flow.draw, keys: ['t'], run: draw },
  ];
}

function viewing(target: CommandTarget, text: Texts): Command[] {
  const { session, state } = target;
  const { shell, view } = text;
  const isTwo = hasBench(state);
  const run = (command: ViewCommand) => () => target.runView(command);
  const change = (name: string, key: string, to: () => Parameters<Session['setView']>[0]) => {
    return { name, keys: key ? [key] : [], run: () => session.setView(to()), isIdle: !isTwo };
  };
  const only = (side: Side) => () => ({ only: side });
  const modes = colourModesOf(state);
  const plain = (name: string, command: ViewCommand) => ({ name, keys: [], run: run(command) });
  const deepest = Math.max(...(state.graphs ?? []).map((graph) => graph?.deepest ?? 0), 0);
  return [
    { name: text.details.dock, keys: ['r'], run: () => target.toggleDock() },
    change(view.sync, '', () => ({ sync: !state.view.sync })),
    change(view.unified, 'i', () => ({ unified: !state.view.unified })),
    change(shell.bothSides, '', () => ({ only: null, unified: false })),
    change(shell.onlyDebug, '', only(Side.NPU)),
    change(shell.onlyReference, '', only(Side.BENCH)),
    {
      name: text.colours.next,
      keys: ['c'],
      run: () => target.nextColours(),
      isIdle: modes.length < 2,
    },
    ...(modes.length > 1 ? modes : []).map((mode) => ({
      name: text.colours.by[mode],
      keys: [],
      run: () => session.setView({ colours: mode }),
    })),
    { name: text.colours.powers, keys: ['k'], run: () => target.togglePowers() },
    plain(view.expandAll, 'expand-all'),
    plain(view.collapseAll, 'collapse-all'),
    ...Array.from({ length: deepest }, (_, at) => plain(view.toLevel(at + 1), { level: at + 1 })),
    plain(shell.foldLayers, 'fold-layers'),
    plain(view.fit, 'fit'),
    plain(view.zoomIn, 'zoom-in'),
    plain(view.zoomOut, 'zoom-out'),
    plain(view.zoomReset, 'reading-size'),
    plain(shell.savePng, 'png'),
    plain(shell.saveSvg, 'svg'),
    ...(hasServer(state)
      ? [plain(shell.saveTable, 'xlsx'), plain(shell.saveReport, 'report')]
      : []),
  ];
}

function matching(target: CommandTarget, text: Texts): Command[] {
  const pick = () => target.pickPartner();
  return [
    { name: text.shell.matchSelected, keys: ['m'], run: pick },
    ...takingBack(target, text),
    ...ofAutomatic(target, text),
  ];
}

/** The next and previous rank of the step, and step of the rank. */
function neighbouring({ session, state }: CommandTarget, text: Texts): Command[] {
  const { step, rank } = state.view;
  const pairs = fileOf(state)?.graphs ?? [];
  const ranks = pairs.filter((pair) => pair.step === step).map((pair) => pair.rank);
  const steps = pairs.filter((pair) => pair.rank === rank).map((pair) => pair.step);
  const go = (values: number[], current: number, by: 1 | -1, open: (value: number) => void) => {
    const next = values[values.indexOf(current) + by];
    if (next !== undefined) open(next);
  };
  const toRank = (by: 1 | -1) => () => go(ranks, rank, by, (to) => void session.open({ rank: to }));
  const toStep = (by: 1 | -1) => () => go(steps, step, by, (to) => void session.open({ step: to }));
  const { shell } = text;
  const beside = (name: string, key: string, all: number[], own: number, by: 1 | -1) => ({
    ...{ name, keys: [key], isIdle: all[all.indexOf(own) + by] === undefined },
    run: all === ranks ? toRank(by) : toStep(by),
  });
  return [
    beside(shell.nextRank, ']', ranks, rank, 1),
    beside(shell.previousRank, '[', ranks, rank, -1),
    beside(shell.nextStep, '}', steps, step, 1),
    beside(shell.previousStep, '{', steps, step, -1),
  ];
}

/** What there is to do with what evidence alone has matched or grouped. */
function ofAutomatic({ session, state, judge }: CommandTarget, { match }: Texts): Command[] {
  const { automatic } = state.view;
  const { selected, graphs } = state;
  const graph = graphs?.[selected?.side ?? Side.NPU];
  const isAutomatic = selected && graph?.isAutomatic(selected.index) === true;
  const isGrouped = selected && graph ? graph.group[selected.index]! >= 0 : false;
  return [
    {
      name: match.confirm,
      keys: ['y'],
      run: () => judge(MatchAction.CONFIRM),
      isIdle: !isAutomatic,
    },
    {
      name: isAutomatic || !isGrouped ? match.reject : match.rejectGroup,
      keys: ['Y'],
      run: () => judge(MatchAction.REJECT),
      isNamedFirst: true,
      isIdle: !isAutomatic && !isGrouped,
    },
    {
      name: match.hideAutomatic,
      keys: ['h'],
      run: () => session.setView({ automatic: !automatic }),
      isIdle: !pairOf(state)?.automatic,
    },
  ];
}

/** What is undone or done again is part of the name. */
function takingBack(target: CommandTarget, text: Texts): Command[] {
  const { match } = text;
  const command = (route: TakeBack, key: string, otherwise: string): Command => {
    const name = takenBack(target.state, route, text);
    const run = () => target.takeBack(route);
    return { name: name || otherwise, keys: [key], run, isNamedFirst: name !== '' };
  };
  return [command('undo', 'u', match.undoMatch), command('redo', 'U', match.redoMatch)];
}

/** Other files, steps, ranks and micro-steps to go to. */
export function placesOf({ session, state }: CommandTarget, text: Texts): Command[] {
  const { view, catalog } = state;
  const pairs = fileOf(state)?.graphs ?? [];
  const pair = pairs.find(({ step, rank }) => step === view.step && rank === view.rank);
  const micros = Array.from({ length: pair?.microSteps ?? 0 }, (_, at) => at);
  const places = pairs.filter((other) => other !== pair || view.page === 'overview');
  const files = (catalog?.files ?? []).filter(({ file }) => file !== view.file);
  return [
    ...places.map(({ step, rank, worstGrade }) => ({
      name: text.overview.cell(step, rank),
      keys: [],
      kind: `${text.toolbar.step}, ${text.toolbar.rank}`,
      grade: worstGrade,
      run: () => void session.enter(step, rank),
    })),
    ...(micros.length > 1 ? micros : []).map((micro) => ({
      name: text.details.microStep(micro),
      keys: [],
      kind: text.toolbar.microStep,
      run: () => session.setMicroStep(micro),
    })),
    ...files.map(({ file }) => ({
      name: `${text.toolbar.file}: ${file}`,
      keys: [],
      kind: text.toolbar.file,
      run: () => void session.open({ file, page: 'auto' }),
    })),
  ];
}
