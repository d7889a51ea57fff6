import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { Search } from '../data/search';
import { Grade, Overflow, Side, type GradeBand } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import type { AppState, Session } from '../session';
import { ALL_MICRO_STEPS } from '../state';
import { formatCount } from './format';
import { LocalizedElement } from './localized';
import { controls } from './styles';
import { gradeStyle, gradeBars } from './grade-style';
import { gradeName, overflowName } from './words';

const LEVELS = [Overflow.CRITICAL, Overflow.HIGH, Overflow.MEDIUM] as const;

interface Entry {
  readonly grade: Grade;
  readonly style: string;
  readonly border: string;
  readonly bars: string;
  readonly name: string;
  readonly range: string;
  readonly count: string;
  readonly title: string;
  readonly isEmpty: boolean;
  readonly isActive: boolean;
}

/** What the colours mean, how many nodes have each, and a way to walk through them. */
export class GaLegend extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 4px;
          height: 36px;
          padding: 0 8px;
          background: var(--ga-surface);
          border-top: 1px solid var(--ga-border);
          overflow: hidden;
        }
        button .swatch {
          width: 22px;
          height: 14px;
          border-radius: 3px;
          border: 1px solid;
          flex: none;
          display: grid;
          place-items: center;
        }
        button .swatch.dashed {
          border-style: dashed;
        }
        button {
          padding: 0 8px;
          font-variant-numeric: tabular-nums;
        }
        button:disabled {
          opacity: 0.65;
        }
        .count {
          font-weight: 600;
        }
        .overflow {
          display: inline-flex;
          align-items: center;
          gap: 6px;
          padding: 0 8px;
          border-left: 1px solid var(--ga-border);
        }
        .mark {
          display: inline-block;
          padding: 0 5px;
          border-radius: 4px;
          background: var(--ga-danger-soft);
          color: var(--ga-danger);
          font-weight: 600;
        }
        .total {
          margin-left: auto;
          padding: 0 8px;
          white-space: nowrap;
        }
        @media (max-width: 1500px) {
          .range {
            display: none;
          }
        }
      </style>
      <template is="dom-repeat" items="[[entries]]">
        <button
          class="plain"
          data-grade$="[[item.grade]]"
          disabled$="[[item.isEmpty]]"
          aria-pressed$="[[item.isActive]]"
          title="[[item.title]]"
          on-click="_step"
        >
          <span class$="swatch [[item.border]]" style$="[[item.style]]"
            ><span class="bars" style$="[[item.bars]]"></span
          ></span>
          <span>[[item.name]]</span>
          <span class="range muted">[[item.range]]</span>
          <span class="count">[[item.count]]</span>
        </button>
      </template>
      <template is="dom-repeat" items="[[overflows]]">
        <span class="overflow" title="[[item.title]]">
          <span class="mark">!</span>[[item.name]]<span class="count">[[item.count]]</span>
        </span>
      </template>
      <span class="total muted">[[position]]</span>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      entries: { type: Array, computed: '_entries(state, text)' },
      overflows: { type: Array, computed: '_overflows(state, text)' },
      position: { type: String, computed: '_position(state, text)' },
    };
  }

  declare session: Session;
  declare state: AppState;

  _entries(state: AppState, text: Texts): Entry[] {
    const graph = state.graphs?.[Side.NPU];
    const bands = this.session.file?.bands ?? [];
    if (!graph) return [];
    const counts = countGrades(graph, state.view.micro);
    const active = state.hits?.source === 'grade' ? state.hits.key : '';
    return bands
      .filter((band) => band.grade !== Grade.UNGRADED || counts[band.grade]! > 0)
      .map((band) => {
        const name = gradeName(band.grade, text);
        const total = counts[band.grade] ?? 0;
        const count = formatCount(total);
        return {
          grade: band.grade,
          style: gradeStyle(band.grade),
          border: band.grade === Grade.UNMATCHED ? 'dashed' : '',
          bars: gradeBars(band.grade),
          name,
          range: rangeOf(band),
          count,
          title: total > 0 ? text.legend.stepThrough(name, count) : text.legend.none(name),
          isEmpty: total === 0,
          isActive: active === String(band.grade),
        };
      });
  }

  _overflows(state: AppState, text: Texts): object[] {
    const graph = state.graphs?.[Side.NPU];
    if (!graph || !this.session.file?.overflowChecked) return [];
    return LEVELS.map((level) => {
      const { name, hint } = overflowName(level, text);
      const count = formatCount(graph.rollup.overflow(level, 0, graph.count));
      return { name: `${text.legend.overflow}: ${name}`, title: hint, count };
    });
  }

  _position(state: AppState, text: Texts): string {
    const { hits, graphs } = state;
    if (hits?.source === 'grade' && hits.position >= 0) {
      const total = formatCount(hits.indices.length);
      return text.legend.position(formatCount(hits.position + 1), total);
    }
    return graphs ? text.legend.total(formatCount(graphs[Side.NPU].count)) : '';
  }

  _step(event: MouseEvent & { model: { item: Entry } }): void {
    const { grade } = event.model.item;
    const { graphs, hits, view } = this.state;
    if (!graphs) return;
    if (hits?.source !== 'grade' || hits.key !== String(grade)) {
      const indices = new Search(graphs[Side.NPU]).find({
        text: '',
        grades: new Set([grade]),
        microStep: view.micro,
      });
      this.session.setHits({ source: 'grade', key: String(grade), side: Side.NPU, indices });
    }
    const detail = event.shiftKey ? -1 : 1;
    this.dispatchEvent(new CustomEvent('step-hit', { detail, bubbles: true, composed: true }));
  }
}

function countGrades(
  graph: { grade: Uint8Array; microStep: Int32Array; count: number },
  micro: number,
): number[] {
  const counts = Array<number>(Grade.UNMATCHED + 1).fill(0);
  for (let index = 0; index < graph.count; index++) {
    if (micro !== ALL_MICRO_STEPS && graph.microStep[index] !== micro) continue;
    counts[graph.grade[index]!]!++;
  }
  return counts;
}

function rangeOf({ low, high }: GradeBand): string {
  if (low === undefined || high === undefined) return '';
  return `${low} – ${high}`;
}

customElements.define('ga-legend', GaLegend);
