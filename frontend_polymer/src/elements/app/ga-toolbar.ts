import { html } from '@polymer/polymer/polymer-element.js';

import type { DatabaseFile } from '../../generated/graph_pb';
import { LANGUAGES, nextLanguage, rememberLanguage, setLanguage, type Texts } from '../../i18n';
import { fileOf, hasServer, pairOf, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { ALL_MICRO_STEPS } from '../../session/state';
import { fileTitle } from '../../session/titles';
import type { ThemeChoice } from '../../session/theme';
import '../parts/ga-choices';
import '../parts/ga-icon';
import type { IconName } from '../parts/ga-icon';
import type { GaSearch } from '../find/ga-search';
import '../find/ga-search';
import '../trend/ga-trend';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { setValue } from '../parts/set-value';
import { controls } from '../parts/styles';

interface Choice {
  readonly value: string;
  readonly label: string;
}

const THEMES: readonly ThemeChoice[] = ['auto', 'light', 'dark'];
const THEME_ICONS: Record<ThemeChoice, IconName> = { auto: 'auto', light: 'sun', dark: 'moon' };

/** The row at the top: what is shown, the search, and the settings of the viewer itself. */
export class GaToolbar extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 12px;
          height: 40px;
          padding: 0 8px 0 12px;
          background: var(--ga-surface);
          border-bottom: 1px solid var(--ga-border);
        }
        label {
          display: flex;
          align-items: center;
          gap: 6px;
          flex: none;
        }
        label span {
          color: var(--ga-muted);
          white-space: nowrap;
        }
        label.file {
          flex: 0 2 300px;
          min-width: 0;
        }
        label.file select {
          flex: 1;
          min-width: 80px;
          text-overflow: ellipsis;
        }
        select.number {
          min-width: 64px;
        }
        ga-search {
          flex: 1 1 480px;
          min-width: 460px;
          max-width: 640px;
          margin-left: auto;
        }
        .settings {
          margin-left: auto;
          display: flex;
          gap: 4px;
        }
        @media (max-width: 1400px) {
          label.file {
            flex-basis: 150px;
          }
          label.file span,
          .wide {
            display: none;
          }
        }
        @media (max-width: 1200px) {
          :host {
            flex-wrap: wrap;
            gap: 6px 10px;
            height: auto;
            min-height: 40px;
            padding: 4px 12px;
          }
          label.file {
            min-width: 110px;
          }
          ga-search {
            flex-basis: 300px;
            min-width: min(100%, 300px);
          }
        }
        @media (max-width: 600px) {
          ga-search {
            order: 1;
            flex-basis: 100%;
          }
        }
      </style>
      <h1 class="visually-hidden">[[text.title]]</h1>
      <label class="file">
        <span>[[text.toolbar.file]]</span>
        <!-- Names of files are long, and begin alike. -->
        <select id="file" data-long="3" on-change="_file"></select>
      </label>
      <button
        id="overview"
        class="plain"
        aria-pressed$="[[_pressed(isOverview)]]"
        disabled$="[[!_hasOverview(state)]]"
        title="[[text.toolbar.overviewHint]]"
        aria-label="[[text.toolbar.overview]]"
        on-click="_overview"
      >
        <ga-icon name="grid"></ga-icon><span class="wide">[[text.toolbar.overview]]</span>
      </button>
      <label hidden$="[[isOverview]]">
        <span>[[text.toolbar.step]]</span>
        <select id="step" class="number" on-change="_step"></select>
      </label>
      <label hidden$="[[isOverview]]">
        <span>[[text.toolbar.rank]]</span>
        <select id="rank" class="number" on-change="_rank"></select>
      </label>
      <label hidden$="[[!_hasMicroSteps(state, isOverview)]]">
        <span>[[text.toolbar.microStep]]</span>
        <select id="micro" class="number" on-change="_micro"></select>
      </label>
      <ga-search
        id="search"
        hidden$="[[isOverview]]"
        session="[[session]]"
        state="[[state]]"
        is-list-open="{{isListOpen}}"
      ></ga-search>
      <ga-choices></ga-choices>
      <div class="settings">
        <ga-trend
          id="trend"
          hidden$="[[_isPage(state)]]"
          session="[[session]]"
          wanted="[[state.view.trend]]"
        ></ga-trend>
        <button
          id="refresh"
          hidden$="[[_isPage(state)]]"
          class="icon plain"
          on-click="_refresh"
          title="[[text.toolbar.refresh]]"
          aria-label="[[text.toolbar.refresh]]"
        >
          <ga-icon name="refresh"></ga-icon>
        </button>
        <button
          id="copyLink"
          class="icon plain"
          on-click="_copyLink"
          title="[[text.shell.copyLink]]"
          aria-label="[[text.shell.copyLink]]"
        >
          <ga-icon name="share"></ga-icon>
        </button>
        <button
          id="language"
          class="plain"
          on-click="_language"
          title="[[text.toolbar.language]]"
          lang$="[[_other(text, 'tag')]]"
        >
          [[_other(text, 'short')]]
        </button>
        <button
          id="theme"
          class="icon plain"
          on-click="_theme"
          title="[[_themeLabel(text, themeChoice)]]"
          aria-label="[[_themeLabel(text, themeChoice)]]"
        >
          <ga-icon name="[[_themeIcon(themeChoice)]]"></ga-icon>
        </button>
        <button
          id="help"
          class="icon plain"
          on-click="_help"
          title="[[text.toolbar.help]] (?)"
          aria-label="[[text.toolbar.help]]"
        >
          <ga-icon name="help"></ga-icon>
        </button>
      </div>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      themeChoice: String,
      isListOpen: { type: Boolean, notify: true },
      isOverview: { type: Boolean, computed: '_isOverview(state)' },
    };
  }

  static get observers() {
    return ['_fill(state, text)'];
  }

  declare session: Session;
  declare state: AppState;
  declare themeChoice: ThemeChoice;
  private readonly filled = new Map<string, readonly Choice[]>();

  _fill(state: AppState, text: Texts): void {
    const { file, step, rank, micro } = this.choices(state, text);
    const { view } = state;
    this.fill('file', file, view.file);
    this.fill('step', step, view.step);
    this.fill('rank', rank, view.rank);
    this.fill('micro', micro, view.micro);
  }

  private readonly choices = kept(
    (state: AppState, text: Texts) => {
      return [state.catalog, fileOf(state), pairOf(state), state.view.step, text];
    },
    (state, text) => {
      const pairs = fileOf(state)?.graphs ?? [];
      const micros = pairOf(state)?.microSteps ?? 0;
      const all = { value: String(ALL_MICRO_STEPS), label: text.toolbar.allMicroSteps };
      const sameStep = pairs.filter((pair) => pair.step === state.view.step);
      return {
        file: fileOptions(state.catalog?.files ?? []),
        step: numbers([...new Set(pairs.map((pair) => pair.step))]),
        rank: numbers(sameStep.map((pair) => pair.rank)),
        micro: micros < 2 ? [all] : [all, ...numbers([...Array(micros).keys()])],
      };
    },
  );

  /** Options are only made anew when they differ, so that an open list stays open. */
  private fill(id: string, options: readonly Choice[], value: string | number): void {
    const select = this.$[id] as HTMLSelectElement;
    if (this.filled.get(id) !== options) {
      this.filled.set(id, options);
      const shown = [...select.options];
      const isSame =
        shown.length === options.length &&
        options.every(
          (option, at) => shown[at]!.value === option.value && shown[at]!.text === option.label,
        );
      if (!isSame) {
        select.replaceChildren(...options.map(({ value, label }) => new Option(label, value)));
      }
    }
    setValue(select, String(value));
    select.title = String(value);
    // What is shown may not be among them any more.
    select.disabled = options.length < 2 && select.selectedIndex >= 0;
  }

  focusSearch(): void {
    (this.$['search'] as GaSearch).focus();
  }

  _file(event: Event): void {
    void this.session.open({ file: chosen(event), page: 'auto' });
  }

  _hasOverview(state: AppState): boolean {
    return (fileOf(state)?.graphs.length ?? 0) > 0;
  }

  _isOverview({ view }: AppState): boolean {
    return view.page === 'overview';
  }

  _hasMicroSteps(state: AppState, isOverview: boolean): boolean {
    return !isOverview && (pairOf(state)?.microSteps ?? 0) > 1;
  }

  _pressed(value: boolean): string {
    return String(value);
  }

  _overview(): void {
    this.dispatchEvent(new CustomEvent('overview'));
  }

  _step(event: Event): void {
    void this.session.open({ step: Number(chosen(event)), page: 'graph' });
  }

  _rank(event: Event): void {
    void this.session.open({ rank: Number(chosen(event)), page: 'graph' });
  }

  _micro(event: Event): void {
    this.session.setMicroStep(Number(chosen(event)));
  }

  _isPage(state: AppState): boolean {
    return !hasServer(state);
  }

  _refresh(): void {
    void this.session.refresh();
  }

  _copyLink(): void {
    this.dispatchEvent(new CustomEvent('copy-link'));
  }

  _language(): void {
    const next = nextLanguage();
    rememberLanguage(next);
    setLanguage(next);
  }

  /** The language that a click leads to; `text` makes it follow the current one. */
  _other(_text: Texts, part: keyof Texts['language']): string {
    return LANGUAGES[nextLanguage()].language[part];
  }

  _theme(): void {
    const next = THEMES[(THEMES.indexOf(this.themeChoice) + 1) % THEMES.length]!;
    this.dispatchEvent(new CustomEvent('theme-choice', { detail: next }));
  }

  _themeIcon(choice: ThemeChoice): IconName {
    return THEME_ICONS[choice];
  }

  _themeLabel(text: Texts, choice: ThemeChoice): string {
    return `${text.toolbar.theme}: ${text.themes[choice]}`;
  }

  _help(): void {
    this.dispatchEvent(new CustomEvent('help'));
  }
}

/** Files of the same two runs are told apart by when they were built. */
function fileOptions(files: readonly DatabaseFile[]): Choice[] {
  const titles = files.map(fileTitle);
  return files.map(({ file, problem, createdAt }, at) => {
    const title = titles[at]!;
    const isAlone = titles.indexOf(title) === titles.lastIndexOf(title);
    const name = isAlone ? title : `${title} · ${createdAt.slice(0, 16).replace('T', ' ')}`;
    return { value: file, label: problem ? `⚠ ${name}` : name };
  });
}

function numbers(values: readonly number[]): Choice[] {
  return values.map((value) => ({ value: String(value), label: String(value) }));
}

function chosen(event: Event): string {
  return (event.target as HTMLSelectElement).value;
}

customElements.define('ga-toolbar', GaToolbar);
