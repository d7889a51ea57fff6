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
  /** Also while all steps and ranks are shown. */
  readonly isEverywhere?: boolean;
}

/** The commands that make sense now. */
export function commandsOf(target: CommandTarget, text: Texts): Command[] {
  const { session, state, walker } = target;
  const { shell, view, help, search, toolbar } = text;
  const everywhere: Command[] = [
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
  const neighbours = neighbouring(target, text);
  if (!state.graphs) return [...everywhere, ...neighbours];
  const run = (command: ViewCommand) => () => target.runView(command);
  const only = (side: Side | null) => () => session.setView({ only: side });
  const ofTwo: Command[] = [
    { name: shell.firstError, keys: [], run: () => goToFirstError(walker) },
    { name: text.verdict.nextSuspect, keys: ['v'], run: () => stepSuspect(walker, 1) },
    { name: text.verdict.previousSuspect, keys: ['V'], run: () => stepSuspect(walker, -1) },
    { name: text.verdict.nextError, keys: ['e'], run: () => stepError(walker, 1) },
    { name: text.verdict.previousError, keys: ['E'], run: () => stepError(walker, -1) },
    { name: text.verdict.card, keys: ['j'], run: () => target.toggleCard(), takesFocus: true },
    { name: view.pathToErrors, keys: [], run: run('path-to-errors') },
    { name: shell.matchSelected, keys: ['m'], run: () => target.pickPartner() },
    ...takingBack(target, text),
    ...ofAutomatic(target, text),
    { name: view.sync, keys: [], run: () => session.setView({ sync: !state.view.sync }) },
    {
      name: view.unified,
      keys: ['i'],
      run: () => session.setView({ unified: !state.view.unified }),
    },
    { name: shell.bothSides, keys: [], run: () => session.setView({ only: null, unified: false }) },
    { name: shell.onlyDebug, keys: [], run: only(Side.NPU) },
    { name: shell.onlyReference, keys: [], run: only(Side.BENCH) },
  ];
  const modes = colourModesOf(state);
  const colours: Command[] = [
    { name: text.colours.next, keys: ['c'], run: () => target.nextColours() },
    ...modes.map((mode) => ({
      name: text.colours.by[mode],
      keys: [],
      run: () => session.setView({ colours: mode }),
    })),
  ];
  const deepest = Math.max(...state.graphs.map((graph) => graph?.deepest ?? 0));
  const levels = Array.from({ length: deepest }, (_, at) => at + 1);
  const made: Command[] = [
    { name: shell.saveTable, keys: [], run: run('xlsx') },
    { name: shell.saveReport, keys: [], run: run('report') },
  ];
  return [
    { name: help.search, keys: ['/'], run: () => target.focusSearch(), takesFocus: true },
    { name: search.next, keys: ['n', '.'], run: () => target.stepHit(1) },
    { name: search.previous, keys: ['p', 'N', ','], run: () => target.stepHit(-1) },
    { name: text.flow.upstream, keys: ['g'], run: () => void goUpstream(walker, false) },
    { name: text.flow.origin, keys: ['G'], run: () => void goUpstream(walker, true) },
    { name: text.flow.back, keys: ['Backspace'], run: () => void goBack(walker) },
    {
      name: text.flow.draw,
      keys: ['t'],
      run: () => session.setView({ trail: !state.view.trail }),
    },
    { name: text.find.below, keys: ['b'], run: () => target.findBelow() },
    { name: text.find.panelHint, keys: ['l'], run: () => target.toggleList() },
    { name: text.details.dock, keys: ['r'], run: () => target.toggleDock() },
    ...(hasBench(state) ? ofTwo : []),
    ...(modes.length > 1 ? colours : []),
    { name: text.colours.powers, keys: ['k'], run: () => target.togglePowers() },
    { name: view.expandAll, keys: [], run: run('expand-all') },
    { name: view.collapseAll, keys: [], run: run('collapse-all') },
    ...levels.map((level) => ({ name: view.toLevel(level), keys: [], run: run({ level }) })),
    { name: shell.foldLayers, keys: [], run: run('fold-layers') },
    { name: view.fit, keys: [], run: run('fit') },
    { name: view.zoomIn, keys: [], run: run('zoom-in') },
    { name: view.zoomOut, keys: [], run: run('zoom-out') },
    { name: view.zoomReset, keys: [], run: run('reading-size') },
    { name: shell.savePng, keys: [], run: run('png') },
    { name: shell.saveSvg, keys: [], run: run('svg') },
    ...(hasServer(state) ? made : []),
    ...neighbours,
    ...everywhere,
  ];
}

/** The next and previous rank of the step, and step of the rank. */
function neighbouring({ session, state }: CommandTarget, text: Texts): Command[] {
  const { step, rank, page } = state.view;
  const pairs = fileOf(state)?.graphs ?? [];
  if (page !== 'graph' || pairs.length < 2) return [];
  const ranks = pairs.filter((pair) => pair.step === step).map((pair) => pair.rank);
  const steps = pairs.filter((pair) => pair.rank === rank).map((pair) => pair.step);
  const go = (values: number[], current: number, by: 1 | -1, open: (value: number) => void) => {
    const next = values[values.indexOf(current) + by];
    if (next !== undefined) open(next);
  };
  const toRank = (by: 1 | -1) => () => go(ranks, rank, by, (to) => void session.open({ rank: to }));
  const toStep = (by: 1 | -1) => () => go(steps, step, by, (to) => void session.open({ step: to }));
  const { shell } = text;
  return [
    { name: shell.nextRank, keys: [']'], run: toRank(1) },
    { name: shell.previousRank, keys: ['['], run: toRank(-1) },
    { name: shell.nextStep, keys: ['}'], run: toStep(1) },
    { name: shell.previousStep, keys: ['{'], run: toStep(-1) },
  ];
}

/** What there is to do with what evidence alone has matched or grouped. */
function ofAutomatic({ session, state, judge }: CommandTarget, { match }: Texts): Command[] {
  const { automatic } = state.view;
  const { selected, graphs } = state;
  const graph = graphs?.[selected?.side ?? Side.NPU];
  const reject = (name: string): Command => {
    return { name, keys: ['Y'], run: () => judge(MatchAction.REJECT), isNamedFirst: true };
  };
  const commands: Command[] = [];
  if (selected && graph?.isAutomatic(selected.index)) {
    const run = () => judge(MatchAction.CONFIRM);
    commands.push({ name: match.confirm, keys: ['y'], run }, reject(match.reject));
  } else if (selected && graph && graph.group[selected.index]! >= 0) {
    commands.push(reject(match.rejectGroup));
  }
  if (!pairOf(state)?.automatic) return commands;
  const hide = () => session.setView({ automatic: !automatic });
  return [...commands, { name: match.hideAutomatic, keys: ['h'], run: hide }];
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
