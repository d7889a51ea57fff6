import { html } from '@polymer/polymer/polymer-element.js';

import type { ImportedPair, MatchReport } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { formatCount } from '../parts/format';
import type { GaDialog } from '../parts/ga-dialog';
import '../parts/ga-dialog';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { messageOf } from './match-choices';
import { controls } from '../parts/styles';

/** What importing the content of a file would do, or the import itself. */
export type Import = (
  content: string,
  reason: string,
  replace: boolean,
  dryRun: boolean,
) => Promise<MatchReport>;

/** Takes a match file, and shows what would become of each of its pairs before it is written. */
export class GaImport extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        .file {
          color: var(--ga-accent);
          cursor: pointer;
          text-decoration: underline;
          text-underline-offset: 3px;
        }
        .file:focus-within {
          outline: 2px solid var(--ga-accent);
          outline-offset: 1px;
        }
        ga-dialog {
          --ga-dialog-width: 960px;
        }
        .content {
          display: flex;
          flex-direction: column;
          gap: 10px;
          margin-top: 10px;
        }
        p {
          margin: 0;
        }
        #problem {
          color: var(--ga-danger);
        }
        .content label {
          display: flex;
          gap: 6px;
          align-items: center;
        }
        #overwrite {
          width: 14px;
          height: 14px;
          accent-color: var(--ga-accent);
        }
        #pairs {
          max-height: 50vh;
          overflow: auto;
          border: 1px solid var(--ga-border);
          border-radius: 6px;
        }
        ul {
          margin: 0;
          padding: 0;
          list-style: none;
        }
        li {
          display: grid;
          grid-template-columns: minmax(0, 3fr) minmax(0, 2fr);
          gap: 12px;
          padding: 4px 10px;
          border-bottom: 1px solid var(--ga-border);
          overflow-wrap: anywhere;
        }
        .left-out {
          color: var(--ga-danger);
        }
        footer {
          display: flex;
          justify-content: flex-end;
          gap: 8px;
        }
      </style>
      <label class="file"
        >[[text.match.importFile]]<input
          id="file"
          class="visually-hidden"
          type="file"
          accept=".json,.config,application/json"
          on-change="_open"
      /></label>
      <ga-dialog id="dialog" heading="[[_title(name, text)]]">
        <div class="content">
          <p id="summary" role="status">[[_summary(report, problem, text)]]</p>
          <p id="problem" role="alert" hidden$="[[!problem]]">[[problem]]</p>
          <label
            ><input id="overwrite" type="checkbox" on-change="_preview" />
            [[text.match.replace]]</label
          >
          <div id="pairs" tabindex="0" hidden$="[[!report]]"></div>
          <footer>
            <button id="cancel" on-click="close">[[text.match.cancel]]</button>
            <button
              id="confirm"
              class="primary"
              disabled$="[[!_count(report, busy)]]"
              on-click="_apply"
            >
              [[text.match.importApply]]
            </button>
          </footer>
        </div>
      </ga-dialog>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      carryOut: Function,
      name: { type: String, value: '' },
      report: { type: Object, value: null },
      problem: { type: String, value: '' },
      busy: { type: Boolean, value: false },
    };
  }

  static get observers() {
    return ['_show(report, text)'];
  }

  declare carryOut: Import;
  declare name: string;
  declare report: MatchReport | null;
  declare problem: string;
  declare busy: boolean;
  private content = '';

  async _open(): Promise<void> {
    const field = this.field('file');
    const [file] = field.files ?? [];
    if (!file) return;
    this.content = await file.text();
    this.name = file.name;
    field.value = ''; // so that the same file can be chosen again
    this.field('overwrite').checked = false;
    this.dialog.open();
    await this._preview();
  }

  close(): void {
    this.dialog.close();
  }

  async _preview(): Promise<void> {
    this.report = null;
    await this.run(async () => {
      this.report = await this.carryOut(this.content, this.name, this.replaces, true);
    });
  }

  async _apply(): Promise<void> {
    await this.run(async () => {
      await this.carryOut(this.content, this.name, this.replaces, false);
      this.close();
    });
  }

  _title(name: string, text: Texts): string {
    return text.match.importTitle(name);
  }

  _summary(report: MatchReport | null, problem: string, text: Texts): string {
    if (!report) return problem ? '' : text.match.importReading;
    const { made, present, leftOut } = countsOf(report);
    return text.match.importSummary(formatCount(made), formatCount(present), formatCount(leftOut));
  }

  /** How many pairs would be matched. */
  _count(report: MatchReport | null, busy: boolean): number {
    return report && !busy ? countsOf(report).made : 0;
  }

  /** What is left out comes first: it is what the user has to decide on. */
  _show(report: MatchReport | null, text: Texts): void {
    const list = create('ul', '');
    const pairs = [...(report?.imported ?? [])];
    pairs.sort((one, other) => Number(other.problem !== '') - Number(one.problem !== ''));
    list.append(...pairs.map((pair) => line(pair, text)));
    const box = this.$['pairs'] as HTMLElement;
    box.setAttribute('aria-label', text.match.importTitle(this.name));
    box.replaceChildren(list);
  }

  private get replaces(): boolean {
    return this.field('overwrite').checked;
  }

  private field(id: string): HTMLInputElement {
    return this.$[id] as HTMLInputElement;
  }

  private get dialog(): GaDialog {
    return this.$['dialog'] as GaDialog;
  }

  private async run(work: () => Promise<void>): Promise<void> {
    this.busy = true;
    this.problem = '';
    try {
      await work();
    } catch (error) {
      this.problem = messageOf(error);
    } finally {
      this.busy = false;
    }
  }
}

function countsOf({ imported }: MatchReport) {
  const made = imported.filter(({ matched }) => matched > 0).length;
  const leftOut = imported.filter(({ problem }) => problem !== '').length;
  const present = imported.filter(({ matched, problem }) => matched === 0 && problem === '').length;
  return { made, present, leftOut };
}

function line({ npu, bench, matched, swapped, problem }: ImportedPair, text: Texts): HTMLElement {
  const item = create('li', '');
  const names = swapped ? `${bench} ↔ ${npu}` : `${npu} ↔ ${bench}`;
  const fate = matched > 0 ? text.match.importMade : text.match.importPresent;
  item.append(
    create('span', 'mono', names),
    problem
      ? create('span', 'left-out', text.verdict.tell(problem))
      : create('span', 'muted', fate),
  );
  return item;
}

customElements.define('ga-import', GaImport);
