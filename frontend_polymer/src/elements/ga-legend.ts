import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { GRADES } from '../data/codes';
import type { Graph } from '../data/graph';
import { Search, type Query } from '../data/search';
import { Grade, Overflow, Side, type GradeBand } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import { fileOf, hasBench, type AppState, type Session } from '../session';
import { ALL_MICRO_STEPS } from '../state';
import { formatCount } from './format';
import { LocalizedElement } from './localized';
import { controls } from './styles';
import { gradeBars, gradeStyle, overflowStyle } from './grade-style';
import { gradeName, overflowName } from './words';

const LEVELS = [Overflow.CRITICAL, Overflow.HIGH, Overflow.MEDIUM] as const;

/** From here on counts are shortened; the tooltip has all digits. */
const CROWDED = 100_000;
const compact = new Intl.NumberFormat('en-US', { notation: 'compact' });

interface Entry {
  readonly key: string;
  readonly style: string;
  readonly border: string;
  readonly bars: string;
  /** What the name is one of, where it does not go without saying. */
  readonly kind: string;
  readonly isFirst: boolean;
  readonly name: string;
  readonly range: string;
  readonly count: string;
  readonly title: string;
  readonly isEmpty: boolean;
  readonly isActive: boolean;
  readonly query: Partial<Query>;
}

/** What the colours mean, how many nodes have each, and a way to walk through them. */
export class GaLegend extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          flex-wrap: wrap;
          gap: 0 4px;
          min-height: 36px;
          flex: none;
          padding: 3px 8px;
          background: var(--ga-surface);
          border-top: 1px solid var(--ga-border);
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
        button .swatch.round {
          border-radius: 7px;
        }
        button {
          padding: 0 8px;
          font-variant-numeric: tabular-nums;
        }
        button:disabled {
          opacity: 0.65;
        }
        .kind {
          margin-left: 8px;
          padding-left: 12px;
          border-left: 1px solid var(--ga-border);
          white-space: nowrap;
        }
        button {
          position: relative; /* what is hidden visually must not widen the page */
        }
        .count {
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
        @media (max-width: 1800px) {
          /* Grades that share the line with overflow levels. */
          button:has(~ .kind:not([hidden])) .range {
            display: none;
          }
        }
        @media (max-width: 1400px) {
          :host {
            gap: 0;
          }
          button {
            gap: 4px;
            padding: 0 5px;
          }
          .kind {
            margin-left: 2px;
            padding-left: 8px;
          }
        }
      </style>
      <template is="dom-repeat" items="[[entries]]">
        <span class="kind muted" aria-hidden="true" hidden$="[[!item.isFirst]]">[[item.kind]]</span>
        <button
          class="plain"
          data-key$="[[item.key]]"
          disabled$="[[item.isEmpty]]"
          aria-pressed$="[[item.isActive]]"
          title="[[item.title]]"
          on-click="_step"
        >
          <span class$="swatch [[item.border]]" style$="[[item.style]]"
            ><span class="bars" style$="[[item.bars]]"></span
          ></span>
          <span><span class="visually-hidden">[[item.kind]] </span>[[item.name]]</span>
          <span class="range muted">[[item.range]]</span>
          <span class="count">[[item.count]]</span>
        </button>
      </template>
      <span class="total muted">[[position]]</span>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      entries: { type: Array, computed: '_entries(state, text)' },
      position: { type: String, computed: '_position(state, text)' },
    };
  }

  declare session: Session;
  declare state: AppState;

  _entries(state: AppState, text: Texts): Entry[] {
    if (!state.graphs) return [];
    return [...this.grades(state, text), ...this.overflows(state, text)];
  }

  _position(state: AppState, text: Texts): string {
    const { hits, graphs } = state;
    if (hits?.source === 'legend' && hits.position >= 0) {
      const total = formatCount(hits.indices.length);
      return text.legend.position(formatCount(hits.position + 1), total);
    }
    return graphs ? text.legend.total(formatCount(graphs[Side.NPU].count)) : '';
  }

  _step(event: MouseEvent & { model: { item: Entry } }): void {
    const { key, query } = event.model.item;
    const { graphs, hits, view } = this.state;
    if (!graphs) return;
    if (hits?.source !== 'legend' || hits.key !== key) {
      const search = new Search(graphs[Side.NPU]);
      const indices = search.find({ text: '', microStep: view.micro, ...query });
      this.session.finding.list({ source: 'legend', key, side: Side.NPU, indices });
    }
    const detail = event.shiftKey ? -1 : 1;
    this.dispatchEvent(new CustomEvent('step-hit', { detail, bubbles: true, composed: true }));
  }

  override ready(): void {
    super.ready();
    this.setAttribute('role', 'group');
  }

  private grades(state: AppState, text: Texts): Entry[] {
    const graph = state.graphs![Side.NPU];
    const counts = countGrades(graph, state.view.micro);
    const isComparison = hasBench(state);
    return (fileOf(state)?.bands ?? [])
      .filter(({ grade }) => counts[grade]! > 0 || (isComparison && grade !== Grade.UNGRADED))
      .map((band) => ({
        ...this.entry(`grade-${band.grade}`, gradeName(band.grade, text), counts[band.grade]!),
        style: gradeStyle(band.grade),
        border: band.grade === Grade.UNMATCHED ? 'dashed' : '',
        bars: gradeBars(band.grade),
        range: rangeOf(band),
        ...{ kind: '', isFirst: false },
        query: { grades: new Set([band.grade]) },
      }));
  }

  private overflows(state: AppState, text: Texts): Entry[] {
    if (!fileOf(state)?.overflowChecked) return [];
    const graph = state.graphs![Side.NPU];
    return LEVELS.map((level, at) => {
      const { name, hint } = overflowName(level, text);
      const count = graph.rollup.overflow(level, 0, graph.count);
      const entry = this.entry(`overflow-${level}`, `${text.legend.overflow}: ${name}`, count);
      return {
        ...entry,
        ...{ kind: text.legend.overflow, isFirst: at === 0, name },
        style: overflowStyle(level),
        border: 'round',
        bars: 'display: none',
        range: '',
        title: `${hint}\n${entry.title}`,
        query: { overflows: new Set([level]) },
      };
    });
  }

  private entry(key: string, name: string, total: number) {
    const { hits } = this.state;
    const count = formatCount(total);
    return {
      key,
      name,
      count: total < CROWDED ? count : compact.format(total),
      title: total > 0 ? this.text.legend.stepThrough(name, count) : this.text.legend.none(name),
      isEmpty: total === 0,
      isActive: hits?.source === 'legend' && hits.key === key,
    };
  }
}

function countGrades(graph: Graph, micro: number): number[] {
  if (micro === ALL_MICRO_STEPS) {
    return GRADES.map((grade) => graph.rollup.grade(grade, 0, graph.count));
  }
  const counts = GRADES.map(() => 0);
  for (let index = 0; index < graph.count; index++) {
    if (graph.microStep[index] === micro) counts[graph.grade[index]!]!++;
  }
  return counts;
}

function rangeOf({ low, high }: GradeBand): string {
  if (low === undefined || high === undefined) return '';
  return `${low} – ${high}`;
}

customElements.define('ga-legend', GaLegend);
