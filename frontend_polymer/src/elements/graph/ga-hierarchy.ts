import { html } from '@polymer/polymer/polymer-element.js';

import type { SceneRow } from '../../canvas/scene';
import type { Palette } from '../../canvas/palette';
import type { Colours, Marks } from '../../canvas/painter';
import { HierarchyView } from '../../canvas/view';
import { ROW_HEIGHT } from '../../canvas/viewport';
import { Grade, Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { otherSide, type Graphs } from '../../layout/sides';
import type { HierarchyState } from '../../layout/state';
import type { NodeRef } from '../../layout/hierarchy';
import type { Hits } from '../../session/hits';
import { fileOf, type AppState } from '../../session/app-state';
import { coloursOf, knownOf } from '../../session/colours';
import { isRounding, verdictOf } from '../../session/verdict';
import type { Session } from '../../session/session';
import type { Look } from '../../session/state';
import { firstError, leastError } from '../parts/first-error';
import { hierarchyStyles } from './hierarchy-styles';
import { imageName, imageWords } from './image-words';
import type { GaTip } from '../parts/ga-tip';
import '../parts/ga-tip';
import type { GaNodeMenu } from './ga-node-menu';
import './ga-node-menu';
import { nodeActions } from './node-actions';
import './ga-sides';
import { sideName, type Heads } from './ga-sides';
import type { LayerFolding, ViewCommand } from './ga-view-tools';
import { LocalizedElement } from '../parts/localized';
import { describe, MOST_ITEMS, renderOutline } from './outline';
import { marksOf } from './marks';
import { saveBlob, saveText } from '../parts/save-file';
import { saveReport, saveTable } from '../parts/save-table';
import { controls } from '../parts/styles';

/** Levels that are unfolded where nothing is wrong. */
const OPEN_LEVELS = 2;
const ZOOM_STEP = 1.25;
/** Milliseconds without a change after which the view rests. */
const REST = 100;
const PLACES_REMEMBERED = 20;

/** Both hierarchies on a canvas, what they are, and an outline of them for screen readers. */
export class GaHierarchy extends LocalizedElement {
  static get template() {
    return html`${controls}${hierarchyStyles}
      <ga-sides state="[[state]]" heads="[[heads]]"></ga-sides>
      <div id="pick" role="status" hidden$="[[!state.pick]]">[[_pickText(state, text)]]</div>
      <div id="canvas"></div>
      <div id="outline" class="visually-hidden" role="tree"></div>
      <ga-node-menu id="nodeMenu"></ga-node-menu>
      <ga-tip id="tip"></ga-tip>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      palette: Object,
      zoom: { type: Number, notify: true },
      layers: { type: Object, notify: true },
      file: { type: Object, computed: '_file(state)' },
      /** Where the columns of the one tree stand; null without. */
      heads: { type: Object, value: null },
    };
  }

  static get observers() {
    return [
      '_graphsChanged(state.graphs)',
      '_microChanged(state.view.micro)',
      '_selectedChanged(state.selected)',
      '_pickChanged(state.pick, state.selected)',
      '_shownAs(state.view.sync, state.view.only, state.view.unified)',
      '_coloursChanged(state)',
      '_factsChanged(state.values, text)',
      '_lookChanged(state.graphs, state.view.look)',
      '_hitsChanged(state.hits)',
      '_marksChanged(state, text)',
      '_paletteChanged(palette)',
      '_textChanged(text)',
    ];
  }

  declare session: Session;
  declare state: AppState;
  declare zoom: number;
  declare layers: LayerFolding | null;
  declare heads: Heads | null;
  private made: HierarchyView | undefined;
  private shown: AppState['graphs'] = null;
  private outlineTimer: ReturnType<typeof setTimeout> | undefined;
  /** Which graphs are shown, and how those before them were left. */
  private applied: Look | null = null;
  private place = '';
  private split = '';
  private marks: Marks | null = null;
  private facts: { readonly values: AppState['values']; readonly text: Texts } | null = null;
  private colours: Colours | null = null;
  private readonly left = new Map<string, HierarchyState>();

  /** The boxes in view of both sides, top to bottom. */
  get scene(): SceneRow[] {
    return this.view.scene();
  }

  /** The tree items of the side that has the selection. */
  get outline(): Element[] {
    return [...(this.$['outline'] as HTMLElement).children];
  }

  run(command: ViewCommand): void {
    const { view } = this;
    if (typeof command === 'object') {
      view.expand((expansion) => expansion.toLevel(command.level));
      return;
    }
    const actions: Record<typeof command, () => void> = {
      'expand-all': () => view.expandAll(),
      'collapse-all': () => view.expand((expansion) => expansion.collapseAll()),
      'path-to-errors': () => this.expandToErrors(),
      'zoom-in': () => view.controls.zoomBy(ZOOM_STEP),
      'zoom-out': () => view.controls.zoomBy(1 / ZOOM_STEP),
      'reading-size': () => view.controls.resetZoom(),
      fit: () => view.controls.fit(),
      'fold-layers': () => view.setFoldLayers(!view.foldsLayers),
      png: () => void this.save('png'),
      svg: () => void this.save('svg'),
      xlsx: () => this.saveTable(),
      report: () => void saveReport(this, this.session.fetch, this.state.view.file, this.text),
    };
    actions[command]();
  }

  /** What is unfolded and where it is scrolled to; null while there is no graph. */
  get look(): Look | null {
    return this.shown && this.view.getState();
  }

  /** Keys work in the graph from now on. */
  focusGraph(): void {
    (this.canvas.firstElementChild as HTMLElement).focus({ preventScroll: true });
  }

  /** Opens the way to a node, on both sides, and brings it to the middle. */
  reveal({ side, index }: NodeRef): void {
    this.view.select(side, index, { centre: true });
  }

  _graphsChanged(graphs: AppState['graphs']): void {
    if (graphs === this.shown) return;
    this.shown = graphs;
    const left = this.view.getState();
    if (left) this.remember(this.place, left);
    if (!graphs) {
      this.view.clear();
      return;
    }
    const [npu, bench] = graphs;
    const place = placeOf(this.state, graphs);
    this.place = place;
    const before = this.left.get(place);
    // What verdict and colours call clean has no errors to lead to.
    const isClean = coloursOf(this.state) === 'role' && isRounding(verdictOf(this.state));
    // At once: laid out twice, a large graph comes late.
    this.view.setGraphs(npu, bench, (expansion) => {
      if (before) return;
      if (isClean) expansion.toLevel(OPEN_LEVELS);
      else expansion.toErrors(leastError(npu));
    });
    this.view.setMicroStep(this.state.view.micro);
    if (before) this.view.setState(before);
    const first = before || isClean ? -1 : firstError(npu);
    if (first >= 0) this.view.bring({ side: Side.NPU, index: first });
  }

  private remember(place: string, state: HierarchyState): void {
    this.left.delete(place);
    this.left.set(place, state);
    const [oldest] = this.left.keys();
    if (this.left.size > PLACES_REMEMBERED && oldest !== undefined) this.left.delete(oldest);
  }

  _microChanged(micro: number): void {
    this.view.setMicroStep(micro);
  }

  /** A selection that came from elsewhere: an address, a link, a search. */
  _selectedChanged(selected: NodeRef | null): void {
    if (this.state.pick) return; // what is selected in the graph is only a proposal
    const { selected: here } = this.view;
    if (selected?.side === here?.side && selected?.index === here?.index) return;
    if (selected) this.reveal(selected);
    else this.view.select(Side.NPU, null);
  }

  _pickChanged(pick: boolean, selected: NodeRef | null): void {
    const wanted = pick && selected ? otherSide(selected.side) : null;
    if (this.view.pickMode !== wanted) this.view.setPickMode(wanted);
  }

  /** What a link or the way back asks for; comes after everything that moves the view itself. */
  _lookChanged(graphs: AppState['graphs'], look: Look | null): void {
    if (!graphs || !look || look === this.applied) return;
    this.applied = look;
    const isWhole = this.view.setState({ ...look, selected: this.view.selected });
    if (!isWhole) this.session.miss([{ kind: 'look', wanted: '' }]);
  }

  _hitsChanged(hits: Hits | null): void {
    const isSearch = hits?.source === 'search';
    this.view.setHits(hits?.side ?? Side.NPU, isSearch ? hits.indices : NO_HITS);
  }

  _marksChanged(state: AppState, text: Texts): void {
    const marks = marksOf(state, text);
    if (marks !== this.marks) this.view.setMarks(marks);
    this.marks = marks;
  }

  _paletteChanged(palette: Palette): void {
    this.view.setPalette(palette);
  }

  _shownAs(sync: boolean, only: Side | null, unified: boolean): void {
    this.view.setOnly(only, unified);
    this.view.setSync(sync || unified);
  }

  _factsChanged(values: AppState['values'], text: Texts): void {
    if (this.facts?.values === values && this.facts.text === text) return;
    this.facts = { values, text };
    const { view } = text;
    const words = {
      only: [view.onlyDebug, view.onlyReference] as const,
      elsewhere: view.elsewhere,
    };
    this.view.setFacts({
      values: [values?.npu ?? [], values?.bench ?? []],
      tensorOf: [values?.npuTensor ?? [], values?.benchTensor ?? []],
      tensors: values?.tensors ?? [],
      words,
    });
  }

  /** Comes with every change of state; to look up the colours anew takes all nodes. */
  _coloursChanged(state: AppState): void {
    const [mode, known, asPower] = [coloursOf(state), knownOf(state), state.view.powers];
    const { colours } = this;
    if (colours?.known === known && colours.mode === mode && colours.asPower === asPower) return;
    this.colours = { mode, asPower, known };
    this.view.setColours(this.colours);
  }

  _textChanged(text: Texts): void {
    this.canvas.querySelector('[role=separator]')?.setAttribute('aria-label', text.view.splitter);
    this.scheduleOutline();
  }

  _file(state: AppState) {
    return fileOf(state);
  }

  _pickText({ selected, graphs }: AppState, text: Texts): string {
    if (!selected) return '';
    const isBench = selected.side === Side.BENCH;
    const name = graphs?.[selected.side]?.name(selected.index) ?? '';
    return text.match.picking(isBench ? text.sides.debug : text.sides.reference, name);
  }

  /** Made on first use: Polymer runs observers before the element is ready. */
  private get view(): HierarchyView {
    return (this.made ??= this.makeView());
  }

  private makeView(): HierarchyView {
    const view = new HierarchyView(this.canvas);
    view.on('select', ({ node, origin }) => {
      if (origin !== 'program' && !this.state.pick) {
        void this.session.select(node, origin === 'keyboard' ? 'walk' : 'jump');
      }
      this.scheduleOutline();
    });
    view.on('pick', ({ node }) => {
      this.session.endPick(node);
      const { selected } = this.state;
      if (selected) view.select(selected.side, selected.index, { reveal: false });
    });
    view.on('match-drop', ({ npu, bench }) => void this.session.propose(npu, bench));
    view.on('menu', ({ node, x, y }) => this.openMenu(node, x, y));
    view.on('hover', ({ node, x, y }) => this.showTip(node, x, y));
    view.on('viewchange', ({ view: { rowHeight } }) => {
      this.zoom = rowHeight / ROW_HEIGHT;
      const split = `${view.split * 100}%`;
      if (split !== this.split) this.style.setProperty('--split', (this.split = split));
      this.heads = view.columns;
      this.touch();
      this.scheduleOutline();
    });
    view.on('expandchange', () => this.touch());
    view.on('layout', () => {
      const { hasLayers, foldsLayers: areFolded } = view;
      if (!hasLayers) this.layers = null;
      else if (this.layers?.areFolded !== areFolded) this.layers = { areFolded };
      this.scheduleOutline();
    });
    return view;
  }

  private openMenu(node: NodeRef, x: number, y: number): void {
    const actions = nodeActions(this.session, node, this.text, {
      expand: () => this.view.expand((expansion) => expansion.expandBelow(node.side, node.index)),
      say: (message) => this.say(message),
    });
    (this.$['nodeMenu'] as GaNodeMenu).openAt(x, y, actions, () => this.focusGraph());
  }

  private async save(format: 'png' | 'svg'): Promise<void> {
    const words = imageWords(this.state, this.text);
    const name = imageName(this.state, format);
    try {
      if (format === 'png') saveBlob(name, await this.view.toPng(words));
      else saveText(name, this.view.toSvg(words), 'image/svg+xml');
      this.say(this.text.shell.saved(name));
    } catch (error) {
      this.say(this.text.shell.saveFailed(error instanceof Error ? error.message : String(error)));
    }
  }

  private saveTable(): void {
    const { file, step, rank } = this.state.view;
    const query = { file, of: 'graph', step, rank };
    void saveTable(this, this.session.fetch, query, imageName(this.state, 'xlsx'), this.text);
  }

  private say(message: string): void {
    this.dispatchEvent(new CustomEvent('say', { detail: message, bubbles: true, composed: true }));
  }

  private touch(): void {
    this.dispatchEvent(new CustomEvent('look-change'));
  }

  private get canvas(): HTMLElement {
    return this.$['canvas'] as HTMLElement;
  }

  private expandToErrors(): void {
    const least = this.shown ? leastError(this.shown[Side.NPU]) : Grade.SERIOUS;
    this.view.expand((expansion) => expansion.toErrors(least));
  }

  private showTip(node: NodeRef | null, x: number, y: number): void {
    const graph = node && this.shown?.[node.side];
    const lines = graph ? describe(graph, node.index, this.text) : [];
    (this.$['tip'] as GaTip).show(lines, x, y);
  }

  /** Once the view rests: while it moves, nothing could be read out anyway. */
  private scheduleOutline(): void {
    clearTimeout(this.outlineTimer);
    this.outlineTimer = setTimeout(() => {
      const side = this.view.selected?.side ?? Side.NPU;
      const root = this.canvas.firstElementChild as HTMLElement;
      const isUnified = this.state.view.unified;
      const name = isUnified ? this.text.view.unified : sideName(this.state, side, this.text);
      const label = this.text.view.outlineLabel(name);
      const tree = this.$['outline'] as HTMLElement;
      for (const element of [root, tree]) element.setAttribute('aria-label', label);
      const all = this.shown ? this.view.scene(MOST_ITEMS) : [];
      const rows = all.filter((row) => isUnified || row.side === side);
      renderOutline(root, tree, rows, this.shown, this.text);
    }, REST);
  }
}

const NO_HITS = new Int32Array();

/** Names graphs so that the same ones, loaded again, are known. */
function placeOf({ view }: AppState, graphs: Graphs): string {
  return [view.file, view.step, view.rank, ...graphs.map((graph) => graph?.count)].join('\n');
}

customElements.define('ga-hierarchy', GaHierarchy);
