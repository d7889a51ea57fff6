import { html } from '@polymer/polymer/polymer-element.js';

import { Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, hasServer, pairOf, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { colourModesOf, coloursOf } from '../../session/colours';
import type { ColourMode } from '../../data/codes';
import '../parts/ga-icon';
import { kept } from '../parts/kept';
import type { MenuItem } from '../parts/ga-menu';
import '../parts/ga-menu';
import '../overview/ga-notes';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** What the buttons above the graph ask of it. */
export type ViewCommand =
  | 'expand-all'
  | 'collapse-all'
  | 'path-to-errors'
  | 'fit'
  | 'zoom-in'
  | 'zoom-out'
  | 'reading-size'
  | 'fold-layers'
  | 'png'
  | 'svg'
  | 'xlsx'
  | 'report'
  | { readonly level: number };

export interface LayerFolding {
  readonly areFolded: boolean;
}

/** The row above the graph: opening, closing, zoom, and how the two sides go together. */
export class GaViewTools extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 2px;
          flex: none;
          margin-left: auto;
          padding: 0 8px 0 4px;
        }
        .rule {
          width: 1px;
          height: 20px;
          margin: 0 4px;
          background: var(--ga-border);
        }
        #level {
          width: 76px;
          height: 26px;
          padding: 0 2px;
        }
        #zoom {
          width: 52px;
          padding: 0;
          font-variant-numeric: tabular-nums;
        }
        /* The wheel and the keys + and − are still there. */
        @media (max-width: 1400px) {
          [data-command='zoom-in'],
          [data-command='zoom-out'] {
            display: none;
          }
        }
        @media (max-width: 1200px) {
          :host {
            flex: 1 1 auto;
            flex-wrap: wrap;
          }
          .rule {
            display: none;
          }
        }
      </style>
      <button
        class="icon plain"
        data-command="expand-all"
        title="[[text.view.expandAll]]"
        on-click="_run"
        disabled$="[[disabled]]"
        aria-label="[[text.view.expandAll]]"
      >
        <ga-icon name="expand"></ga-icon>
      </button>
      <button
        class="icon plain"
        data-command="collapse-all"
        title="[[text.view.collapseAll]]"
        on-click="_run"
        disabled$="[[disabled]]"
        aria-label="[[text.view.collapseAll]]"
      >
        <ga-icon name="collapse"></ga-icon>
      </button>
      <select
        id="level"
        disabled$="[[disabled]]"
        title="[[text.view.level]]"
        aria-label="[[text.view.level]]"
        on-change="_level"
      ></select>
      <button
        class="icon plain"
        data-command="path-to-errors"
        on-click="_run"
        hidden$="[[!hasBench]]"
        disabled$="[[disabled]]"
        title="[[text.view.pathToErrorsHint]]"
        aria-label="[[text.view.pathToErrors]]"
      >
        <ga-icon name="path"></ga-icon>
      </button>
      <span class="rule"></span>
      <button
        class="icon plain"
        data-command="zoom-out"
        on-click="_run"
        disabled$="[[disabled]]"
        title="[[text.view.zoomOut]]"
        aria-label="[[text.view.zoomOut]]"
      >
        <ga-icon name="minus"></ga-icon>
      </button>
      <button
        id="zoom"
        class="plain"
        data-command="reading-size"
        on-click="_run"
        disabled$="[[disabled]]"
        title="[[text.view.zoomReset]]"
      >
        [[_percent(zoom)]]
      </button>
      <button
        class="icon plain"
        data-command="zoom-in"
        on-click="_run"
        disabled$="[[disabled]]"
        title="[[text.view.zoomIn]]"
        aria-label="[[text.view.zoomIn]]"
      >
        <ga-icon name="plus"></ga-icon>
      </button>
      <button
        class="icon plain"
        data-command="fit"
        on-click="_run"
        disabled$="[[disabled]]"
        title="[[text.view.fit]]"
        aria-label="[[text.view.fit]]"
      >
        <ga-icon name="fit"></ga-icon>
      </button>
      <span class="rule"></span>
      <ga-notes file="[[_file(state)]]"></ga-notes>
      <button
        id="unified"
        class="icon plain"
        hidden$="[[!hasBench]]"
        disabled$="[[disabled]]"
        aria-pressed$="[[_pressed(state.view.unified)]]"
        title="[[text.view.unifiedHint]]"
        on-click="_unified"
        aria-label="[[text.view.unified]]"
      >
        <ga-icon name="merge"></ga-icon>
      </button>
      <button
        id="sync"
        class="icon plain"
        hidden$="[[!_isDouble(state, hasBench)]]"
        aria-pressed$="[[_pressed(state.view.sync)]]"
        title="[[text.view.syncHint]]"
        on-click="_sync"
        aria-label="[[text.view.sync]]"
      >
        <ga-icon name="link"></ga-icon>
      </button>
      <ga-menu
        id="menu"
        label="[[text.shell.view]]"
        items="[[_items(state, layers, text)]]"
        disabled="[[disabled]]"
        on-choose="_chosen"
      ></ga-menu>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      disabled: { type: Boolean, computed: '_disabled(state)' },
      hasBench: { type: Boolean, computed: '_hasBench(state)' },
      zoom: { type: Number, value: 1 },
      /** Whether layers can be folded into one row, and are. */
      layers: { type: Object, value: null },
      session: Object,
    };
  }

  static get observers() {
    return ['_fillLevels(state.graphs, text)'];
  }

  declare state: AppState;
  declare zoom: number;
  declare session: Session;
  declare layers: LayerFolding | null;

  _file(state: AppState) {
    return fileOf(state);
  }

  _disabled({ graphs }: AppState): boolean {
    return graphs === null;
  }

  _hasBench(state: AppState): boolean {
    return hasBench(state);
  }

  readonly _fillLevels = kept(
    (graphs: AppState['graphs'], text: Texts) => [graphs, text],
    (graphs, text) => this.fillLevels(graphs, text),
  );

  /** The first entry only names the list: choosing a level is an action, not a state. */
  private fillLevels(graphs: AppState['graphs'], text: Texts): void {
    const select = this.$['level'] as HTMLSelectElement;
    const deepest = Math.max(1, ...(graphs ?? []).map((graph) => graph?.deepest ?? 0));
    const title = new Option(text.view.level, '', true, true);
    title.disabled = true;
    const levels = Array.from(
      { length: deepest },
      (_, at) => new Option(text.view.toLevel(at + 1), String(at + 1)),
    );
    select.replaceChildren(title, ...levels);
  }

  _percent(zoom: number): string {
    return zoom < 0.01 ? '< 1 %' : `${Math.round(zoom * 100)} %`;
  }

  _pressed(value: boolean): string {
    return String(value);
  }

  _run(event: Event): void {
    this.send((event.currentTarget as HTMLElement).dataset['command'] as ViewCommand);
  }

  _level(event: Event): void {
    const select = event.target as HTMLSelectElement;
    this.send({ level: Number(select.value) });
    select.selectedIndex = 0;
  }

  _sync(): void {
    this.session.setView({ sync: !this.state.view.sync });
  }

  _unified(): void {
    this.session.setView({ unified: !this.state.view.unified });
  }

  _isDouble({ view }: AppState, hasBench: boolean): boolean {
    return hasBench && view.only === null && !view.unified;
  }

  readonly _items = kept(
    (state: AppState, layers: LayerFolding | null, text: Texts) => {
      const { only, unified, colours, powers, automatic } = state.view;
      const how = [only, unified, colours, powers, automatic];
      return [state.graphs, state.measures, state.catalog, pairOf(state), ...how, layers, text];
    },
    (state, layers, text) => this.made(state, layers, text),
  );

  private made(state: AppState, layers: LayerFolding | null, text: Texts): MenuItem[] {
    const { shell } = text;
    const { only, unified, powers } = state.view;
    const colours = coloursOf(state);
    const modes = colourModesOf(state);
    const ways = (modes.length > 1 ? modes : []).map((mode, at) => ({
      id: `colours-${mode}`,
      label: text.colours.by[mode],
      isOn: mode === colours,
      isFirst: at === 0 && layers !== null,
    }));
    const sides = [
      {
        id: 'both',
        label: shell.bothSides,
        isOn: only === null && !unified,
        isFirst: true,
      },
      { id: 'unified', label: text.view.unified, isOn: unified },
      { id: 'npu', label: shell.onlyDebug, isOn: only === Side.NPU },
      { id: 'bench', label: shell.onlyReference, isOn: only === Side.BENCH },
    ];
    return [
      ...(layers ? [{ id: 'fold-layers', label: shell.foldLayers, isOn: layers.areFolded }] : []),
      ...ways,
      ...(hasBench(state) ? [{ id: 'powers', label: text.colours.powers, isOn: powers }] : []),
      ...(hasBench(state) && (pairOf(state)?.automatic ?? 0) > 0
        ? [{ id: 'automatic', label: text.match.hideAutomatic, isOn: !state.view.automatic }]
        : []),
      ...(hasBench(state) ? sides : []),
      {
        id: 'png',
        label: shell.savePng,
        isFirst: layers !== null || modes.length > 1 || hasBench(state),
      },
      { id: 'svg', label: shell.saveSvg },
      ...(hasServer(state)
        ? [
            { id: 'xlsx', label: shell.saveTable },
            { id: 'report', label: shell.saveReport },
          ]
        : []),
    ];
  }

  _chosen(event: CustomEvent<string>): void {
    const { detail: id } = event;
    const { view } = this.state;
    if (id.startsWith('colours-')) {
      this.session.setView({ colours: id.slice('colours-'.length) as ColourMode });
      return;
    }
    if (id === 'unified') {
      this._unified();
      return;
    }
    if (id === 'powers') {
      this.session.setView({ powers: !view.powers });
      return;
    }
    if (id === 'automatic') {
      this.session.setView({ automatic: !view.automatic });
      return;
    }
    const only = { both: null, npu: Side.NPU, bench: Side.BENCH }[id];
    if (only === undefined) this.send(id as ViewCommand);
    else this.session.setView({ only, unified: false });
  }

  private send(detail: ViewCommand): void {
    this.dispatchEvent(new CustomEvent('view-command', { detail }));
  }
}

customElements.define('ga-view-tools', GaViewTools);
