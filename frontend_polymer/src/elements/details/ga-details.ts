import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { Grade, Side, type GradeBand, type NodeDetail } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, pairOf, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { isRounding, verdictOf } from '../../session/verdict';
import { detailStyles } from './detail-styles';
import { detailTabs, type Tab, type TabItem } from './detail-tabs';
import { firstError } from '../parts/first-error';
import { withGroupRows } from './group-rows';
import './ga-across';
import './ga-back';
import './ga-call-site';
import './ga-communication';
import './ga-flow';
import '../parts/ga-icon';
import '../match/ga-match';
import './ga-node-summary';
import '../parts/ga-resize';
import './ga-stack';
import './ga-table-tools';
import './ga-tensor-table';
import {
  isRight,
  rememberDock,
  rememberHeight,
  rememberWidth,
  storedDock,
  storedHeight,
  storedWidth,
} from './panel-size';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { storedLook, type TableLook } from './table-look';

/** The panel at the bottom: what the selected node holds and where it comes from. */
export class GaDetails extends LocalizedElement {
  static get template() {
    return html`${controls}${detailStyles}
      <ga-resize
        size="[[_size(dock, height, width)]]"
        sideways="[[_isRight(dock)]]"
        label="[[text.details.resize]]"
        hidden$="[[collapsed]]"
        on-resize="_resize"
      ></ga-resize>
      <div class="header">
        <div class="about">
          <ga-back
            hidden$="[[!state.trail.length]]"
            session="[[session]]"
            state="[[state]]"
          ></ga-back>
          <ga-node-summary state="[[state]]"></ga-node-summary>
          <ga-call-site state="[[state]]" on-show-stack="_showStack"></ga-call-site>
        </div>
        <button
          id="dock"
          class="icon plain"
          aria-pressed$="[[_word(dock)]]"
          title="[[text.details.dock]] (r)"
          aria-label="[[text.details.dock]]"
          on-click="toggleDock"
        >
          <ga-icon name="dock"></ga-icon>
        </button>
        <button
          id="collapse"
          class="icon plain"
          aria-expanded$="[[_not(collapsed)]]"
          title="[[_collapseLabel(collapsed, text)]]"
          aria-label="[[_collapseLabel(collapsed, text)]]"
          on-click="_collapse"
        >
          <ga-icon name="[[_collapseIcon(collapsed)]]"></ga-icon>
        </button>
      </div>
      <div class="tabs" hidden$="[[collapsed]]">
        <div
          role="tablist"
          aria-label="[[text.details.label]]"
          on-keydown="_tabKey"
          on-click="_choose"
        >
          <template is="dom-repeat" items="[[tabs]]">
            <button
              class="plain"
              role="tab"
              id$="[[item.id]]"
              aria-controls="body"
              aria-selected$="[[_is(shown, item.id)]]"
              tabindex$="[[_tabIndex(shown, item.id)]]"
            >
              [[item.label]]
            </button>
          </template>
        </div>
        <ga-table-tools
          role="toolbar"
          aria-label="[[text.table.actions]]"
          hidden$="[[!_hasTable(state.detail, shown, collapsed)]]"
          detail="[[state.detail]]"
          bands="[[_bands(state)]]"
          task="[[_task(state)]]"
          single="[[!_hasBench(state)]]"
          step="[[state.view.step]]"
          rank="[[state.view.rank]]"
          session="[[session]]"
          file="[[state.view.file]]"
          look="{{look}}"
        ></ga-table-tools>
      </div>
      <div
        id="body"
        class="body"
        role="tabpanel"
        hidden$="[[collapsed]]"
        data-busy$="[[state.detailBusy]]"
      >
        <div class="empty" hidden$="[[_any(state.selected)]]">
          <p>[[text.details.empty]]</p>
          <p>[[text.details.emptyKeys]]</p>
          <button class="primary" hidden$="[[!_hasErrors(state)]]" on-click="_firstError">
            <ga-icon name="jump"></ga-icon>[[text.details.firstError]]
          </button>
        </div>
        <div id="outdated" class="empty" hidden$="[[!_isOutdated(state)]]" role="status">
          <p>[[text.details.outdated]]</p>
          <button on-click="_reload">[[text.shell.reload]]</button>
        </div>
        <div class="empty" hidden$="[[!state.detailProblem]]" role="alert">
          <p>[[text.details.failed]] [[state.detailProblem.message]]</p>
          <p>[[state.detailProblem.remedy]]</p>
          <button on-click="_retry">[[text.details.retry]]</button>
        </div>
        <ga-tensor-table
          hidden$="[[!_shows(state.detail, shown, 'tensors')]]"
          tabindex="0"
          detail="[[_withGroup(state.detail)]]"
          bands="[[_bands(state)]]"
          task="[[_task(state)]]"
          single="[[!_hasBench(state)]]"
          look="{{look}}"
        ></ga-tensor-table>
        <ga-flow
          hidden$="[[!_shows(state.detail, shown, 'flow')]]"
          session="[[session]]"
          state="[[state]]"
        ></ga-flow>
        <ga-match
          hidden$="[[!_showsMatch(state, shown)]]"
          active="[[_showsMatch(state, shown)]]"
          session="[[session]]"
          state="[[state]]"
        ></ga-match>
        <ga-communication
          hidden$="[[!_shows(state.detail, shown, 'communication')]]"
          session="[[session]]"
          state="[[state]]"
        ></ga-communication>
        <ga-across
          hidden$="[[!_shows(state.detail, shown, 'across')]]"
          active="[[_shows(state.detail, shown, 'across')]]"
          session="[[session]]"
          state="[[state]]"
        ></ga-across>
        <div class="stacks" hidden$="[[!_shows(state.detail, shown, 'stack')]]">
          <ga-stack
            label="[[_sideLabel(state, text)]]"
            record="[[state.detail.npu]]"
            show-library="[[showLibrary]]"
            on-show-library="_showLibrary"
          ></ga-stack>
          <ga-stack
            label="[[text.sides.reference]]"
            record="[[state.detail.bench]]"
            show-library="[[showLibrary]]"
            on-show-library="_showLibrary"
            hidden$="[[!_hasBench(state)]]"
          ></ga-stack>
        </div>
      </div>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      tab: { type: String, computed: '_tab(state.view.tab)' },
      tabs: { type: Array, computed: '_tabs(state, text)' },
      shown: { type: String, computed: '_shown(tab, tabs)' },
      height: { type: Number, value: storedHeight },
      width: { type: Number, value: storedWidth },
      /** Whether it stands at the right of the graph, and not below it. */
      dock: { type: Boolean, value: storedDock, reflectToAttribute: true },
      collapsed: { type: Boolean, value: false, reflectToAttribute: true },
      look: { type: Object, value: storedLook },
      showLibrary: { type: Boolean, value: false },
    };
  }

  static get observers() {
    return ['_picked(state.picked)', '_sized(height, width)'];
  }

  declare session: Session;
  declare state: AppState;
  /** The tab chosen last; `shown` is another one where the node has nothing for it. */
  declare tab: Tab;
  declare tabs: TabItem[];
  declare shown: Tab;
  declare height: number;
  declare width: number;
  declare dock: boolean;
  declare collapsed: boolean;
  declare look: TableLook;
  declare showLibrary: boolean;
  private proposed: AppState['picked'] = null;

  /** A proposal for a match is shown at once. */
  _picked(picked: AppState['picked']): void {
    if (!picked || picked === this.proposed) return;
    this.proposed = picked; // before the tab changes the state, which asks again
    this.show('match');
    this.collapsed = false;
  }

  _sized(height: number, width: number): void {
    this.style.setProperty('--height', `${height}px`);
    this.style.setProperty('--width', `${width}px`);
  }

  /** Right of the graph or below it; remembered. */
  toggleDock(): void {
    this.dock = !this.dock;
    this.collapsed = false;
    rememberDock(this.dock);
  }

  _resize({ detail: size }: CustomEvent<number>): void {
    if (this._isRight(this.dock)) this.width = rememberWidth(size);
    else this.height = rememberHeight(size);
  }

  _size(dock: boolean, height: number, width: number): number {
    return dock ? width : height;
  }

  /** In a narrow window it stands below, whatever was chosen. */
  _isRight(dock: boolean): boolean {
    return isRight(dock);
  }

  readonly _tabs = kept(
    (state: AppState, text: Texts) => [state.detail, state.catalog, pairOf(state), text],
    detailTabs,
  );

  readonly _withGroup = withGroupRows;

  _tab(tab: string): Tab {
    return (tab || 'tensors') as Tab;
  }

  private show(tab: Tab): void {
    this.session.setView({ tab: tab === 'tensors' ? '' : tab });
  }

  _shown(tab: Tab, tabs: TabItem[]): Tab {
    return tabs.some(({ id }) => id === tab) ? tab : 'tensors';
  }

  _tabKey(event: KeyboardEvent): void {
    const { tabs, shown } = this;
    const at = tabs.findIndex(({ id }) => id === shown);
    const targets: Record<string, number> = {
      ArrowLeft: (at - 1 + tabs.length) % tabs.length,
      ArrowRight: (at + 1) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    };
    const target = tabs[targets[event.key] ?? -1];
    if (!target) return;
    event.preventDefault();
    this.show(target.id);
    this.shadowRoot?.getElementById(target.id)?.focus();
  }

  _choose(event: Event): void {
    const tab = (event.target as HTMLElement).closest<HTMLElement>('[role=tab]');
    if (!tab) return;
    this.show(tab.id as Tab);
    this.collapsed = false;
  }

  _showsMatch(state: AppState, tab: Tab): boolean {
    const isKnown = !state.detailProblem && !this._isOutdated(state);
    return tab === 'match' && state.selected !== null && isKnown && hasBench(state);
  }

  _collapse(): void {
    this.collapsed = !this.collapsed;
  }

  _showStack(): void {
    this.show('stack');
    this.collapsed = false;
  }

  _showLibrary(event: CustomEvent<boolean>): void {
    this.showLibrary = event.detail;
  }

  /** Of what the verdict calls clean no error is offered. */
  _hasErrors(state: AppState): boolean {
    const worst = state.graphs?.[Side.NPU].worstGrade(0) ?? Grade.UNGRADED;
    return worst > Grade.OK && !isRounding(verdictOf(state));
  }

  _firstError(): void {
    const graph = this.state.graphs?.[Side.NPU];
    if (!graph) return;
    const detail = { side: Side.NPU, index: firstError(graph) };
    this.dispatchEvent(new CustomEvent('go-to', { detail }));
  }

  _retry(): void {
    void this.session.select(this.state.selected);
  }

  /** Whether a node was asked for that the file has in another form since it was loaded. */
  _isOutdated({ news, selected, detail, detailProblem, detailBusy }: AppState): boolean {
    return news !== null && selected !== null && !detail && !detailProblem && !detailBusy;
  }

  _reload(): void {
    void this.session.reload();
  }

  _bands(state: AppState): readonly GradeBand[] {
    return fileOf(state)?.bands ?? [];
  }

  _task(state: AppState): string {
    return fileOf(state)?.task ?? '';
  }

  _any(value: unknown): boolean {
    return Boolean(value);
  }

  _word(value: boolean): string {
    return String(value);
  }

  _not(value: boolean): string {
    return String(!value);
  }

  _is(tab: Tab, wanted: Tab): string {
    return String(tab === wanted);
  }

  _tabIndex(tab: Tab, wanted: Tab): number {
    return tab === wanted ? 0 : -1;
  }

  _shows(detail: NodeDetail | null, tab: Tab, wanted: Tab): boolean {
    return detail !== null && tab === wanted;
  }

  _hasTable(detail: NodeDetail | null, shown: Tab, collapsed: boolean): boolean {
    return this._shows(detail, shown, 'tensors') && !collapsed && detail!.rows.length > 0;
  }

  _hasBench(state: AppState): boolean {
    return hasBench(state);
  }

  _sideLabel(state: AppState, text: Texts): string {
    return hasBench(state) ? text.sides.debug : text.sides.model;
  }

  _collapseLabel(collapsed: boolean, text: Texts): string {
    return collapsed ? text.details.expand : text.details.collapse;
  }

  _collapseIcon(collapsed: boolean): string {
    return collapsed ? 'up' : 'down';
  }
}

customElements.define('ga-details', GaDetails);
