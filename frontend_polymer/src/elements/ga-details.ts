import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-if.js';

import { Grade, Side, type GradeBand, type NodeDetail } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { fileOf, hasBench, type AppState, type Session } from '../session';
import { readSetting, writeSetting } from '../settings';
import { firstError } from './first-error';
import './ga-icon';
import './ga-match';
import './ga-node-summary';
import './ga-resize';
import './ga-stack';
import './ga-tensor-table';
import { LocalizedElement } from './localized';
import { controls } from './styles';

const TABS = ['tensors', 'stack', 'match'] as const;
type Tab = (typeof TABS)[number];

const SETTING = 'details.height';
const LOWEST = 120;

/** The panel at the bottom: what the selected node holds and where it comes from. */
export class GaDetails extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          flex-direction: column;
          flex: none;
          position: relative;
          background: var(--ga-surface);
          border-top: 1px solid var(--ga-border);
          min-height: 0;
        }
        .header {
          display: flex;
          align-items: center;
          gap: 8px;
          padding: 4px 8px 4px 12px;
          border-bottom: 1px solid var(--ga-border);
          min-height: 37px;
          flex: none;
        }
        ga-node-summary {
          flex: 1;
          min-width: 0;
        }
        [role='tablist'] {
          display: flex;
          gap: 4px;
          flex: none;
        }
        [role='tab'][aria-selected='true'] {
          background: var(--ga-accent-soft);
          color: var(--ga-accent);
          font-weight: 600;
        }
        .body {
          flex: 1;
          min-height: 0;
          display: flex;
          position: relative;
        }
        ga-tensor-table {
          flex: 1;
        }
        .stacks {
          flex: 1;
          display: grid;
          grid-auto-flow: column;
          grid-auto-columns: minmax(0, 1fr);
          overflow: auto;
        }
        .stacks ga-stack + ga-stack {
          border-left: 1px solid var(--ga-border);
        }
        .empty {
          margin: auto;
          text-align: center;
          color: var(--ga-muted);
        }
        .empty button {
          margin-top: 8px;
        }
        .empty p {
          margin: 4px 16px;
        }
        .body[data-busy] > * {
          opacity: 0.5;
          transition: opacity 0.1s 0.3s;
        }
      </style>
      <ga-resize
        height="[[height]]"
        label="[[text.details.resize]]"
        hidden$="[[collapsed]]"
        on-resize="_resize"
      ></ga-resize>
      <div class="header">
        <div role="tablist" aria-label="[[text.details.label]]" on-keydown="_tabKey">
          <button
            class="plain"
            role="tab"
            id="tensors"
            aria-controls="body"
            aria-selected$="[[_is(tab, 'tensors')]]"
            tabindex$="[[_tabIndex(tab, 'tensors')]]"
            on-click="_tensors"
          >
            [[text.details.tensors]]
          </button>
          <button
            class="plain"
            role="tab"
            id="stack"
            aria-controls="body"
            aria-selected$="[[_is(tab, 'stack')]]"
            tabindex$="[[_tabIndex(tab, 'stack')]]"
            on-click="_stack"
          >
            [[text.details.stack]]
          </button>
          <button
            class="plain"
            role="tab"
            id="match"
            aria-controls="body"
            aria-selected$="[[_is(tab, 'match')]]"
            tabindex$="[[_tabIndex(tab, 'match')]]"
            hidden$="[[!_hasBench(state)]]"
            on-click="_match"
          >
            [[text.match.tab]]
          </button>
        </div>
        <ga-node-summary state="[[state]]"></ga-node-summary>
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
          <button class="primary" hidden$="[[!_hasErrors(state.graphs)]]" on-click="_firstError">
            <ga-icon name="jump"></ga-icon>[[text.details.firstError]]
          </button>
        </div>
        <div class="empty" hidden$="[[!state.detailProblem]]" role="alert">
          <p>[[text.details.failed]] [[state.detailProblem.message]]</p>
          <p>[[state.detailProblem.remedy]]</p>
          <button on-click="_retry">[[text.details.retry]]</button>
        </div>
        <ga-tensor-table
          hidden$="[[!_shows(state.detail, tab, 'tensors')]]"
          tabindex="0"
          detail="[[state.detail]]"
          bands="[[_bands(state)]]"
          task="[[_task(state)]]"
          single="[[!_hasBench(state)]]"
        ></ga-tensor-table>
        <ga-match
          hidden$="[[!_showsMatch(state, tab)]]"
          active="[[_showsMatch(state, tab)]]"
          session="[[session]]"
          state="[[state]]"
        ></ga-match>
        <div class="stacks" hidden$="[[!_shows(state.detail, tab, 'stack')]]">
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
      tab: { type: String, value: 'tensors' },
      height: { type: Number, value: storedHeight, observer: '_resized' },
      collapsed: { type: Boolean, value: false, observer: '_resized' },
      showLibrary: { type: Boolean, value: false },
    };
  }

  declare session: Session;
  declare state: AppState;
  declare tab: Tab;
  declare height: number;
  declare collapsed: boolean;
  declare showLibrary: boolean;

  _resized(): void {
    this.style.height = this.collapsed ? 'auto' : `min(${this.height}px, 70%)`;
  }

  _resize(event: CustomEvent<number>): void {
    const highest = window.innerHeight * 0.7;
    this.height = Math.round(Math.max(LOWEST, Math.min(event.detail, highest)));
    writeSetting(SETTING, String(this.height));
  }

  _tabKey(event: KeyboardEvent): void {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    const tabs = TABS.filter((tab) => !(this.$[tab] as HTMLElement).hidden);
    const step = event.key === 'ArrowRight' ? 1 : -1;
    this.tab = tabs[(tabs.indexOf(this.tab) + step + tabs.length) % tabs.length]!;
    (this.$[this.tab] as HTMLElement).focus();
  }

  _tensors(): void {
    this.tab = 'tensors';
    this.collapsed = false;
  }

  _stack(): void {
    this.tab = 'stack';
    this.collapsed = false;
  }

  _match(): void {
    this.tab = 'match';
    this.collapsed = false;
  }

  _showsMatch(state: AppState, tab: Tab): boolean {
    return tab === 'match' && state.selected !== null && hasBench(state);
  }

  _collapse(): void {
    this.collapsed = !this.collapsed;
  }

  _showLibrary(event: CustomEvent<boolean>): void {
    this.showLibrary = event.detail;
  }

  _hasErrors(graphs: AppState['graphs']): boolean {
    return (graphs?.[Side.NPU].worstGrade(0) ?? Grade.UNGRADED) > Grade.OK;
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

  _bands(state: AppState): readonly GradeBand[] {
    return fileOf(state)?.bands ?? [];
  }

  _task(state: AppState): string {
    return fileOf(state)?.task ?? '';
  }

  _any(value: unknown): boolean {
    return Boolean(value);
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

function storedHeight(): number {
  const stored = Number(readSetting(SETTING));
  return stored >= LOWEST ? stored : Math.min(280, Math.round(window.innerHeight * 0.34));
}

customElements.define('ga-details', GaDetails);
