import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { Configuration, ConfigurationDifference } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { formatCount } from '../parts/format';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { translated } from '../parts/words';

/** So many are shown before somebody asks for all. */
const SHOWN = 8;

interface Row {
  readonly part: string;
  readonly difference: ConfigurationDifference;
}

/** Whether the runs may be compared at all, and what their configurations differ in. */
export class GaConfiguration extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
        }
        header {
          display: flex;
          align-items: center;
          flex-wrap: wrap;
          gap: 8px 12px;
        }
        h2 {
          margin: 0;
          font-size: 15px;
        }
        .outcome {
          padding: 1px 10px;
          border-radius: 10px;
          border: 1px solid var(--ga-border);
          font-weight: 600;
        }
        .outcome[data-outcome='error'] {
          background: var(--ga-grade-5-fill);
          color: var(--ga-grade-5-text);
          border-color: var(--ga-grade-5-stroke);
        }
        .outcome[data-outcome='warning'] {
          background: var(--ga-grade-3-fill);
          color: var(--ga-grade-3-text);
          border-color: var(--ga-grade-3-stroke);
        }
        p {
          margin: 8px 0;
          max-width: 100ch;
        }
        .scroll {
          overflow: auto;
          max-height: 46vh;
        }
        table {
          border-collapse: collapse;
          min-width: min(100%, 720px);
        }
        th,
        td {
          padding: 3px 16px 3px 0;
          border-bottom: 1px solid var(--ga-border);
          text-align: left;
          vertical-align: top;
          font-weight: normal;
        }
        thead th {
          color: var(--ga-muted);
        }
        td {
          overflow-wrap: anywhere;
        }
        .level,
        .part {
          white-space: nowrap;
        }
        .level[data-level='error'] {
          color: var(--ga-danger);
          font-weight: 600;
        }
        #all {
          margin-top: 8px;
        }
      </style>
      <header>
        <h2 id="title">[[text.configuration.title]]</h2>
        <span class="outcome" data-outcome$="[[configuration.outcome]]"
          >[[_outcome(configuration, text)]]</span
        >
      </header>
      <p id="said">[[_said(configuration, text)]]</p>
      <div
        class="scroll"
        hidden$="[[!rows.length]]"
        tabindex="0"
        aria-labelledby="title"
        role="region"
      >
        <table>
          <thead>
            <tr>
              <td></td>
              <th>[[text.configuration.part]]</th>
              <th>[[text.configuration.name]]</th>
              <th>[[text.sides.debug]]</th>
              <th>[[text.sides.reference]]</th>
            </tr>
          </thead>
          <tbody>
            <template is="dom-repeat" items="[[rows]]">
              <tr>
                <td class="level" data-level$="[[item.difference.level]]">
                  [[_level(item, text)]]
                </td>
                <td class="part">[[_part(item.part, text)]]</td>
                <td class="mono">[[item.difference.name]]</td>
                <td class="mono">[[_value(item.difference.npuValue, text)]]</td>
                <td class="mono">[[_value(item.difference.benchValue, text)]]</td>
              </tr>
            </template>
          </tbody>
        </table>
      </div>
      <button id="all" hidden$="[[!_isCut(everything, rows)]]" on-click="_showAll">
        [[_all(everything, text)]]
      </button>
      <p class="muted" hidden$="[[!_more(configuration, text)]]">[[_more(configuration, text)]]</p>
      <p class="muted" hidden$="[[!_listed(configuration, 'pass', text)]]">
        [[_listed(configuration, 'pass', text)]]
      </p>
      <p class="muted" hidden$="[[!_listed(configuration, 'unknown', text)]]">
        [[_listed(configuration, 'unknown', text)]]
      </p>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      configuration: { type: Object, value: null, observer: '_changed' },
      everything: { type: Array, computed: '_everything(configuration)' },
      isWhole: { type: Boolean, value: false },
      rows: { type: Array, computed: '_rows(everything, isWhole)' },
    };
  }

  declare configuration: Configuration | null;
  declare everything: readonly Row[];
  declare isWhole: boolean;
  declare rows: readonly Row[];

  _changed(): void {
    this.isWhole = false;
  }

  /** What must be the same before what need not be. */
  _everything(configuration: Configuration | null): readonly Row[] {
    const rows = (configuration?.parts ?? []).flatMap(({ part, shown }) =>
      shown.map((difference) => ({ part, difference })),
    );
    const weight = ({ part, difference }: Row) =>
      (part === 'random' ? 2 : 0) + (difference.level === 'error' ? 0 : 1);
    return rows.sort((one, other) => weight(one) - weight(other));
  }

  _rows(everything: readonly Row[], isWhole: boolean): readonly Row[] {
    return isWhole ? everything : everything.slice(0, SHOWN);
  }

  _isCut(everything: readonly Row[], rows: readonly Row[]): boolean {
    return rows.length < everything.length;
  }

  _showAll(): void {
    this.isWhole = true;
  }

  _outcome(configuration: Configuration | null, text: Texts): string {
    const outcome = configuration?.outcome ?? '';
    return translated<string>(text.configuration.outcomes, outcome, outcome);
  }

  _said(configuration: Configuration | null, text: Texts): string {
    if (!configuration) return '';
    const { outcome, said } = configuration;
    return translated<string>(text.configuration.said, outcome, text.verdict.tell(said));
  }

  _level({ difference }: Row, text: Texts): string {
    return translated<string>(text.configuration.levels, difference.level, difference.level);
  }

  _part(part: string, text: Texts): string {
    return translated<string>(text.configuration.parts, part, part);
  }

  _value(value: string | undefined, text: Texts): string {
    return value ?? `(${text.configuration.absent})`;
  }

  _all(everything: readonly Row[], text: Texts): string {
    return text.configuration.all(formatCount(everything.length));
  }

  _more(configuration: Configuration | null, text: Texts): string {
    const parts = configuration?.parts ?? [];
    const left = parts.reduce((sum, one) => sum + one.differences - one.shown.length, 0);
    return left > 0 ? text.configuration.more(formatCount(left)) : '';
  }

  /** The parts of this outcome in a sentence. */
  _listed(configuration: Configuration | null, outcome: 'pass' | 'unknown', text: Texts): string {
    const names = (configuration?.parts ?? []).filter((one) => one.outcome === outcome);
    const listed = names.map(({ part }) => this._part(part, text)).join(', ');
    if (!listed) return '';
    return outcome === 'pass'
      ? text.configuration.alike(listed)
      : text.configuration.unknown(listed);
  }
}

customElements.define('ga-configuration', GaConfiguration);
