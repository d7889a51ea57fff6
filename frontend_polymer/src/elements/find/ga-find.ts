import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-if.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { GRADES, OVERFLOWS } from '../../data/codes';
import type { Graph } from '../../data/graph';
import { TEXT_CONDITIONS, type ConditionKey, type TextCondition } from '../../session/conditions';
import { isEmptyFind, type Find } from '../../session/find';
import { Grade, Overflow, Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, pairOf, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { formatCount } from '../parts/format';
import './ga-hit-export';
import './ga-hit-list';
import '../parts/ga-icon';
import { gradeBars, gradeStyle, overflowStyle } from '../parts/grade-style';
import { hitCount } from './hit-rows';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { gradeName, overflowName, translated } from '../parts/words';

interface Chip {
  readonly kind: 'grades' | 'overflows' | 'reasons';
  readonly value: string;
  readonly name: string;
  readonly style: string;
  readonly bars: string;
  readonly isOn: string;
}

type FieldEvent = Event & { model: { condition: TextCondition & { key: ConditionKey } } };

/** The panel beside the graph: what to look for besides the name, and what was found. */
export class GaFind extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          flex-direction: column;
          width: clamp(320px, 28vw, 480px);
          flex: none;
          min-height: 0;
          background: var(--ga-surface);
          border-left: 1px solid var(--ga-border);
        }
        .filters {
          flex: none;
          max-height: 70%;
          overflow: auto;
          padding: 8px 12px;
          border-bottom: 1px solid var(--ga-border);
          display: grid;
          grid-template-columns: repeat(2, minmax(0, 1fr));
          gap: 4px 10px;
          align-items: center;
        }
        .field {
          display: flex;
          align-items: center;
          gap: 6px;
          white-space: nowrap;
        }
        .wide {
          grid-column: 1 / -1;
        }
        .chips {
          display: flex;
          flex-wrap: wrap;
          align-items: center;
          gap: 4px;
        }
        .chips > .muted {
          margin-right: 4px;
        }
        .chips button {
          height: 24px;
          padding: 0 8px 0 4px;
          border-radius: 12px;
        }
        .chips button.word {
          padding: 0 8px;
          white-space: normal;
          text-align: left;
          height: auto;
          min-height: 24px;
        }
        .swatch {
          display: inline-grid;
          place-items: center;
          width: 20px;
          height: 14px;
          border: 1px solid;
          border-radius: 7px;
        }
        input,
        select {
          min-width: 0;
          width: 100%;
          height: 24px;
        }
        .summary {
          display: flex;
          align-items: center;
          gap: 8px;
          flex: none;
          min-height: 36px;
          padding: 0 4px 0 12px;
          border-bottom: 1px solid var(--ga-border);
        }
        .summary > span {
          flex: 1;
        }
        ga-hit-list {
          flex: 1;
        }
      </style>
      <div class="filters" role="group" aria-label="[[text.find.panel]]">
        <label class="field"
          ><span class="muted">[[text.find.scope]]</span
          ><select id="scope" on-change="_scope"></select
        ></label>
        <label class="field"
          ><span class="muted">[[text.find.order]]</span
          ><select id="order" on-change="_order"></select
        ></label>
        <template is="dom-repeat" items="[[groups]]" as="group">
          <div class="chips wide" role="group" aria-label$="[[group.title]]">
            <span class="muted">[[group.title]]</span>
            <template is="dom-repeat" items="[[group.chips]]">
              <button
                class$="[[_chipClass(item)]]"
                data-kind$="[[item.kind]]"
                data-value$="[[item.value]]"
                aria-pressed$="[[item.isOn]]"
                on-click="_toggle"
              >
                <span class="swatch" style$="[[item.style]]" hidden$="[[!item.style]]"
                  ><span class="bars" style$="[[item.bars]]"></span></span
                >[[item.name]]
              </button>
            </template>
          </div>
        </template>
        <template is="dom-repeat" items="[[conditions]]" as="condition">
          <label class$="[[_fieldClass(condition)]]"
            ><span class="muted">[[_word(condition, 'name', text)]]</span
            ><template is="dom-if" if="[[condition.options]]">
              <select id$="[[condition.key]]" on-change="_entered">
                <option value="" selected$="[[!_value(condition, find)]]">
                  [[_word(condition, 'hint', text)]]
                </option>
                <template is="dom-repeat" items="[[condition.options]]">
                  <option value="[[item]]" selected$="[[_isValue(condition, find, item)]]">
                    [[item]]
                  </option>
                </template>
              </select></template
            ><template is="dom-if" if="[[!condition.options]]"
              ><input
                id$="[[condition.key]]"
                list$="[[_listId(condition)]]"
                maxlength$="[[condition.longest]]"
                autocomplete="off"
                spellcheck="false"
                placeholder="[[_word(condition, 'hint', text)]]"
                title="[[_word(condition, 'hint', text)]]"
                value="[[_value(condition, find)]]"
                on-input="_typed"
                on-change="_entered" /><datalist id$="[[_listId(condition)]]">
                <template is="dom-repeat" items="[[_listed(condition, state.graphs, isOpen)]]">
                  <option value="[[item]]"></option>
                </template></datalist></template
          ></label>
        </template>
      </div>
      <div class="summary">
        <span role="status">[[_summary(state, text)]]</span>
        <button id="clear" class="plain" hidden$="[[_isEmpty(find)]]" on-click="_clear">
          [[text.find.clear]]
        </button>
        <ga-hit-export session="[[session]]" state="[[state]]"></ga-hit-export>
      </div>
      <ga-hit-list state="[[state]]"></ga-hit-list>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      isOpen: Boolean,
      conditions: { type: Array, value: () => TEXT_CONDITIONS },
      find: { type: Object, computed: '_find(state)' },
      groups: { type: Array, computed: '_groups(state, find, text)' },
    };
  }

  static get observers() {
    return ['_choices(find, text)'];
  }

  declare session: Session;
  declare state: AppState;
  declare find: Find;

  _find(state: AppState): Find {
    return state.view.find;
  }

  _isEmpty(find: Find): boolean {
    return isEmptyFind(find);
  }

  readonly _groups = kept(
    (state: AppState, find: Find, text: Texts) => {
      return [state.graphs, state.catalog, pairOf(state), find, text];
    },
    (state, find, text) => this.made(state, find, text),
  );

  private made(state: AppState, find: Find, text: Texts): { title: string; chips: Chip[] }[] {
    const graph = state.graphs?.[find.side];
    const chip = (
      kind: Chip['kind'],
      value: string,
      name: string,
      style: string,
      bars: string,
    ) => ({
      ...{ kind, value, name, style, bars },
      isOn: String((find[kind] as readonly unknown[]).map(String).includes(value)),
    });
    const graded = (hasBench(state) ? GRADES : [])
      .filter((grade) => find.side === Side.NPU || grade === Grade.UNMATCHED)
      .map((grade) =>
        chip('grades', String(grade), gradeName(grade, text), gradeStyle(grade), gradeBars(grade)),
      );
    const levels = ([Overflow.CRITICAL, Overflow.HIGH, Overflow.MEDIUM] as const)
      .filter(() => fileOf(state)?.overflowChecked)
      .map((level) => {
        const { name } = overflowName(level, text);
        return chip('overflows', String(level), name, overflowStyle(level), 'display: none');
      });
    const reasons = (graph?.unmatchedReasons ?? []).map((reason) =>
      chip('reasons', reason, translated<string>(text.reasons, reason, reason), '', ''),
    );
    return [
      { title: text.find.grades, chips: graded },
      { title: text.find.overflow, chips: levels },
      { title: text.find.reasons, chips: reasons },
    ].filter(({ chips }) => chips.length > 0);
  }

  _chipClass({ kind }: Chip): string {
    return kind === 'reasons' ? 'word' : '';
  }

  _choices({ scope, order }: Find, text: Texts): void {
    fill(this.$['scope'] as HTMLSelectElement, scope, [
      ['graph', text.find.inGraph],
      ['file', text.find.inFile],
    ]);
    fill(this.$['order'] as HTMLSelectElement, order, [
      ['execution', text.find.execution],
      ['severity', text.find.severity],
    ]);
  }

  /** A path is long. */
  _fieldClass(condition: TextCondition): string {
    return condition.key === 'below' ? 'field wide' : 'field';
  }

  _listId({ key, choices }: TextCondition): string | undefined {
    return choices && `${key}Choices`;
  }

  /** Large graphs have many names: they are gathered once somebody may look for one. */
  _listed(
    condition: TextCondition,
    graphs: AppState['graphs'],
    isOpen: boolean,
  ): readonly string[] {
    return isOpen && graphs && condition.choices
      ? choicesIn(graphs[Side.NPU], condition)
      : NO_CHOICES;
  }

  _word({ key }: { key: ConditionKey }, part: 'name' | 'hint', text: Texts): string {
    return text.find.conditions[key][part];
  }

  _value({ key }: { key: ConditionKey }, find: Find): string {
    return find[key];
  }

  _scope(event: Event): void {
    this.session.finding.change({
      scope: (event.target as HTMLSelectElement).value as Find['scope'],
    });
  }

  _order(event: Event): void {
    this.session.finding.change({
      order: (event.target as HTMLSelectElement).value as Find['order'],
    });
  }

  _isValue({ key }: { key: ConditionKey }, find: Find, value: string): boolean {
    return find[key] === value;
  }

  /** What the browser itself can decide is looked for while it is typed. */
  _typed(event: FieldEvent): void {
    if (event.model.condition.test) this._entered(event);
  }

  /** The server is asked once the text is whole: with Enter, or on leaving the field. */
  _entered({ target, model }: FieldEvent): void {
    const { value } = target as HTMLInputElement;
    this.session.finding.change({ [model.condition.key]: value.trim() });
  }

  _toggle(event: MouseEvent & { model: { item: Chip } }): void {
    const { kind, value } = event.model.item;
    const toggled = <T extends string | number>(list: readonly T[], one: T) =>
      list.includes(one) ? list.filter((other) => other !== one) : [...list, one];
    if (kind === 'reasons')
      this.session.finding.change({ reasons: toggled(this.find.reasons, value) });
    else if (kind === 'grades') {
      const grade = GRADES[Number(value)]!;
      this.session.finding.change({ grades: toggled(this.find.grades, grade) });
    } else {
      const level = OVERFLOWS[Number(value)]!;
      this.session.finding.change({ overflows: toggled(this.find.overflows, level) });
    }
  }

  _clear(): void {
    const { scope, order, side } = this.find;
    this.session.finding.clear({ scope, order, side });
  }

  _summary(state: AppState, text: Texts): string {
    const { hits, fileHits, searching } = state;
    if (searching) return text.find.searching;
    if (!hits && !fileHits) return text.find.idle;
    if (hits?.isInvalid) return text.find.badPattern;
    if (hits?.failure) return hits.failure;
    const count = hitCount(state);
    if (count === 0) return text.find.nothing;
    const total = fileHits ? fileHits.result.total : count;
    if (total > count) return text.find.firstOf(formatCount(count), formatCount(total));
    return text.search.count(formatCount(count));
  }
}

const NO_CHOICES: readonly string[] = [];
const choices = new WeakMap<Graph, Map<string, readonly string[]>>();

/** What to choose from in a graph: looked for once, for the panel asks whenever anything changes. */
function choicesIn(graph: Graph, condition: TextCondition): readonly string[] {
  let known = choices.get(graph);
  if (!known) choices.set(graph, (known = new Map<string, readonly string[]>()));
  let found = known.get(condition.key);
  if (!found) known.set(condition.key, (found = condition.choices?.(graph) ?? NO_CHOICES));
  return found;
}

function fill(select: HTMLSelectElement, value: string, options: [string, string][]): void {
  select.replaceChildren(...options.map(([key, label]) => new Option(label, key)));
  select.value = value;
}

customElements.define('ga-find', GaFind);
