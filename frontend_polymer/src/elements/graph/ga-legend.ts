import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { GRADES, type ColourMode } from '../../data/codes';
import type { Graph } from '../../data/graph';
import { Mark, PARTS, type Colouring } from '../../data/colouring';
import { USUAL_ROUNDINGS } from '../../data/grades';
import { Grade, Overflow, Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { colourModesOf, coloursOf, shownColouring } from '../../session/colours';
import { whyLate } from '../../session/measuring';
import { ALL_MICRO_STEPS } from '../../session/state';
import { formatCount } from '../parts/format';
import { legendStyles } from './legend-styles';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { setValue } from '../parts/set-value';
import { controls } from '../parts/styles';
import { gradeBars, gradeStyle, overflowStyle, partStyle } from '../parts/grade-style';
import { gradeName, overflowName } from '../parts/words';

const LEVELS = [Overflow.CRITICAL, Overflow.HIGH, Overflow.MEDIUM] as const;

const PARTS_SHOWN = ['suspect', 'carrier', 'clean', 'unjudged'] as const;

/** From here on counts are shortened; the tooltip has all digits. */
const CROWDED = 100_000;
/** The same where overflow levels share a narrow line. */
const SHORTENED = 10_000;
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
  readonly short: string;
  readonly title: string;
  readonly isEmpty: boolean;
  readonly isActive: boolean;
  readonly find: (graph: Graph, micro: number) => Int32Array;
}

/** What the colours mean, how many nodes have each, and a way to walk through them. */
export class GaLegend extends LocalizedElement {
  static get template() {
    return html`${controls}${legendStyles}
      <select
        id="colours"
        hidden$="[[_isLone(state)]]"
        aria-label="[[text.colours.label]]"
        title="[[_meaning(state, text)]]"
        on-change="_chosen"
      ></select>
      <template is="dom-repeat" items="[[entries]]">
        <span class="kind muted" aria-hidden="true" hidden$="[[!item.isFirst]]">[[item.kind]]</span>
        <button
          class$="plain [[_spare(item)]] [[_drawn(item)]]"
          data-key$="[[item.key]]"
          disabled$="[[item.isEmpty]]"
          aria-pressed$="[[item.isActive]]"
          title="[[item.title]]"
          on-click="_step"
        >
          <span class$="swatch [[item.border]]" style$="[[item.style]]"
            ><span class="bars" style$="[[item.bars]]"></span
          ></span>
          <span class="name"><span class="visually-hidden">[[item.kind]] </span>[[item.name]]</span>
          <span class="range muted">[[item.range]]</span>
          <span class="count">[[item.count]]</span>
          <span class="count short">[[item.short]]</span>
        </button>
      </template>
      <span class="total muted">[[position]]</span>
      <span class="waiting muted" role="status">[[_waiting(state, text)]]</span>`;
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

  static get observers() {
    return ['_fill(state, text)'];
  }

  declare session: Session;
  declare state: AppState;

  readonly _entries = kept(
    (state: AppState, text: Texts) => [
      ...[state.graphs, state.measures, fileOf(state), coloursOf(state), state.view.micro],
      ...[listedKey(state), text],
    ],
    (state, text) => this.made(state, text),
  );

  private made(state: AppState, text: Texts): Entry[] {
    if (!state.graphs) return [];
    const { graphs } = state;
    const mode = coloursOf(state);
    const colouring = shownColouring(state, graphs[Side.NPU]);
    return [
      ...(mode === 'role'
        ? this.parts(state, text, colouring)
        : this.grades(state, text, colouring)),
      ...(mode === 'precision' ? this.marks(state, text, colouring) : []),
      ...this.overflows(state, text),
    ];
  }

  /** An overflow level or a mark that nothing has; one level stays, to say that it was checked. */
  _spare({ isEmpty, key, isFirst }: Entry): string {
    return isEmpty && key.startsWith('overflow') && !isFirst ? 'spare' : '';
  }

  /** Bars or hatching say what it is, where there is no room for words. */
  _drawn({ bars, key, border }: Entry): string {
    const isBarred = key.startsWith('grade') && bars.startsWith('--bars');
    return isBarred || border === 'near-zero' || border === 'hidden' ? 'drawn' : '';
  }

  _isLone(state: AppState): boolean {
    return colourModesOf(state).length < 2;
  }

  readonly _waiting = ({ measuring }: AppState, text: Texts) => whyLate(measuring, text);

  _meaning(state: AppState, text: Texts): string {
    const colours = coloursOf(state);
    return hasBench(state) || colours === 'overflow' ? text.colours.meaning[colours] : '';
  }

  _fill(state: AppState, text: Texts): void {
    const select = this.$['colours'] as HTMLSelectElement;
    const modes = colourModesOf(state);
    const names = modes.map((mode) => text.colours.short[mode]);
    if (names.join() !== [...select.options].map((option) => option.text).join()) {
      select.replaceChildren(...modes.map((mode, at) => new Option(names[at], mode)));
    }
    setValue(select, coloursOf(state));
  }

  _chosen(event: Event): void {
    const colours = (event.target as HTMLSelectElement).value as ColourMode;
    this.session.setView({ colours });
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
    const { key, find } = event.model.item;
    const { graphs, view } = this.state;
    if (!graphs) return;
    if (listedKey(this.state) !== key) {
      const indices = find(graphs[Side.NPU], view.micro);
      this.session.finding.list({ source: 'legend', key, side: Side.NPU, indices });
    }
    const detail = event.shiftKey ? -1 : 1;
    this.dispatchEvent(new CustomEvent('step-hit', { detail, bubbles: true, composed: true }));
  }

  override ready(): void {
    super.ready();
    this.setAttribute('role', 'group');
  }

  private grades(state: AppState, text: Texts, colouring: Colouring): Entry[] {
    const graph = state.graphs![Side.NPU];
    const { grade: grades, rollup } = colouring;
    const counts = countGrades(graph, colouring, state.view.micro);
    const isComparison = hasBench(state);
    return (fileOf(state)?.bands ?? [])
      .map(({ grade }) => grade)
      .concat(rollup === graph.rollup ? [] : [Grade.SLIGHT, Grade.MODERATE, Grade.SERIOUS])
      .filter((grade, at, all) => all.indexOf(grade) === at)
      .sort((one, other) => one - other)
      .filter((grade) => counts[grade]! > 0 || (isComparison && grade !== Grade.UNGRADED))
      .map((grade) => ({
        ...this.entry(`grade-${grade}`, gradeName(grade, text), counts[grade]!),
        style: gradeStyle(grade),
        border: grade === Grade.UNMATCHED ? 'dashed' : '',
        bars: gradeBars(grade),
        range: rangeOf(state, grade),
        ...{ kind: '', isFirst: false },
        find: (_: Graph, micro: number) => among(graph, micro, (index) => grades[index] === grade),
      }));
  }

  /** What nodes play in the verdict, who may be to blame first. */
  private parts(state: AppState, text: Texts, { grade: grades, ...rest }: Colouring): Entry[] {
    const graph = state.graphs![Side.NPU];
    const counts = countGrades(graph, { grade: grades, ...rest }, state.view.micro);
    const entry = (key: string, name: string, grade: Grade, style: string) => ({
      ...this.entry(key, name, counts[grade]!),
      ...{ style, border: '', bars: gradeBars(grade), range: '', kind: '', isFirst: false },
      find: (_: Graph, micro: number) => among(graph, micro, (index) => grades[index] === grade),
    });
    const unmatched = gradeName(Grade.UNMATCHED, text);
    return [
      ...PARTS_SHOWN.map((part) =>
        entry(`part-${part}`, text.parts[part], PARTS[part], partStyle(part)),
      ),
      {
        ...entry('grade-6', unmatched, Grade.UNMATCHED, gradeStyle(Grade.UNMATCHED)),
        border: 'dashed',
      },
    ];
  }

  /** Errors that a value near zero makes too much of, and those that the documented error hides. */
  private marks(state: AppState, text: Texts, { mark }: Colouring): Entry[] {
    const graph = state.graphs![Side.NPU];
    if (!mark) return [];
    const kinds = [
      [Mark.NEAR_ZERO, 'near-zero', text.colours.nearZero, text.colours.nearZeroHint],
      [Mark.HIDDEN, 'hidden', text.colours.hidden, text.colours.hiddenHint],
    ] as const;
    return kinds.flatMap(([kind, key, name, hint]) => {
      const find = (_: Graph, micro: number) =>
        among(graph, micro, (index) => mark[index] === kind);
      const entry = this.entry(key, name, find(graph, state.view.micro).length);
      if (entry.isEmpty) return [];
      const title = `${hint}\n${entry.title}`;
      const plain = { style: '', bars: 'display: none', range: '', kind: '', isFirst: false };
      return [{ ...entry, ...plain, title, border: key, find }];
    });
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
        find: (_: Graph, micro: number) =>
          among(graph, micro, (index) => graph.overflow[index] === level),
      };
    });
  }

  private entry(key: string, name: string, total: number) {
    const count = formatCount(total);
    return {
      key,
      name,
      count: total < CROWDED ? count : compact.format(total),
      short: total < SHORTENED ? count : compact.format(total),
      title: total > 0 ? this.text.legend.stepThrough(name, count) : this.text.legend.none(name),
      isEmpty: total === 0,
      isActive: listedKey(this.state) === key,
    };
  }
}

/** The entry whose nodes are walked through; empty for none. */
function listedKey({ hits }: AppState): string {
  return hits?.source === 'legend' ? hits.key : '';
}

function among(graph: Graph, micro: number, isWanted: (index: number) => boolean): Int32Array {
  const found: number[] = [];
  for (let index = 0; index < graph.count; index++) {
    const isSeen = micro === ALL_MICRO_STEPS || graph.microStep[index] === micro;
    if (isSeen && isWanted(index)) found.push(index);
  }
  return Int32Array.from(found);
}

function countGrades(graph: Graph, { grade, rollup }: Colouring, micro: number): number[] {
  if (micro === ALL_MICRO_STEPS) {
    return GRADES.map((known) => rollup.grade(known, 0, graph.count));
  }
  const counts = GRADES.map(() => 0);
  for (let index = 0; index < graph.count; index++) {
    if (graph.microStep[index] === micro) counts[grade[index]!]!++;
  }
  return counts;
}

/** The errors that get a grade, where its colour says so; checksums are equal or not. */
function rangeOf(state: AppState, grade: Grade): string {
  const file = fileOf(state);
  if (coloursOf(state) === 'beyond') return grade === Grade.OK ? `≤ ×${USUAL_ROUNDINGS}` : '';
  if (file?.task === 'md5' && coloursOf(state) !== 'scaled') return '';
  const { low, high } = file?.bands.find((band) => band.grade === grade) ?? {};
  return low === undefined || high === undefined ? '' : `${low} – ${high}`;
}

customElements.define('ga-legend', GaLegend);
